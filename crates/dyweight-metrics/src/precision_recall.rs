//! Improved precision and recall (Kynkäänniemi et al. 2019).
//!
//! ```text
//! manifold(A) = ∪ balls around a ∈ A that reach its k-th nearest other member of A,   k = 3
//! precision   = share of samples inside the manifold of real images
//! recall      = share of real images inside the manifold of samples
//! ```
//!
//! Errors are those of a share of n independent trials, with half a trial added to each side so that 0 and 1 are not
//! claimed to be certain; the manifold counts as given. Values depend on the size of both sets: compare equal sizes
//! only.
//!
//! Of two sets of samples that come of the same noise the shares are compared point by point ([`variety`]). That the
//! manifold counts as given is right there: of sets that differ by a tenth of their spread the error of the difference
//! is right, as a test has it; of sets that share nothing that of recall is too small.
//!
//! Distances are computed block by block: memory grows with n, not n².

use super::{Estimate, Features};
use crate::linalg::products;
use dyweight_core::error::{Error, Result};
use dyweight_core::features::{Share, Variety};
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
    let (precise, recalled) = inside(real, samples)?;
    Ok(PrecisionRecall { precision: share(&precise), recall: share(&recalled) })
}

/// How precision and recall change from one set of samples to another of the same noise, row by row.
pub fn variety(real: &Features, before: &Features, after: &Features) -> Result<Variety> {
    let ((precise, recalled), (then_precise, then_recalled)) = (inside(real, before)?, inside(real, after)?);
    let (precision, recall) = (change(&precise, &then_precise), change(&recalled, &then_recalled));
    Ok(Variety { precision, recall, distance: None, judge: String::new(), samples: after.len() })
}

/// Which samples lie among real images, and which of these among samples.
fn inside(real: &Features, samples: &Features) -> Result<(Vec<bool>, Vec<bool>)> {
    real.require_like(samples)?;
    for set in [real, samples] {
        if set.len() <= NEIGHBOURS {
            let expected = format!("{NEIGHBOURS} neighbours need more than {NEIGHBOURS} images on each side");
            return Err(Error::bad_value("num", set.len(), expected));
        }
    }
    let (real, samples) = (PointSet::new(real), PointSet::new(samples));
    Ok((real.covers(&samples), samples.covers(&real)))
}

fn share(inside: &[bool]) -> Estimate {
    let (hits, n) = (inside.iter().filter(|i| **i).count() as f64, inside.len() as f64);
    let smoothed = (hits + 0.5) / (n + 1.0);
    Estimate::new(hits / n, (smoothed * (1.0 - smoothed) / n).sqrt(), inside.len())
}

/// Two shares of the same points. What most points do in both has no error: only those that went in or out count, with
/// half a point added to each.
fn change(before: &[bool], after: &[bool]) -> Share {
    let n = before.len().min(after.len()) as f64;
    let of = |inside: &[bool]| inside.iter().filter(|i| **i).count() as f64 / inside.len() as f64;
    let moved = |from: bool| {
        let count = before.iter().zip(after).filter(|(b, a)| **b == from && **a != from).count() as f64;
        (count + 0.5) / (n + 1.0)
    };
    let (out, into) = (moved(true), moved(false));
    Share { before: of(before), after: of(after), error: ((out + into - (into - out).powi(2)) / n).sqrt() }
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
    fn a_collapse_is_seen_and_a_little_noise_seldom() {
        let (real, wide, narrow) = (set(1, 500, 4, 1.0), set(2, 500, 4, 1.0), set(2, 500, 4, 0.4));
        let same = variety(&real, &wide, &wide).unwrap();
        assert!(!same.is_lost() && same.precision.error > 0.0 && same.precision.before == same.precision.after);
        let found = precision_recall(&real, &narrow).unwrap();
        let lost = variety(&real, &wide, &narrow).unwrap();
        assert_eq!((lost.precision.after, lost.recall.after), (found.precision.value, found.recall.value));
        assert!(lost.is_lost() && lost.recall.has_fallen() && !lost.precision.has_fallen(), "{lost:?}");
        // The other way round what falls is precision.
        let scattered = variety(&real, &narrow, &wide).unwrap();
        assert!(scattered.precision.has_fallen() && !scattered.recall.has_fallen(), "{scattered:?}");
        // A little noise changes nothing but by chance: two shares beyond two errors, one in twenty times.
        let alarm = |seed: u64| {
            let (real, wide, noise) = (set(seed, 120, 4, 1.0), set(seed + 1, 120, 4, 1.0), set(seed + 2, 120, 4, 0.1));
            let moved = wide.rows().iter().zip(noise.rows()).map(|(x, n)| (x + n) / 1.01f32.sqrt()).collect();
            variety(&real, &wide, &Features::from_rows(4, moved).unwrap()).unwrap().is_lost()
        };
        let alarms = (0..200).filter(|i| alarm(100 + 3 * i)).count();
        assert!((1..=16).contains(&alarms), "{alarms} of 200");
    }

    /// 100 points of which 10 go out and 4 come in.
    #[test]
    fn a_change_counted_by_hand() {
        let before: Vec<bool> = (0..100).map(|i| i < 60).collect();
        let after: Vec<bool> = (0..100).map(|i| (10..64).contains(&i)).collect();
        let found = change(&before, &after);
        assert_eq!((found.before, found.after), (0.6, 0.54));
        let (out, into) = (10.5 / 101.0, 4.5 / 101.0);
        assert!((found.error - ((out + into - (out - into) * (out - into)) / 100f64).sqrt()).abs() < 1e-15);
        assert!(!found.has_fallen());
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
