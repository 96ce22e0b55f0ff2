//! The training loss a user names, with the feature network it may need.

use dyweight_core::error::Result;
use dyweight_models::FeatureSpec;
use dyweight_train::{Loss, TrainSpec};

/// The loss of a training run on samples of a shape.
pub fn training_loss(train: &TrainSpec, shape: [usize; 3]) -> Result<Loss> {
    train.loss(|name| {
        let (inception, resize) = (train.inception.clone(), train.resize.clone());
        FeatureSpec { features: Some(name.into()), inception, resize }.build(shape)
    })
}
