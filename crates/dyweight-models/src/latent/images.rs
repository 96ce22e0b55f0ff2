//! From samples of a denoiser to images.

use super::bundle::Bundle;
use super::flow;
use super::model::{self, Settings};
use super::random::Family;
use crate::autoencoder::{Autoencoder, AutoencoderConfig, Halves, Tiling};
use crate::exchange::{scaled_act, to_tensor};
use crate::memory::decoder_numbers;
use crate::weights::Pages;
use dyweight_core::denoiser::{Decoder, DecoderPullback};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_nn::Act;

/// An autoencoder and the size of its images.
pub struct ImageDecoder {
    autoencoder: Autoencoder,
    latents: [usize; 3],
    /// Weights of the denoiser.
    denoiser: Vec<Pages>,
}

impl ImageDecoder {
    /// The same, letting go of a denoiser's weights before it decodes: either alone takes most of the memory.
    pub(super) fn instead_of(self, denoiser: &[Pages]) -> Self {
        Self { denoiser: denoiser.to_vec(), ..self }
    }

    /// The autoencoder's.
    pub(super) fn config(&self) -> &AutoencoderConfig {
        self.autoencoder.config()
    }

    /// For latents of this shape.
    pub fn new(autoencoder: Autoencoder, latents: [usize; 3]) -> Result<Self> {
        let own = autoencoder.config().latents;
        if own != latents[0] {
            let what = "channels of the autoencoder's latents".into();
            return Err(Error::Shape { what, expected: vec![latents[0]], found: vec![own] });
        }
        Ok(Self { autoencoder, latents, denoiser: Vec::new() })
    }

    /// That of a bundle's latents, without its denoiser; none if it has no autoencoder.
    pub(crate) fn of_bundle(bundle: &Bundle, settings: &Settings) -> Result<Option<Self>> {
        if bundle.vae.is_none() {
            return Ok(None);
        }
        let (autoencoder, _) = Autoencoder::load(bundle.autoencoder()?, settings.conv, Halves::Decoder)?;
        let factor = Some(autoencoder.config().factor());
        let latents = match bundle.is_flow() {
            true => flow::latent_shape(&bundle.transformer()?.config, factor, settings)?,
            false => model::latent_shape(&bundle.unet()?.config, factor, settings)?,
        };
        Self::new(autoencoder, latents).map(Some)
    }

    /// That of a family, with random weights.
    pub(crate) fn random(family: &Family, seed: u64, settings: &Settings) -> Result<Self> {
        let autoencoder = Autoencoder::random(&family.autoencoder, (seed, family.dtype), settings.conv)?;
        let latents = model::latent_shape(&family.unet, Some(autoencoder.config().factor()), settings)?;
        Self::new(autoencoder, latents)
    }

    /// The shape of what it decodes.
    pub fn latents(&self) -> [usize; 3] {
        self.latents
    }

    /// What the autoencoder decodes for sample `i`.
    fn latents_of(&self, samples: &Tensor, i: usize) -> Act {
        let config = self.autoencoder.config();
        let latents = samples.slice(i..i + 1).map(|u| u / config.scaling + config.shift);
        let z = scaled_act(&latents, latents.shape()[1], |_| 1.0);
        self.autoencoder.quantise(&z).map_or(z, |(z, _)| z)
    }

    /// Bytes that decoding an image takes, beside the weights.
    pub(super) fn memory(&self) -> u64 {
        decoder_numbers(self.config(), [self.latents[1], self.latents[2]]) * size_of::<f32>() as u64
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
        self.denoiser.iter().for_each(Pages::release);
        let image = |i: usize| {
            let z = self.latents_of(samples, i);
            to_tensor(&match Tiling::of(z.size()) {
                Some(tiling) => self.autoencoder.decode_tiled(&z, tiling),
                None => self.autoencoder.decode(&z, false).0,
            })
        };
        Tensor::concat(&(0..samples.samples()).map(image).collect::<Result<Vec<_>>>()?)
    }

    /// On the way back every image is decoded again, and only what one of them needs is held. The gradient of a
    /// codebook's rounding is passed on unchanged.
    fn with_pullback<'d>(&'d self, samples: &Tensor) -> Result<(Tensor, DecoderPullback<'d>)> {
        let [_, h, w] = self.latents;
        if Tiling::of([h, w]).is_some() {
            return Err(Error::conflict(
                format!("latents of {h}x{w} are decoded in tiles, whose gradient is not known"),
                "train on smaller images, or with a loss of latents: l2, l1 or huber",
            ));
        }
        let kept = samples.clone();
        let back = move |gradient: &Tensor| {
            let scaling = self.autoencoder.config().scaling;
            let one = |i: usize| {
                let (_, tape) = self.autoencoder.decode(&self.latents_of(&kept, i), true);
                let g = scaled_act(&gradient.slice(i..i + 1), gradient.shape()[1], |_| 1.0);
                let to_latents = tape.map(|tape| self.autoencoder.decode_backward(tape, &g));
                Ok(to_tensor(&to_latents.unwrap_or(g))?.map(|v| v / scaling))
            };
            Tensor::concat(&(0..kept.samples()).map(one).collect::<Result<Vec<_>>>()?)
        };
        Ok((self.decode(samples)?, Box::new(back)))
    }
}
