//! The vector all modulations are made of: time, guidance and the text as a whole.
//!
//! ```text
//! vec = MLP_t(E(1000·t)) + MLP_g(E(1000·g)) + MLP_p(pooled),   MLP(u) = linear_2(silu(linear_1(u))),   v = silu(vec)
//! ```
//!
//! 1000·t and the phases are f32, as where the networks were trained.

use crate::unet::Waves;
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Linear, silu, silu_backward};

/// Waves of a number.
const WAVES: usize = 256;
/// Time and guidance are counted in thousandths.
const STEPS: f32 = 1000.0;

struct Mlp {
    linear_1: Linear,
    linear_2: Linear,
}

impl Mlp {
    fn new(scope: &Scope<'_>, inputs: usize, width: usize) -> Result<Self> {
        let linear_1 = scope.linear("linear_1", inputs, width)?;
        Ok(Self { linear_1, linear_2: scope.linear("linear_2", width, width)? })
    }

    /// The output, and what lies before the silu.
    fn forward(&self, x: &Act) -> (Act, Act) {
        let hidden = self.linear_1.forward(x);
        (self.linear_2.forward(&silu(&hidden)), hidden)
    }

    fn backward(&self, hidden: &Act, gy: &Act) -> Act {
        self.linear_1.backward(&silu_backward(hidden, &self.linear_2.backward(gy)))
    }
}

/// Makes the vector.
pub(super) struct Vector {
    waves: Waves,
    time: Mlp,
    guidance: Option<Mlp>,
    text: Mlp,
}

/// What the way back needs.
#[derive(Clone)]
pub(super) struct VectorTape {
    t: Vec<f32>,
    hidden: Act,
    sum: Act,
}

impl Vector {
    pub(super) fn new(scope: &Scope<'_>, width: usize, pooled: usize, guidance: bool) -> Result<Self> {
        let mlp = |name: &str, inputs: usize| Mlp::new(&scope.at(name), inputs, width);
        Ok(Self {
            waves: Waves::new(WAVES, 0.0, true),
            time: mlp("timestep_embedder", WAVES)?,
            guidance: guidance.then(|| mlp("guidance_embedder", WAVES)).transpose()?,
            text: mlp("text_embedder", pooled)?,
        })
    }

    fn waves_of(&self, numbers: &[f32]) -> Act {
        let waves: Vec<f32> = numbers.iter().flat_map(|u| self.waves.forward(STEPS * u)).collect();
        Act::from_rows(numbers.len(), &waves)
    }

    /// v of each sample; guidance is not looked at by a network that does not take it.
    pub(super) fn forward(&self, t: &[f32], guidance: &[f32], pooled: &Act) -> (Act, VectorTape) {
        let (mut sum, hidden) = self.time.forward(&self.waves_of(t));
        if let Some(mlp) = &self.guidance {
            sum.add_assign(&mlp.forward(&self.waves_of(guidance)).0);
        }
        sum.add_assign(&self.text.forward(pooled).0);
        (silu(&sum), VectorTape { t: t.to_vec(), hidden, sum })
    }

    /// The derivative in each sample's time, from that in v.
    pub(super) fn backward(&self, tape: VectorTape, gv: &Act) -> Vec<f64> {
        let VectorTape { t, hidden, sum } = tape;
        let to_waves = self.time.backward(&hidden, &silu_backward(&sum, gv));
        let slope = |(i, t): (usize, &f32)| f64::from(STEPS) * self.waves.backward(STEPS * t, to_waves.sample(i));
        t.iter().enumerate().map(slope).collect()
    }
}
