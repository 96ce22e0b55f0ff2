//! The orthonormal cosine transform (DCT-II) of every channel, as two products with matrices.
//!
//! ```text
//! C_N[k][n] = √(2/N)·cos(π(2n+1)k/(2N)), row 0 by √½ less        Z = C_h X C_wᵀ      X = C_hᵀ Z C_w
//! ```
//!
//! Its inverse is its adjoint.

use dyweight_core::tape::LinearMap;
use std::f64::consts::PI;
use std::sync::Arc;

/// The matrices of one size of picture, with their transposes.
pub(super) struct Matrices {
    height: [Vec<f64>; 2],
    width: [Vec<f64>; 2],
}

impl Matrices {
    pub fn new(height: usize, width: usize) -> Self {
        Self { height: both(height), width: both(width) }
    }
}

/// C_N and its transpose.
fn both(n: usize) -> [Vec<f64>; 2] {
    let entry = |k: usize, at: usize| {
        let scale = if k == 0 { 1.0 } else { 2.0 } / n as f64;
        scale.sqrt() * libm::cos(PI * ((2 * at + 1) * k) as f64 / (2 * n) as f64)
    };
    let matrix = (0..n * n).map(|i| entry(i / n, i % n)).collect();
    let transposed = (0..n * n).map(|i| entry(i % n, i / n)).collect();
    [matrix, transposed]
}

/// The transform, or its inverse. It has no coefficients.
pub(super) struct Cosine {
    pub matrices: Arc<Matrices>,
    pub inverse: bool,
}

impl Cosine {
    fn transform(&self, x: &[f64], [_, h, w]: [usize; 3], inverse: bool) -> Vec<f64> {
        let (left, right) = (&self.matrices.height[usize::from(inverse)], &self.matrices.width[usize::from(!inverse)]);
        let channel = |x: &[f64]| product(left, &product(x, right, w), h);
        x.chunks(h * w).flat_map(channel).collect()
    }
}

/// A·B with `inner` columns of A.
fn product(a: &[f64], b: &[f64], inner: usize) -> Vec<f64> {
    let columns = b.len() / inner;
    let mut out = vec![0.0; a.len() / inner * columns];
    for (out, a) in out.chunks_mut(columns).zip(a.chunks(inner)) {
        for (a, b) in a.iter().zip(b.chunks(columns)) {
            out.iter_mut().zip(b).for_each(|(o, b)| *o += a * b);
        }
    }
    out
}

impl LinearMap for Cosine {
    fn apply(&self, _: &[f64], x: &[f64], shape: [usize; 3]) -> Vec<f64> {
        self.transform(x, shape, self.inverse)
    }

    fn adjoint(&self, _: &[f64], cotangent: &[f64], shape: [usize; 3]) -> Vec<f64> {
        self.transform(cotangent, shape, !self.inverse)
    }

    fn coefficient_adjoint(&self, _: &[f64], _: &[f64], _: [usize; 3]) -> Vec<f64> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Stream;

    #[test]
    fn there_and_back_and_the_mean_first() {
        let (shape, x) = ([2, 5, 3], Stream::new(4).normals(30));
        let there = Cosine { matrices: Arc::new(Matrices::new(5, 3)), inverse: false };
        let z = there.apply(&[], &x, shape);
        let energy = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>();
        assert!((energy(&z) - energy(&x)).abs() < 1e-12);
        let mean = x[..15].iter().sum::<f64>() / 15f64.sqrt();
        assert!((z[0] - mean).abs() < 1e-12);
        let back = Cosine { inverse: true, matrices: there.matrices }.apply(&[], &z, shape);
        assert!(back.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}
