//! Reference statistics by name or file, with the feature network they belong to.

use crate::Origin;
use crate::frechet::{Reference, Statistics};
use crate::named::{BUILT_IN_REFERENCE, statistics};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::FeatureMap;
use dyweight_models::{FeatureSpec, LoadedModel};
use std::sync::Arc;

/// Features and the statistics to compare with.
pub type FeatureReference = (Arc<dyn FeatureMap>, Arc<Reference>);

/// The other of the two embedded networks with the built-in reference as it sees it; none beside any other reference.
pub fn second_network((map, reference): &FeatureReference) -> Result<Option<FeatureReference>> {
    let is_built_in = |own: Statistics| own.fingerprint() == reference.statistics().fingerprint();
    if !statistics(BUILT_IN_REFERENCE, map.name()).is_ok_and(is_built_in) {
        return Ok(None);
    }
    let own = FeatureSpec { features: Some(map.name().trim_end_matches("-features").into()), ..Default::default() };
    let judge = own.judge(map.shape())?;
    let statistics = statistics(BUILT_IN_REFERENCE, judge.name())?;
    Ok(Some((judge, Arc::new(Reference::new(statistics)?))))
}

/// What a Fréchet distance of a model's samples is taken to: `none`, the built-in `fashion`, or an `.npz` file. Left
/// out, the embedded model has the embedded reference and others have none.
pub fn reference(model: &LoadedModel, name: Option<&str>, features: &FeatureSpec) -> Result<Option<FeatureReference>> {
    let name = match name {
        None if model.name == "fashion" && features.is_embedded() => "fashion",
        None | Some("none") => return Ok(None),
        Some(name) => name,
    };
    crate::named::require_known(name)?;
    let map = features.build(model.model.image_shape())?;
    let statistics = statistics(name, map.name())?;
    let own = Origin { features: Some(map.name().into()), weights: Some(map.sha256().into()), ..Origin::default() };
    if let Some(problem) = statistics.source.conflict(&own) {
        return Err(Error::conflict(
            format!("the reference '{name}' cannot be used here: {problem}"),
            "make statistics with the same features",
        ));
    }
    if statistics.mu.len() != map.dims() {
        let what = format!("features of the reference '{name}'");
        return Err(Error::Shape { what, expected: vec![map.dims()], found: vec![statistics.mu.len()] });
    }
    Ok(Some((map, Arc::new(Reference::new(statistics)?))))
}
