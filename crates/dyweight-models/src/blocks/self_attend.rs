//! Pixels that attend to each other: `y = (proj(attention(qkv(norm(x)))) + x)·scale`.
//!
//! Files store the rows of `qkv` in groups of `[q k v]`; they are put one part after the other when the weights are
//! packed. The unconditional U-Nets of latent diffusion have a group for each head, EDM's networks one for each
//! channel.

use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Activation, GroupNorm, Linear, Modulation, NormStats, SelfAttention};
use std::sync::Arc;

/// Sizes of an attention, and how its file has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelfAttendSize {
    pub(crate) channels: usize,
    pub(crate) heads: usize,
    /// Groups `[q k v]` in the rows of `qkv`.
    pub(crate) stored: usize,
    /// Groups and ε of the normalisation.
    pub(crate) norm: (usize, f32),
    pub(crate) scale: f32,
}

/// Normalisation, projections and attention.
pub(crate) struct SelfAttend {
    norm: GroupNorm,
    qkv: Linear,
    core: SelfAttention,
    proj: Linear,
    scale: f32,
}

/// What the way back needs.
#[derive(Clone)]
pub(crate) struct SelfAttendTape {
    x: Arc<Act>,
    stats: NormStats,
    qkv: Act,
}

impl SelfAttend {
    /// The names are those of normalisation, `qkv` and projection.
    pub(crate) fn new(scope: &Scope<'_>, [norm, qkv, proj]: [&str; 3], size: SelfAttendSize) -> Result<Self> {
        let SelfAttendSize { channels, heads, stored, scale, .. } = size;
        Ok(Self {
            norm: scope.group_norm(norm, channels, size.norm, Activation::None)?,
            qkv: scope.linear_reordered(qkv, [channels, 3 * channels], |rows| by_part(rows, channels, stored))?,
            core: SelfAttention::new(channels, heads).map_err(|e| scope.refused(qkv, e))?,
            proj: scope.linear(proj, channels, channels)?,
            scale,
        })
    }

    pub(crate) fn forward(&self, x: Arc<Act>, record: bool) -> (Act, Option<SelfAttendTape>) {
        let (normed, stats) = self.norm.forward(&x, Modulation::None);
        let qkv = self.qkv.forward(&normed);
        drop(normed);
        let out = self.proj.forward_residual(&self.core.forward(&qkv), &x, self.scale);
        (out, record.then_some(SelfAttendTape { x, stats, qkv }))
    }

    pub(crate) fn backward(&self, tape: SelfAttendTape, gy: &Act) -> Act {
        let SelfAttendTape { x, stats, qkv } = tape;
        let to_core = self.proj.backward_residual(gy, None, self.scale);
        let to_qkv = self.core.backward(&qkv, &to_core);
        drop((qkv, to_core));
        let to_normed = self.qkv.backward(&to_qkv);
        self.norm.backward(&x, &stats, Modulation::None, &to_normed, Some((gy, self.scale))).x
    }
}

/// Rows `[q k v]` of each group to all q, all k, all v.
fn by_part(rows: &[f32], channels: usize, groups: usize) -> Vec<f32> {
    let (len, width) = (rows.len() / (3 * channels), channels / groups);
    let block = |part: usize, group: usize| &rows[(3 * group + part) * width * len..][..width * len];
    (0..3).flat_map(|part| (0..groups).flat_map(move |group| block(part, group))).copied().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn rows_of_groups_become_rows_of_parts() {
        // Two groups of one channel each, rows of one number.
        assert_eq!(super::by_part(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 2, 2), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        // Four groups, rows of two numbers.
        let rows: Vec<f32> = (0..12).flat_map(|row| [row as f32, row as f32 + 0.5]).collect();
        let firsts: Vec<f32> = super::by_part(&rows, 4, 4).into_iter().step_by(2).collect();
        assert_eq!(firsts, [0.0, 3.0, 6.0, 9.0, 1.0, 4.0, 7.0, 10.0, 2.0, 5.0, 8.0, 11.0]);
    }
}
