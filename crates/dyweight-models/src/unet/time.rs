//! The time vector: waves of a real number, then two linear layers.
//!
//! ```text
//! ω_k = exp(−ln(10000)·k/(H − shift)),  k = 0 … H−1        v = [cos ωt, sin ωt]  (or the sines first)
//! e = linear_2(silu(linear_1(v)))
//! ```
//!
//! ω and ωt are f32, as where the networks were trained: ωt reaches 10³, and a more exact one is another one.

use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Linear, silu, silu_backward};

/// Waves of a number.
#[derive(Clone, Debug)]
pub(crate) struct Waves {
    frequencies: Vec<f32>,
    cosines_first: bool,
    /// A zero at the end, where the width is odd.
    padded: bool,
}

impl Waves {
    /// `width` numbers; `shift` is taken from the number of frequencies in their exponent.
    pub(crate) fn new(width: usize, shift: f64, cosines_first: bool) -> Self {
        let half = width / 2;
        let intervals = (half as f64 - shift) as f32;
        let exponent = |k: usize| -std::f64::consts::LN_10 as f32 * 4.0 * k as f32 / intervals;
        // Rounded from f64: nearer to every other f32 exponential than one more of them.
        let frequencies = (0..half).map(|k| libm::exp(f64::from(exponent(k))) as f32).collect();
        Self { frequencies, cosines_first, padded: width % 2 == 1 }
    }

    pub(crate) fn forward(&self, t: f32) -> Vec<f32> {
        let cosines = self.frequencies.iter().map(|w| libm::cosf(w * t));
        let sines = self.frequencies.iter().map(|w| libm::sinf(w * t));
        let mut waves: Vec<f32> =
            if self.cosines_first { cosines.chain(sines).collect() } else { sines.chain(cosines).collect() };
        waves.extend(self.padded.then_some(0.0));
        waves
    }

    /// ⟨dv/dt, g⟩, with d sin ωt = ω cos ωt and d cos ωt = −ω sin ωt.
    pub(crate) fn backward(&self, t: f32, g: &[f32]) -> f64 {
        let (first, second) = g.split_at(self.frequencies.len());
        let (to_cos, to_sin) = if self.cosines_first { (first, second) } else { (second, first) };
        let term = |((w, c), s): ((&f32, &f32), &f32)| {
            let (sin, cos) = (f64::from(libm::sinf(w * t)), f64::from(libm::cosf(w * t)));
            f64::from(*w) * (f64::from(*s) * cos - f64::from(*c) * sin)
        };
        self.frequencies.iter().zip(to_cos).zip(to_sin).map(term).sum()
    }
}

/// Waves and the layers behind them.
pub(crate) struct TimeEmbedding {
    waves: Waves,
    linear_1: Linear,
    linear_2: Linear,
}

/// What the way back needs.
#[derive(Clone)]
pub(crate) struct TimeTape {
    t: Vec<f32>,
    hidden: Act,
    e: Act,
}

impl TimeEmbedding {
    pub(crate) fn new(scope: &Scope<'_>, waves: Waves, [width, outputs]: [usize; 2]) -> Result<Self> {
        let linear_1 = scope.linear("linear_1", width, outputs)?;
        Ok(Self { waves, linear_1, linear_2: scope.linear("linear_2", outputs, outputs)? })
    }

    /// silu(e) of each number: what all blocks take.
    pub(crate) fn forward(&self, t: Vec<f32>) -> (Act, TimeTape) {
        let waves: Vec<f32> = t.iter().flat_map(|t| self.waves.forward(*t)).collect();
        let hidden = self.linear_1.forward(&Act::from_rows(t.len(), &waves));
        let e = self.linear_2.forward(&silu(&hidden));
        (silu(&e), TimeTape { t, hidden, e })
    }

    /// The derivative in each number, from that in silu(e).
    pub(crate) fn backward(&self, tape: TimeTape, gy: &Act) -> Vec<f64> {
        let TimeTape { t, hidden, e } = tape;
        let to_e = silu_backward(&e, gy);
        let to_hidden = silu_backward(&hidden, &self.linear_2.backward(&to_e));
        let to_waves = self.linear_1.backward(&to_hidden);
        t.iter().enumerate().map(|(i, t)| self.waves.backward(*t, to_waves.sample(i))).collect()
    }
}
