//! Means and variances of groups, in one pass that does not cancel.
//!
//! Per channel, sums of `x − x₀` and `(x − x₀)²` with `x₀` the channel's first pixel, in f32 over a short stretch of
//! pixels and in f64 over stretches; channels are merged into groups by the formula of Chan, Golub & LeVeque (1979).

use super::{Modulation, chunk_pixels, chunk_range};
use crate::act::Act;
use crate::buffer::Buffer;
use crate::isa::Isa;
use crate::parallel::{Disjoint, for_each};

/// Statistics of a normalised batch.
#[derive(Clone, Debug)]
pub struct NormStats {
    groups: usize,
    channels: usize,
    mean: Vec<f32>,
    inverse: Vec<f32>,
    channel_mean: Vec<f32>,
}

impl NormStats {
    /// Statistics of `x`, with the modulation's bias added.
    pub(super) fn of(x: &Act, groups: usize, eps: f32, modulation: Modulation<'_>) -> Self {
        let (n, channels) = (x.shape().n, x.shape().c);
        let sums = chunk_sums(x);
        let mut stats = Self { groups, channels, mean: vec![], inverse: vec![], channel_mean: vec![] };
        let per_sample = sums.len() / n.max(1);
        for sample in 0..n {
            let added = if let Modulation::Bias(p) = modulation { Some(p.sample(sample)) } else { None };
            stats.push_sample(x, sample, &sums[sample * per_sample..][..per_sample], added, eps);
        }
        stats
    }

    fn push_sample(&mut self, x: &Act, sample: usize, sums: &[f32], added: Option<&[f32]>, eps: f32) {
        let (c, pixels) = (self.channels, x.shape().pixels() as f64);
        let total = |i: usize| -> f64 { sums[i..].iter().step_by(2 * c).map(|s| f64::from(*s)).sum() };
        let moments: Vec<(f64, f64)> = (0..c)
            .map(|i| {
                let (first, second) = (total(i) / pixels, total(c + i) / pixels);
                let pivot = f64::from(x.sample(sample)[i]) + added.map_or(0.0, |p| f64::from(p[i]));
                (pivot + first, (second - first * first).max(0.0))
            })
            .collect();
        for group in moments.chunks_exact(c / self.groups) {
            let count = group.len() as f64;
            let mean = group.iter().map(|m| m.0).sum::<f64>() / count;
            let variance = group.iter().map(|m| m.1 + (m.0 - mean).powi(2)).sum::<f64>() / count;
            self.mean.push(mean as f32);
            self.inverse.push((1.0 / (variance + f64::from(eps)).sqrt()) as f32);
        }
        self.channel_mean.extend(moments.iter().map(|m| m.0 as f32));
    }

    /// Mean of a sample's group.
    pub(super) fn mean(&self, sample: usize, group: usize) -> f32 {
        self.mean[sample * self.groups + group]
    }

    /// `1/√(v + ε)` of a sample's group.
    pub(super) fn inverse(&self, sample: usize, group: usize) -> f32 {
        self.inverse[sample * self.groups + group]
    }

    /// Mean over pixels of one channel of a sample (bias included).
    pub(super) fn channel_mean(&self, sample: usize, channel: usize) -> f32 {
        self.channel_mean[sample * self.channels + channel]
    }
}

/// `[n, chunks, 2, c]`: sums of pivoted values and of their squares.
fn chunk_sums(x: &Act) -> Buffer {
    let (shape, isa) = (x.shape(), Isa::active());
    let pixels = chunk_pixels(shape);
    let (chunks, c) = (shape.pixels().div_ceil(pixels), shape.c);
    let mut sums = Buffer::zeros(shape.n * chunks * 2 * c);
    let shared = Disjoint::new(&mut sums);
    for_each(shape.n * chunks, |item| {
        let (start, len) = chunk_range(shape, pixels, item / chunks, item % chunks);
        // SAFETY: one pair of rows per item.
        let (first, second) = unsafe { shared.part(item * 2 * c, 2 * c) }.split_at_mut(c);
        let pivot = &x.sample(item / chunks)[..c];
        isa.vectorize(
            #[inline(always)]
            || add_pivoted(&x.data()[start..start + len], pivot, first, second),
        );
    });
    sums
}

#[inline(always)]
fn add_pivoted(x: &[f32], pivot: &[f32], first: &mut [f32], second: &mut [f32]) {
    for pixel in x.chunks_exact(pivot.len()) {
        for (((x, pivot), first), second) in pixel.iter().zip(pivot).zip(first.iter_mut()).zip(second.iter_mut()) {
            let d = x - pivot;
            *first += d;
            *second += d * d;
        }
    }
}
