//! Distances between what the student made and what the teacher made, with their derivatives.
//!
//! All are means over everything in a batch, and are kept per sample until the caller sums them in sample order:
//!
//! ```text
//! l2  (x−y)²      l1  |x−y|      huber(δ)  ½(x−y)² for |x−y| ≤ δ, δ(|x−y| − δ/2) beyond      features  (f(x)−f(y))²
//! ```

use crate::joint::{Joint, Linearised};
use dyweight_core::error::Result;
use dyweight_core::features::FeatureMap;
use dyweight_core::tensor::Tensor;
use std::sync::Arc;

/// A distance.
#[derive(Clone)]
pub enum Loss {
    /// Mean squared error.
    L2,
    /// Mean absolute error.
    L1,
    /// Quadratic near zero, linear beyond δ.
    Huber(f64),
    /// Mean squared error of features.
    Features(Arc<dyn FeatureMap>),
    /// A distance of all samples at once, which has no value for one of them.
    Joint(Arc<dyn Joint>),
    /// Such a distance around some samples: what one of them does to it. The teacher does not count.
    Linear(Arc<dyn FeatureMap>, Arc<Linearised>),
}

impl Loss {
    /// Name and fingerprint of the network whose features it compares, if it does: part of what a run is.
    pub fn network(&self) -> Option<(&str, &str)> {
        match self {
            Loss::Features(map) | Loss::Linear(map, _) => Some((map.name(), map.sha256())),
            Loss::Joint(joint) => Some((joint.map().name(), joint.map().sha256())),
            _ => None,
        }
    }

    /// The distance of each sample.
    pub fn values(&self, x: &Tensor, y: &Tensor) -> Result<Vec<f64>> {
        match self {
            Loss::Features(map) => Ok(per_sample(&map.features(x)?, &map.features(y)?, |d| d * d)),
            Loss::Linear(map, around) => Ok(around.with_gradient(&map.features(x)?).0),
            _ => Ok(per_sample(x, y, |d| self.element(d).0)),
        }
    }

    /// What the distance of each sample is the mean square of.
    pub fn residuals(&self, x: &Tensor, y: &Tensor) -> Result<Vec<Vec<f64>>> {
        if let Loss::Features(map) = self {
            return Loss::L2.residuals(&map.features(x)?, &map.features(y)?);
        }
        let root = |(x, y): (&f64, &f64)| match self {
            Loss::L2 => x - y,
            _ => (x - y).signum() * self.element(x - y).0.sqrt(),
        };
        Ok((0..x.samples()).map(|i| x.sample(i).iter().zip(y.sample(i)).map(root).collect()).collect())
    }

    /// The distance of each sample, and its derivative in `x`.
    pub fn with_gradient(&self, x: &Tensor, y: &Tensor) -> Result<(Vec<f64>, Tensor)> {
        if let Loss::Linear(map, around) = self {
            let (fx, pullback) = map.with_pullback(x)?;
            let (values, gradient) = around.with_gradient(&fx);
            return Ok((values, pullback(&gradient)?));
        }
        let (fx, pullback) = match self {
            Loss::Features(map) => {
                let (fx, pullback) = map.with_pullback(x)?;
                (fx, Some((pullback, map.features(y)?)))
            }
            _ => (x.clone(), None),
        };
        let target = pullback.as_ref().map_or(y, |(_, fy)| fy);
        let values = per_sample(&fx, target, |d| self.element(d).0);
        let mut gradient = fx.clone();
        let scale = 1.0 / fx.sample_len() as f64;
        let pairs = gradient.data_mut().iter_mut().zip(target.data());
        pairs.for_each(|(g, y)| *g = scale * self.element(*g - y).1);
        match pullback {
            Some((pullback, _)) => Ok((values, pullback(&gradient)?)),
            None => Ok((values, gradient)),
        }
    }

    /// A derivative in `x` with random signs, of second moments that are the curvature of each sample's distance: for a
    /// distance that bends less the further off it is, the curvature of the parabola that touches it from above.
    /// `signs` makes them in a shape.
    pub fn probe(&self, x: &Tensor, y: &Tensor, signs: &dyn Fn([usize; 3]) -> Result<Tensor>) -> Result<Tensor> {
        if let Loss::Features(map) | Loss::Linear(map, _) = self {
            let (fx, pullback) = map.with_pullback(x)?;
            let [_, c, h, w] = fx.shape();
            // A distance of all samples rises by |d|² where all features move by d, the others by its mean.
            let count = if let Loss::Linear(..) = self { 1.0 } else { fx.sample_len() as f64 };
            let size = (2.0 / count).sqrt();
            return pullback(&signs([c, h, w])?.map(|sign| size * sign));
        }
        let [_, c, h, w] = x.shape();
        let mut probe = signs([c, h, w])?;
        let count = x.sample_len() as f64;
        let differences = x.data().iter().zip(y.data()).map(|(x, y)| x - y);
        probe.data_mut().iter_mut().zip(differences).for_each(|(v, d)| *v *= (self.bend(d) / count).sqrt());
        Ok(probe)
    }

    /// True if it is known how the distance bends.
    pub(crate) fn is_curved(&self) -> bool {
        !matches!(self, Loss::L1)
    }

    /// The derivative of one difference over the difference.
    fn bend(&self, d: f64) -> f64 {
        let d = if d == 0.0 { f64::MIN_POSITIVE } else { d };
        self.element(d).1 / d
    }

    /// Value and derivative for one difference.
    fn element(&self, d: f64) -> (f64, f64) {
        match self {
            Loss::L2 | Loss::Features(_) | Loss::Linear(..) => (d * d, 2.0 * d),
            // Of one sample there is none.
            Loss::Joint(_) => (f64::NAN, f64::NAN),
            // The derivative at 0 is 0, as the reference has it.
            Loss::L1 => (d.abs(), if d == 0.0 { 0.0 } else { d.signum() }),
            Loss::Huber(delta) if d.abs() <= *delta => (0.5 * d * d, d),
            Loss::Huber(delta) => (delta * (d.abs() - 0.5 * delta), delta * d.signum()),
        }
    }
}

fn per_sample(x: &Tensor, y: &Tensor, f: impl Fn(f64) -> f64) -> Vec<f64> {
    let mean = |i: usize| {
        let sum: f64 = x.sample(i).iter().zip(y.sample(i)).map(|(a, b)| f(a - b)).sum();
        sum / x.sample_len() as f64
    };
    (0..x.samples()).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Stream;
    use dyweight_core::tensor::dot;
    use dyweight_testing::SampleFeatures;

    /// f(x) = (Σ x², x₀·x₁): curved, so that a wrong pullback shows.
    fn curved() -> SampleFeatures {
        SampleFeatures {
            shape: [3, 1, 1],
            dims: 2,
            map: |x| vec![dot(x, x), x[0] * x[1]],
            pull_back: |x, g| vec![2.0 * x[0] * g[0] + g[1] * x[1], 2.0 * x[1] * g[0] + g[1] * x[0], 2.0 * x[2] * g[0]],
        }
    }

    /// The mean of v vᵀ over many signs is ∇² of a distance that is a parabola, and of features that are linear where
    /// we look.
    #[test]
    fn probes_have_the_curvature_as_second_moments() {
        let x = Tensor::new([1, 3, 1, 1], vec![0.5, -1.0, 2.0]).unwrap();
        let y = Tensor::new([1, 3, 1, 1], vec![0.4, 1.0, 2.0]).unwrap();
        let mut stream = Stream::new(5);
        let mut moments = |loss: &Loss| {
            let (mut sums, count) = ([[0.0; 3]; 3], 20_000);
            for _ in 0..count {
                let mut shape = Vec::new();
                let drawn: Vec<f64> = (0..3).map(|_| if stream.bits() >> 63 == 0 { 1.0 } else { -1.0 }).collect();
                let signs = |[c, h, w]: [usize; 3]| Tensor::new([1, c, h, w], drawn[..c].to_vec());
                let v = loss.probe(&x, &y, &signs).unwrap();
                shape.extend(v.shape());
                assert_eq!(shape, [1, 3, 1, 1]);
                (0..9).for_each(|at| sums[at / 3][at % 3] += v.data()[at / 3] * v.data()[at % 3] / f64::from(count));
            }
            sums
        };
        let near = |found: [[f64; 3]; 3], expected: [[f64; 3]; 3]| {
            let pairs = found.as_flattened().iter().zip(expected.as_flattened());
            pairs.for_each(|(a, b)| assert!((a - b).abs() < 0.03 * (1.0 + b.abs()), "{found:?} {expected:?}"));
        };
        let diagonal = |d: [f64; 3]| [[d[0], 0.0, 0.0], [0.0, d[1], 0.0], [0.0, 0.0, d[2]]];
        near(moments(&Loss::L2), diagonal([2.0 / 3.0; 3]));
        // The second difference is twice as far off as the loss is a parabola.
        near(moments(&Loss::Huber(1.0)), diagonal([1.0 / 3.0, 1.0 / 6.0, 1.0 / 3.0]));
        // Two features with gradients 2x and (x₁, x₀, 0): (2/2)·Σ ∇f ∇fᵀ.
        let (f, g) = ([1.0, -2.0, 4.0], [-1.0, 0.5, 0.0]);
        let expected: [[f64; 3]; 3] = std::array::from_fn(|i| std::array::from_fn(|j| f[i] * f[j] + g[i] * g[j]));
        near(moments(&Loss::Features(Arc::new(curved()))), expected);
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let batch = |seed| Tensor::new([2, 3, 1, 1], Stream::new(seed).normals(6)).unwrap();
        let (x, y) = (batch(1), batch(2));
        for loss in [Loss::L2, Loss::L1, Loss::Huber(0.7), Loss::Features(Arc::new(curved()))] {
            let (values, gradient) = loss.with_gradient(&x, &y).unwrap();
            assert_eq!(values, loss.values(&x, &y).unwrap());
            for i in 0..6 {
                let at = |h: f64| {
                    let mut x = x.clone();
                    x.data_mut()[i] += h;
                    loss.values(&x, &y).unwrap()[i / 3]
                };
                let fd = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!((fd - gradient.data()[i]).abs() < 1e-7 * fd.abs().max(1.0));
            }
        }
    }
}
