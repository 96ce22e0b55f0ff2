//! Symmetric matrices: eigenvalues, roots.
//!
//! ```text
//! A = V diag(λ) Vᵀ,   A^½ = V diag(√λ) Vᵀ,   F = V diag(√λ) with F·Fᵀ = A
//! ```

use super::Matrix;
use crate::linalg::dense::{MatRef, eigen};
use dyweight_core::error::{Error, Result};

/// A symmetric matrix, both triangles stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Symmetric {
    dims: usize,
    data: Vec<f64>,
}

/// Eigenvalues in rising order, and their vectors as columns.
pub struct Eigen {
    /// Eigenvalues, rising.
    pub values: Vec<f64>,
    /// Column j belongs to value j.
    pub vectors: Matrix,
}

impl Symmetric {
    /// Takes rows of a matrix that is symmetric up to `tolerance` times its largest entry; the mean of both triangles
    /// counts.
    pub fn new(what: &str, dims: usize, mut data: Vec<f64>, tolerance: f64) -> Result<Self> {
        if dims.checked_mul(dims) != Some(data.len()) {
            return Err(Error::Shape { what: what.into(), expected: vec![dims, dims], found: vec![data.len()] });
        }
        if let Some(index) = data.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite { what: what.into(), index, value: data[index] });
        }
        let largest = data.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for i in 0..dims {
            for j in 0..i {
                let (lower, upper) = (data[i * dims + j], data[j * dims + i]);
                if (lower - upper).abs() > tolerance * largest {
                    return Err(Error::conflict(
                        format!("{what} is not symmetric: {lower} at ({i}, {j}), {upper} at ({j}, {i})"),
                        "a covariance is: the file holds something else, or is damaged",
                    ));
                }
                let mean = lower + 0.5 * (upper - lower);
                (data[i * dims + j], data[j * dims + i]) = (mean, mean);
            }
        }
        Ok(Self { dims, data })
    }

    /// Takes the lower triangle of columns; what is above does not count.
    pub(super) fn from_lower(dims: usize, mut data: Vec<f64>) -> Self {
        for j in 0..dims {
            for i in 0..j {
                data[j * dims + i] = data[i * dims + j];
            }
        }
        Self { dims, data }
    }

    /// Rows, and columns.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// All entries, row by row.
    pub fn data(&self) -> &[f64] {
        &self.data
    }

    /// Entry (i, j).
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.dims + j]
    }

    /// Sum of the diagonal.
    pub fn trace(&self) -> f64 {
        (0..self.dims).map(|i| self.at(i, i)).sum()
    }

    /// Eigenvalues and vectors.
    pub fn eigen(&self) -> Result<Eigen> {
        let failed = Error::NotConverged { what: "an eigen-decomposition" };
        let view = MatRef::from_column_major_slice(&self.data, self.dims, self.dims);
        let (values, vectors) = eigen(view).ok_or(failed)?;
        Ok(Eigen { values, vectors: Matrix::from_columns(self.dims, vectors) })
    }

    /// The root with no negative eigenvalue; negative eigenvalues of the matrix count as zero.
    pub fn sqrt(&self) -> Result<Self> {
        let factor = self.eigen()?.map_columns(|v| v.max(0.0).powf(0.25));
        Ok(factor.outer_gram())
    }
}

impl Eigen {
    /// F with F·Fᵀ = A, a column for each eigenvalue that rounding cannot have made: λ > dims·ε·max λ.
    pub fn factor(&self) -> Matrix {
        let first = self.first_sound();
        let roots: Vec<f64> = self.values[first..].iter().map(|v| v.sqrt()).collect();
        self.vectors.scaled_columns(first, &roots)
    }

    /// The first eigenvalue that rounding cannot have made.
    pub(crate) fn first_sound(&self) -> usize {
        let largest = self.values.last().copied().unwrap_or(0.0);
        let noise = largest.max(0.0) * f64::EPSILON * self.values.len() as f64;
        self.values.iter().position(|v| *v > noise).unwrap_or(self.values.len())
    }

    fn map_columns(&self, f: impl Fn(f64) -> f64) -> Matrix {
        self.vectors.scaled_columns(0, &self.values.iter().map(|v| f(*v)).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Rng;

    fn covariance(dims: usize, rank: usize) -> Symmetric {
        let noise = Rng::Native.latents(&[5], [1, rank, dims]).unwrap();
        Matrix::from_fn(dims, rank, |i, j| noise.data()[j * dims + i]).outer_gram()
    }

    fn distance(a: &Symmetric, b: &Symmetric) -> f64 {
        a.data().iter().zip(b.data()).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn the_root_squared_is_the_matrix_full_rank_or_not() {
        for rank in [12, 30] {
            let a = covariance(20, rank);
            let root = a.sqrt().unwrap();
            let plain = Matrix::from_columns(20, root.data().to_vec());
            assert!(distance(&plain.outer_gram(), &a) < 1e-12);
            let factor = a.eigen().unwrap().factor();
            assert_eq!(factor.cols(), rank.min(20));
            assert!(distance(&factor.outer_gram(), &a) < 1e-12);
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let a = covariance(300, 290);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let (eigen, factor) = (a.eigen().unwrap(), a.eigen().unwrap().factor());
                (a.sqrt().unwrap(), factor.singular_values(&eigen).unwrap())
            })
        };
        let (one, two, five) = (on(1), on(2), on(5));
        assert!(one == two && two == five);
    }

    #[test]
    fn what_is_not_symmetric_is_refused() {
        let error = Symmetric::new("sigma", 2, vec![1.0, 0.5, 0.4, 1.0], 1e-6).unwrap_err();
        assert!(error.to_string().contains("sigma is not symmetric: 0.4 at (1, 0), 0.5 at (0, 1)"), "{error}");
        assert!(Symmetric::new("sigma", 2, vec![1.0, f64::NAN, 0.4, 1.0], 1e-6).is_err());
        assert!(Symmetric::new("sigma", 2, vec![1.0; 3], 1e-6).is_err());
    }
}
