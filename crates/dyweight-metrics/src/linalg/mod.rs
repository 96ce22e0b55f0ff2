//! Algebra of f64 matrices on `faer` (by way of `dense`): moments of rows, eigenvalues, roots.
//!
//! `faer` runs on one thread here, and work is shared among threads in pieces whose cut depends on sizes alone: the
//! same bits for any number of threads. (Its own parallel code gives other bits for other numbers of threads.)

mod dense;
mod matrix;
mod moments;
mod symmetric;

pub use matrix::{Matrix, products};
pub use moments::Moments;
pub use symmetric::{Eigen, Symmetric};
