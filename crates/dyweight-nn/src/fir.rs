//! Resampling by two with a separable filter (Karras et al., EDM; the filters of DDPM++ and NCSN++).
//!
//! ```text
//! g = f/Σf,  pad = ⌊(n−1)/2⌋
//! down:  y[i] = Σ_k g[k]·x[2i + k − pad]                     per axis, zeros outside
//! up:    y[o] = Σ_{2i+k−pad = o} 2·g[k]·x[i]                 per axis
//! ```
//!
//! Each is the other's adjoint up to the factor 2 per axis, so two kernels serve both and both gradients.

use crate::act::{Act, Shape};
use crate::elementwise::axpy;
use crate::error::{Error, Result};
use crate::isa::Isa;
use crate::parallel::{Disjoint, for_each};

/// A resampling filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Fir {
    taps: Vec<f32>,
}

impl Fir {
    /// From unnormalised taps such as `[1, 1]` or `[1, 3, 3, 1]`; their number must be even.
    pub fn new(taps: &[f32]) -> Result<Self> {
        if taps.is_empty() || !taps.len().is_multiple_of(2) {
            return Err(Error::Size { what: "number of filter taps", found: taps.len() });
        }
        let sum: f32 = taps.iter().sum();
        Ok(Self { taps: taps.iter().map(|t| t / sum).collect() })
    }

    /// The padding that makes `down` halve and `up` double a size exactly.
    pub fn padding(&self) -> usize {
        (self.taps.len() - 1) / 2
    }

    /// Halves rows and columns (of an even size).
    pub fn down(&self, x: &Act) -> Act {
        self.down_padded(x, self.padding())
    }

    /// `down` with another padding on all sides: 0 for the second half of a convolution fused with it.
    pub fn down_padded(&self, x: &Act, padding: usize) -> Act {
        let size = x.size().map(|len| self.down_len(len, padding));
        self.gather(x, x.shape().with_size(size), padding, 1.0)
    }

    /// Gradient of `down`'s input.
    pub fn down_backward(&self, gy: &Act) -> Act {
        self.down_padded_backward(gy, self.padding(), gy.size().map(|len| 2 * len))
    }

    /// Gradient of `down_padded`'s input, which had rows and columns `input_size`.
    pub fn down_padded_backward(&self, gy: &Act, padding: usize, input_size: [usize; 2]) -> Act {
        assert_eq!(gy.size(), input_size.map(|len| self.down_len(len, padding)), "size of a resampled gradient");
        self.spread(gy, gy.shape().with_size(input_size), padding, 1.0)
    }

    /// Doubles rows and columns.
    pub fn up(&self, x: &Act) -> Act {
        self.spread(x, x.shape().with_size(x.size().map(|len| 2 * len)), self.padding(), 4.0)
    }

    /// Gradient of `up`'s input.
    pub fn up_backward(&self, gy: &Act) -> Act {
        let size = gy.size().map(|len| self.down_len(len, self.padding()));
        self.gather(gy, gy.shape().with_size(size), self.padding(), 4.0)
    }

    fn down_len(&self, len: usize, padding: usize) -> usize {
        let padded = len + 2 * padding;
        assert!(padded >= self.taps.len(), "{} taps on {len} pixels", self.taps.len());
        (padded - self.taps.len()) / 2 + 1
    }

    /// `y[i, j] = gain · Σ_{a,b} g[a]·g[b]·x[2i + a − pad, 2j + b − pad]`.
    fn gather(&self, x: &Act, shape: Shape, padding: usize, gain: f32) -> Act {
        self.resample(x, shape, gain, |out, len| {
            let taps = 0..self.taps.len();
            taps.filter_map(move |k| Some(((2 * out + k).checked_sub(padding).filter(|i| *i < len)?, k))).collect()
        })
    }

    /// `y[i, j] = gain · Σ g[a]·g[b]·x[u, v]` over all `2u + a − pad = i`, `2v + b − pad = j`.
    fn spread(&self, x: &Act, shape: Shape, padding: usize, gain: f32) -> Act {
        self.resample(x, shape, gain, |out, len| {
            let taps = (0..self.taps.len()).filter(|k| (out + padding) >= *k && (out + padding - k).is_multiple_of(2));
            taps.map(|k| ((out + padding - k) / 2, k)).filter(|(i, _)| *i < len).collect()
        })
    }

    /// Sums, for each output pixel, the input pixels and taps that `sources(output index, input length)` lists per
    /// axis.
    fn resample(&self, x: &Act, shape: Shape, gain: f32, sources: impl Fn(usize, usize) -> Vec<(usize, usize)>) -> Act {
        let from = x.shape();
        let rows: Vec<_> = (0..shape.h).map(|i| sources(i, from.h)).collect();
        let columns: Vec<_> = (0..shape.w).map(|i| sources(i, from.w)).collect();
        let mut y = Act::stale(shape);
        let (isa, line) = (Isa::active(), shape.w * shape.c);
        let shared = Disjoint::new(y.data_mut());
        for_each(shape.n * shape.h, |item| {
            // SAFETY: one image row per item.
            let to = unsafe { shared.part(item * line, line) };
            let (sample, row) = (x.sample(item / shape.h), &rows[item % shape.h]);
            isa.vectorize(
                #[inline(always)]
                || {
                    for (to, column) in to.chunks_exact_mut(shape.c).zip(&columns) {
                        to.fill(0.0);
                        for (u, a) in row {
                            for (v, b) in column {
                                let weight = gain * self.taps[*a] * self.taps[*b];
                                let pixel = &sample[(u * from.w + v) * from.c..][..from.c];
                                axpy(to, weight, pixel);
                            }
                        }
                    }
                },
            );
        });
        y
    }
}
