//! A model with somebody watching its calls: the one wrapper that changes no answer.

use super::{Denoiser, Differentiable, Info, Levels, Pullback};
use crate::error::Result;
use crate::tensor::Tensor;

/// A moment of a call.
pub enum Call<'c> {
    /// Before the model is asked.
    Asked,
    /// After its answer; one whose way back is wanted is not shown.
    Answered {
        /// The states.
        x: &'c Tensor,
        /// Their levels.
        levels: &'c Levels,
        /// The prediction.
        answer: &'c Tensor,
    },
}

/// A model whose calls are seen by `watch`, whose error is the call's.
pub struct Watched<'m, W> {
    inner: Box<dyn Differentiable + 'm>,
    watch: W,
}

impl<'m, W: Fn(Call<'_>) -> Result<()> + Send + Sync> Watched<'m, W> {
    /// A model, and who sees its calls.
    pub fn new(inner: Box<dyn Differentiable + 'm>, watch: W) -> Self {
        Self { inner, watch }
    }
}

impl<W: Fn(Call<'_>) -> Result<()> + Send + Sync> Denoiser for Watched<'_, W> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        (self.watch)(Call::Asked)?;
        let answer = self.inner.predict(x, levels)?;
        (self.watch)(Call::Answered { x, levels, answer: &answer })?;
        Ok(answer)
    }

    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        (self.watch)(Call::Asked)?;
        let (answer, feature) = self.inner.predict_with_feature(x, levels, len)?;
        (self.watch)(Call::Answered { x, levels, answer: &answer })?;
        Ok((answer, feature))
    }

    fn info(&self) -> Info {
        self.inner.info()
    }
}

impl<W: Fn(Call<'_>) -> Result<()> + Send + Sync> Differentiable for Watched<'_, W> {
    fn with_pullback<'p>(&'p self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'p>)> {
        (self.watch)(Call::Asked)?;
        self.inner.with_pullback(x, levels)
    }
}
