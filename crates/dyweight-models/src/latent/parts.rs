//! The networks of a bundle, built.

use super::bundle::{Bundle, Part};
use crate::arithmetic::Arithmetic;
use crate::autoencoder::{self, Autoencoder, AutoencoderConfig, Halves};
use crate::clip::{self, Clip, ClipFile, ClipOptions, TextConfig, TextTower, Tokenizer};
use crate::edm::kwargs::Kwargs;
use crate::flux::{self, Flux, FluxConfig};
use crate::t5::{self, T5, T5Config};
use crate::unet::{self, Unet, UnetConfig};
use crate::weights::{Layout, TensorSet};
use dyweight_core::error::{Error, Result};
use dyweight_files::{Fingerprint, Malformed, read_file};
use dyweight_nn::{ConvAlgo, Precision};
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;

/// A network that is not built yet.
pub(super) struct Found<C> {
    pub(super) config: C,
    pub(super) set: Arc<TensorSet>,
    pub(super) layout: Layout,
}

impl Bundle {
    /// The U-Net, with the fingerprint of its weights. Averaged weights are preferred where a file has them.
    pub fn unet(&self, arithmetic: Arithmetic) -> Result<(Unet, String)> {
        let Found { config, set, layout } = self.find_unet()?;
        Unet::load(&config, &set, &layout, arithmetic)
    }

    /// The U-Net's configuration, and where its tensors are.
    pub(super) fn find_unet(&self) -> Result<Found<UnetConfig>> {
        let part = self.part(&self.unet, "U-Net")?;
        let (config, set) = part.read()?;
        let named = |problem| Error::malformed(&set.path, problem);
        let of_config = |problem| part.fault(&set, problem);
        let config = match config {
            Some(map) if map.contains_key("model_channels") => UnetConfig::from_compvis(&map).map_err(of_config)?,
            Some(map) => UnetConfig::from_diffusers(&map).map_err(of_config)?,
            None if unet::is_compvis(&set) => UnetConfig::of_compvis_tensors(&set).map_err(named)?,
            None => return Err(needs_config(&set.path, "U-Net")),
        };
        let layout = unet::diffusers(&set).or_else(|| unet::compvis(&set, &config, true));
        let layout = layout.ok_or_else(|| named(Malformed::Missing { name: "conv_in.weight".into() }))?;
        Ok(Found { config, set, layout })
    }

    /// The autoencoder, with the fingerprint of its weights.
    pub(crate) fn autoencoder(&self, conv: ConvAlgo, halves: Halves) -> Result<(Autoencoder, String)> {
        let Found { config, set, layout } = self.find_autoencoder()?;
        Autoencoder::load(&config, &set, layout, conv, halves)
    }

    /// The autoencoder with its decoder alone, where there is one; its fingerprint goes into `hash`.
    pub(super) fn decoder(&self, conv: ConvAlgo, hash: &mut Fingerprint) -> Result<Option<Autoencoder>> {
        if self.vae.is_none() {
            return Ok(None);
        }
        let (autoencoder, own) = self.autoencoder(conv, Halves::Decoder)?;
        hash.add(own.as_bytes());
        Ok(Some(autoencoder))
    }

    /// The autoencoder's configuration, and where its tensors are.
    pub(super) fn find_autoencoder(&self) -> Result<Found<AutoencoderConfig>> {
        let part = self.part(&self.vae, "autoencoder")?;
        let (config, set) = part.read()?;
        let named = |problem| Error::malformed(&set.path, problem);
        let scale = Kwargs(&self.parameters).number("scale_factor").map_err(named)?;
        let (layout, prefix) = match (autoencoder::diffusers(&set), autoencoder::compvis(&set)) {
            (Some(layout), _) => (layout, None),
            (None, Some((layout, prefix))) => (layout, Some(prefix)),
            (None, None) => return Err(named(Malformed::Missing { name: "decoder.conv_in.weight".into() })),
        };
        let config = match (config, prefix) {
            (Some(map), _) if map.contains_key("ddconfig") => AutoencoderConfig::from_compvis(&map, scale),
            (Some(map), _) => AutoencoderConfig::from_diffusers(&map),
            (None, Some(prefix)) => AutoencoderConfig::of_compvis_tensors(&set, &prefix, scale),
            (None, None) => return Err(needs_config(&set.path, "autoencoder")),
        };
        let config = config.map_err(|problem| part.fault(&set, problem))?;
        Ok(Found { config, set, layout })
    }

    /// The text encoder, with the fingerprint of its weights.
    pub fn text(&self) -> Result<(TextTower, String)> {
        let Found { config, set, layout } = self.find_text()?;
        TextTower::load(&config, &set, &layout)
    }

    /// The text encoder's configuration, and where its tensors are.
    pub(super) fn find_text(&self) -> Result<Found<TextConfig>> {
        let part = self.part(&self.text, "text encoder")?;
        let (config, set) = part.read()?;
        let named = |problem| Error::malformed(&set.path, problem);
        let missing = || named(Malformed::Missing { name: "embeddings.token_embedding.weight".into() });
        let (layout, prefix) = clip::text_tower(&set).ok_or_else(missing)?;
        let config = match config {
            // A tower inside a whole CLIP model's folder.
            Some(map) => match map.get("text_config").and_then(Value::as_object) {
                Some(text) => TextConfig::from_transformers(text),
                None => TextConfig::from_transformers(&map),
            },
            None => TextConfig::of_tensors(&set, &prefix),
        };
        let config = config.map_err(|problem| part.fault(&set, problem))?;
        Ok(Found { config, set, layout })
    }

    /// The FLUX transformer, with the fingerprint of its weights.
    pub fn transformer(&self, precision: Precision) -> Result<(Flux, String)> {
        let Found { config, set, layout } = self.find_transformer()?;
        Flux::load(&config, &set, &layout, precision)
    }

    /// The transformer's configuration, and where its tensors are.
    pub(super) fn find_transformer(&self) -> Result<Found<FluxConfig>> {
        let part = self.part(&self.transformer, "transformer")?;
        let (config, set) = part.read()?;
        let named = |problem| Error::malformed(&set.path, problem);
        let original = flux::original(&set);
        let config = match (config, &original) {
            (Some(map), _) => FluxConfig::from_diffusers(&map),
            (None, Some((_, prefix))) => FluxConfig::of_original_tensors(&set, prefix),
            (None, None) => return Err(needs_config(&set.path, "transformer")),
        };
        let layout = original.map(|(layout, _)| layout).or_else(|| flux::diffusers(&set));
        let layout = layout.ok_or_else(|| named(Malformed::Missing { name: "x_embedder.weight".into() }))?;
        let config = config.map_err(|problem| part.fault(&set, problem))?;
        Ok(Found { config, set, layout })
    }

    /// The T5 encoder, with the fingerprint of its weights.
    pub fn text2(&self, precision: Precision) -> Result<(T5, String)> {
        let Found { config, set, layout } = self.find_text2()?;
        T5::load(&config, &set, &layout, precision)
    }

    /// The T5 encoder's configuration, and where its tensors are.
    pub(super) fn find_text2(&self) -> Result<Found<T5Config>> {
        let part = self.part(&self.text2, "T5 encoder")?;
        let (config, set) = part.read()?;
        let named = |problem| Error::malformed(&set.path, problem);
        let config = config.ok_or_else(|| needs_config(&set.path, "T5 encoder"))?;
        let config = T5Config::from_transformers(&config).map_err(|problem| part.fault(&set, problem))?;
        let missing = || named(Malformed::Missing { name: "relative_attention_bias.weight".into() });
        let layout = t5::layout(&set).ok_or_else(missing)?;
        Ok(Found { config, set, layout })
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
    pub fn has_unet(&self) -> bool {
        self.unet.is_some()
    }

    /// True if there is such a part.
    pub fn has_text(&self) -> bool {
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

    /// The parameters of a whole CompVis model.
    pub(super) fn parameters(&self) -> &Map<String, Value> {
        &self.parameters
    }
}

fn needs_config(path: &Path, what: &str) -> Error {
    Error::conflict(
        format!("{} holds a {what}, but not its configuration", path.display()),
        "give `model-config`: the config.json that goes with it",
    )
}
