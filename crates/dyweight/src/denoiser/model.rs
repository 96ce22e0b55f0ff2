//! A model before its conditioning is bound.

use super::{Denoiser, Differentiable, Levels, Prediction, Pullback};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// What a batch is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    /// A class for each sample; none asks the model without a label.
    pub labels: Option<Vec<usize>>,
    /// Classifier-free guidance F_u + g(F_c − F_u); none is plain conditioning.
    pub guidance: Option<f64>,
}

/// A density on the entries of one sample.
pub type Density<'m> = Box<dyn Fn(&[f64]) -> f64 + 'm>;

/// A pretrained model.
pub trait Model: Send + Sync {
    /// Binds the conditioning of a batch.
    fn bind<'m>(&'m self, condition: &Condition) -> Result<Box<dyn Differentiable + 'm>>;

    /// Sample shape `[c, h, w]`.
    fn shape(&self) -> [usize; 3];

    /// Number of classes; 0 for an unconditional model.
    fn classes(&self) -> usize {
        0
    }

    /// What the network predicts.
    fn prediction(&self) -> Prediction;

    /// Noise levels the model was trained for.
    fn sigma_range(&self) -> (f64, f64);

    /// The density of the data, up to a factor, where it is known in closed form.
    fn density(&self) -> Option<Density<'_>> {
        None
    }

    /// True if one prediction is too little work for more than one thread, so that batches are better spread over threads.
    fn is_light(&self) -> bool {
        false
    }
}

impl Condition {
    /// An error unless a model of `classes` classes can be asked this.
    pub fn check(&self, classes: usize) -> Result<()> {
        let bad = |name, value: String, expected: String| Err(Error::BadValue { name, value, expected });
        match (&self.labels, self.guidance) {
            (Some(_), _) if classes == 0 => bad("class", "given".into(), "this model has no classes".into()),
            (Some(labels), _) if labels.iter().any(|l| *l >= classes) => {
                let worst = labels.iter().max().copied().unwrap_or(0);
                bad("class", worst.to_string(), format!("this model has classes 0 to {}", classes - 1))
            }
            (_, Some(g)) if !g.is_finite() => bad("guidance", g.to_string(), "must be finite".into()),
            (None, Some(g)) => bad("guidance", g.to_string(), "guidance needs a class to guide to".into()),
            _ => Ok(()),
        }
    }
}

impl<T: Denoiser + ?Sized> Denoiser for &T {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        (**self).predict(x, levels)
    }

    fn prediction(&self) -> Prediction {
        (**self).prediction()
    }

    fn sigma_range(&self) -> (f64, f64) {
        (**self).sigma_range()
    }

    fn calls(&self) -> usize {
        (**self).calls()
    }
}

impl<T: Differentiable + ?Sized> Differentiable for &T {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        (**self).with_pullback(x, levels)
    }
}
