//! Layer norm with scale and shift per sample; formulas at the head of the parent module.

use super::layer::{LayerNorm, moments, normalise, pull};
use crate::act::Act;
use crate::buffer::Buffer;
use crate::isa::Isa;
use crate::norm::{chunk_pixels, chunk_range};
use crate::parallel::{Disjoint, for_each};
use crate::reduce::total_by_sample;

/// Gradients of a modulated layer norm's inputs.
#[derive(Clone, Debug)]
pub struct ModulatedGrad {
    /// Of the tokens.
    pub x: Act,
    /// Of the scale, `[n, 1, 1, c]`.
    pub scale: Act,
    /// Of the shift, `[n, 1, 1, c]`.
    pub shift: Act,
}

impl LayerNorm {
    /// `(1 + scale)·norm(x) + shift`, both `[n, 1, 1, c]`.
    pub fn forward_modulated(&self, x: &Act, scale: &Act, shift: &Act) -> Act {
        self.check_modulation(x, scale);
        self.check_modulation(x, shift);
        let (shape, isa, tokens) = (x.shape(), Isa::active(), chunk_pixels(x.shape()));
        let offsets: Vec<_> = (0..shape.n).map(|n| self.offset(scale.sample(n), shift.sample(n))).collect();
        let gains = self.gains(scale);
        let chunks = shape.pixels().div_ceil(tokens);
        let mut y = Act::stale(shape);
        let shared = Disjoint::new(y.data_mut());
        for_each(shape.n * chunks, |item| {
            let (start, len) = chunk_range(shape, tokens, item / chunks, item % chunks);
            // SAFETY: chunks are disjoint.
            let y = unsafe { shared.part(start, len) };
            let (gain, offset) = (&gains[item / chunks], &offsets[item / chunks]);
            isa.vectorize(
                #[inline(always)]
                || {
                    let rows = y.chunks_exact_mut(shape.c).zip(x.data()[start..start + len].chunks_exact(shape.c));
                    for (y, x) in rows {
                        normalise(y, x, self.eps, gain, offset);
                    }
                },
            );
        });
        y
    }

    /// Gradients of [`forward_modulated`](Self::forward_modulated)'s inputs; the shift itself is not needed.
    pub fn backward_modulated(&self, x: &Act, scale: &Act, gy: &Act) -> ModulatedGrad {
        self.check_modulation(x, scale);
        assert_eq!(gy.shape(), x.shape(), "a normalisation's output gradient");
        let (shape, isa, tokens) = (x.shape(), Isa::active(), chunk_pixels(x.shape()));
        let (c, chunks, gains) = (shape.c, shape.pixels().div_ceil(tokens), self.gains(scale));
        let mut gx = Act::stale(shape);
        let mut sums = Buffer::zeros(shape.n * chunks * 2 * c);
        let (to, to_sums) = (Disjoint::new(gx.data_mut()), Disjoint::new(&mut sums));
        for_each(shape.n * chunks, |item| {
            let (start, len) = chunk_range(shape, tokens, item / chunks, item % chunks);
            // SAFETY: chunks, and their pairs of sums, are disjoint.
            let (gx, sums) = unsafe { (to.part(start, len), to_sums.part(item * 2 * c, 2 * c)) };
            let (weighted, plain) = sums.split_at_mut(c);
            let inputs =
                x.data()[start..start + len].chunks_exact(c).zip(gy.data()[start..start + len].chunks_exact(c));
            isa.vectorize(
                #[inline(always)]
                || {
                    for (gx, (x, gy)) in gx.chunks_exact_mut(c).zip(inputs) {
                        pull(gx, x, gy, self.eps, &gains[item / chunks]);
                        self.add_modulation(weighted, plain, x, gy);
                    }
                },
            );
        });
        let [scale, shift] = total_by_sample(&sums, shape.n, c);
        ModulatedGrad { x: gx, scale, shift }
    }

    /// Adds one token's part of the gradients of scale and shift.
    #[inline(always)]
    fn add_modulation(&self, weighted: &mut [f32], plain: &mut [f32], x: &[f32], gy: &[f32]) {
        let (mean, inverse) = moments(x, self.eps);
        let sums = weighted.iter_mut().zip(plain.iter_mut());
        let weights = self.weight.iter().zip(&self.bias);
        for (((weighted, plain), (x, gy)), (weight, bias)) in sums.zip(x.iter().zip(gy)).zip(weights) {
            *weighted += gy * ((x - mean) * inverse * weight + bias);
            *plain += gy;
        }
    }

    fn check_modulation(&self, x: &Act, vector: &Act) {
        self.check(x);
        assert_eq!(vector.shape(), x.shape().with_size([1, 1]), "scale or shift of a normalisation");
    }

    fn gains(&self, scale: &Act) -> Vec<Vec<f32>> {
        let gain = |n: usize| self.weight.iter().zip(scale.sample(n)).map(|(w, s)| w * (1.0 + s)).collect();
        (0..scale.shape().n).map(gain).collect()
    }

    fn offset(&self, scale: &[f32], shift: &[f32]) -> Vec<f32> {
        self.bias.iter().zip(scale.iter().zip(shift)).map(|(b, (scale, shift))| b * (1.0 + scale) + shift).collect()
    }
}
