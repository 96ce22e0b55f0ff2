//! The feature network that goes with a model.

use super::model::LoadedModel;
use crate::error::{Error, Result};
use crate::models::features::{FashionFeatures, FeatureMap};
use crate::train::Loss;
use std::sync::Arc;

/// The feature loss for a model: the embedded feature network serves images of its shape.
pub fn feature_loss(model: &LoadedModel) -> Result<Loss> {
    let features = FashionFeatures::embedded()?;
    if features.shape() == model.model.shape() {
        return Ok(Loss::Features(Arc::new(features)));
    }
    Err(Error::Conflict {
        problem: format!("there is no feature network for '{}'", model.name),
        hint: "use --loss l2, l1 or huber".into(),
    })
}
