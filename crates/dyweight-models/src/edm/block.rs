//! The residual block of both families.
//!
//! ```text
//! h = conv0(resample(silu(norm0(x))))
//! p = affine(e)
//! h = silu(norm1(h + p))                     DDPM++, NCSN++      s = √½
//! h = silu(norm1(h)·(1 + a) + b), p = [a b]  ADM                 s = 1
//! y = (conv1(h) + skip(resample(x)))·s       skip: 1×1, or x itself
//! y = attention(y)                           where the block attends
//! ```

use super::blueprint::{BlockPlan, Direction};
use super::config::{Config, Family, groups};
use super::resample::Resample;
use crate::blocks::{SelfAttend, SelfAttendSize, SelfAttendTape};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Activation, Conv2d, ConvAlgo, ConvSpec, GroupNorm, Linear, Modulation, NormStats};
use std::sync::Arc;

/// A residual block.
pub(super) struct Block {
    family: Family,
    norm0: GroupNorm,
    conv0: Conv2d,
    affine: Linear,
    norm1: GroupNorm,
    conv1: Conv2d,
    skip: Option<Conv2d>,
    resample: Resample,
    scale: f32,
    attention: Option<SelfAttend>,
}

/// What the way back needs besides the input.
#[derive(Clone)]
pub(super) struct BlockTape {
    stats0: NormStats,
    h: Act,
    p: Act,
    stats1: NormStats,
    attention: Option<SelfAttendTape>,
}

impl Block {
    pub(super) fn new(plan: &BlockPlan, config: &Config, scope: &Scope<'_>, algo: ConvAlgo) -> Result<Self> {
        let BlockPlan { name, inputs, outputs, direction, heads, .. } = plan;
        let (family, outputs, scope) = (config.net.family, *outputs, scope.at(name));
        let (eps, scale) = (family.eps(), family.pick(std::f32::consts::FRAC_1_SQRT_2, 1.0));
        let norm = |part: &str, width: usize| scope.group_norm(part, width, (groups(width), eps), Activation::Silu);
        let conv =
            |part: &str, from: usize, kernel: usize| scope.conv(part, ConvSpec::same(from, outputs, kernel, algo));
        let size =
            SelfAttendSize { channels: outputs, heads: *heads, stored: outputs, norm: (groups(outputs), eps), scale };
        let attention = || SelfAttend::new(&scope.exact(), ["norm2", "qkv", "proj"], size);
        let skips = *inputs != outputs || (family == Family::Song && *direction != Direction::Same);
        Ok(Self {
            family,
            norm0: norm("norm0", *inputs)?,
            conv0: conv("conv0", *inputs, 3)?,
            resample: Resample::new(*direction, &config.net, &scope)?,
            affine: scope.exact().linear("affine", config.net.embedding_width(), family.pick(1, 2) * outputs)?,
            norm1: norm("norm1", outputs)?,
            conv1: conv("conv1", outputs, 3)?,
            skip: skips.then(|| conv("skip", *inputs, 1)).transpose()?,
            scale,
            attention: (*heads > 0).then(attention).transpose()?,
        })
    }

    /// The block's output for input `x` and embedding `e`; what the way back needs only if `record`ing.
    pub(super) fn forward(&self, x: &Act, e: &Act, record: bool) -> (Act, Option<BlockTape>) {
        let (active, stats0) = self.norm0.forward(x, Modulation::None);
        let h = self.conv0.forward(&self.resample.forward(&active));
        drop(active);
        let p = self.affine.forward(e);
        let (active, stats1) = self.norm1.forward(&h, self.modulation(&p));
        let saved = record.then_some(BlockTape { stats0, h, p, stats1, attention: None });
        let y = self.merge(x, &active);
        drop(active);
        match &self.attention {
            None => (y, saved),
            Some(attention) => {
                let (y, attention) = attention.forward(Arc::new(y), record);
                (y, saved.map(|saved| BlockTape { attention, ..saved }))
            }
        }
    }

    /// (conv1(h) + skip(resample(x)))·s.
    fn merge(&self, x: &Act, h: &Act) -> Act {
        let resampled = self.resample.forward(x);
        match &self.skip {
            Some(skip) => self.conv1.forward_residual(h, &skip.forward(&resampled), self.scale),
            None => self.conv1.forward_residual(h, &resampled, self.scale),
        }
    }

    /// The gradient of the input, and of the embedding, from that of the output.
    pub(super) fn backward(&self, x: &Act, saved: BlockTape, gy: Act) -> (Act, Act) {
        let BlockTape { stats0, h, p, stats1, attention } = saved;
        let gy = match (&self.attention, attention) {
            (Some(attention), Some(saved)) => attention.backward(saved, &gy),
            _ => gy,
        };
        let to_active = self.conv1.backward_residual(&gy, gy.size(), None, self.scale);
        let to_h = self.norm1.backward(&h, &stats1, self.modulation(&p), &to_active, None);
        drop((to_active, h));
        let to_e = self.affine.backward(&to_h.modulation.expect("norm1 is always modulated"));
        let to_active = self.resample.backward(self.conv0.backward(&to_h.x, to_h.x.size()));
        drop(to_h.x);
        let (direct, scale) = self.merge_backward(gy);
        (self.norm0.backward(x, &stats0, Modulation::None, &to_active, Some((&direct, scale))).x, to_e)
    }

    /// Gradient of `merge`'s input x, with a factor that is still to be applied.
    fn merge_backward(&self, gy: Act) -> (Act, f32) {
        match &self.skip {
            Some(skip) => {
                let gy = skip.backward_residual(&gy, gy.size(), None, self.scale);
                (self.resample.backward(gy), 1.0)
            }
            None => (self.resample.backward(gy), self.scale),
        }
    }

    fn modulation<'p>(&self, p: &'p Act) -> Modulation<'p> {
        self.family.pick(Modulation::Bias(p), Modulation::ScaleShift(p))
    }
}
