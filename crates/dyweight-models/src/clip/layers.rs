//! The layers of a tower, with the gradient of its tokens.

use super::config::StackConfig;
use crate::blocks::{Attend, AttendTape};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Gelu, LayerNorm, Linear};

const NAMES: [&str; 4] = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"];

/// Layers one after the other.
pub(crate) struct Stack {
    layers: Vec<Layer>,
    gelu: Gelu,
}

struct Layer {
    norm1: LayerNorm,
    attend: Attend,
    norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

/// What the way back needs of each layer.
pub(crate) struct StackTape(Vec<LayerTape>);

struct LayerTape {
    x: Act,
    attend: AttendTape,
    x1: Act,
    wide: Act,
}

impl Stack {
    pub(crate) fn new(scope: &Scope<'_>, config: &StackConfig, causal: bool) -> Result<Self> {
        let (width, eps) = (config.width, config.eps as f32);
        let layer = |i: usize| -> Result<Layer> {
            let at = scope.at("encoder.layers").at(i);
            let attend = Attend::new(&at, NAMES, [width; 2], config.heads, true)?;
            Ok(Layer {
                norm1: at.layer_norm("layer_norm1", width, eps)?,
                attend: if causal { attend.causal() } else { attend },
                norm2: at.layer_norm("layer_norm2", width, eps)?,
                fc1: at.linear("mlp.fc1", width, config.hidden)?,
                fc2: at.linear("mlp.fc2", config.hidden, width)?,
            })
        };
        Ok(Self { layers: (0..config.layers).map(layer).collect::<Result<_>>()?, gelu: config.gelu })
    }

    pub(crate) fn forward(&self, mut x: Act, record: bool) -> (Act, Option<StackTape>) {
        let mut tapes = Vec::new();
        for layer in &self.layers {
            let normed = layer.norm1.forward(&x);
            let (x1, attend) = layer.attend.forward(&normed, &normed, &x, record);
            let wide = layer.fc1.forward(&layer.norm2.forward(&x1));
            let x2 = layer.fc2.forward_residual(&self.gelu.forward(&wide), &x1, 1.0);
            tapes.extend(attend.map(|attend| LayerTape { x, attend, x1, wide }));
            x = x2;
        }
        (x, record.then_some(StackTape(tapes)))
    }

    pub(crate) fn backward(&self, tape: StackTape, mut g: Act) -> Act {
        for (layer, LayerTape { x, attend, x1, wide }) in self.layers.iter().zip(tape.0).rev() {
            let to_wide = self.gelu.backward(&wide, &layer.fc2.backward(&g));
            g.add_assign(&layer.norm2.backward(&x1, &layer.fc1.backward(&to_wide)));
            let to_normed = layer.attend.backward_self(attend, &g);
            g.add_assign(&layer.norm1.backward(&x, &to_normed));
        }
        g
    }
}
