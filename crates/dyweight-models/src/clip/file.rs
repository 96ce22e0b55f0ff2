//! A CLIP model in its files: told by the names of its tensors, described by the configuration that lies beside them.
//!
//! ```text
//! transformers   vision_model.… text_model.…   config.json, preprocessor_config.json
//! OpenCLIP       visual.… transformer.…        open_clip_config.json with preprocess_cfg, or a model's own JSON; may
//!                be missing
//! OpenAI         the same in a compiled archive, which has input_resolution among its tensors; quick GELU, no
//!                configuration
//! ```

use super::config::ClipConfig;
use super::score::{Clip, ImageTower};
use super::tokenizer::Dialect;
use super::{open_clip, whole};
use crate::preprocess::{Crop, Preprocess, Resampling};
use crate::weights::{Layout, TensorSet, read_json, weights_of};
use dyweight_core::error::{Error, Result, shown};
use dyweight_files::Malformed;
use dyweight_nn::Gelu;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a user may know better than the files.
#[derive(Clone, Debug, Default)]
pub struct ClipOptions {
    /// The configuration.
    pub config: Option<PathBuf>,
    /// The activation in the layers.
    pub gelu: Option<Gelu>,
    /// The activation if nothing tells it.
    pub default_gelu: Option<Gelu>,
    /// How the name of the file begins that is meant among others of a folder.
    pub first: Option<&'static str>,
}

/// A CLIP model that is described, but not built.
pub struct ClipFile {
    /// What it is built from.
    pub config: ClipConfig,
    /// Whose texts it was trained on.
    pub dialect: Dialect,
    /// How its publisher shows it pictures.
    pub preprocess: Preprocess,
    set: Arc<TensorSet>,
    layout: Layout,
}

impl ClipFile {
    /// Reads a folder, or a file with what lies beside it.
    pub fn open(path: &Path, options: &ClipOptions) -> Result<Self> {
        let set = Arc::new(if path.is_dir() { weights_of(path, options.first)? } else { TensorSet::read(path)? });
        let dir = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
        let family = Family::of(&set)?;
        let config = match &options.config {
            Some(config) => Some((config.clone(), read_json(config, None)?)),
            None => family.config_in(dir)?,
        };
        let preprocessor = dir.join("preprocessor_config.json");
        let preprocessor = match family.dialect == Dialect::Transformers && preprocessor.is_file() {
            true => Some((preprocessor.clone(), read_json(&preprocessor, None)?)),
            false => None,
        };
        Self::described(set, family, config, preprocessor, options)
    }

    /// Tensors with their configuration, where there is one.
    pub(crate) fn of_set(set: Arc<TensorSet>, config: Option<Map<String, Value>>) -> Result<Self> {
        let (family, path) = (Family::of(&set)?, set.path.clone());
        let config = config.filter(|config| !config.is_empty()).map(|config| (path, config));
        Self::described(set, family, config, None, &ClipOptions::default())
    }

    fn described(
        set: Arc<TensorSet>,
        Family { layout, dialect }: Family,
        config: Option<Described>,
        preprocessor: Option<Described>,
        options: &ClipOptions,
    ) -> Result<Self> {
        let (mut described, from) = match &config {
            Some((path, map)) => (ClipConfig::from_map(map).map_err(|p| Error::malformed(path, p))?, Some(map)),
            None => {
                let gelu = options.gelu.or(options.default_gelu).or(match dialect {
                    Dialect::OpenAi => Some(Gelu::Quick),
                    Dialect::OpenClip => Some(Gelu::Exact),
                    Dialect::Transformers => None,
                });
                let gelu = gelu.ok_or_else(|| unknown_activation(&set.path))?;
                (ClipConfig::of_tensors(&set, &layout, gelu).map_err(|p| Error::malformed(&set.path, p))?, None)
            }
        };
        if let Some(gelu) = options.gelu {
            (described.text.stack.gelu, described.vision.stack.gelu) = (gelu, gelu);
        }
        let described = described.with_hidden_of(&set, &layout);
        let crop = if dialect == Dialect::Transformers { Crop::Floor } else { Crop::NearestEven };
        let mut preprocess = Preprocess::new(Resampling::Pil, crop, described.vision.size);
        if let Some((path, map)) = &preprocessor {
            preprocess.follow_transformers(map).map_err(|p| Error::malformed(path, p))?;
        }
        if let (Some((path, _)), Some(map)) =
            (&config, from.and_then(|map| map.get("preprocess_cfg")).and_then(Value::as_object))
        {
            preprocess.follow_open_clip(map).map_err(|p| Error::malformed(path, p))?;
        }
        Ok(Self { config: described, dialect, preprocess, set, layout })
    }

    /// Where the tensors are.
    pub fn path(&self) -> &Path {
        &self.set.path
    }

    /// Both towers, with the fingerprint of their weights.
    pub fn build(&self) -> Result<(Clip, String)> {
        Clip::load(&self.config, &self.set, &self.layout)
    }

    /// The image tower alone, likewise.
    pub(crate) fn build_image(self) -> Result<(ImageTower, String)> {
        ImageTower::load(&self.config, &self.set, &self.layout.lenient())
    }
}

/// A configuration and where it stands.
type Described = (PathBuf, Map<String, Value>);

/// How the tensors are named, and by whom.
struct Family {
    layout: Layout,
    dialect: Dialect,
}

impl Family {
    fn of(set: &TensorSet) -> Result<Self> {
        if let Some(layout) = whole(set) {
            return Ok(Self { layout, dialect: Dialect::Transformers });
        }
        let layout = open_clip(set).ok_or_else(|| {
            let problem = "holds no CLIP model by the names of its tensors: neither vision_model.embeddings.class_embedding \
                           nor visual.conv1.weight";
            Error::malformed(&set.path, Malformed::Inconsistent { problem: problem.into() })
        })?;
        let compiled = set.prefix_of("input_resolution").is_some();
        Ok(Self { layout, dialect: if compiled { Dialect::OpenAi } else { Dialect::OpenClip } })
    }

    /// The configuration in a folder that describes such tensors.
    fn config_in(&self, dir: &Path) -> Result<Option<Described>> {
        let fits = |map: &Map<String, Value>| match self.dialect {
            Dialect::Transformers => map.contains_key("text_config") || map.contains_key("vision_config"),
            _ => map.contains_key("model_cfg") || map.contains_key("vision_cfg"),
        };
        for name in ["open_clip_config.json", "config.json"] {
            let path = dir.join(name);
            if path.is_file() {
                let map = read_json(&path, None)?;
                if fits(&map) {
                    return Ok(Some((path, map)));
                }
            }
        }
        Ok(None)
    }
}

fn unknown_activation(path: &Path) -> Error {
    Error::conflict(
        format!("{} does not say which activation its layers have", shown(path)),
        "put its config.json beside it, or give `config` or `activation` (quick_gelu for OpenAI's models, gelu for LAION's)",
    )
}
