//! A model from closures: anything that can answer for a batch.
//!
//! ```
//! use dyweight_core::Tensor;
//! use dyweight_core::denoiser::{ClosureModel, Denoiser, Levels, Prediction};
//! // The exact denoiser of standard normal data, D = x/(1 + σ²), of one sample at one level.
//! let denoised = |x: &[f64], sigma: f64| x.iter().map(|v| v / (1.0 + sigma * sigma)).collect();
//! let model = ClosureModel::of_samples([1, 4, 4], Prediction::Denoised, (0.002, 80.0), denoised);
//! let answer = model.predict(&Tensor::zeros([2, 1, 4, 4]), &Levels::One(1.0))?;
//! assert_eq!(answer.shape(), [2, 1, 4, 4]);
//! # Ok::<(), dyweight_core::Error>(())
//! ```

use super::{Condition, Denoiser, Differentiable, Info, Levels, Model, Prediction, Pullback};
use crate::error::{Error, Result};
use crate::tensor::{Tensor, dot};
use std::sync::Arc;

type Predict = dyn Fn(&Tensor, &Levels) -> Result<Tensor> + Send + Sync;
type PullBack = dyn Fn(&Tensor, &Levels, &Tensor) -> Result<(Tensor, Option<Vec<f64>>)> + Send + Sync;

/// Relative step of the finite difference in the level.
const STEP: f64 = 1e-4;

/// A model made of closures. What a closure fails with comes back as [`Error::Foreign`].
#[derive(Clone)]
pub struct ClosureModel {
    shape: [usize; 3],
    prediction: Prediction,
    range: (f64, f64),
    predict: Arc<Predict>,
    pull_back: Option<Arc<PullBack>>,
}

impl ClosureModel {
    /// A model that can be sampled, and learned for without gradients; the other rules of descent need a pullback.
    pub fn new<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        shape: [usize; 3],
        prediction: Prediction,
        range: (f64, f64),
        predict: impl Fn(&Tensor, &Levels) -> Result<Tensor, E> + Send + Sync + 'static,
    ) -> Self {
        let predict = move |x: &Tensor, levels: &Levels| predict(x, levels).map_err(Error::foreign);
        Self { shape, prediction, range, predict: Arc::new(predict), pull_back: None }
    }

    /// A model of `(entries of one sample, its level) → their prediction`.
    pub fn of_samples(
        shape: [usize; 3],
        prediction: Prediction,
        range: (f64, f64),
        predict: impl Fn(&[f64], f64) -> Vec<f64> + Send + Sync + 'static,
    ) -> Self {
        let each = move |x: &Tensor, levels: &Levels| by_sample(x, |i| predict(x.sample(i), levels.of(i)));
        Self::new(shape, prediction, range, each)
    }

    /// Adds `(entries, level, ∂L/∂prediction) → ∂L/∂entries` of one sample; the derivative in the level is a central
    /// difference.
    pub fn with_sample_pullback(
        self,
        pull_back: impl Fn(&[f64], f64, &[f64]) -> Vec<f64> + Send + Sync + 'static,
    ) -> Self {
        self.with_state_pullback(move |x: &Tensor, levels: &Levels, g: &Tensor| {
            by_sample(x, |i| pull_back(x.sample(i), levels.of(i), g.sample(i)))
        })
    }

    /// Adds `(x, levels, ∂L/∂prediction) → (∂L/∂x, ∂L/∂level of each sample)`.
    pub fn with_pullback<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        mut self,
        pull_back: impl Fn(&Tensor, &Levels, &Tensor) -> Result<(Tensor, Vec<f64>), E> + Send + Sync + 'static,
    ) -> Self {
        let all = move |x: &Tensor, levels: &Levels, g: &Tensor| pull_back(x, levels, g).map_err(Error::foreign);
        self.pull_back = Some(Arc::new(move |x, levels, g| all(x, levels, g).map(|(x, level)| (x, Some(level)))));
        self
    }

    /// Adds `(x, levels, ∂L/∂prediction) → ∂L/∂x`; the derivative in the level is a central difference of two more
    /// calls.
    pub fn with_state_pullback<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        mut self,
        pull_back: impl Fn(&Tensor, &Levels, &Tensor) -> Result<Tensor, E> + Send + Sync + 'static,
    ) -> Self {
        let state = move |x: &Tensor, levels: &Levels, g: &Tensor| pull_back(x, levels, g).map_err(Error::foreign);
        self.pull_back = Some(Arc::new(move |x, levels, g| Ok((state(x, levels, g)?, None))));
        self
    }

    fn level_gradient(&self, x: &Tensor, levels: &Levels, cotangent: &Tensor) -> Result<Vec<f64>> {
        let steps: Vec<f64> = (0..x.samples()).map(|i| STEP * levels.of(i).abs().max(1e-8)).collect();
        let at = |sign: f64| {
            let moved = steps.iter().enumerate().map(|(i, h)| levels.of(i) + sign * h).collect();
            (self.predict)(x, &Levels::Each(moved))
        };
        let (above, below) = (at(1.0)?, at(-1.0)?);
        let slope = |i: usize| {
            let g = cotangent.sample(i);
            (dot(g, above.sample(i)) - dot(g, below.sample(i))) / (2.0 * steps[i])
        };
        Ok((0..x.samples()).map(slope).collect())
    }
}

/// A batch of the shape of `x` from its samples.
fn by_sample(x: &Tensor, sample: impl FnMut(usize) -> Vec<f64>) -> Result<Tensor> {
    Tensor::new(x.shape(), (0..x.samples()).flat_map(sample).collect())
}

impl Denoiser for ClosureModel {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        (self.predict)(x, levels)
    }

    fn info(&self) -> Info {
        self.prediction.into()
    }
}

impl Differentiable for ClosureModel {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        let pull_back = self.pull_back.as_ref().ok_or_else(|| {
            Error::conflict(
                "this model can be asked, but not differentiated",
                "learn without gradients: `optimiser = gauss-newton`; or give the model a pullback: \
                   ClosureModel::with_pullback or with_state_pullback",
            )
        })?;
        let value = self.predict(x, levels)?;
        let (x, levels) = (x.clone(), levels.clone());
        let back = move |cotangent: &Tensor| {
            let (to_x, to_level) = pull_back(&x, &levels, cotangent)?;
            let to_level = to_level.map_or_else(|| self.level_gradient(&x, &levels, cotangent), Ok)?;
            Ok((to_x, to_level))
        };
        Ok((value, Box::new(back)))
    }
}

impl Model for ClosureModel {
    fn bind<'m>(&'m self, condition: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        condition.class_of_each(0)?;
        Ok(Box::new(self))
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn prediction(&self) -> Prediction {
        self.prediction
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.range
    }
}
