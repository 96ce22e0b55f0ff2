//! Requests to stop, heard between two calls of a network: an iteration of a large one may take an hour.

use dyweight_core::denoiser::{Denoiser, Differentiable, Levels, Prediction, Pullback};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use std::sync::Arc;

/// Whether someone wants the work to end: asked now and then.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// A model that hears a request to stop before every call.
pub struct Interruptible<'t> {
    inner: Box<dyn Differentiable + 't>,
    stop: Option<&'t Stop>,
}

impl<'t> Interruptible<'t> {
    /// Around `inner`; without a request it is passed on as it is.
    pub fn new(inner: Box<dyn Differentiable + 't>, stop: Option<&'t Stop>) -> Self {
        Self { inner, stop }
    }

    fn go_on(&self) -> Result<()> {
        if self.stop.is_some_and(|stop| stop()) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

impl Denoiser for Interruptible<'_> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        self.go_on()?;
        self.inner.predict(x, levels)
    }

    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        self.go_on()?;
        self.inner.predict_with_feature(x, levels, len)
    }

    fn require_embedding(&self, len: usize) -> Result<()> {
        self.inner.require_embedding(len)
    }

    fn prediction(&self) -> Prediction {
        self.inner.prediction()
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.inner.sigma_range()
    }

    fn calls(&self) -> usize {
        self.inner.calls()
    }
}

impl Differentiable for Interruptible<'_> {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        self.go_on()?;
        self.inner.with_pullback(x, levels)
    }
}
