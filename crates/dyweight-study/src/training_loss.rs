//! The training loss a user names, with the feature network it may need.

use dyweight_core::denoiser::Model;
use dyweight_core::error::{Error, Result};
use dyweight_core::features::FeatureMap;
use dyweight_models::clip::{ClipFeatures, ClipFile, ClipOptions};
use dyweight_models::{DecodedFeatures, FeatureSpec};
use dyweight_train::{Loss, TrainSpec};
use std::sync::Arc;

/// The loss of a training run on a model.
pub fn training_loss(train: &TrainSpec, model: &Arc<dyn Model>) -> Result<Loss> {
    train.loss(|name| {
        if name == "clip" {
            return DecodedFeatures::of(model, |shape| clip(train, shape));
        }
        let (inception, resize) = (train.inception.clone(), train.resize.clone());
        let spec = FeatureSpec { features: Some(name.into()), inception, resize };
        DecodedFeatures::of(model, |shape| spec.build(shape))
    })
}

fn clip(train: &TrainSpec, shape: [usize; 3]) -> Result<Arc<dyn FeatureMap>> {
    let path = train.clip_model.as_ref().ok_or_else(|| Error::Conflict {
        problem: "the loss 'clip' needs a CLIP model".into(),
        hint: "give its file or folder with --clip-model".into(),
    })?;
    Ok(Arc::new(ClipFeatures::new(ClipFile::open(path, &ClipOptions::default())?, shape)?))
}
