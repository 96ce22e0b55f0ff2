//! Something large that is opened when it is first asked and let go when it is not needed for a while.

use dyweight_core::error::Result;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Open from the first use until [`close`](Self::close).
pub(super) struct OnDemand<T>(Mutex<Option<T>>);

impl<T> Default for OnDemand<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> OnDemand<T> {
    /// One that is open already.
    pub(super) fn open(it: T) -> Self {
        Self(Mutex::new(Some(it)))
    }

    /// What `f` makes of it; opened first if it is closed.
    pub(super) fn with<R>(&self, open: impl FnOnce() -> Result<T>, f: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        match &mut *self.lock() {
            Some(it) => f(it),
            closed => f(closed.insert(open()?)),
        }
    }

    /// Lets it go, and the buffers it worked in.
    pub(super) fn close(&self) {
        if self.lock().take().is_some() {
            dyweight_nn::buffer::release();
        }
    }

    /// Whether it is open.
    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
