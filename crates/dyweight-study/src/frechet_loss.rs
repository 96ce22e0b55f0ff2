//! The Fréchet distance to real images as a training loss: see `dyweight_train::Joint`.
//!
//! ```text
//! ∂FD/∂μ = 2(μ − μᵣ)      ∂FD/∂Σ = I − T
//! of several feature maps      Σ FDₖ / tr Σᵣₖ      each as a share of what real images vary in it
//! ```
//!
//! Samples are not rounded to eight bits here, which has no derivative; what is reported elsewhere is.

use dyweight_core::error::{Error, Result};
use dyweight_core::features::{FeatureMap, Share, Variety};
use dyweight_files::Fingerprint;
use dyweight_metrics::frechet::{Reference, Statistics};
use dyweight_metrics::linalg::Moments;
use dyweight_metrics::{FeatureReference, Features, Origin, variety};
use dyweight_models::JoinedFeatures;
use dyweight_train::{Joint, Linearised};
use std::sync::Arc;

/// The distance of samples' features to reference statistics.
pub struct FrechetLoss {
    map: Arc<dyn FeatureMap>,
    /// Of each map that is part of it, as many features as it has.
    references: Vec<Arc<Reference>>,
    identity: String,
    judge: Arc<dyn FeatureMap>,
    judges_reference: Option<Arc<Reference>>,
}

impl FrechetLoss {
    /// The distance to a reference, by the features it was made with; they judge, too, until others do.
    pub fn new((map, reference): FeatureReference) -> Self {
        Self { judges_reference: Some(reference.clone()), ..Self::of(vec![(map, reference)]) }
    }

    /// The sum of several such distances.
    pub fn of(parts: Vec<FeatureReference>) -> Self {
        let (maps, references): (Vec<_>, Vec<Arc<Reference>>) = parts.into_iter().unzip();
        let mut identity = Fingerprint::default();
        for own in references.iter().map(|reference| reference.statistics()) {
            identity.add_numbers(&own.mu);
            identity.add_numbers(own.sigma.data());
        }
        let map = JoinedFeatures::of(maps);
        Self { judge: map.clone(), map, references, identity: identity.text(), judges_reference: None }
    }

    /// What comes of it is judged by other features, and their distance to a reference where there is one.
    pub(crate) fn judged_by(self, judge: Arc<dyn FeatureMap>, reference: Option<Arc<Reference>>) -> Self {
        Self { judge, judges_reference: reference, ..self }
    }

    /// How the judge's distance changes; too few samples have none.
    fn change(&self, before: &Features, after: &Features) -> Result<Option<Share>> {
        let Some(reference) = self.judges_reference.as_ref().filter(|_| after.len() > after.dims()) else {
            return Ok(None);
        };
        let (before, after) = (reference.estimate(before)?, reference.estimate(after)?);
        Ok(Some(Share { before: before.value, after: after.value, error: after.minus(&before).error }))
    }
}

impl Joint for FrechetLoss {
    fn map(&self) -> &Arc<dyn FeatureMap> {
        &self.map
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn judge(&self) -> &Arc<dyn FeatureMap> {
        &self.judge
    }

    fn variety(&self, teacher: &[f64], before: &[f64], after: &[f64]) -> Result<Variety> {
        let features = |rows: &[f64]| Features::from_rows(self.judge.dims(), rows.iter().map(|v| *v as f32).collect());
        let (before, after) = (features(before)?, features(after)?);
        let found = variety(&features(teacher)?, &before, &after)?;
        Ok(Variety { distance: self.change(&before, &after)?, judge: self.judge.name().into(), ..found })
    }

    fn linearised(&self, rows: &[f64]) -> Result<Linearised> {
        let dims = self.map.dims();
        let n = rows.len() / dims.max(1);
        if n < 2 {
            return Err(Error::bad_value("moments", n, "a covariance needs two samples or more"));
        }
        let mut all = Linearised { value: 0.0, mean: Vec::new(), slope: Vec::new(), form: vec![0.0; dims * dims] };
        for reference in &self.references {
            let (first, own) = (all.mean.len(), reference.statistics().mu.len());
            let rows: Vec<f64> = rows.chunks(dims).flat_map(|row| &row[first..first + own]).copied().collect();
            let moments = Moments::of(&rows, own);
            let mean = moments.mean().to_vec();
            let at = Statistics { mu: mean.clone(), sigma: moments.covariance()?, source: Origin::default() };
            let (value, slope, map) = reference.derivatives(&at)?;
            let weight = if self.references.len() == 1 { 1.0 } else { 1.0 / reference.statistics().sigma.trace() };
            all.value += weight * value;
            all.mean.extend(mean);
            all.slope.extend(slope.iter().map(|v| weight * v));
            let scale = weight * n as f64 / (n - 1) as f64;
            for (i, j) in (0..own * own).map(|k| (k / own, k % own)) {
                let identity = f64::from(u8::from(i == j));
                all.form[(first + i) * dims + first + j] = scale * (identity - map.data()[i * own + j]);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Stream;
    use dyweight_core::tensor::Tensor;
    use dyweight_metrics::linalg::Symmetric;
    use dyweight_testing::SampleFeatures;
    use dyweight_train::Loss;

    /// f(x) = (x₀, x₀x₁, x₁² + x₂): curved, with a pullback.
    fn curved() -> Arc<dyn FeatureMap> {
        Arc::new(SampleFeatures {
            shape: [3, 1, 1],
            dims: 3,
            map: |x| vec![x[0], x[0] * x[1], x[1] * x[1] + x[2]],
            pull_back: |x, g| vec![g[0] + g[1] * x[1], g[1] * x[0] + 2.0 * g[2] * x[1], g[2]],
        })
    }

    fn reference(mean: [f64; 3]) -> Arc<Reference> {
        let sigma = Symmetric::new("sigma", 3, vec![1.5, 0.3, 0.1, 0.3, 0.8, -0.2, 0.1, -0.2, 2.0], 0.0).unwrap();
        Arc::new(Reference::new(Statistics { mu: mean.to_vec(), sigma, source: Origin::default() }).unwrap())
    }

    /// What the loss's own features cannot see moves samples away from the judge's reference.
    #[test]
    fn another_network_judges_by_its_own_reference() {
        let (map, judge) = (curved(), curved());
        let own = FrechetLoss::new((map, reference([9.0; 3])));
        let real = reference([0.0; 3]);
        let rows = |n: usize, by: f64| -> Vec<f64> { Stream::new(3).normals(3 * n).iter().map(|v| v + by).collect() };
        let (near, far) = (rows(40, 0.0), rows(40, 1.5));
        let found = own.judged_by(judge.clone(), Some(real.clone())).variety(&near, &near, &far).unwrap();
        let distance = found.distance.unwrap();
        let estimate = |rows: &[f64]| {
            let features = Features::from_rows(3, rows.iter().map(|v| *v as f32).collect()).unwrap();
            real.estimate(&features).unwrap().value
        };
        assert_eq!((distance.before, distance.after), (estimate(&near), estimate(&far)));
        assert!(distance.has_risen() && distance.error > 0.0 && found.is_lost(), "{found:?}");
        assert_eq!(found.judge, judge.name());
        // Without a reference there is no distance.
        let none = FrechetLoss::new((judge.clone(), real)).judged_by(judge, None);
        assert!(none.variety(&near, &near, &far).unwrap().distance.is_none());
    }

    /// The derivative of the distance of all samples in each number of each, by the linearisation and by differences:
    /// of one feature map, and of the sum of two.
    #[test]
    fn the_linearisation_has_the_derivative_of_the_distance() {
        let plain: Arc<dyn FeatureMap> = Arc::new(SampleFeatures::identity([3, 1, 1]));
        let (first, second) = ((curved(), reference([0.2, -0.1, 0.7])), (plain, reference([0.1, 0.0, -0.3])));
        has_the_derivative(&FrechetLoss::new(first.clone()));
        has_the_derivative(&FrechetLoss::of(vec![first, second]));
    }

    fn has_the_derivative(loss: &FrechetLoss) {
        let (map, n) = (loss.map.clone(), 12);
        let x = Tensor::new([n, 3, 1, 1], Stream::new(8).normals(3 * n)).unwrap();
        let around = |x: &Tensor| loss.linearised(map.features(x).unwrap().data()).unwrap();
        let linear = Loss::Linear(map.clone(), Arc::new(around(&x)));
        let (values, gradient) = linear.with_gradient(&x, &x).unwrap();
        assert_eq!(values, linear.values(&x, &x).unwrap());
        for k in 0..3 * n {
            let shifted = |h: f64| {
                let mut x = x.clone();
                x.data_mut()[k] += h;
                around(&x).value
            };
            let fd = (8.0 * (shifted(1e-3) - shifted(-1e-3)) - (shifted(2e-3) - shifted(-2e-3))) / 12e-3;
            let found = gradient.data()[k] / n as f64;
            assert!((fd - found).abs() < 1e-8, "{k}: {found} is not {fd}");
        }
    }

    /// Each part of a sum counts as a share of what real images vary in it: features in other units are the same loss.
    #[test]
    fn a_sum_of_distances_does_not_depend_on_units() {
        let plain: Arc<dyn FeatureMap> = Arc::new(SampleFeatures::identity([3, 1, 1]));
        let tenfold: Arc<dyn FeatureMap> = Arc::new(SampleFeatures {
            map: |x| x.iter().map(|v| 10.0 * v).collect(),
            ..SampleFeatures::identity([3, 1, 1])
        });
        let own = reference([0.1, 0.0, -0.3]);
        let at = own.statistics();
        let sigma = Symmetric::new("sigma", 3, at.sigma.data().iter().map(|v| 100.0 * v).collect(), 0.0).unwrap();
        let mu = at.mu.iter().map(|v| 10.0 * v).collect();
        let large = Arc::new(Reference::new(Statistics { mu, sigma, source: Origin::default() }).unwrap());
        let value = |part: FeatureReference| {
            let loss = FrechetLoss::of(vec![(curved(), reference([0.2, -0.1, 0.7])), part]);
            let x = Tensor::new([12, 3, 1, 1], Stream::new(8).normals(36)).unwrap();
            loss.linearised(loss.map.features(&x).unwrap().data()).unwrap().value
        };
        let (a, b) = (value((plain, own)), value((tenfold, large)));
        assert!((a - b).abs() < 1e-9 * a, "{a} {b}");
    }
}
