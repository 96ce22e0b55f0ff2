//! A distance of all samples at once, as the Fréchet distance of their features is, lowered through its linearisation.
//!
//! ```text
//! F = F(μ, Σ) of features f₁ … f_n        dF/dfᵢ = a/n + 2/(n−1)·B(fᵢ − μ),        a = ∂F/∂μ,  B = ∂F/∂Σ
//! ```
//!
//! Two passes. The first makes the samples and their features, without derivatives, and has F, a and B. The second
//! takes, sample by sample, the derivative of a·f + n/(n−1)·(f − μ)ᵀB(f − μ) with a, B and μ held: its mean over all
//! samples is dF, to the last digit, and its mean over some of them an estimate of it. No teacher is asked.

use crate::objective::Loss;
use dyweight_core::error::Result;
use dyweight_core::features::{FeatureMap, Variety};
use dyweight_core::tensor::{Tensor, dot};
use std::sync::Arc;

/// A distance of a set of samples, by the mean and covariance of their features.
pub trait Joint: Send + Sync {
    /// The features.
    fn map(&self) -> &Arc<dyn FeatureMap>;

    /// A text that changes whenever the distance would: part of what a run is.
    fn identity(&self) -> &str;

    /// The distance of a set of rows of features, and what a sample does to it.
    fn linearised(&self, rows: &[f64]) -> Result<Linearised>;

    /// The features of whoever judges what has come of it: those of another network, wherever there is one.
    fn judge(&self) -> &Arc<dyn FeatureMap>;

    /// How samples of a student lie among the teacher's, before and after a training: rows of the judge's features of
    /// as many samples each, row by row of the same noise in the last two.
    fn variety(&self, teacher: &[f64], before: &[f64], after: &[f64]) -> Result<Variety>;
}

/// A distance around a set of samples.
pub struct Linearised {
    /// The distance.
    pub value: f64,
    /// μ.
    pub mean: Vec<f64>,
    /// a.
    pub slope: Vec<f64>,
    /// n/(n−1)·B, row by row; symmetric.
    pub form: Vec<f64>,
}

impl Linearised {
    /// The linearised distance of each row of features, and its derivative.
    pub(crate) fn with_gradient(&self, features: &Tensor) -> (Vec<f64>, Tensor) {
        let dims = self.mean.len();
        let mut gradient = features.clone();
        let mut values = Vec::new();
        for i in 0..features.samples() {
            let centred: Vec<f64> = features.sample(i).iter().zip(&self.mean).map(|(f, m)| f - m).collect();
            let bent: Vec<f64> = self.form.chunks(dims).map(|row| dot(row, &centred)).collect();
            values.push(dot(&self.slope, &centred) + dot(&bent, &centred));
            let row = gradient.data_mut()[i * dims..(i + 1) * dims].iter_mut();
            row.zip(self.slope.iter().zip(&bent)).for_each(|(g, (a, b))| *g = a + 2.0 * b);
        }
        (values, gradient)
    }
}

impl Loss {
    /// The distance of all samples at once, where it is one.
    pub fn joint(&self) -> Option<&Arc<dyn Joint>> {
        match self {
            Loss::Joint(joint) => Some(joint),
            _ => None,
        }
    }
}
