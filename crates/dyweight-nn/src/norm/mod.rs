//! Group normalisation (Wu & He 2018), fused with what stands around it in diffusion U-Nets.
//!
//! Per sample, over the pixels and channels of one group (mean μ, biased variance v):
//!
//! ```text
//! x̂ = (x + p − μ)/√(v + ε)                     p: optional, one value per sample and channel, part of μ and v
//! z = (x̂·weight + bias)·(1 + a) + b            a, b: optional, per sample and channel
//! y = z   or   z·sigmoid(z)
//! ```
//!
//! Gradient, with gz = gy·y'(z), γ = weight·(1 + a), ⟨·⟩ the mean over the group:
//!
//! ```text
//! gx = ( γ·gz − ⟨γ·gz⟩ − x̂·⟨γ·gz·x̂⟩ )/√(v + ε)
//! gp = Σ_pixels gx,   gb = Σ_pixels gz,   ga = Σ_pixels gz·(x̂·weight + bias)
//! ```
//!
//! All need just two sums over pixels per channel, `Σ gz` and `Σ gz·x̂`.

mod backward;
mod stats;

use crate::act::{Act, Shape};
use crate::activation::sigmoid;
use crate::error::{Result, check_groups, check_len};
use crate::isa::Isa;
use crate::parallel::{Disjoint, for_each};

pub use backward::NormGrad;
pub use stats::NormStats;

/// What follows a normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    None,
    /// `z·sigmoid(z)`.
    Silu,
}

/// What the network's embedding does to a normalisation.
#[derive(Clone, Copy, Debug)]
pub enum Modulation<'a> {
    /// Nothing.
    None,
    /// `p` (`[n, 1, 1, c]`), added before normalising.
    Bias(&'a Act),
    /// `[a, b]` (`[n, 1, 1, 2c]`): the normalised value times `1 + a` plus `b`.
    ScaleShift(&'a Act),
}

/// A group normalisation with frozen weights.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    groups: usize,
    eps: f32,
    weight: Vec<f32>,
    bias: Vec<f32>,
    activation: Activation,
}

/// Per channel of one sample: `x̂ = x·inverse + offset`, `z = x·slope + shift`, `γ = gain`.
struct Affine {
    inverse: Vec<f32>,
    offset: Vec<f32>,
    slope: Vec<f32>,
    shift: Vec<f32>,
    gain: Vec<f32>,
}

impl GroupNorm {
    /// `groups` groups of consecutive channels; `weight` and `bias` have one entry per channel.
    pub fn new(groups: usize, eps: f32, weight: &[f32], bias: &[f32], activation: Activation) -> Result<Self> {
        check_len("normalisation bias", weight.len(), bias.len())?;
        check_groups(weight.len(), groups)?;
        Ok(Self { groups, eps, weight: weight.to_vec(), bias: bias.to_vec(), activation })
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.weight.len()
    }

    /// The normalised activation, and the statistics [`backward`](Self::backward) needs.
    pub fn forward(&self, x: &Act, modulation: Modulation<'_>) -> (Act, NormStats) {
        self.check(x.shape(), modulation);
        let stats = NormStats::of(x, self.groups, self.eps, modulation);
        let affines: Vec<_> = (0..x.shape().n).map(|n| self.affine(&stats, modulation, n)).collect();
        let (shape, isa, chunk) = (x.shape(), Isa::active(), chunk_pixels(x.shape()));
        let mut y = Act::stale(shape);
        let shared = Disjoint::new(y.data_mut());
        let chunks = shape.pixels().div_ceil(chunk);
        for_each(shape.n * chunks, |item| {
            let (start, len) = chunk_range(shape, chunk, item / chunks, item % chunks);
            // SAFETY: chunks are disjoint.
            let to = unsafe { shared.part(start, len) };
            let from = &x.data()[start..start + len];
            let Affine { slope, shift, .. } = &affines[item / chunks];
            match self.activation {
                Activation::None => apply(
                    isa,
                    (from, to),
                    (slope, shift),
                    #[inline(always)]
                    |z| z,
                ),
                Activation::Silu => apply(
                    isa,
                    (from, to),
                    (slope, shift),
                    #[inline(always)]
                    |z| z * sigmoid(z),
                ),
            }
        });
        (y, stats)
    }

    fn check(&self, shape: Shape, modulation: Modulation<'_>) {
        let c = self.channels();
        assert_eq!(shape.c, c, "channels of a normalisation's input");
        match modulation {
            Modulation::None => {}
            Modulation::Bias(p) => assert_eq!(p.shape(), Shape { h: 1, w: 1, ..shape }, "bias of a normalisation"),
            Modulation::ScaleShift(p) => {
                assert_eq!(p.shape(), Shape { h: 1, w: 1, c: 2 * c, ..shape }, "scale and shift of a normalisation");
            }
        }
    }

    fn affine(&self, stats: &NormStats, modulation: Modulation<'_>, n: usize) -> Affine {
        let c = self.channels();
        let per_group = c / self.groups;
        let added = |i: usize| if let Modulation::Bias(p) = modulation { p.sample(n)[i] } else { 0.0 };
        let (scale, shift): (&[f32], &[f32]) = match modulation {
            Modulation::ScaleShift(p) => p.sample(n).split_at(c),
            _ => (&[], &[]),
        };
        let at = |v: &[f32], i: usize| v.get(i).copied().unwrap_or(0.0);
        let inverse: Vec<f32> = (0..c).map(|i| stats.inverse(n, i / per_group)).collect();
        let offset: Vec<f32> = (0..c).map(|i| (added(i) - stats.mean(n, i / per_group)) * inverse[i]).collect();
        let gain: Vec<f32> = (0..c).map(|i| self.weight[i] * (1.0 + at(scale, i))).collect();
        let slope = (0..c).map(|i| inverse[i] * gain[i]).collect();
        let shift = (0..c).map(|i| offset[i] * gain[i] + self.bias[i] * (1.0 + at(scale, i)) + at(shift, i)).collect();
        Affine { inverse, offset, slope, shift, gain }
    }
}

#[inline(always)]
fn apply(isa: Isa, (from, to): (&[f32], &mut [f32]), (slope, shift): (&[f32], &[f32]), f: impl Fn(f32) -> f32 + Copy) {
    isa.vectorize(
        #[inline(always)]
        || {
            for (to, from) in to.chunks_exact_mut(slope.len()).zip(from.chunks_exact(slope.len())) {
                for (((to, x), a), b) in to.iter_mut().zip(from).zip(slope).zip(shift) {
                    *to = f(x * a + b);
                }
            }
        },
    );
}

/// Pixels per task: a function of one sample's shape alone, since sums are cut the same way.
pub(crate) fn chunk_pixels(shape: Shape) -> usize {
    const FLOATS: usize = 16_384;
    (FLOATS / shape.c.max(1)).clamp(1, 256)
}

/// Start and length of a chunk of one sample, in floats.
pub(crate) fn chunk_range(shape: Shape, pixels: usize, sample: usize, chunk: usize) -> (usize, usize) {
    let first = chunk * pixels;
    let count = pixels.min(shape.pixels() - first);
    (sample * shape.sample_len() + first * shape.c, count * shape.c)
}
