//! Features of the images that latents decode to, so that a loss of images can train on a model of latents.

use dyweight_core::denoiser::{Decoder, Model};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::{FeatureMap, FeaturePullback};
use dyweight_core::tensor::Tensor;
use std::sync::Arc;

/// A feature map behind a model's decoder.
pub struct DecodedFeatures {
    model: Arc<dyn Model>,
    map: Arc<dyn FeatureMap>,
}

impl DecodedFeatures {
    /// The map as one of the model's samples: itself where these are images.
    pub fn of(
        model: &Arc<dyn Model>,
        build: impl FnOnce([usize; 3]) -> Result<Arc<dyn FeatureMap>>,
    ) -> Result<Arc<dyn FeatureMap>> {
        match model.decoder() {
            None => build(model.shape()),
            Some(decoder) => Ok(Arc::new(Self { map: build(decoder.shape())?, model: model.clone() })),
        }
    }

    fn decoder(&self) -> Result<&dyn Decoder> {
        self.model.decoder().ok_or_else(|| {
            Error::conflict("this model's samples are not decoded", "use features of the samples themselves")
        })
    }
}

impl FeatureMap for DecodedFeatures {
    fn name(&self) -> &str {
        self.map.name()
    }

    fn sha256(&self) -> &str {
        self.map.sha256()
    }

    fn shape(&self) -> [usize; 3] {
        self.model.shape()
    }

    fn dims(&self) -> usize {
        self.map.dims()
    }

    fn features(&self, samples: &Tensor) -> Result<Tensor> {
        self.map.features(&self.decoder()?.decode(samples)?)
    }

    fn with_pullback<'m>(&'m self, samples: &Tensor) -> Result<(Tensor, FeaturePullback<'m>)> {
        let (images, to_samples) = self.decoder()?.with_pullback(samples)?;
        let (features, to_images) = self.map.with_pullback(&images)?;
        Ok((features, Box::new(move |gradient| to_samples(&to_images(gradient)?))))
    }
}
