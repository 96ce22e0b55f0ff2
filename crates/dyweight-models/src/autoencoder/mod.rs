//! The autoencoders of latent diffusion (Rombach et al. 2022): KL-regularised (Stable Diffusion, FLUX) and with a
//! codebook (VQ, the LSUN models).
//!
//! ```text
//! decode(z):  h = conv_in(post_quant(z)), h = mid(h);  levels from the coarsest: (L+1) × Res, conv(nearest ×2);
//!             conv_out(silu(norm(h)))
//! encode(x):  h = conv_in(x);  levels from the finest: L × Res, conv stride 2 after zeros right and below;  mid,
//!             conv_out(silu(norm(h))), quant
//! mid:        Res, attention with one head, Res
//! ```
//!
//! A codebook replaces each pixel of z by its nearest entry before decoding; its gradient is passed on unchanged.
//! Samples u of a denoiser are z = u/scaling + shift.

mod codebook;
mod config;
mod decoder;
mod encoder;
mod middle;
mod names;
mod tiles;

pub use config::AutoencoderConfig;
pub(crate) use names::{compvis, diffusers, is_compvis};

use crate::weights::{Found, Scope, Source, TensorPlan};
use codebook::Codebook;
use decoder::{Decoder, DecoderTape};
use dyweight_core::error::Result;
use dyweight_nn::{Act, Conv2d, ConvAlgo, ConvSpec, Dtype};
use encoder::Encoder;
pub(crate) use tiles::Tiling;

/// An autoencoder with its weights.
pub struct Autoencoder {
    config: AutoencoderConfig,
    encoder: Option<(Encoder, Option<Conv2d>)>,
    post_quant: Option<Conv2d>,
    codebook: Option<Codebook>,
    decoder: Decoder,
}

/// Which halves are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halves {
    /// To decode only.
    Decoder,
    /// To encode, too.
    Both,
}

/// What decoding kept for its gradient.
pub(crate) struct DecodingTape {
    size: [usize; 2],
    decoder: DecoderTape,
}

impl Autoencoder {
    /// Builds it from the tensors of a file, with their fingerprint.
    pub(crate) fn load(found: Found<AutoencoderConfig>, algo: ConvAlgo, halves: Halves) -> Result<(Self, String)> {
        let Found { config, set, layout } = found;
        let layout = match halves {
            Halves::Both => layout,
            Halves::Decoder => layout.ignoring(|name| {
                name.contains("encoder.") || (name.contains("quant_conv.") && !name.contains("post_quant_conv."))
            }),
        };
        Source::build("autoencoder", &set, &layout, |scope| Self::new(&config, scope, algo, halves))
    }

    /// One with random weights, the same for the same seed.
    pub fn random(config: &AutoencoderConfig, (seed, dtype): (u64, Dtype), algo: ConvAlgo) -> Result<Self> {
        Self::new(config, &Source::Random { seed, dtype }.root(), algo, Halves::Decoder)
    }

    /// The tensors of a configuration.
    pub fn plan(config: &AutoencoderConfig) -> Result<Vec<TensorPlan>> {
        Source::plan(|scope| Self::new(config, scope, ConvAlgo::Direct, Halves::Both))
    }

    fn new(config: &AutoencoderConfig, scope: &Scope<'_>, algo: ConvAlgo, halves: Halves) -> Result<Self> {
        let AutoencoderConfig { hidden, latents, .. } = *config;
        let twice = if config.codebook.is_some() { 1 } else { 2 };
        let pointwise = |name: &str, from: usize, to: usize| scope.conv(name, ConvSpec::same(from, to, 1, algo));
        let encoder = match halves {
            Halves::Decoder => None,
            Halves::Both => {
                let encoder = Encoder::new(&scope.at("encoder"), config, twice * hidden, algo)?;
                let quant = || pointwise("quant_conv", twice * hidden, twice * latents);
                Some((encoder, config.quant.then(quant).transpose()?))
            }
        };
        let codebook = |entries: usize| -> Result<Codebook> {
            Ok(Codebook::new(latents, scope.numbers("quantize.embedding.weight", &[entries, latents])?))
        };
        Ok(Self {
            encoder,
            post_quant: config.post_quant.then(|| pointwise("post_quant_conv", latents, hidden)).transpose()?,
            codebook: config.codebook.map(codebook).transpose()?,
            decoder: Decoder::new(&scope.at("decoder"), config, algo)?,
            config: config.clone(),
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &AutoencoderConfig {
        &self.config
    }

    /// Each pixel of `z` replaced by its nearest codebook entry, and which that is; none without a codebook.
    pub fn quantise(&self, z: &Act) -> Option<(Act, Vec<usize>)> {
        self.codebook.as_ref().map(|codebook| codebook.nearest(z))
    }

    /// The image of latents `z` that have been quantised where there is a codebook.
    pub(crate) fn decode(&self, z: &Act, record: bool) -> (Act, Option<DecodingTape>) {
        let size = z.size();
        let h = self.post_quant.as_ref().map(|conv| conv.forward(z));
        let (image, tape) = self.decoder.forward(h.as_ref().unwrap_or(z), record);
        (image, tape.map(|decoder| DecodingTape { size, decoder }))
    }

    /// The image of one sample's latents that have been quantised where there is a codebook, in tiles.
    pub(crate) fn decode_tiled(&self, z: &Act, tiling: Tiling) -> Act {
        let h = self.post_quant.as_ref().map(|conv| conv.forward(z));
        self.decoder.forward_tiled(h.as_ref().unwrap_or(z), self.config.factor(), tiling)
    }

    /// The gradient of the latents from that of the image.
    pub(crate) fn decode_backward(&self, tape: DecodingTape, gradient: &Act) -> Act {
        let g = self.decoder.backward(tape.decoder, gradient);
        match &self.post_quant {
            Some(conv) => conv.backward(&g, tape.size),
            None => g,
        }
    }

    /// Mean and, of the KL kind, logarithm of the variance, one after the other along the channels; none if only the
    /// decoder was built.
    pub fn encode(&self, image: &Act) -> Option<Act> {
        let (encoder, quant) = self.encoder.as_ref()?;
        let moments = encoder.forward(image);
        Some(quant.as_ref().map_or_else(|| moments.clone(), |conv| conv.forward(&moments)))
    }
}
