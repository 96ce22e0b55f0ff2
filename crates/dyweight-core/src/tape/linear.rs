//! Linear maps on a sample whose coefficients can be learned: y = Σᵢ cᵢ·Mᵢx with fixed maps Mᵢ.

use crate::coeff::Coeff;
use crate::tensor::Tensor;

/// The maps Mᵢ, on the entries of one sample of shape `[c, h, w]`.
pub trait LinearMap: Send + Sync {
    /// y = Σᵢ cᵢ·Mᵢx.
    fn apply(&self, coeffs: &[f64], x: &[f64], shape: [usize; 3]) -> Vec<f64>;

    /// x̄ = Σᵢ cᵢ·Mᵢᵀȳ.
    fn adjoint(&self, coeffs: &[f64], cotangent: &[f64], shape: [usize; 3]) -> Vec<f64>;

    /// c̄ᵢ = ⟨ȳ, Mᵢx⟩ for every coefficient.
    fn coefficient_adjoint(&self, x: &[f64], cotangent: &[f64], shape: [usize; 3]) -> Vec<f64>;
}

pub(super) fn apply(map: &dyn LinearMap, coeffs: &[Coeff], x: &Tensor) -> Tensor {
    by_sample(x, coeffs, |coeffs, x, shape| map.apply(coeffs, x, shape))
}

/// ∂L/∂x, and for each coefficient its derivative per sample.
pub(super) fn pull_back(
    map: &dyn LinearMap,
    coeffs: &[Coeff],
    x: &Tensor,
    adjoint: &Tensor,
) -> (Tensor, Vec<Vec<f64>>) {
    let to_x = by_sample(adjoint, coeffs, |coeffs, g, shape| map.adjoint(coeffs, g, shape));
    let [_, c, h, w] = x.shape();
    let each = |i: usize| map.coefficient_adjoint(x.sample(i), adjoint.sample(i), [c, h, w]);
    let rows: Vec<Vec<f64>> = (0..x.samples()).map(each).collect();
    (to_x, (0..coeffs.len()).map(|k| rows.iter().map(|row| row[k]).collect()).collect())
}

fn by_sample(x: &Tensor, coeffs: &[Coeff], f: impl Fn(&[f64], &[f64], [usize; 3]) -> Vec<f64>) -> Tensor {
    let [_, c, h, w] = x.shape();
    let mut out = x.clone();
    let len = x.sample_len().max(1);
    for (i, y) in out.data_mut().chunks_mut(len).enumerate() {
        let numbers: Vec<f64> = coeffs.iter().map(|k| k.of(i)).collect();
        y.copy_from_slice(&f(&numbers, x.sample(i), [c, h, w]));
    }
    out
}
