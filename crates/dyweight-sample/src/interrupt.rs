//! Requests to stop, heard between two calls of a network: an iteration of a large one may take an hour.

use dyweight_core::denoiser::{Call, Differentiable, Watched};
use dyweight_core::error::{Error, Result};
use std::sync::Arc;

/// Whether someone wants the work to end: asked now and then.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// A model that hears a request to stop before every call.
pub fn interruptible<'t>(
    inner: Box<dyn Differentiable + 't>,
    stop: Option<&'t Stop>,
) -> Watched<'t, impl Fn(Call<'_>) -> Result<()> + Send + Sync + 't> {
    Watched::new(inner, move |call| match (call, stop) {
        (Call::Asked, Some(stop)) if stop() => Err(Error::Cancelled),
        _ => Ok(()),
    })
}
