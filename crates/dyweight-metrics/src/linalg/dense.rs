//! The two operations of `faer` that `dyweight` needs, for f64.
//!
//! `faer` is generic: its code is generated where it is called. //! of the library, its tests and its features.
//!
//! Both run on one thread. `faer`'s own parallel code gives other bits for other numbers of threads; callers share the
//! work in pieces instead.
use faer::linalg::matmul::matmul;
use faer::{Accum, Par, Side};

pub use faer::{MatMut, MatRef};

/// Writes the product of `left` and `right` to `out`.
#[inline(never)]
pub fn multiply(out: MatMut<'_, f64>, left: MatRef<'_, f64>, right: MatRef<'_, f64>) {
    matmul(out, Accum::Replace, left, right, 1.0, Par::Seq);
}

/// Eigenvalues of a symmetric matrix, rising, and their vectors, one after the other; none if the iteration does not
/// converge. The lower triangle counts.
#[inline(never)]
pub fn eigen(matrix: MatRef<'_, f64>) -> Option<(Vec<f64>, Vec<f64>)> {
    let found = matrix.self_adjoint_eigen(Side::Lower).ok()?;
    let values = found.S().column_vector().iter().copied().collect();
    let vectors = found.U().col_iter().flat_map(|c| c.iter().copied()).collect();
    Some((values, vectors))
}
