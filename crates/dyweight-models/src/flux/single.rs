//! A block of one stream: attention and MLP side by side.
//!
//! ```text
//! (shift, scale, gate) = W·v + b,   u = N(z)
//! z = z + gate·proj_out([attend(u) | gelu(proj_mlp·u)])
//! ```

use super::config::FluxConfig;
use super::double::{EPS, RATIO};
use super::heads::{Attended, Heads, Projected, attend, attend_backward};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{
    Act, Attention, Gelu, LayerNorm, Linear, ModulatedGrad, Rotary, concat, gated_residual, gated_residual_backward,
    split,
};

const GELU: Gelu = Gelu::Tanh;

/// A block of one stream.
pub(super) struct Single {
    modulation: Linear,
    norm: LayerNorm,
    heads: Heads,
    up: Linear,
    out: Linear,
    core: Attention,
}

/// What the way back needs.
#[derive(Clone)]
pub(super) struct SingleTape {
    /// Shift, scale, gate.
    modulations: Vec<Act>,
    projected: Projected,
    attended: Attended,
    hidden: Act,
    branch: Act,
}

impl Single {
    pub(super) fn new(scope: &Scope<'_>, config: &FluxConfig) -> Result<Self> {
        let width = config.width();
        let names = ["attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q", "attn.norm_k"];
        Ok(Self {
            modulation: scope.exact().linear("norm.linear", width, 3 * width)?,
            norm: LayerNorm::plain(EPS, width).map_err(|e| scope.refused("norm", e))?,
            heads: Heads::new(scope, names, width, config.head)?,
            up: scope.linear("proj_mlp", width, RATIO * width)?,
            out: scope.linear("proj_out", (1 + RATIO) * width, width)?,
            core: scope.attention("attn", width, config.heads)?,
        })
    }

    /// The block's tokens for its input and v.
    pub(super) fn forward(&self, z: &Act, v: &Act, rotary: &Rotary) -> (Act, SingleTape) {
        let modulations = split(&self.modulation.forward(v), &[z.shape().c; 3]);
        let u = self.norm.forward_modulated(z, &modulations[1], &modulations[0]);
        let (projected, hidden) = (self.heads.project(&u), self.up.forward(&u));
        drop(u);
        let attended = attend(&self.core, &[(&self.heads, &projected)], rotary);
        let branch = self.out.forward(&concat(&[&attended.gathered, &GELU.forward(&hidden)]));
        let y = gated_residual(z, &modulations[2], &branch);
        (y, SingleTape { modulations, projected, attended, hidden, branch })
    }

    /// Gradients of the tokens and of v.
    pub(super) fn backward(&self, z: &Act, tape: &SingleTape, rotary: &Rotary, mut g: Act) -> (Act, Act) {
        let [_, scale, gate] = &tape.modulations[..] else { unreachable!("three parts were asked for") };
        let width = z.shape().c;
        let [to_branch, to_gate] = gated_residual_backward(gate, &tape.branch, &g);
        let parts = split(&self.out.backward(&to_branch), &[width, RATIO * width]);
        drop(to_branch);
        let streams = [(&self.heads, &tape.projected)];
        let to_heads = attend_backward(&self.core, &streams, rotary, &tape.attended, &parts[0]);
        let to_hidden = GELU.backward(&tape.hidden, &parts[1]);
        drop(parts);
        let to_u = self.heads.backward(&tape.projected, to_heads[0].each_ref());
        drop(to_heads);
        let to_u = self.up.backward_residual(&to_hidden, Some(&to_u), 1.0);
        let ModulatedGrad { x, scale: to_scale, shift } = self.norm.backward_modulated(z, scale, &to_u);
        g.add_assign(&x);
        (g, self.modulation.backward(&concat(&[&shift, &to_scale, &to_gate])))
    }
}
