//! Mean and covariance of rows, gathered shard by shard.
//!
//! ```text
//! shard      m = Σx/n,  S = Σ(x−m)(x−m)ᵀ                                      two passes over at most SHARD rows
//! merging    δ = m₂−m₁,  m = m₁ + δ·n₂/n,  S = S₁ + S₂ + δδᵀ·n₁n₂/n            (Chan, Golub and LeVeque 1983)
//! result     Σ = S/(n−1)
//! ```
//!
//! Rows are cut at multiples of `SHARD` and shards merged in order. Processes that each hold whole shards get the
//! same bits as one that holds all rows, if their shards are merged in order.

use super::Symmetric;
use crate::linalg::dense::{MatMut, MatRef, multiply};
use dyweight_core::error::{Error, Result};
use rayon::prelude::*;

/// Rows of a shard.
const SHARD: usize = 2048;
/// Columns of the scatter matrix that one task computes.
const PANEL: usize = 128;

/// Count, mean and scatter of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    count: usize,
    mean: Vec<f64>,
    /// Columns, of which the lower triangle counts.
    scatter: Vec<f64>,
}

impl Moments {
    /// Of no rows.
    pub fn empty(dims: usize) -> Self {
        Self { count: 0, mean: vec![0.0; dims], scatter: vec![0.0; dims * dims] }
    }

    /// Of rows of `dims` numbers.
    pub fn of<T: Copy + Into<f64>>(rows: &[T], dims: usize) -> Self {
        let mut moments = Self::empty(dims);
        rows.chunks((SHARD * dims).max(1)).for_each(|shard| moments.merge(&Self::of_shard(shard, dims)));
        moments
    }

    fn of_shard<T: Copy + Into<f64>>(rows: &[T], dims: usize) -> Self {
        let count = rows.len() / dims;
        let mut mean = vec![0.0; dims];
        for row in rows.chunks_exact(dims) {
            mean.iter_mut().zip(row).for_each(|(m, v)| *m += (*v).into());
        }
        mean.iter_mut().for_each(|m| *m /= count as f64);
        let centred: Vec<f64> =
            rows.chunks_exact(dims).flat_map(|r| r.iter().zip(&mean).map(|(v, m)| (*v).into() - m)).collect();
        let rows = MatRef::from_row_major_slice(&centred, count, dims);
        let mut scatter = vec![0.0; dims * dims];
        scatter.par_chunks_mut(dims * PANEL).enumerate().for_each(|(p, panel)| {
            let (start, width) = (p * PANEL, panel.len() / dims);
            // Rows above the panel's first diagonal entry are the other triangle.
            let out = MatMut::from_column_major_slice_mut(panel, dims, width).subrows_mut(start, dims - start);
            let left = rows.subcols(start, dims - start).transpose();
            multiply(out, left, rows.subcols(start, width));
        });
        Self { count, mean, scatter }
    }

    /// Adds rows of as many numbers that come after these.
    pub fn merge(&mut self, later: &Self) {
        assert_eq!(self.mean.len(), later.mean.len(), "rows of one length");
        if self.count == 0 || later.count == 0 {
            if self.count == 0 {
                *self = later.clone();
            }
            return;
        }
        let (before, after) = (self.count as f64, later.count as f64);
        let (share, weight) = (after / (before + after), before * after / (before + after));
        let delta: Vec<f64> = later.mean.iter().zip(&self.mean).map(|(l, m)| l - m).collect();
        let dims = delta.len();
        let columns = self.scatter.par_chunks_mut(dims).zip(later.scatter.par_chunks(dims)).enumerate();
        columns.for_each(|(j, (own, other))| {
            let factor = delta[j] * weight;
            (j..dims).for_each(|i| own[i] += other[i] + delta[i] * factor);
        });
        self.mean.iter_mut().zip(&delta).for_each(|(m, d)| *m += d * share);
        self.count += later.count;
    }

    /// Rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Their mean.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Their covariance, with divisor n−1.
    pub fn covariance(&self) -> Result<Symmetric> {
        if self.count < 2 {
            return Err(Error::bad_value("num", self.count, "a covariance needs two samples or more"));
        }
        let divisor = (self.count - 1) as f64;
        let scaled = self.scatter.iter().map(|v| v / divisor).collect();
        Ok(Symmetric::from_lower(self.mean.len(), scaled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Rng;

    fn rows(count: usize, dims: usize) -> Vec<f32> {
        let noise = Rng::Native.latents(&[3], [1, count, dims]).unwrap();
        noise.data().iter().enumerate().map(|(i, v)| (v + (i % dims) as f64) as f32).collect()
    }

    #[test]
    fn moments_are_those_of_the_definition() {
        let (count, dims) = (SHARD + 300, 140);
        let x = rows(count, dims);
        let moments = Moments::of(&x, dims);
        let column = |j: usize| x.iter().skip(j).step_by(dims).map(|v| f64::from(*v));
        let mean = |j: usize| column(j).sum::<f64>() / count as f64;
        let covariance = moments.covariance().unwrap();
        for (i, j) in [(0, 0), (1, 0), (139, 128), (130, 3), (3, 130)] {
            let direct = column(i).zip(column(j)).map(|(a, b)| (a - mean(i)) * (b - mean(j))).sum::<f64>();
            assert!((covariance.at(i, j) - direct / (count - 1) as f64).abs() < 1e-12);
            assert!((moments.mean()[i] - mean(i)).abs() < 1e-12);
        }
        assert!(Moments::of(&x[..dims], dims).covariance().is_err());
    }

    #[test]
    fn threads_and_processes_change_no_bit() {
        let (count, dims) = (2 * SHARD + 100, 150);
        let x = rows(count, dims);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Moments::of(&x, dims))
        };
        let (one, two, five) = (on(1), on(2), on(5));
        assert!(one == two && two == five);
        let mut merged = Moments::empty(dims);
        x.chunks(SHARD * dims).for_each(|part| merged.merge(&Moments::of(part, dims)));
        assert_eq!(merged, one);
    }
}
