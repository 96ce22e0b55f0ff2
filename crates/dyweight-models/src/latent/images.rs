//! From samples of a denoiser to images.

use super::bound::{scaled_act, to_tensor};
use crate::autoencoder::{Autoencoder, Tiling};
use dyweight_core::denoiser::Decoder;
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;

/// An autoencoder and the size of its images.
pub struct ImageDecoder {
    autoencoder: Autoencoder,
    latents: [usize; 3],
}

impl ImageDecoder {
    /// For latents of this shape.
    pub fn new(autoencoder: Autoencoder, latents: [usize; 3]) -> Result<Self> {
        let own = autoencoder.config().latents;
        if own != latents[0] {
            let what = "channels of the autoencoder's latents".into();
            return Err(Error::Shape { what, expected: vec![latents[0]], found: vec![own] });
        }
        Ok(Self { autoencoder, latents })
    }

    /// The autoencoder.
    pub fn autoencoder(&self) -> &Autoencoder {
        &self.autoencoder
    }
}

impl Decoder for ImageDecoder {
    fn shape(&self) -> [usize; 3] {
        let config = self.autoencoder.config();
        let [_, h, w] = self.latents;
        [config.images, config.factor() * h, config.factor() * w]
    }

    /// One after the other, and large ones in tiles: an image takes a hundred times the memory of its latents.
    fn decode(&self, samples: &Tensor) -> Result<Tensor> {
        let config = self.autoencoder.config();
        let image = |i: usize| {
            let latents = samples.slice(i..i + 1).map(|u| u / config.scaling + config.shift);
            let z = scaled_act(&latents, |_| 1.0);
            let z = self.autoencoder.quantise(&z).map_or(z, |(quantised, _)| quantised);
            to_tensor(&match Tiling::of(z.size()) {
                Some(tiling) => self.autoencoder.decode_tiled(&z, tiling),
                None => self.autoencoder.decode(&z, false).0,
            })
        };
        Tensor::concat(&(0..samples.samples()).map(image).collect::<Result<Vec<_>>>()?)
    }
}
