//! The attention at the end of a block.
//!
//! ```text
//! y' = (proj(attention(qkv(norm2(y)))) + y)·s
//! ```
//!
//! Files store the rows of `qkv` with query, key and value of a component next to each other; they are put one after
//! the other when the weights are packed.

use super::config::groups;
use super::weights::LayerWeights;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Activation, GroupNorm, Linear, Modulation, NormStats, SelfAttention, deinterleave_qkv};

/// Normalisation, projections and attention of a block.
pub(super) struct Attention {
    norm: GroupNorm,
    qkv: Linear,
    core: SelfAttention,
    proj: Linear,
    scale: f32,
}

/// What the way back needs.
#[derive(Clone)]
pub(super) struct AttentionTape {
    y: Act,
    stats: NormStats,
    qkv: Act,
}

impl Attention {
    pub(super) fn new(weights: &LayerWeights<'_>, channels: usize, heads: usize, eps: f32, scale: f32) -> Result<Self> {
        let at = |part: &str| weights.needed(&format!("{}.{part}", weights.name()));
        let (norm, qkv, proj) = (at("norm2")?, at("qkv")?, at("proj")?);
        let build = || {
            let qkv = (deinterleave_qkv(qkv.0, channels)?, deinterleave_qkv(qkv.1, channels)?);
            Ok(Self {
                norm: GroupNorm::new(groups(channels), eps, norm.0, norm.1, Activation::None)?,
                qkv: Linear::new(channels, 3 * channels, &qkv.0, Some(&qkv.1))?,
                core: SelfAttention::new(channels, heads)?,
                proj: Linear::new(channels, channels, proj.0, Some(proj.1))?,
                scale,
            })
        };
        build().map_err(|e| weights.refused(e))
    }

    pub(super) fn forward(&self, y: Act, record: bool) -> (Act, Option<AttentionTape>) {
        let (normed, stats) = self.norm.forward(&y, Modulation::None);
        let qkv = self.qkv.forward(&normed);
        drop(normed);
        let out = self.proj.forward_residual(&self.core.forward(&qkv), &y, self.scale);
        (out, record.then_some(AttentionTape { y, stats, qkv }))
    }

    pub(super) fn backward(&self, saved: AttentionTape, gy: Act) -> Act {
        let AttentionTape { y, stats, qkv } = saved;
        let to_core = self.proj.backward_residual(&gy, None, self.scale);
        let to_qkv = self.core.backward(&qkv, &to_core);
        drop((qkv, to_core));
        let to_normed = self.qkv.backward(&to_qkv);
        self.norm.backward(&y, &stats, Modulation::None, &to_normed, Some((&gy, self.scale))).x
    }
}
