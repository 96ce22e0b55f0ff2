//! The training loss a user names, with the feature network it may need.

use crate::FrechetLoss;
use dyweight_core::denoiser::Model;
use dyweight_core::error::{Error, Result};
use dyweight_core::features::FeatureMap;
use dyweight_core::option;
use dyweight_metrics::frechet::Reference;
use dyweight_metrics::{BUILT_IN_REFERENCE, statistics};
use dyweight_models::clip::{ClipFeatures, ClipFile, ClipOptions};
use dyweight_models::{DecodedFeatures, FeatureSpec};
use dyweight_train::{Loss, TrainSpec};
use std::sync::Arc;

/// The loss of a training run on a model.
pub fn training_loss(train: &TrainSpec, model: &Arc<dyn Model>) -> Result<Loss> {
    if train.loss.as_deref() == Some("frechet") {
        return frechet(train, model);
    }
    let joint = &train.joint;
    let given = [("reference", joint.reference.is_some()), ("moments", joint.moments.is_some())];
    option::refuse(&given, |option| Error::needs(option, "loss = frechet"))?;
    dyweight_train::plan::loss(train, |name| {
        if name == "clip" {
            return DecodedFeatures::of(model, |shape| clip(train, shape));
        }
        let (inception, resize) = (train.inception.clone(), train.resize.clone());
        let features = if name == "inception" { name } else { train.features.as_deref().unwrap_or(name) };
        let spec = FeatureSpec { features: Some(features.into()), inception, resize };
        DecodedFeatures::of(model, |shape| spec.build(shape))
    })
}

/// The Fréchet distance to real images, by the features its statistics were made with. Another network judges.
fn frechet(train: &TrainSpec, model: &Arc<dyn Model>) -> Result<Loss> {
    let name = train.joint.reference.as_deref().unwrap_or(BUILT_IN_REFERENCE);
    let (features, inception) = (train.features.clone(), train.inception.clone());
    let spec = FeatureSpec { features, inception, resize: train.resize.clone() };
    let mut parts = Vec::new();
    for one in spec.each() {
        let map = DecodedFeatures::of(model, |shape| one.build(shape))?;
        let reference = Arc::new(reference_of(name, &*map)?);
        parts.push((map, reference));
    }
    let judge = DecodedFeatures::of(model, |shape| spec.judge(shape))?;
    // Statistics of a user's are of one network only.
    let known = parts.iter().find(|(map, _)| map.sha256() == judge.sha256()).map(|(_, own)| own.clone());
    let others = match known {
        None if name == BUILT_IN_REFERENCE && parts.iter().all(|(map, _)| map.sha256() != judge.sha256()) => {
            Some(Arc::new(reference_of(name, &*judge)?))
        }
        known => known,
    };
    let loss = FrechetLoss::of(parts).judged_by(judge, others);
    Ok(Loss::Joint(Arc::new(loss)))
}

fn reference_of(name: &str, map: &dyn FeatureMap) -> Result<Reference> {
    let statistics = statistics(name, map.name())?;
    if statistics.mu.len() != map.dims() {
        let what = format!("features of the reference '{name}'");
        return Err(Error::Shape { what, expected: vec![map.dims()], found: vec![statistics.mu.len()] });
    }
    Reference::new(statistics)
}

fn clip(train: &TrainSpec, shape: [usize; 3]) -> Result<Arc<dyn FeatureMap>> {
    let path = train.clip_model.as_ref().ok_or_else(|| {
        Error::conflict("the loss 'clip' needs a CLIP model", "give its file or folder with `clip-model`")
    })?;
    Ok(Arc::new(ClipFeatures::new(ClipFile::open(path, &ClipOptions::default())?, shape)?))
}
