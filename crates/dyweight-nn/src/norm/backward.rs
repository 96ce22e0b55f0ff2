//! Input gradient of the group normalisation; formulas at the head of the parent module.

use super::{Activation, Affine, GroupNorm, Modulation, NormStats, chunk_pixels, chunk_range};
use crate::act::{Act, Shape};
use crate::activation::silu_slope;
use crate::buffer::Buffer;
use crate::elementwise::axpy;
use crate::isa::Isa;
use crate::parallel::{Disjoint, for_each};

/// Gradients of a normalisation's inputs.
#[derive(Clone, Debug)]
pub struct NormGrad {
    /// Of the activation.
    pub x: Act,
    /// Of the modulation, in its layout: `[n, 1, 1, c]` for a bias, `[n, 1, 1, 2c]` for scale and shift.
    pub modulation: Option<Act>,
}

/// Per channel of one sample: `gx = gz·direct + x·linear + constant`.
struct Pull {
    direct: Vec<f32>,
    linear: Vec<f32>,
    constant: Vec<f32>,
}

impl GroupNorm {
    /// Gradients from that of the output; `x`, `modulation` and `stats` are those of the forward pass.
    ///
    /// With `residual = (r, s)`, `s·r` is added to the gradient of `x` in the same pass (and to nothing else).
    pub fn backward(
        &self,
        x: &Act,
        stats: &NormStats,
        modulation: Modulation<'_>,
        gy: &Act,
        residual: Option<(&Act, f32)>,
    ) -> NormGrad {
        self.check(x.shape(), modulation);
        assert_eq!(gy.shape(), x.shape(), "a normalisation's output gradient");
        let affines: Vec<_> = (0..x.shape().n).map(|n| self.affine(stats, modulation, n)).collect();
        let (mut gx, sums) = self.pull_activation(x, gy, &affines);
        let mut vectors = self.empty_modulation(x.shape(), modulation);
        let pulls: Vec<_> = affines
            .iter()
            .enumerate()
            .map(|(n, affine)| {
                let to = vectors.as_mut().map(|v| {
                    let len = v.shape().sample_len();
                    &mut v.data_mut()[n * len..][..len]
                });
                self.pull_sample(x.shape(), stats, n, affine, &sums[n], to)
            })
            .collect();
        finish(x, &mut gx, &pulls, residual);
        NormGrad { x: gx, modulation: vectors }
    }

    fn empty_modulation(&self, shape: Shape, modulation: Modulation<'_>) -> Option<Act> {
        match modulation {
            Modulation::None => None,
            Modulation::Bias(_) => Some(Act::stale(shape.with_size([1, 1]))),
            Modulation::ScaleShift(_) => Some(Act::stale(shape.with_size([1, 1]).with_channels(2 * shape.c))),
        }
    }

    /// `gz`, and per sample `[Σ gz, Σ gz·x̂]` by channel.
    fn pull_activation(&self, x: &Act, gy: &Act, affines: &[Affine]) -> (Act, Vec<Vec<f64>>) {
        let (shape, isa) = (x.shape(), Isa::active());
        let (c, pixels) = (shape.c, chunk_pixels(shape));
        let chunks = shape.pixels().div_ceil(pixels);
        let mut gz = Act::stale(shape);
        let mut sums = Buffer::zeros(shape.n * chunks * 2 * c);
        let (to, to_sums) = (Disjoint::new(gz.data_mut()), Disjoint::new(&mut sums));
        for_each(shape.n * chunks, |item| {
            let (start, len) = chunk_range(shape, pixels, item / chunks, item % chunks);
            // SAFETY: chunks, and their pairs of sums, are disjoint.
            let (gz, sums) = unsafe { (to.part(start, len), to_sums.part(item * 2 * c, 2 * c)) };
            let (x, gy) = (&x.data()[start..start + len], &gy.data()[start..start + len]);
            let affine = &affines[item / chunks];
            match self.activation {
                Activation::None => isa.vectorize(
                    #[inline(always)]
                    || {
                        pull_chunk(
                            x,
                            gy,
                            affine,
                            gz,
                            sums,
                            #[inline(always)]
                            |_| 1.0,
                        )
                    },
                ),
                Activation::Silu => isa.vectorize(
                    #[inline(always)]
                    || pull_chunk(x, gy, affine, gz, sums, silu_slope),
                ),
            }
        });
        let total = |n: usize, i: usize| {
            (0..chunks).map(|chunk| f64::from(sums[(n * chunks + chunk) * 2 * c + i])).sum::<f64>()
        };
        let totals = (0..shape.n).map(|n| (0..2 * c).map(|i| total(n, i)).collect()).collect();
        (gz, totals)
    }

    /// The last pass's coefficients for one sample, and its part of the modulation's gradient.
    fn pull_sample(
        &self,
        shape: Shape,
        stats: &NormStats,
        n: usize,
        affine: &Affine,
        sums: &[f64],
        vectors: Option<&mut [f32]>,
    ) -> Pull {
        let (c, pixels) = (shape.c, shape.pixels() as f64);
        let per_group = c / self.groups;
        let (plain, weighted) = sums.split_at(c);
        let mut pull = Pull { direct: vec![0.0; c], linear: vec![0.0; c], constant: vec![0.0; c] };
        let mut sum_gx = vec![0.0; c];
        for group in (0..c).step_by(per_group).map(|first| first..first + per_group) {
            let count = pixels * per_group as f64;
            let mean = |s: &[f64]| group.clone().map(|i| f64::from(affine.gain[i]) * s[i]).sum::<f64>() / count;
            let (m1, m2) = (mean(plain), mean(weighted));
            for i in group.clone() {
                let (inverse, offset) = (f64::from(affine.inverse[i]), f64::from(affine.offset[i]));
                pull.direct[i] = affine.inverse[i] * affine.gain[i];
                pull.linear[i] = (-inverse * m2 * inverse) as f32;
                pull.constant[i] = (-inverse * (m1 + m2 * offset)) as f32;
                // Σ_pixels x̂ of the channel: its mean against the group's.
                let centred = f64::from(stats.channel_mean(n, i) - stats.mean(n, i / per_group)) * inverse * pixels;
                sum_gx[i] = inverse * (f64::from(affine.gain[i]) * plain[i] - m1 * pixels - m2 * centred);
            }
        }
        match vectors {
            Some(to) if to.len() == c => to.iter_mut().zip(&sum_gx).for_each(|(to, s)| *to = *s as f32),
            Some(to) => {
                for i in 0..c {
                    to[i] = (f64::from(self.weight[i]) * weighted[i] + f64::from(self.bias[i]) * plain[i]) as f32;
                    to[c + i] = plain[i] as f32;
                }
            }
            None => {}
        }
        pull
    }
}

#[inline(always)]
fn pull_chunk(x: &[f32], gy: &[f32], affine: &Affine, gz: &mut [f32], sums: &mut [f32], slope_at: impl Fn(f32) -> f32) {
    let c = affine.slope.len();
    let (plain, weighted) = sums.split_at_mut(c);
    let (slope, shift) = (&affine.slope[..c], &affine.shift[..c]);
    let (inverse, offset) = (&affine.inverse[..c], &affine.offset[..c]);
    let (plain, weighted) = (&mut plain[..c], &mut weighted[..c]);
    for ((x, gy), gz) in x.chunks_exact(c).zip(gy.chunks_exact(c)).zip(gz.chunks_exact_mut(c)) {
        for i in 0..c {
            let g = gy[i] * slope_at(x[i] * slope[i] + shift[i]);
            gz[i] = g;
            plain[i] += g;
            weighted[i] += g * (x[i] * inverse[i] + offset[i]);
        }
    }
}

/// From `gz` to `gx`, in place.
fn finish(x: &Act, gz: &mut Act, pulls: &[Pull], residual: Option<(&Act, f32)>) {
    let (shape, isa, pixels) = (x.shape(), Isa::active(), chunk_pixels(x.shape()));
    let chunks = shape.pixels().div_ceil(pixels);
    if let Some((r, _)) = residual {
        assert_eq!(r.shape(), shape, "residual of a normalisation's gradient");
    }
    let shared = Disjoint::new(gz.data_mut());
    for_each(shape.n * chunks, |item| {
        let (start, len) = chunk_range(shape, pixels, item / chunks, item % chunks);
        // SAFETY: chunks are disjoint.
        let g = unsafe { shared.part(start, len) };
        let (x, pull) = (&x.data()[start..start + len], &pulls[item / chunks]);
        isa.vectorize(
            #[inline(always)]
            || finish_chunk(x, g, pull),
        );
        if let Some((r, scale)) = residual {
            let r = &r.data()[start..start + len];
            isa.vectorize(
                #[inline(always)]
                || axpy(g, scale, r),
            );
        }
    });
}

#[inline(always)]
fn finish_chunk(x: &[f32], g: &mut [f32], pull: &Pull) {
    let c = pull.direct.len();
    let (direct, linear, constant) = (&pull.direct[..c], &pull.linear[..c], &pull.constant[..c]);
    for (x, g) in x.chunks_exact(c).zip(g.chunks_exact_mut(c)) {
        for i in 0..c {
            g[i] = g[i] * direct[i] + x[i] * linear[i] + constant[i];
        }
    }
}
