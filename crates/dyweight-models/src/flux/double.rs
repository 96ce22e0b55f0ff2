//! A block of two streams: image and text have weights of their own and meet in attention.
//!
//! ```text
//! (shift₁, scale₁, gate₁, shift₂, scale₂, gate₂) = W·v + b                      of each stream
//! x = x + gate₁·out(attend(N₁(x)))        attention over [text; image]
//! x = x + gate₂·W₂·gelu(W₁·N₂(x))
//! ```

use super::config::FluxConfig;
use super::heads::{Attended, Heads, Projected, attend, attend_backward};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{
    Act, Attention, Gelu, LayerNorm, Linear, ModulatedGrad, Rotary, concat, concat_tokens, gated_residual,
    gated_residual_backward, split, split_tokens,
};

/// ε of the modulated norms.
pub(super) const EPS: f32 = 1e-6;
/// Width of the MLPs in widths of a token.
pub(super) const RATIO: usize = 4;
const GELU: Gelu = Gelu::Tanh;

/// One stream.
struct Stream {
    modulation: Linear,
    norm: LayerNorm,
    heads: Heads,
    out: Linear,
    up: Linear,
    down: Linear,
}

/// Shift, scale and gate of a stream's two halves, `[n, 1, 1, width]` each.
#[derive(Clone)]
struct Modulations([Act; 6]);

/// What the way back needs of a stream.
#[derive(Clone)]
struct StreamTape {
    modulations: Modulations,
    projected: Projected,
    attended: Act,
    /// Between the halves.
    middle: Act,
    hidden: Act,
    fed: Act,
}

/// A block of two streams.
pub(super) struct Double {
    image: Stream,
    text: Stream,
    core: Attention,
}

/// What the way back needs.
#[derive(Clone)]
pub(super) struct DoubleTape {
    image: StreamTape,
    text: StreamTape,
    attended: Attended,
}

/// Names of a stream's layers.
struct Names {
    modulation: &'static str,
    heads: [&'static str; 5],
    out: &'static str,
    feed: &'static str,
}

const IMAGE: Names = Names {
    modulation: "norm1.linear",
    heads: ["attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q", "attn.norm_k"],
    out: "attn.to_out.0",
    feed: "ff",
};
const TEXT: Names = Names {
    modulation: "norm1_context.linear",
    heads: ["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.norm_added_q", "attn.norm_added_k"],
    out: "attn.to_add_out",
    feed: "ff_context",
};

impl Stream {
    fn new(scope: &Scope<'_>, config: &FluxConfig, names: &Names) -> Result<Self> {
        let width = config.width();
        let feed = scope.at(names.feed).at("net");
        Ok(Self {
            modulation: scope.exact().linear(names.modulation, width, 6 * width)?,
            norm: LayerNorm::plain(EPS, width).map_err(|e| scope.refused(names.modulation, e))?,
            heads: Heads::new(scope, names.heads, width, config.head)?,
            out: scope.linear(names.out, width, width)?,
            up: feed.linear("0.proj", width, RATIO * width)?,
            down: feed.linear("2", RATIO * width, width)?,
        })
    }

    fn enter(&self, x: &Act, v: &Act) -> (Modulations, Projected) {
        let width = x.shape().c;
        let parts = split(&self.modulation.forward(v), &[width; 6]);
        let modulations = Modulations(parts.try_into().unwrap_or_else(|_| unreachable!("six parts were asked for")));
        let [shift, scale, ..] = &modulations.0;
        let projected = self.heads.project(&self.norm.forward_modulated(x, scale, shift));
        (modulations, projected)
    }

    fn leave(&self, x: &Act, modulations: Modulations, projected: Projected, gathered: &Act) -> (Act, StreamTape) {
        let [_, _, gate1, shift, scale, gate2] = &modulations.0;
        let attended = self.out.forward(gathered);
        let middle = gated_residual(x, gate1, &attended);
        let hidden = self.up.forward(&self.norm.forward_modulated(&middle, scale, shift));
        let fed = self.down.forward(&GELU.forward(&hidden));
        let y = gated_residual(&middle, gate2, &fed);
        (y, StreamTape { modulations, projected, attended, middle, hidden, fed })
    }

    /// Gradients of the stream's input past attention, of what it gathered, and of the last four modulations.
    fn leave_backward(&self, tape: &StreamTape, mut g: Act) -> (Act, Act, [Act; 4]) {
        let [_, _, gate1, _, scale, gate2] = &tape.modulations.0;
        let [to_fed, to_gate2] = gated_residual_backward(gate2, &tape.fed, &g);
        let to_hidden = GELU.backward(&tape.hidden, &self.down.backward(&to_fed));
        drop(to_fed);
        let normed = self.up.backward(&to_hidden);
        drop(to_hidden);
        let ModulatedGrad { x, scale: to_scale, shift: to_shift } =
            self.norm.backward_modulated(&tape.middle, scale, &normed);
        g.add_assign(&x);
        let [to_attended, to_gate1] = gated_residual_backward(gate1, &tape.attended, &g);
        (g, self.out.backward(&to_attended), [to_gate1, to_shift, to_scale, to_gate2])
    }

    /// Gradients of the stream's input and of v.
    fn enter_backward(
        &self,
        tape: &StreamTape,
        x: &Act,
        to_heads: [&Act; 3],
        mut g: Act,
        rest: [Act; 4],
    ) -> (Act, Act) {
        let to_normed = self.heads.backward(&tape.projected, to_heads);
        let [_, scale, ..] = &tape.modulations.0;
        let ModulatedGrad { x: to_x, scale: to_scale, shift: to_shift } =
            self.norm.backward_modulated(x, scale, &to_normed);
        g.add_assign(&to_x);
        let [to_gate1, to_shift2, to_scale2, to_gate2] = &rest;
        let all = concat(&[&to_shift, &to_scale, to_gate1, to_shift2, to_scale2, to_gate2]);
        (g, self.modulation.backward(&all))
    }
}

impl Double {
    pub(super) fn new(scope: &Scope<'_>, config: &FluxConfig) -> Result<Self> {
        Ok(Self {
            image: Stream::new(scope, config, &IMAGE)?,
            text: Stream::new(scope, config, &TEXT)?,
            core: scope.attention("attn", config.width(), config.heads)?,
        })
    }

    /// The block's `[text, image]` for its inputs and v.
    pub(super) fn forward(&self, [text, image]: &[Act; 2], v: &Act, rotary: &Rotary) -> ([Act; 2], DoubleTape) {
        let (text_mods, text_parts) = self.text.enter(text, v);
        let (image_mods, image_parts) = self.image.enter(image, v);
        let streams = [(&self.text.heads, &text_parts), (&self.image.heads, &image_parts)];
        let attended = attend(&self.core, &streams, rotary);
        let counts = [text.shape().pixels(), image.shape().pixels()];
        let gathered = split_tokens(&attended.gathered, &counts);
        let (new_text, text) = self.text.leave(text, text_mods, text_parts, &gathered[0]);
        let (new_image, image) = self.image.leave(image, image_mods, image_parts, &gathered[1]);
        ([new_text, new_image], DoubleTape { image, text, attended })
    }

    /// Gradients of `[text, image]` and of v.
    pub(super) fn backward(
        &self,
        [text, image]: &[Act; 2],
        tape: &DoubleTape,
        rotary: &Rotary,
        [to_text, to_image]: [Act; 2],
    ) -> ([Act; 2], Act) {
        let (to_text, text_gathered, text_rest) = self.text.leave_backward(&tape.text, to_text);
        let (to_image, image_gathered, image_rest) = self.image.leave_backward(&tape.image, to_image);
        let streams = [(&self.text.heads, &tape.text.projected), (&self.image.heads, &tape.image.projected)];
        let to_gathered = concat_tokens(&[&text_gathered, &image_gathered]);
        drop((text_gathered, image_gathered));
        let to_heads = attend_backward(&self.core, &streams, rotary, &tape.attended, &to_gathered);
        let (to_text, mut to_v) =
            self.text.enter_backward(&tape.text, text, to_heads[0].each_ref(), to_text, text_rest);
        let (to_image, image_v) =
            self.image.enter_backward(&tape.image, image, to_heads[1].each_ref(), to_image, image_rest);
        to_v.add_assign(&image_v);
        ([to_text, to_image], to_v)
    }
}
