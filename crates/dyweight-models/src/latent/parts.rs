//! The networks of a bundle: where their tensors are, and what their configurations say.

use super::bundle::{Bundle, Part};
use crate::autoencoder::{self, Autoencoder, AutoencoderConfig, Halves};
use crate::clip::{self, Clip, ClipFile, ClipOptions, TextConfig, Tokenizer};
use crate::edm::kwargs::Kwargs;
use crate::flux::{self, FluxConfig};
use crate::t5::{self, T5Config};
use crate::unet::{self, UnetConfig};
use crate::weights::{Found, Layout, TensorSet};
use dyweight_core::error::{Error, Result};
use dyweight_files::{Fingerprint, Malformed, read_file};
use dyweight_nn::ConvAlgo;
use serde_json::{Map, Value};
use std::path::Path;

/// What a configuration and the names of tensors say of a network: where its tensors are, and what it is.
type Said<C> = Result<(Option<Layout>, Option<C>), Malformed>;

impl Bundle {
    /// The U-Net. Averaged weights are preferred where a file has them.
    pub fn unet(&self) -> Result<Found<UnetConfig>> {
        self.find(&self.unet, "U-Net", "conv_in.weight", |map, set| {
            let config = match map {
                Some(map) if map.contains_key("model_channels") => Some(UnetConfig::from_compvis(map)?),
                Some(map) => Some(UnetConfig::from_diffusers(map)?),
                None if unet::is_compvis(set) => Some(UnetConfig::of_compvis_tensors(set)?),
                None => None,
            };
            let compvis = || unet::compvis(set, config.as_ref()?, true);
            Ok((unet::diffusers(set).or_else(compvis), config))
        })
    }

    /// The autoencoder.
    pub(crate) fn autoencoder(&self) -> Result<Found<AutoencoderConfig>> {
        self.find(&self.vae, "autoencoder", "decoder.conv_in.weight", |map, set| {
            let scale = Kwargs(&self.parameters).number("scale_factor")?;
            let (layout, prefix) = match autoencoder::diffusers(set) {
                Some(layout) => (Some(layout), None),
                None => autoencoder::compvis(set).unzip(),
            };
            let config = match (map, prefix) {
                (Some(map), _) if map.contains_key("ddconfig") => Some(AutoencoderConfig::from_compvis(map, scale)?),
                (Some(map), _) => Some(AutoencoderConfig::from_diffusers(map)?),
                (None, Some(prefix)) => Some(AutoencoderConfig::of_compvis_tensors(set, &prefix, scale)?),
                (None, None) => None,
            };
            Ok((layout, config))
        })
    }

    /// The autoencoder with its decoder alone, where there is one; its fingerprint goes into `hash`.
    pub(super) fn decoder(&self, conv: ConvAlgo, hash: &mut Fingerprint) -> Result<Option<Autoencoder>> {
        if self.vae.is_none() {
            return Ok(None);
        }
        let (autoencoder, own) = Autoencoder::load(self.autoencoder()?, conv, Halves::Decoder)?;
        hash.add(own.as_bytes());
        Ok(Some(autoencoder))
    }

    /// The text encoder.
    pub fn text(&self) -> Result<Found<TextConfig>> {
        self.find(&self.text, "text encoder", "embeddings.token_embedding.weight", |map, set| {
            let (layout, prefix) = clip::text_tower(set).unzip();
            let config = match (map, prefix) {
                // A tower inside a whole CLIP model's folder.
                (Some(map), _) => {
                    let inner = map.get("text_config").and_then(Value::as_object);
                    Some(TextConfig::from_transformers(inner.unwrap_or(map))?)
                }
                (None, Some(prefix)) => Some(TextConfig::of_tensors(set, &prefix)?),
                (None, None) => None,
            };
            Ok((layout, config))
        })
    }

    /// The FLUX transformer.
    pub fn transformer(&self) -> Result<Found<FluxConfig>> {
        self.find(&self.transformer, "transformer", "x_embedder.weight", |map, set| {
            let (layout, prefix) = flux::original(set).unzip();
            let config = match (map, prefix) {
                (Some(map), _) => Some(FluxConfig::from_diffusers(map)?),
                (None, Some(prefix)) => Some(FluxConfig::of_original_tensors(set, &prefix)?),
                (None, None) => None,
            };
            Ok((layout.or_else(|| flux::diffusers(set)), config))
        })
    }

    /// The T5 encoder.
    pub fn text2(&self) -> Result<Found<T5Config>> {
        self.find(&self.text2, "T5 encoder", "relative_attention_bias.weight", |map, set| {
            Ok((t5::layout(set), map.map(T5Config::from_transformers).transpose()?))
        })
    }

    /// A part's tensors and configuration, which `says` takes from both; `landmark` is a tensor that every one has.
    fn find<C>(
        &self,
        part: &Option<Part>,
        what: &str,
        landmark: &str,
        says: impl FnOnce(Option<&Map<String, Value>>, &TensorSet) -> Said<C>,
    ) -> Result<Found<C>> {
        let part = self.part(part, what)?;
        let (map, set) = part.read()?;
        let (layout, config) = says(map.as_ref(), &set).map_err(|problem| part.fault(&set, problem))?;
        let missing = || Error::malformed(&set.path, Malformed::Missing { name: landmark.into() });
        match (layout, config) {
            (Some(layout), Some(config)) => Ok(Found { config, set, layout }),
            (None, Some(_)) => Err(missing()),
            (_, None) => Err(needs_config(&set.path, what)),
        }
    }

    /// Both towers of a CLIP model, with the fingerprint of their weights.
    pub fn clip(&self) -> Result<(Clip, String)> {
        match self.part(&self.clip, "CLIP model")? {
            Part::Folder(dir) => ClipFile::open(dir, &ClipOptions::default())?.build(),
            Part::Stored { set, config } => ClipFile::of_set(set.clone(), config.clone())?.build(),
        }
    }

    /// The tokenizer that lies beside the text encoder, or the one named.
    pub fn tokenizer(&self, named: Option<&Path>) -> Result<Option<Tokenizer>> {
        named.or(self.tokenizer.as_deref()).map(Tokenizer::read).transpose()
    }

    /// The fingerprint of the files that tokenizers are read from, those of the folder `named` if there is one.
    pub(super) fn tokenizer_files(&self, named: Option<&Path>) -> Result<String> {
        const NAMES: [&str; 7] = [
            "vocab.json",
            "merges.txt",
            "tokenizer.json",
            "bpe_simple_vocab_16e6.txt.gz",
            "spiece.model",
            "special_tokens_map.json",
            "tokenizer_config.json",
        ];
        const LARGEST: u64 = 64 << 20;
        let own = [self.tokenizer.as_deref(), self.tokenizer2.as_deref()].into_iter().flatten().map(Path::to_owned);
        let folders = match named {
            Some(dir) => vec![dir.to_owned(), dir.join("tokenizer"), dir.join("tokenizer_2")],
            None => own.collect(),
        };
        let mut hash = Fingerprint::default();
        let files = folders.iter().flat_map(|dir| NAMES.map(|name| dir.join(name)).into_iter().chain([dir.clone()]));
        for file in files.filter(|file| file.is_file()) {
            hash.add(&read_file(&file, LARGEST)?);
        }
        Ok(hash.text())
    }

    /// True if there is such a part.
    pub(crate) fn has_unet(&self) -> bool {
        self.unet.is_some()
    }

    /// True if there is such a part.
    pub(crate) fn has_text(&self) -> bool {
        self.text.is_some()
    }

    fn part<'b>(&self, part: &'b Option<Part>, what: &str) -> Result<&'b Part> {
        part.as_ref().ok_or_else(|| {
            let there = self.named_parts();
            let problem = match there.as_slice() {
                [] => format!("holds no {what}"),
                [only] => format!(
                    "holds a part of a model, its {only}, and no {what}: name the folder or file that has all parts"
                ),
                [.., last] => {
                    let others = there[..there.len() - 1].join(", ");
                    format!("holds {others} and {last}, but no {what}")
                }
            };
            Error::malformed(&self.path, Malformed::Inconsistent { problem })
        })
    }

    /// What there is, in words.
    fn named_parts(&self) -> Vec<&'static str> {
        let parts = [
            (&self.unet, "U-Net"),
            (&self.transformer, "transformer"),
            (&self.vae, "autoencoder"),
            (&self.text, "text encoder"),
            (&self.text2, "T5 encoder"),
            (&self.clip, "CLIP model"),
        ];
        parts.iter().filter(|(part, _)| part.is_some()).map(|(_, name)| *name).collect()
    }
}

fn needs_config(path: &Path, what: &str) -> Error {
    Error::conflict(
        format!("{} holds a {what}, but not its configuration", path.display()),
        "give `model-config`: the config.json that goes with it",
    )
}
