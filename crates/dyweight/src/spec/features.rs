//! Feature networks by name or file.

use crate::error::{Error, Result};
use crate::models::features::{FashionFeatures, FeatureMap};
use crate::train::Loss;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// What a user says about features of images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FeatureSpec {
    /// `fashion` or `inception`; left out, what fits: Inception where its weights are given, else the embedded network.
    pub features: Option<String>,
    /// Weights of Inception-v3.
    pub inception: Option<PathBuf>,
    /// How Inception sees an image: `edm` or `pytorch-fid`.
    pub resize: Option<String>,
}

impl FeatureSpec {
    /// The map for images of a shape.
    pub fn build(&self, shape: [usize; 3]) -> Result<Arc<dyn FeatureMap>> {
        let fitting = if self.inception.is_some() { "inception" } else { "fashion" };
        match self.features.as_deref().unwrap_or(fitting) {
            "fashion" => fashion(shape),
            other => {
                let known = ["fashion"].map(String::from).to_vec();
                Err(Error::UnknownName { kind: "feature network", name: other.into(), known })
            }
        }
    }

    /// The mean squared distance of features as a training loss.
    pub fn loss(&self, shape: [usize; 3]) -> Result<Loss> {
        self.build(shape).map(Loss::Features)
    }
}

fn fashion(shape: [usize; 3]) -> Result<Arc<dyn FeatureMap>> {
    let features = FashionFeatures::embedded()?;
    if features.shape() == shape {
        return Ok(Arc::new(features));
    }
    let [c, h, w] = shape;
    Err(Error::Conflict {
        problem: format!("the embedded feature network takes 1x28x28 images, not {c}x{h}x{w}"),
        hint: "give weights of Inception-v3 with --inception, or do without features".into(),
    })
}
