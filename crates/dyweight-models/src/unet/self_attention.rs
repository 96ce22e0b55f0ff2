//! The attention of unconditional U-Nets: `x + proj_out(attention(qkv(norm(x))))`.
//!
//! Files store the rows of `qkv` head by head, `[q k v]` of head 0, then of head 1; they are put one part after the
//! other when the weights are packed.

use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Activation, GroupNorm, Linear, Modulation, NormStats, SelfAttention};
use std::sync::Arc;

const EPS: f32 = 1e-5;

/// Normalisation, projections and attention.
pub(super) struct AttentionBlock {
    norm: GroupNorm,
    qkv: Linear,
    core: SelfAttention,
    proj: Linear,
}

/// What the way back needs.
#[derive(Clone)]
pub(super) struct AttentionTape {
    x: Arc<Act>,
    stats: NormStats,
    qkv: Act,
}

impl AttentionBlock {
    pub(super) fn new(scope: &Scope<'_>, channels: usize, heads: usize, groups: usize) -> Result<Self> {
        let norm = scope.group_norm("norm", channels, (groups, EPS), Activation::None)?;
        let weight = by_part(&scope.numbers("qkv.weight", &[3 * channels, channels])?, channels, heads);
        let bias = by_part(&scope.numbers("qkv.bias", &[3 * channels])?, channels, heads);
        let refused = |e| scope.refused("qkv", e);
        Ok(Self {
            norm,
            qkv: Linear::new(channels, 3 * channels, &weight, Some(&bias)).map_err(refused)?,
            core: SelfAttention::new(channels, heads).map_err(refused)?,
            proj: scope.linear("proj_out", channels, channels)?,
        })
    }

    pub(super) fn forward(&self, x: Arc<Act>, record: bool) -> (Act, Option<AttentionTape>) {
        let (normed, stats) = self.norm.forward(&x, Modulation::None);
        let qkv = self.qkv.forward(&normed);
        drop(normed);
        let out = self.proj.forward_residual(&self.core.forward(&qkv), &x, 1.0);
        (out, record.then_some(AttentionTape { x, stats, qkv }))
    }

    pub(super) fn backward(&self, tape: AttentionTape, gy: &Act) -> Act {
        let AttentionTape { x, stats, qkv } = tape;
        let to_qkv = self.core.backward(&qkv, &self.proj.backward(gy));
        drop(qkv);
        let to_normed = self.qkv.backward(&to_qkv);
        self.norm.backward(&x, &stats, Modulation::None, &to_normed, Some((gy, 1.0))).x
    }
}

/// Rows `[q k v]` of each head to all q, all k, all v.
fn by_part(rows: &[f32], channels: usize, heads: usize) -> Vec<f32> {
    let (len, width) = (rows.len() / (3 * channels), channels / heads);
    let block = |part: usize, head: usize| &rows[(3 * head + part) * width * len..][..width * len];
    (0..3).flat_map(|part| (0..heads).flat_map(move |head| block(part, head))).copied().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn rows_of_heads_become_rows_of_parts() {
        // Two heads of one channel each, rows of one number.
        assert_eq!(super::by_part(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 2, 2), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }
}
