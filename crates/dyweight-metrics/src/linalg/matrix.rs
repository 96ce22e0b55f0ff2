//! Plain matrices, stored column by column.

use super::{Eigen, Symmetric};
use crate::linalg::dense::{MatMut, MatRef, multiply};
use dyweight_core::error::Result;
use rayon::prelude::*;

/// Columns of a product that one task computes.
const PANEL: usize = 128;
/// Eigenvalues of AAᵀ below this part of the largest have lost too much to be rooted: at this bound the root errs by
/// ε/(2·10⁻⁶) ≈ 10⁻¹⁰ of the largest.
const SQUARED_LOSS: f64 = 1e-12;

/// A matrix, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f64>,
}

impl Matrix {
    /// The matrix whose entry (i, j) is `f(i, j)`.
    pub fn from_fn(rows: usize, cols: usize, f: impl Fn(usize, usize) -> f64) -> Self {
        let data = (0..cols).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|(i, j)| f(i, j)).collect();
        Self { rows, cols, data }
    }

    pub(super) fn from_columns(rows: usize, data: Vec<f64>) -> Self {
        Self { rows, cols: data.len().checked_div(rows).unwrap_or(0), data }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Column j.
    pub fn column(&self, j: usize) -> &[f64] {
        &self.data[j * self.rows..(j + 1) * self.rows]
    }

    /// The columns from `first` on, each times a factor of its own.
    pub(crate) fn scaled_columns(&self, first: usize, factors: &[f64]) -> Self {
        let scaled = |(j, factor): (usize, &f64)| self.column(first + j).iter().map(|v| v * factor).collect::<Vec<_>>();
        Self { rows: self.rows, cols: factors.len(), data: factors.iter().enumerate().flat_map(scaled).collect() }
    }

    /// AᵀB; both must have as many rows.
    pub(crate) fn transposed_times(&self, other: &Self) -> Self {
        self.product(true, other)
    }

    /// AB; A must have as many columns as B has rows.
    pub fn times(&self, other: &Self) -> Self {
        self.product(false, other)
    }

    /// AAᵀ.
    pub(crate) fn outer_gram(&self) -> Symmetric {
        let transposed = Self::from_fn(self.cols, self.rows, |i, j| self.data[i * self.rows + j]);
        Symmetric::from_lower(self.rows, self.product(false, &transposed).data)
    }

    fn product(&self, transpose: bool, other: &Self) -> Self {
        let left = if transpose { self.view().transpose() } else { self.view() };
        assert_eq!(left.ncols(), other.rows, "inner sizes of a product");
        let rows = left.nrows();
        let mut data = vec![0.0; rows * other.cols];
        data.par_chunks_mut((rows * PANEL).max(1)).enumerate().for_each(|(p, out)| {
            let width = out.len() / rows;
            let right = other.view().subcols(p * PANEL, width);
            let out = MatMut::from_column_major_slice_mut(out, rows, width);
            multiply(out, left, right);
        });
        Self { rows, cols: other.cols, data }
    }

    /// Singular values, rising, with `gram` the eigenvalues of AAᵀ.
    ///
    /// Their roots are the large ones. Squares lose the small ones in rounding, so these are found anew in what A does
    /// outside the space of the large ones: all are good to 10⁻¹⁰ of the largest. A singular value decomposition would
    /// give ε, and take twice as long.
    pub(crate) fn singular_values(&self, gram: &Eigen) -> Result<Vec<f64>> {
        let largest = gram.values.last().copied().unwrap_or(0.0);
        let small = gram.values.iter().take_while(|v| **v <= SQUARED_LOSS * largest).count();
        let roots = |values: &[f64]| values.iter().map(|v| v.max(0.0).sqrt()).collect::<Vec<_>>();
        if small == 0 || largest <= 0.0 {
            return Ok(roots(&gram.values));
        }
        let outside = gram.vectors.scaled_columns(0, &vec![1.0; small]).transposed_times(self);
        // What is left is smaller by far; the second time around it is at the level of rounding, and stays.
        let inner = outside.outer_gram().eigen()?;
        Ok([roots(&inner.values), roots(&gram.values[small..])].concat())
    }

    pub(super) fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.data, self.rows, self.cols)
    }
}

/// Inner products of rows, xᵢ·yⱼ as entry (j, i) of the result: row i of `x` fills column i. On one thread: the caller
/// has many blocks.
pub fn products(x: &[f32], y: &[f32], dims: usize) -> Matrix {
    let [x, y] = [x, y].map(|rows| rows.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
    let (n, m) = (x.len() / dims, y.len() / dims);
    let mut data = vec![0.0; n * m];
    let out = MatMut::from_column_major_slice_mut(&mut data, m, n);
    let (x, y) = (MatRef::from_column_major_slice(&x, dims, n), MatRef::from_row_major_slice(&y, m, dims));
    multiply(out, y, x);
    Matrix { rows: m, cols: n, data }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(rows: usize, cols: usize) -> Matrix {
        Matrix::from_fn(rows, cols, |i, j| ((i * 7 + j * 3) % 11) as f64 - 4.0)
    }

    #[test]
    fn products_are_sums_of_products() {
        let (a, b) = (example(5, 3), example(5, 150));
        let c = a.transposed_times(&b);
        let direct = |i: usize, j: usize| (0..5).map(|k| a.column(i)[k] * b.column(j)[k]).sum::<f64>();
        assert_eq!(c, Matrix::from_fn(3, 150, direct));
        assert_eq!(example(3, 5).times(&b).rows(), 3);
        let gram = a.outer_gram();
        let outer = |i: usize, j: usize| (0..3).map(|k| a.column(k)[i] * a.column(k)[j]).sum::<f64>();
        assert!((0..5).all(|i| (0..5).all(|j| gram.at(i, j) == outer(i, j))));
        let (x, y) = ([1.0, 2.0, 3.0, 4.0f32], [5.0, 6.0f32]);
        assert_eq!(products(&x, &y, 2).data, [17.0, 39.0]);
    }

    #[test]
    fn small_singular_values_keep_their_digits() {
        // Pairs of axes turned, and neighbouring pairs turned: two orthogonal matrices that do not commute.
        let turned = |i: usize, j: usize| {
            let angle = 0.3 + 0.7 * (j / 2) as f64;
            let sign = if j.is_multiple_of(2) { 1.0 } else { -1.0 };
            if i == j {
                angle.cos()
            } else if i / 2 == j / 2 {
                sign * angle.sin()
            } else {
                0.0
            }
        };
        let turn = Matrix::from_fn(6, 6, turned);
        let shifted = Matrix::from_fn(6, 6, |i, j| turned((i + 1) % 6, (j + 1) % 6));
        let expected = [1e-12, 3e-9, 1e-7, 2e-4, 0.5, 3.0];
        let a = turn.times(&shifted).scaled_columns(0, &expected).times(&turn);
        let found = a.singular_values(&a.outer_gram().eigen().unwrap()).unwrap();
        // The roots of the squares err by 10⁻¹⁶·3²/(2·value); what was found anew does not.
        let close = |at: usize| (found[at] - expected[at]).abs() < if at < 3 { 1e-13 } else { 1e-12 };
        assert!((0..6).all(close), "{found:?}");
        let none = Matrix::from_fn(3, 3, |_, _| 0.0);
        assert_eq!(none.singular_values(&none.outer_gram().eigen().unwrap()).unwrap(), [0.0; 3]);
    }
}
