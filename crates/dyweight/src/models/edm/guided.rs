//! Classifier-free guidance (Ho & Salimans 2021): D = D_u + g·(D_c − D_u), two network calls.

use super::bound::Bound;
use crate::denoiser::{Denoiser, Differentiable, Levels, Prediction, Pullback};
use crate::error::Result;
use crate::tensor::Tensor;

/// A network asked with and without its labels.
pub(super) struct Guided<'m> {
    pub(super) conditional: Bound<'m>,
    pub(super) unconditional: Bound<'m>,
    pub(super) guidance: f64,
}

impl Guided<'_> {
    fn mix(&self, unconditional: Tensor, conditional: &Tensor) -> Tensor {
        let (mut mixed, g) = (unconditional, self.guidance);
        mixed.data_mut().iter_mut().zip(conditional.data()).for_each(|(u, c)| *u += g * (c - *u));
        mixed
    }
}

impl Denoiser for Guided<'_> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        let unconditional = self.unconditional.predict(x, levels)?;
        Ok(self.mix(unconditional, &self.conditional.predict(x, levels)?))
    }

    fn prediction(&self) -> Prediction {
        self.conditional.prediction()
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.conditional.sigma_range()
    }

    fn calls(&self) -> usize {
        2
    }
}

impl Differentiable for Guided<'_> {
    fn with_pullback<'p>(&'p self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'p>)> {
        let (unconditional, pull_u) = self.unconditional.with_pullback(x, levels)?;
        let (conditional, pull_c) = self.conditional.with_pullback(x, levels)?;
        let (value, g) = (self.mix(unconditional, &conditional), self.guidance);
        let pullback = move |cotangent: &Tensor| {
            let (mut to_x, mut to_sigma) = pull_u(&cotangent.map(|v| (1.0 - g) * v))?;
            let (more_x, more_sigma) = pull_c(&cotangent.map(|v| g * v))?;
            to_x.data_mut().iter_mut().zip(more_x.data()).for_each(|(a, b)| *a += b);
            to_sigma.iter_mut().zip(more_sigma).for_each(|(a, b)| *a += b);
            Ok((to_x, to_sigma))
        };
        Ok((value, Box::new(pullback)))
    }
}
