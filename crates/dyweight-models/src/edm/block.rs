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

use super::attention::{self, Attention};
use super::blueprint::BlockPlan;
use super::config::{Config, Family, groups};
use super::resample::Resample;
use super::weights::LayerWeights;
use crate::arithmetic::Arithmetic;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Activation, Conv2d, ConvSpec, GroupNorm, Linear, Modulation, NormStats};

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
    attention: Option<Attention>,
}

/// What the way back needs besides the input.
#[derive(Clone)]
pub(super) struct BlockTape {
    stats0: NormStats,
    h: Act,
    p: Act,
    stats1: NormStats,
    attention: Option<attention::AttentionTape>,
}

impl Block {
    pub(super) fn new(
        plan: &BlockPlan,
        config: &Config,
        weights: &LayerWeights<'_>,
        arithmetic: Arithmetic,
    ) -> Result<Self> {
        let BlockPlan { name, inputs, outputs, .. } = plan;
        let family = config.net.family;
        let (eps, scale) = (family.eps(), family.pick(std::f32::consts::FRAC_1_SQRT_2, 1.0));
        let at = |part: &str| weights.needed(&format!("{name}.{part}"));
        let norm = |part: &str| -> Result<GroupNorm> {
            let (weight, bias) = at(part)?;
            GroupNorm::new(groups(weight.len()), eps, weight, bias, Activation::Silu).map_err(|e| weights.refused(e))
        };
        let conv = |(weight, bias): (&[f32], &[f32]), from: usize, kernel: usize| {
            let spec = ConvSpec::same(from, *outputs, kernel, arithmetic.conv);
            let conv = Conv2d::new(spec, weight, Some(bias)).and_then(|conv| conv.in_precision(arithmetic.precision));
            conv.map_err(|e| weights.refused(e))
        };
        let (affine, width) = (at("affine")?, config.net.embedding_width());
        let attention = match plan.heads {
            0 => None,
            heads => Some(Attention::new(weights, *outputs, heads, eps, scale)?),
        };
        Ok(Self {
            family,
            norm0: norm("norm0")?,
            conv0: conv(at("conv0")?, *inputs, 3)?,
            affine: Linear::new(width, affine.1.len(), affine.0, Some(affine.1)).map_err(|e| weights.refused(e))?,
            norm1: norm("norm1")?,
            conv1: conv(at("conv1")?, *outputs, 3)?,
            skip: weights.affine(&format!("{name}.skip")).map(|skip| conv(skip, *inputs, 1)).transpose()?,
            resample: Resample::new(plan.direction, weights)?,
            scale,
            attention,
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
                let (y, attention) = attention.forward(y, record);
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
            (Some(attention), Some(saved)) => attention.backward(saved, gy),
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
