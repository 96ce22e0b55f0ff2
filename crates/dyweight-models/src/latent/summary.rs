//! What a model is and what it will need, told without reading its weights.

use super::bundle::Bundle;
use super::flow;
use super::model::{Settings, latent_shape, precond};
use super::random::Family;
use super::texts::Texts;
use crate::autoencoder::{Autoencoder, AutoencoderConfig};
use crate::clip::TextTower;
use crate::flux::Flux;
use crate::memory::MemoryNeeds;
use crate::t5::T5;
use crate::unet::Unet;
use crate::weights::{Found, Source, TensorPlan, Weighed};
use dyweight_core::error::Result;
use serde::Serialize;

/// One network of a model.
#[derive(Clone, Debug, Serialize)]
pub struct PartSummary {
    /// `unet`, `transformer`, `vae`, `text` or `text2`.
    pub part: &'static str,
    /// Where its weights are.
    pub path: String,
    /// How much they are.
    #[serde(flatten)]
    pub weighed: Weighed,
}

/// A latent diffusion model.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Its networks.
    pub parts: Vec<PartSummary>,
    /// What the network predicts: `epsilon`, `v` or `velocity`.
    pub predicts: &'static str,
    /// Whether texts can be encoded: there are a text encoder and its tokenizer.
    pub takes_text: bool,
    /// Shape of the latents.
    pub latents: [usize; 3],
    /// Shape of the images, where there is a decoder.
    pub images: Option<[usize; 3]>,
    /// Whether weights are mapped from files, not made in memory.
    pub mapped: bool,
    /// Multiplications and additions of a call for one sample, where they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<f64>,
    /// How exact products are, where it is not f32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<&'static str>,
    /// Memory it will need, in bytes.
    pub memory: MemoryNeeds,
}

impl Bundle {
    /// What the bundle is; every tensor of it must be there.
    pub fn summary(&self, settings: &Settings) -> Result<Summary> {
        if self.is_flow() { self.summary_of_flow(settings) } else { self.summary_of_unet(settings) }
    }

    fn summary_of_flow(&self, settings: &Settings) -> Result<Summary> {
        let flux = self.transformer()?;
        let mut parts = vec![summary("transformer", "transformer", &flux, Flux::plan(&flux.config)?)?];
        let autoencoder = self.add_others(&mut parts, true)?;
        if self.text2.is_some() {
            let found = self.text2()?;
            parts.push(summary("text2", "T5 encoder", &found, T5::plan(&found.config)?)?);
        }
        let factor = autoencoder.as_ref().map(AutoencoderConfig::factor);
        let latents = flow::latent_shape(&flux.config, factor, settings)?;
        let texts = flow::text_tokens(&flux.config, settings.text_tokens)?;
        // Texts are encoded first, and their encoders let go.
        let encoders = |part: &&PartSummary| part.part.starts_with("text");
        let bytes = parts.iter().filter(|part| !encoders(part)).map(|part| part.weighed.bytes).sum();
        let size = [latents[1], latents[2]];
        Ok(Summary {
            takes_text: Texts::new(
                self,
                (settings.tokenizer.clone(), settings.precision),
                [flux.config.context, flux.config.pooled],
                texts,
            )
            .is_complete(),
            parts,
            predicts: "velocity",
            latents,
            mapped: true,
            images: autoencoder.as_ref().map(|autoencoder| images(autoencoder, latents)),
            operations: Some(flux.config.operations(texts, size[0] * size[1] / (flow::PATCH * flow::PATCH))),
            precision: settings.stated_precision(),
            memory: MemoryNeeds::of_flow(&flux.config, autoencoder.as_ref(), size, texts, bytes),
        })
    }

    /// Adds the autoencoder and, if the network takes texts, their encoder; returns what the former is.
    fn add_others(&self, parts: &mut Vec<PartSummary>, takes_text: bool) -> Result<Option<AutoencoderConfig>> {
        let autoencoder = self.vae.as_ref().map(|_| self.autoencoder()).transpose()?;
        if let Some(found) = &autoencoder {
            parts.push(summary("vae", "autoencoder", found, Autoencoder::plan(&found.config)?)?);
        }
        if self.has_text() && takes_text {
            let found = self.text()?;
            parts.push(summary("text", "text encoder", &found, TextTower::plan(&found.config)?)?);
        }
        Ok(autoencoder.map(|found| found.config))
    }

    fn summary_of_unet(&self, settings: &Settings) -> Result<Summary> {
        let unet = self.unet()?;
        let mut parts = vec![summary("unet", "U-Net", &unet, Unet::plan(&unet.config)?)?];
        let autoencoder = self.add_others(&mut parts, unet.config.context.is_some())?;
        let tokenizer = self.tokenizer(settings.tokenizer.as_deref())?;
        let latents = latent_shape(&unet.config, autoencoder.as_ref().map(|a| a.factor()), settings)?;
        let bytes = parts.iter().map(|part| part.weighed.bytes).sum();
        Ok(Summary {
            takes_text: tokenizer.is_some() && parts.iter().any(|part| part.part == "text"),
            parts,
            predicts: precond(self, settings, &unet.config)?.target.name(),
            latents,
            mapped: true,
            images: autoencoder.as_ref().map(|autoencoder| images(autoencoder, latents)),
            operations: None,
            precision: settings.stated_precision(),
            memory: MemoryNeeds::new(&unet.config, autoencoder.as_ref(), [latents[1], latents[2]], bytes),
        })
    }
}

impl Summary {
    /// The most that will be resident at once while samples are drawn with guidance and decoded, if there is that much
    /// memory. Texts are encoded first, and their encoders let go; a mapped denoiser is let go before it is decoded.
    pub fn peak(&self) -> u64 {
        let of = |wanted: &[&str]| -> u64 {
            self.parts.iter().filter(|part| wanted.contains(&part.part)).map(|part| part.weighed.bytes).sum()
        };
        let (denoiser, MemoryNeeds { guided, decoding, .. }) = (of(&["unet", "transformer"]), self.memory);
        let held = if self.mapped { 0 } else { denoiser };
        of(&["vae"]) + (denoiser + guided).max(held + decoding)
    }

    /// With less memory it cannot run; weights in files can be read again for every call.
    pub fn least(&self) -> u64 {
        if self.mapped { self.memory.guided.max(self.memory.decoding) } else { self.peak() }
    }

    /// Of a family with random weights.
    pub(crate) fn of_random(name: &str, family: &Family, settings: &Settings) -> Result<Self> {
        let (unet, autoencoder) = (&family.unet, &family.autoencoder);
        let weigh = |part: &'static str, plan: Vec<TensorPlan>| {
            let numbers = plan.iter().map(|tensor| tensor.shape.iter().product::<usize>() as u64).sum();
            let bytes = numbers * family.dtype.size() as u64;
            PartSummary { part, path: name.into(), weighed: Weighed { tensors: plan.len(), numbers, bytes } }
        };
        let parts = vec![weigh("unet", Unet::plan(unet)?), weigh("vae", Autoencoder::plan(autoencoder)?)];
        let latents = latent_shape(unet, Some(autoencoder.factor()), settings)?;
        let bytes = parts.iter().map(|part| part.weighed.bytes).sum();
        Ok(Self {
            parts,
            predicts: family.target().name(),
            takes_text: unet.context.is_some(),
            latents,
            mapped: false,
            images: Some(images(autoencoder, latents)),
            operations: None,
            precision: settings.stated_precision(),
            memory: MemoryNeeds::new(unet, Some(autoencoder), [latents[1], latents[2]], bytes),
        })
    }
}

/// The shape of the images of latents.
fn images(autoencoder: &AutoencoderConfig, [_, h, w]: [usize; 3]) -> [usize; 3] {
    [autoencoder.images, autoencoder.factor() * h, autoencoder.factor() * w]
}

fn summary<C>(part: &'static str, what: &'static str, found: &Found<C>, plan: Vec<TensorPlan>) -> Result<PartSummary> {
    let weighed = Source::weigh(what, &plan, &found.set, &found.layout)?;
    Ok(PartSummary { part, path: found.set.path.to_string_lossy().into_owned(), weighed })
}
