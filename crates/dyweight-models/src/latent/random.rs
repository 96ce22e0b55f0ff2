//! Released latent diffusion models with random weights, for measurements without the files.
//!
//! A name may end in `-f16` or `-bf16`: the type of the weights, else f32. A prompt is a context of random numbers that
//! are the same for the same words.

use super::model::{LatentModel, Settings};
use super::precond::Precond;
use super::texts::UnetTexts;
use crate::autoencoder::{Autoencoder, AutoencoderConfig};
use crate::preconditioned::Target;
use crate::unet::{Unet, UnetConfig};
use dyweight_core::error::Result;
use dyweight_core::schedule::BetaTable;
use dyweight_nn::Dtype;

/// Names with a line each.
pub const RANDOM: &[(&str, &str)] = &[
    ("sd15", "Stable Diffusion 1.5: a U-Net of 859.5 million weights and the decoder to 512x512"),
    ("sd21", "Stable Diffusion 2.1, v prediction: a U-Net of 865.9 million weights and the decoder to 768x768"),
    ("lsun-ldm", "the LSUN bedroom model: a U-Net of 274.1 million weights and the decoder to 256x256"),
];

/// What a name stands for.
pub(crate) struct Family {
    pub(crate) unet: UnetConfig,
    pub(crate) autoencoder: AutoencoderConfig,
    pub(crate) dtype: Dtype,
    precond: Precond,
}

impl Family {
    /// A family by name; none if there is no such.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let (name, dtype) = match name.rsplit_once('-') {
            Some((name, "f16")) => (name, Dtype::F16),
            Some((name, "bf16")) => (name, Dtype::Bf16),
            _ => (name, Dtype::F32),
        };
        let (unet, autoencoder, table, target) = match name {
            "sd15" => (UnetConfig::sd15(), AutoencoderConfig::sd15(), BetaTable::stable_diffusion(), Target::Noise),
            "sd21" => (UnetConfig::sd21(), AutoencoderConfig::sd15(), BetaTable::stable_diffusion(), Target::V),
            "lsun-ldm" => (UnetConfig::lsun_ldm(), AutoencoderConfig::vq_f4(), BetaTable::lsun_ldm(), Target::Noise),
            _ => return None,
        };
        Some(Self { unet, autoencoder, dtype, precond: Precond { table, target } })
    }
}

impl Family {
    /// What its U-Net predicts.
    pub(super) fn target(&self) -> Target {
        self.precond.target
    }
}

impl LatentModel {
    /// A model of a family with random weights, the same for the same seed.
    pub(crate) fn random(family: &Family, seed: u64, settings: &Settings) -> Result<Self> {
        let unet = Unet::random(&family.unet, (seed, family.dtype), settings.arithmetic())?;
        let autoencoder = Autoencoder::random(&family.autoencoder, (seed, family.dtype), settings.conv)?;
        let texts = family.unet.context.map(|width| UnetTexts::Random { width });
        Self::new(unet, family.precond.clone(), Some(autoencoder), texts, settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_the_published_sizes() {
        for (name, weights) in [("sd15", 859_520_964), ("sd21", 865_910_724), ("lsun-ldm", 274_056_163usize)] {
            let plan = Unet::plan(&Family::named(name).unwrap().unet).unwrap();
            let found: usize = plan.iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum();
            assert_eq!(found, weights, "{name}");
        }
        assert_eq!(Family::named("sd15-bf16").unwrap().dtype, Dtype::Bf16);
        assert!(Family::named("sd15-f8").is_none() && Family::named("f16").is_none());
        assert!(RANDOM.iter().all(|(name, _)| Family::named(name).is_some()));
    }
}
