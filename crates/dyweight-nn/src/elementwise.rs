//! Sums and scalings of activations.

use rayon::prelude::*;

use crate::act::{Act, Shape};
use crate::activation::{map, zip};
use crate::isa::Isa;
use crate::parallel::{CHUNK, Disjoint, for_each};

/// `to = to + weight·from`.
#[inline(always)]
pub(crate) fn axpy(to: &mut [f32], weight: f32, from: &[f32]) {
    for (to, x) in to.iter_mut().zip(from) {
        *to += weight * x;
    }
}

/// `(a + b)·scale`.
pub fn add_scaled(a: &Act, b: &Act, scale: f32) -> Act {
    zip(
        a,
        b,
        #[inline(always)]
        move |a, b| (a + b) * scale,
    )
}

/// `a·scale`.
pub fn scaled(a: &Act, scale: f32) -> Act {
    map(
        a,
        #[inline(always)]
        move |a| a * scale,
    )
}

impl Act {
    /// `self = self + other`.
    pub fn add_assign(&mut self, other: &Act) {
        assert_eq!(self.shape(), other.shape(), "shapes of a sum");
        let isa = Isa::active();
        self.data_mut().par_chunks_mut(CHUNK).zip(other.data().par_chunks(CHUNK)).for_each(|(y, x)| {
            isa.vectorize(
                #[inline(always)]
                || axpy(y, 1.0, x),
            );
        });
    }

    /// `self = self·scale`.
    pub fn scale_assign(&mut self, scale: f32) {
        let isa = Isa::active();
        self.data_mut().par_chunks_mut(CHUNK).for_each(|y| {
            isa.vectorize(
                #[inline(always)]
                || {
                    for y in y.iter_mut() {
                        *y *= scale;
                    }
                },
            );
        });
    }
}

/// `x + p`, with `p` (`[n, 1, 1, c]`) one value per sample and channel.
pub fn add_per_sample(x: &Act, p: &Act) -> Act {
    let shape = x.shape();
    assert_eq!(p.shape(), shape.with_size([1, 1]), "per-sample vector");
    let mut y = Act::stale(shape);
    let isa = Isa::active();
    let line = shape.w * shape.c;
    y.data_mut().par_chunks_mut(line).zip(x.data().par_chunks(line)).enumerate().for_each(|(row, (y, x))| {
        let p = p.sample(row / shape.h);
        isa.vectorize(
            #[inline(always)]
            || {
                for (y, x) in y.chunks_exact_mut(shape.c).zip(x.chunks_exact(shape.c)) {
                    for (y, (x, p)) in y.iter_mut().zip(x.iter().zip(p)) {
                        *y = x + p;
                    }
                }
            },
        );
    });
    y
}

/// Sum over the pixels of each sample and channel, `[n, 1, 1, c]`: the gradient of a per-sample vector.
pub fn spatial_sum(x: &Act) -> Act {
    let Shape { n, c, .. } = x.shape();
    let mut sums = Act::zeros(x.shape().with_size([1, 1]));
    let isa = Isa::active();
    let shared = Disjoint::new(sums.data_mut());
    for_each(n, |sample| {
        // SAFETY: one sample's vector per item.
        let sum = unsafe { shared.part(sample * c, c) };
        isa.vectorize(
            #[inline(always)]
            || {
                for pixel in x.sample(sample).chunks_exact(c.max(1)) {
                    axpy(sum, 1.0, pixel);
                }
            },
        );
    });
    sums
}
