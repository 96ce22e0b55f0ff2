//! Models as the short functions of the library take them: by reference, to be kept by as many as need them.

use super::{Model, ModelIdentity};
use std::sync::Arc;

/// A model that can be kept: one that can be cloned, or one behind an [`Arc`].
pub trait SharedModel {
    /// The model.
    fn share(&self) -> Arc<dyn Model>;

    /// Which one it is, where that is known.
    fn identity(&self) -> ModelIdentity {
        ModelIdentity::default()
    }
}

impl<M: Model + Clone + 'static> SharedModel for M {
    fn share(&self) -> Arc<dyn Model> {
        Arc::new(self.clone())
    }
}

impl<M: Model + 'static> SharedModel for Arc<M> {
    fn share(&self) -> Arc<dyn Model> {
        self.clone()
    }
}

impl SharedModel for Arc<dyn Model> {
    fn share(&self) -> Arc<dyn Model> {
        self.clone()
    }
}
