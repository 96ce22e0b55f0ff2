//! The network, and how it lies in `ImageReward.pt` with `med_config.json` beside it.
//!
//! ```text
//! vision.encoder.layers.i.self_attn.{q,k,v}_proj ↔ blip.visual_encoder.blocks.i.attn.qkv, rows q, k, v
//! ….self_attn.out_proj, layer_norm1, layer_norm2, mlp.fc1, mlp.fc2 ↔ attn.proj, norm1, norm2, mlp.fc1, mlp.fc2
//! ```
//!
//! Tensors that are not asked for are passed over, as the published tool does.

use super::config::{HEAD_LAYERS, RewardConfig};
use super::text::Reader;
use super::vision::Eye;
use crate::weights::{Layout, Location, Part, Scope, Source, TensorPlan, TensorSet, read_json, weights_of};
use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use dyweight_nn::{Act, Dtype, Linear};
use std::path::Path;

/// Mean and deviation of the rewards of the data it was trained on.
const MEAN: f64 = 0.16717362830052426;
const DEVIATION: f64 = 1.0333394966054072;

/// The network with its weights.
pub struct ImageReward {
    config: RewardConfig,
    eye: Eye,
    reader: Reader,
    head: Vec<Linear>,
}

impl ImageReward {
    /// One with random weights, the same for the same seed.
    pub fn random(config: &RewardConfig, seed: u64) -> Result<Self> {
        Self::new(config, &Source::Random { seed, dtype: Dtype::F32 }.root())
    }

    /// Names and shapes of its tensors.
    pub fn plan(config: &RewardConfig) -> Result<Vec<TensorPlan>> {
        Source::plan(|scope| Self::new(config, scope))
    }

    fn new(config: &RewardConfig, scope: &Scope<'_>) -> Result<Self> {
        let mut inputs = config.text.stack.width;
        let mut head = Vec::new();
        for (number, outputs) in HEAD_LAYERS.iter().zip(&config.head) {
            head.push(scope.at("mlp.layers").linear(&number.to_string(), inputs, *outputs)?);
            inputs = *outputs;
        }
        Ok(Self {
            eye: Eye::new(&config.vision, scope)?,
            reader: Reader::new(&config.text, config.vision.stack.width, &scope.at("blip.text_encoder"))?,
            head,
            config: config.clone(),
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &RewardConfig {
        &self.config
    }

    /// The tokens of each image, `[n, 1, tokens, width]`, from normalised pixels of the configured size.
    pub fn image_tokens(&self, pixels: &Act) -> Act {
        self.eye.forward(pixels)
    }

    /// The reward of an image, as its tokens `[1, 1, tokens, width]`, for a text.
    pub fn reward(&self, ids: &[u32], image: &Act) -> Result<f64> {
        let mut z = self.reader.first(ids, image)?;
        for layer in &self.head {
            z = layer.forward(&z);
        }
        Ok((f64::from(z.data()[0]) - MEAN) / DEVIATION)
    }
}

/// ImageReward that is described, but not built.
pub struct RewardFile {
    /// What it is built from.
    pub config: RewardConfig,
    set: TensorSet,
    layout: Layout,
}

impl RewardFile {
    /// Reads a folder, or a file with what lies beside it; `config` is a `med_config.json` elsewhere.
    pub fn open(path: &Path, config: Option<&Path>) -> Result<Self> {
        let dir = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
        let set = match path.is_dir() {
            true => weights_of(path, Some("ImageReward"))?,
            false => TensorSet::read(path)?,
        };
        let beside = |name: &str| Some(dir.join(name)).filter(|path| path.is_file());
        let med = config.map(Path::to_path_buf).or_else(|| beside("med_config.json"));
        let med = med.map(|path| read_json(&path, None)).transpose()?;
        let vit = beside("vit_config.json").map(|path| read_json(&path, None)).transpose()?;
        let named = |problem| Error::malformed(&set.path, problem);
        let layout = layout(&set).ok_or_else(|| {
            let problem = "holds no ImageReward by the names of its tensors: there is no blip.visual_encoder.cls_token";
            named(Malformed::Inconsistent { problem: problem.into() })
        })?;
        let config = RewardConfig::of_tensors(&set, &layout, med.as_ref(), vit.as_ref()).map_err(named)?;
        Ok(Self { config, set, layout })
    }

    /// Where the tensors are.
    pub fn path(&self) -> &Path {
        &self.set.path
    }

    /// The network, with the fingerprint of its weights.
    pub fn build(&self) -> Result<(ImageReward, String)> {
        Source::build("ImageReward", &self.set, &self.layout, |scope| ImageReward::new(&self.config, scope))
    }
}

fn layout(set: &TensorSet) -> Option<Layout> {
    let prefix = set.prefix_of("blip.visual_encoder.cls_token")?.to_string();
    let locate = move |name: &str| {
        let place = translate(name);
        Location { name: format!("{prefix}{}", place.name), ..place }
    };
    Some(Layout::new(locate, |_| false))
}

fn translate(name: &str) -> Location {
    let Some(rest) = name.strip_prefix("vision.encoder.layers.") else { return name.to_string().into() };
    let (number, rest) = rest.split_once('.').unwrap_or((rest, ""));
    let at = format!("blip.visual_encoder.blocks.{number}.");
    let projections = ["self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."];
    for (index, projection) in projections.iter().enumerate() {
        if let Some(leaf) = rest.strip_prefix(projection) {
            let part = Some(Part::equal(index, projections.len()));
            return Location { name: format!("{at}attn.qkv.{leaf}"), part, transposed: false };
        }
    }
    let parts = [("self_attn.out_proj", "attn.proj"), ("layer_norm1", "norm1"), ("layer_norm2", "norm2")];
    let found = parts.iter().find_map(|(ours, theirs)| Some(format!("{at}{theirs}{}", rest.strip_prefix(ours)?)));
    found.unwrap_or_else(|| format!("{at}{rest}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_released_model_has_its_numbers() -> Result<()> {
        let plan = ImageReward::plan(&RewardConfig::published())?;
        let count: usize = plan.iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum();
        // Not asked for: two projections to 256 features, which the reward does not use.
        let unused = 256 * (1024 + 1) + 256 * (768 + 1);
        assert_eq!(count + unused, 446_665_953);
        Ok(())
    }
}
