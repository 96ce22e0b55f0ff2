//! The spatial transformer (Rombach et al. 2022): pixels attend to each other and to a context.
//!
//! ```text
//! y = proj_in(norm(x))
//! y = y + attn1(LN y);  y = y + attn2(LN y, context);  y = y + W₂(p₁·gelu(p₂)), p = W₁·LN y        `depth` times
//! out = x + proj_out(y)
//! ```

use crate::blocks::{Attend, AttendTape};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Activation, Gelu, GroupNorm, LayerNorm, Linear, Modulation, NormStats};
use std::sync::Arc;

/// ε of the normalisation in front, whatever the network's own is.
const EPS: f32 = 1e-6;
const LAYER_EPS: f32 = 1e-5;
const NAMES: [&str; 4] = ["to_q", "to_k", "to_v", "to_out.0"];

/// A spatial transformer.
pub(super) struct Transformer {
    norm: GroupNorm,
    proj_in: Linear,
    blocks: Vec<Block>,
    proj_out: Linear,
}

struct Block {
    norm1: LayerNorm,
    attn1: Attend,
    norm2: LayerNorm,
    attn2: Attend,
    norm3: LayerNorm,
    widen: Linear,
    narrow: Linear,
}

/// What the way back needs.
#[derive(Clone)]
pub(super) struct TransformerTape {
    x: Arc<Act>,
    stats: NormStats,
    blocks: Vec<BlockTape>,
}

#[derive(Clone)]
struct BlockTape {
    y: Act,
    attn1: AttendTape,
    y1: Act,
    attn2: AttendTape,
    y2: Act,
    wide: Act,
}

/// Sizes of a spatial transformer.
pub(super) struct TransformerSize {
    pub(super) channels: usize,
    pub(super) context: usize,
    pub(super) heads: usize,
    pub(super) depth: usize,
    pub(super) groups: usize,
}

impl Transformer {
    pub(super) fn new(scope: &Scope<'_>, size: &TransformerSize) -> Result<Self> {
        let c = size.channels;
        let block = |d: usize| Block::new(&scope.at("transformer_blocks").at(d), size);
        Ok(Self {
            norm: scope.group_norm("norm", c, (size.groups, EPS), Activation::None)?,
            proj_in: scope.linear("proj_in", c, c)?,
            blocks: (0..size.depth).map(block).collect::<Result<_>>()?,
            proj_out: scope.linear("proj_out", c, c)?,
        })
    }

    pub(super) fn forward(&self, x: Arc<Act>, context: &Act, record: bool) -> (Act, Option<TransformerTape>) {
        let (normed, stats) = self.norm.forward(&x, Modulation::None);
        let mut y = self.proj_in.forward(&normed);
        drop(normed);
        let mut blocks = Vec::new();
        for block in &self.blocks {
            let (next, tape) = block.forward(y, context, record);
            y = next;
            blocks.extend(tape);
        }
        let out = self.proj_out.forward_residual(&y, &x, 1.0);
        (out, record.then_some(TransformerTape { x, stats, blocks }))
    }

    pub(super) fn backward(&self, tape: TransformerTape, gy: &Act) -> Act {
        let TransformerTape { x, stats, blocks } = tape;
        let mut g = self.proj_out.backward(gy);
        for (block, tape) in self.blocks.iter().zip(blocks).rev() {
            g = block.backward(tape, g);
        }
        let to_normed = self.proj_in.backward(&g);
        self.norm.backward(&x, &stats, Modulation::None, &to_normed, Some((gy, 1.0))).x
    }
}

impl Block {
    fn new(scope: &Scope<'_>, size: &TransformerSize) -> Result<Self> {
        let c = size.channels;
        let norm = |name: &str| scope.layer_norm(name, c, LAYER_EPS);
        let attend = |name: &str, context: usize| Attend::new(&scope.at(name), NAMES, [c, context], size.heads, false);
        Ok(Self {
            norm1: norm("norm1")?,
            attn1: attend("attn1", c)?,
            norm2: norm("norm2")?,
            attn2: attend("attn2", size.context)?,
            norm3: norm("norm3")?,
            widen: scope.linear("ff.net.0.proj", c, 8 * c)?,
            narrow: scope.linear("ff.net.2", 4 * c, c)?,
        })
    }

    fn forward(&self, y: Act, context: &Act, record: bool) -> (Act, Option<BlockTape>) {
        let normed = self.norm1.forward(&y);
        let (y1, attn1) = self.attn1.forward(&normed, &normed, &y, record);
        drop(normed);
        let y = record.then_some(y);
        let (y2, attn2) = self.attn2.forward(&self.norm2.forward(&y1), context, &y1, record);
        let y1 = record.then_some(y1);
        let wide = self.widen.forward(&self.norm3.forward(&y2));
        let gated = Gelu::Exact.gated_halves(&wide);
        let wide = record.then_some(wide);
        let y3 = self.narrow.forward_residual(&gated, &y2, 1.0);
        let kept = y.zip(y1).zip(wide).zip(attn1.zip(attn2));
        (y3, kept.map(|(((y, y1), wide), (attn1, attn2))| BlockTape { y, attn1, y1, attn2, y2, wide }))
    }

    fn backward(&self, tape: BlockTape, mut g: Act) -> Act {
        let BlockTape { y, attn1, y1, attn2, y2, wide } = tape;
        let to_wide = Gelu::Exact.gated_halves_backward(&wide, &self.narrow.backward(&g));
        drop(wide);
        let to_normed = self.widen.backward(&to_wide);
        drop(to_wide);
        g.add_assign(&self.norm3.backward(&y2, &to_normed));
        let to_normed = self.attn2.backward_cross(attn2, &g);
        g.add_assign(&self.norm2.backward(&y1, &to_normed));
        let to_normed = self.attn1.backward_self(attn1, &g);
        g.add_assign(&self.norm1.backward(&y, &to_normed));
        g
    }
}
