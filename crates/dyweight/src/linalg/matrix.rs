//! Plain matrices, stored column by column.

use super::Symmetric;
use crate::error::{Error, Result};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

/// Columns of a product that one task computes.
const PANEL: usize = 128;

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
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Column j.
    pub fn column(&self, j: usize) -> &[f64] {
        &self.data[j * self.rows..(j + 1) * self.rows]
    }

    /// The columns from `first` on, each times a factor of its own.
    pub fn scaled_columns(&self, first: usize, factors: &[f64]) -> Self {
        let scaled = |(j, factor): (usize, &f64)| self.column(first + j).iter().map(|v| v * factor).collect::<Vec<_>>();
        Self { rows: self.rows, cols: factors.len(), data: factors.iter().enumerate().flat_map(scaled).collect() }
    }

    /// AᵀB; both must have as many rows.
    pub fn transposed_times(&self, other: &Self) -> Self {
        self.product(true, other)
    }

    /// AB; A must have as many columns as B has rows.
    pub fn times(&self, other: &Self) -> Self {
        self.product(false, other)
    }

    /// AAᵀ.
    pub fn outer_gram(&self) -> Symmetric {
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
            matmul(out, Accum::Replace, left, right, 1.0, Par::Seq);
        });
        Self { rows, cols: other.cols, data }
    }

    /// Singular values, in no order that is promised.
    pub fn singular_values(&self) -> Result<Vec<f64>> {
        if self.data.is_empty() {
            return Ok(Vec::new());
        }
        self.view().singular_values().map_err(|_| Error::NotConverged { what: "a singular value decomposition" })
    }

    pub(super) fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.data, self.rows, self.cols)
    }
}

/// Inner products of rows, xᵢ·yⱼ as entry (j, i) of the result: row i of `x` fills column i. On one thread: the caller has
/// many blocks.
pub fn products(x: &[f32], y: &[f32], dims: usize) -> Matrix {
    let [x, y] = [x, y].map(|rows| rows.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
    let (n, m) = (x.len() / dims, y.len() / dims);
    let mut data = vec![0.0; n * m];
    let out = MatMut::from_column_major_slice_mut(&mut data, m, n);
    let (x, y) = (MatRef::from_column_major_slice(&x, dims, n), MatRef::from_row_major_slice(&y, m, dims));
    matmul(out, Accum::Replace, y, x, 1.0, Par::Seq);
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
    fn singular_values_of_a_rotated_diagonal() {
        let (c, s) = (0.6, 0.8);
        let a = Matrix::from_fn(2, 2, |i, j| [[c * 3.0, -s * 0.5], [s * 3.0, c * 0.5]][i][j]);
        let mut found = a.singular_values().unwrap();
        found.sort_by(f64::total_cmp);
        assert!((found[0] - 0.5).abs() < 1e-15 && (found[1] - 3.0).abs() < 1e-14);
    }
}
