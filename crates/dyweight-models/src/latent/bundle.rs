//! What a folder or file holds, told by content: the parts of a latent diffusion model.
//!
//! ```text
//! a diffusers folder     model_index.json, or folders unet or transformer, vae, text_encoder, text_encoder_2;
//!                        tokenizers and scheduler beside them
//! one network's folder   config.json says which: _class_name (diffusers), model_type (transformers), vision_cfg
//!                        (OpenCLIP)
//! a file                 CompVis checkpoints and bare networks, by the names of their tensors; configuration given
//!                        apart
//! ```

use crate::weights::{Folder, TensorSet, config_of, inside, read_json};
use crate::{autoencoder, clip, flux, t5, unet};
use dyweight_core::error::{Error, Result, printable};
use dyweight_files::Malformed;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pipelines whose parts are known.
const PIPELINES: [&str; 2] = ["StableDiffusionPipeline", "FluxPipeline"];

/// A configuration, where there is one, and the tensors it describes.
type Described = (Option<Map<String, Value>>, Arc<TensorSet>);

/// One network of a bundle.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// A folder of its own.
    Folder(PathBuf),
    /// Tensors among others, with their configuration where it was given.
    Stored { set: Arc<TensorSet>, config: Option<Map<String, Value>> },
}

/// The parts of a latent diffusion model, not yet built.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    pub(super) path: PathBuf,
    pub(super) unet: Option<Part>,
    /// A FLUX transformer.
    pub(super) transformer: Option<Part>,
    pub(super) vae: Option<Part>,
    pub(super) text: Option<Part>,
    /// A second text encoder, T5.
    pub(super) text2: Option<Part>,
    pub(super) clip: Option<Part>,
    pub(super) scheduler: Option<PathBuf>,
    pub(super) tokenizer: Option<PathBuf>,
    pub(super) tokenizer2: Option<PathBuf>,
    /// Parameters of a whole CompVis model.
    pub(super) parameters: Map<String, Value>,
}

impl Bundle {
    /// What a folder holds.
    pub fn of_folder(dir: &Path) -> Result<Self> {
        let index = dir.join("model_index.json");
        if index.is_file() {
            refuse_other_pipelines(&index)?;
        }
        let part = |name: &str| Some(dir.join(name)).filter(|p| p.is_dir());
        let mut bundle = Self {
            path: dir.into(),
            unet: part("unet").map(Part::Folder),
            transformer: part("transformer").map(Part::Folder),
            vae: part("vae").map(Part::Folder),
            text: part("text_encoder").map(Part::Folder),
            text2: part("text_encoder_2").map(Part::Folder),
            tokenizer: part("tokenizer"),
            tokenizer2: part("tokenizer_2"),
            // A link that leads nowhere is not passed over: it would be read as the usual noise table.
            scheduler: Some(dir.join("scheduler").join("scheduler_config.json"))
                .filter(|p| p.symlink_metadata().is_ok()),
            ..Self::default()
        };
        if bundle.is_empty() {
            bundle.take_network(dir)?;
        }
        Ok(bundle)
    }

    /// The folder of one network.
    fn take_network(&mut self, dir: &Path) -> Result<()> {
        let open_clip = inside(dir, "open_clip_config.json")?;
        let is_there = |name: &str| inside(dir, name).is_ok_and(|path| path.symlink_metadata().is_ok());
        if !open_clip.is_file() && !is_there("config.json") {
            let problem = "there is no model in this folder: neither model_index.json with the folders of its parts, nor a config.json";
            return Err(Error::malformed(dir, Malformed::Inconsistent { problem: problem.into() }));
        }
        let config = if open_clip.is_file() { read_json(&open_clip, None)? } else { config_of(dir)? };
        let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
        let slot = match (text("_class_name"), text("model_type")) {
            ("UNet2DConditionModel", _) => &mut self.unet,
            ("AutoencoderKL", _) => &mut self.vae,
            ("FluxTransformer2DModel", _) => &mut self.transformer,
            (_, "t5") => &mut self.text2,
            (_, "clip_text_model") => &mut self.text,
            (_, "clip") => &mut self.clip,
            _ if config.contains_key("vision_cfg") || config.contains_key("model_cfg") => &mut self.clip,
            (class, kind) => {
                let name = printable(if class.is_empty() { kind } else { class });
                let problem = format!("describes a network '{name}', which is not one of those supported");
                return Err(Error::malformed(dir, Malformed::Inconsistent { problem }));
            }
        };
        *slot = Some(Part::Folder(dir.into()));
        Ok(())
    }

    /// True if tensors are those of a network that latent diffusion models have.
    pub fn recognises(set: &TensorSet) -> bool {
        !Self::of_set(Arc::new(set.clone()), None).is_empty()
    }

    /// True if its denoiser is that of a flow.
    pub(crate) fn is_flow(&self) -> bool {
        self.transformer.is_some()
    }

    fn is_empty(&self) -> bool {
        let parts = [&self.unet, &self.transformer, &self.vae, &self.text, &self.text2, &self.clip];
        parts.iter().all(|part| part.is_none())
    }

    /// What the tensors of a file are; `config` is a JSON file that describes them.
    pub fn of_file(set: TensorSet, config: Option<&Path>) -> Result<Self> {
        let config = config.map(|path| read_json(path, None)).transpose()?;
        let bundle = Self::of_set(Arc::new(set), config);
        if bundle.is_empty() {
            let problem =
                "holds no U-Net, transformer, autoencoder, text encoder or CLIP model by the names of its tensors";
            return Err(Error::malformed(&bundle.path, Malformed::Inconsistent { problem: problem.into() }));
        }
        Ok(bundle)
    }

    fn of_set(set: Arc<TensorSet>, config: Option<Map<String, Value>>) -> Self {
        let whole = config.unwrap_or_default();
        let inner = |map: &Map<String, Value>, path: &[&str]| -> Option<Map<String, Value>> {
            path.iter().try_fold(map, |map, key| map.get(*key)?.as_object()).cloned()
        };
        let parameters = inner(&whole, &["model", "params"]).unwrap_or_else(|| whole.clone());
        let alone = |keys: &[&str]| keys.iter().any(|key| whole.contains_key(*key)).then(|| whole.clone());
        let unet_config = inner(&parameters, &["unet"])
            .or_else(|| inner(&parameters, &["unet_config", "params"]))
            .or_else(|| alone(&["model_channels", "cross_attention_dim"]));
        let vae_config = inner(&parameters, &["first_stage"])
            .or_else(|| inner(&parameters, &["first_stage_config", "params"]))
            .or_else(|| alone(&["ddconfig", "latent_channels"]));
        let transformer_config =
            inner(&parameters, &["transformer"]).or_else(|| alone(&["axes_dims_rope", "num_single_layers"]));
        let text2_config = inner(&parameters, &["text2"]).or_else(|| alone(&["d_model", "d_kv"]));
        let text_config = inner(&parameters, &["text"]).or_else(|| alone(&["hidden_size"]));
        let clip_config = alone(&["vision_cfg", "vision_config", "model_cfg"]);
        let part =
            |found: bool, config: Option<Map<String, Value>>| found.then(|| Part::Stored { set: set.clone(), config });
        let has_clip = clip::whole(&set).is_some() || clip::open_clip(&set).is_some();
        Self {
            path: set.path.clone(),
            unet: part(unet::is_compvis(&set) || unet::diffusers(&set).is_some(), unet_config),
            transformer: part(flux::original(&set).is_some() || flux::diffusers(&set).is_some(), transformer_config),
            vae: part(autoencoder::is_compvis(&set) || autoencoder::diffusers(&set).is_some(), vae_config),
            text: part(clip::text_tower(&set).is_some() && !has_clip, text_config),
            text2: part(t5::landmark(&set).is_some(), text2_config),
            clip: part(has_clip, clip_config),
            scheduler: None,
            tokenizer: None,
            tokenizer2: None,
            parameters,
        }
    }
}

impl Part {
    /// What is wrong with the configuration, by the file that it stands in.
    pub(super) fn fault(&self, set: &TensorSet, problem: Malformed) -> Error {
        match self {
            Part::Folder(dir) => Error::malformed(&dir.join("config.json"), problem),
            Part::Stored { .. } => Error::malformed(&set.path, problem),
        }
    }

    /// Configuration and tensors.
    pub(super) fn read(&self) -> Result<Described> {
        match self {
            Part::Folder(dir) => {
                let Folder { config, set } = Folder::read(dir)?;
                Ok((Some(config), Arc::new(set)))
            }
            Part::Stored { set, config } => Ok((config.clone(), set.clone())),
        }
    }
}

/// Pipelines of other kinds have other parts under the same names.
fn refuse_other_pipelines(index: &Path) -> Result<()> {
    let json = read_json(index, None)?;
    let class = json.get("_class_name").and_then(Value::as_str).unwrap_or_default();
    if PIPELINES.contains(&class) {
        return Ok(());
    }
    let problem = format!("is a '{}'; supported: {}", printable(class), PIPELINES.join(", "));
    Err(Error::malformed(index, Malformed::Inconsistent { problem }))
}
