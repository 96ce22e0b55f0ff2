//! Improved precision and recall (Kynkäänniemi et al. 2019).
//!
//! ```text
//! manifold(A) = ∪ balls around a ∈ A that reach its k-th nearest other member of A,   k = 3
//! precision   = share of samples inside the manifold of real images
//! recall      = share of real images inside the manifold of samples
//! ```
//!
//! Errors are those of a share of n independent trials, with half a trial added to each side so that 0 and 1 are not
//! claimed to be certain; the manifold counts as given. Values depend on the size of both sets: compare equal sizes only.
//!
//! Distances are computed block by block: memory grows with n, not n².

use super::{Estimate, Features};
use crate::linalg::products;
use dyweight_core::error::{Error, Result};
use rayon::prelude::*;

/// Neighbours a ball reaches to.
pub const NEIGHBOURS: usize = 3;
/// Rows of a block.
const BLOCK: usize = 512;

/// Both shares.
#[derive(Clone, Debug, PartialEq)]
pub struct PrecisionRecall {
    /// Share of samples that lie among real images.
    pub precision: Estimate,
    /// Share of real images that lie among samples.
    pub recall: Estimate,
}

/// Precision and recall of samples against real images.
pub fn precision_recall(real: &Features, samples: &Features) -> Result<PrecisionRecall> {
    real.require_like(samples)?;
    for set in [real, samples] {
        if set.len() <= NEIGHBOURS {
            let expected = format!("{NEIGHBOURS} neighbours need more than {NEIGHBOURS} images on each side");
            return Err(Error::BadValue { name: "num", value: set.len().to_string(), expected });
        }
    }
    let (real, samples) = (PointSet::new(real), PointSet::new(samples));
    Ok(PrecisionRecall { precision: share(&real.covers(&samples)), recall: share(&samples.covers(&real)) })
}

fn share(inside: &[bool]) -> Estimate {
    let (hits, n) = (inside.iter().filter(|i| **i).count() as f64, inside.len() as f64);
    let smoothed = (hits + 0.5) / (n + 1.0);
    Estimate::new(hits / n, (smoothed * (1.0 - smoothed) / n).sqrt(), inside.len())
}

/// Features with their squared lengths.
struct PointSet<'f> {
    features: &'f Features,
    squares: Vec<f64>,
}

impl<'f> PointSet<'f> {
    fn new(features: &'f Features) -> Self {
        let square = |row: &[f32]| row.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
        Self { features, squares: features.rows().chunks(features.dims()).map(square).collect() }
    }

    fn block(&self, from: usize) -> &[f32] {
        let dims = self.features.dims();
        &self.features.rows()[from * dims..(from + BLOCK).min(self.features.len()) * dims]
    }

    /// For each member, `see(of the member, index of the other, squared distance)` is told of all members of `others`,
    /// and what it made of them is returned in order.
    fn each<S: Clone + Send + Sync>(
        &self,
        others: &PointSet<'_>,
        start: S,
        see: impl Fn(&mut S, Pair) + Sync,
    ) -> Vec<S> {
        let dims = self.features.dims();
        let starts: Vec<usize> = (0..self.features.len()).step_by(BLOCK).collect();
        let blocks = starts.into_par_iter().map(|from| {
            let own = self.block(from);
            let mut seen = vec![start.clone(); own.len() / dims];
            for at in (0..others.features.len()).step_by(BLOCK) {
                let inner = products(own, others.block(at), dims);
                for (i, state) in seen.iter_mut().enumerate() {
                    for (j, product) in inner.column(i).iter().enumerate() {
                        let (own, other) = (from + i, at + j);
                        // Rounding may leave a little less than nothing between equal points.
                        let square = (self.squares[own] + others.squares[other] - 2.0 * product).max(0.0);
                        see(state, Pair { own, other, square });
                    }
                }
            }
            seen
        });
        blocks.collect::<Vec<_>>().concat()
    }

    /// Squared distance of each member to its k-th nearest other.
    fn radii(&self) -> Vec<f64> {
        let nearest = self.each(self, [f64::INFINITY; NEIGHBOURS], |nearest, pair| {
            if pair.own != pair.other && pair.square < nearest[NEIGHBOURS - 1] {
                nearest[NEIGHBOURS - 1] = pair.square;
                nearest.sort_by(f64::total_cmp);
            }
        });
        nearest.into_iter().map(|n| n[NEIGHBOURS - 1]).collect()
    }

    /// Which of `others` lie in the manifold of this.
    fn covers(&self, others: &PointSet<'_>) -> Vec<bool> {
        let radii = self.radii();
        others.each(self, false, |inside, pair| *inside |= pair.square <= radii[pair.other])
    }
}

/// Two members and their squared distance.
struct Pair {
    own: usize,
    other: usize,
    square: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Rng;

    fn set(seed: u64, count: usize, dims: usize, scale: f64) -> Features {
        let z = Rng::Native.latents(&[seed], [1, count, dims]).unwrap();
        Features::from_rows(dims, z.data().iter().map(|v| (v * scale) as f32).collect()).unwrap()
    }

    #[test]
    fn a_line_counted_by_hand() {
        let line = |points: &[f32]| Features::from_rows(1, points.to_vec()).unwrap();
        let real = line(&[0.0, 1.0, 2.0, 3.0, 100.0]);
        // Balls: 0 ± 3, 1 ± 2, 2 ± 2, 3 ± 3, 100 ± 99; so everything from −3 to 199.
        let found = precision_recall(&real, &line(&[-2.9, -3.1, 50.0, 0.5, 199.5])).unwrap();
        assert_eq!(found.precision.value, 3.0 / 5.0);
        assert!(precision_recall(&real, &line(&[1.0; 3])).is_err());
    }

    #[test]
    fn narrow_samples_are_precise_and_recall_little() {
        let (real, narrow) = (set(1, 700, 4, 1.0), set(2, 600, 4, 0.3));
        let found = precision_recall(&real, &narrow).unwrap();
        assert!(found.precision.value > 0.95 && found.recall.value < 0.6, "{found:?}");
        let same = precision_recall(&real, &real).unwrap();
        assert_eq!((same.precision.value, same.recall.value), (1.0, 1.0));
        assert!(same.precision.error > 0.0);
    }

    #[test]
    fn threads_change_nothing() {
        let (x, y) = (set(1, BLOCK + 7, 5, 1.0), set(2, 300, 5, 1.0));
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| precision_recall(&x, &y).unwrap())
        };
        assert_eq!(on(1), on(3));
    }
}
