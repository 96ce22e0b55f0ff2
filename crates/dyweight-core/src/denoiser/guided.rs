//! Classifier-free guidance (Ho and Salimans 2021): y = y₋ + g·(y₊ − y₋), two predictions for one.
//!
//! The samples with their contexts and the same samples with the negative one go through the model as one batch. This
//! is the only place that knows what guidance costs.

use super::{Denoiser, Differentiable, Info, Levels, Pullback};
use crate::error::Result;
use crate::tensor::Tensor;

/// A model asked twice.
pub(super) struct Guided<'m> {
    /// Bound to the contexts of all samples, then to as many negative ones.
    both: Box<dyn Differentiable + 'm>,
    guidance: f64,
}

impl<'m> Guided<'m> {
    pub(super) fn new(both: Box<dyn Differentiable + 'm>, guidance: f64) -> Self {
        Self { both, guidance }
    }

    fn mix(&self, both: &Tensor) -> Tensor {
        let (n, g) = (both.samples() / 2, self.guidance);
        let (positive, mut mixed) = (both.slice(0..n), both.slice(n..2 * n));
        mixed.data_mut().iter_mut().zip(positive.data()).for_each(|(u, c)| *u += g * (c - *u));
        mixed
    }
}

fn twice(x: &Tensor, levels: &Levels) -> Result<(Tensor, Levels)> {
    fn both(levels: &Levels) -> Levels {
        match levels {
            Levels::One(level) => Levels::One(*level),
            Levels::Each(each) => Levels::Each([&each[..], each].concat()),
            Levels::Shifted { level, by } => {
                Levels::Shifted { level: Box::new(both(level)), by: by.iter().map(both).collect() }
            }
        }
    }
    Ok((Tensor::concat(&[x.clone(), x.clone()])?, both(levels)))
}

impl Denoiser for Guided<'_> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        let (x, levels) = twice(x, levels)?;
        Ok(self.mix(&self.both.predict(&x, &levels)?))
    }

    /// The feature is that of the samples with their contexts.
    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        let (x, levels) = twice(x, levels)?;
        let (both, mut feature) = self.both.predict_with_feature(&x, &levels, len)?;
        feature.truncate(both.samples() / 2);
        Ok((self.mix(&both), feature))
    }

    fn info(&self) -> Info {
        let inner = self.both.info();
        Info { calls: 2 * inner.calls, ..inner }
    }
}

impl Differentiable for Guided<'_> {
    fn with_pullback<'p>(&'p self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'p>)> {
        let (x, levels) = twice(x, levels)?;
        let (both, pullback) = self.both.with_pullback(&x, &levels)?;
        let (value, g) = (self.mix(&both), self.guidance);
        let pullback = move |cotangent: &Tensor| {
            let n = cotangent.samples();
            let parts = [cotangent.map(|v| g * v), cotangent.map(|v| (1.0 - g) * v)];
            let (to_x, to_told) = pullback(&Tensor::concat(&parts)?)?;
            let (positive, mut sum) = (to_x.slice(0..n), to_x.slice(n..2 * n));
            sum.data_mut().iter_mut().zip(positive.data()).for_each(|(a, b)| *a += b);
            let of_both = |both: &[f64]| both.iter().skip(n).zip(both).map(|(a, b)| a + b).collect::<Vec<_>>();
            Ok((sum, to_told.chunks((2 * n).max(1)).flat_map(of_both).collect()))
        };
        Ok((value, Box::new(pullback)))
    }
}
