//! What ImageReward is built from: `med_config.json` for the text, the tensors for the rest.

use crate::clip::{StackConfig, VisionConfig};
use crate::edm::kwargs::Kwargs;
use crate::weights::{Layout, TensorSet};
use dyweight_files::Malformed;
use dyweight_nn::Gelu;
use serde_json::{Map, Value};

const WIDEST: usize = 1 << 16;
const DEEPEST: usize = 256;
/// Width of a head in the released model.
const HEAD: usize = 64;

/// The text tower, which looks at an image.
#[derive(Clone, Debug, PartialEq)]
pub struct ReaderConfig {
    /// Its layers.
    pub stack: StackConfig,
    /// Number of tokens there are.
    pub vocabulary: usize,
    /// Positions there are.
    pub positions: usize,
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RewardConfig {
    /// The image tower.
    pub vision: VisionConfig,
    /// The text tower.
    pub text: ReaderConfig,
    /// Outputs of the linear maps at the end.
    pub head: Vec<usize>,
}

/// The linear maps at the end, by their numbers in the file.
pub(super) const HEAD_LAYERS: [usize; 5] = [0, 2, 4, 6, 7];

impl RewardConfig {
    /// The released model.
    pub fn published() -> Self {
        let stack = |width: usize, layers: usize, eps: f64| StackConfig {
            width,
            hidden: 4 * width,
            layers,
            heads: width / HEAD,
            gelu: Gelu::Exact,
            eps,
        };
        Self {
            vision: VisionConfig { stack: stack(1024, 24, 1e-6), size: 224, patch: 16, channels: 3 },
            text: ReaderConfig { stack: stack(768, 12, 1e-12), vocabulary: 30524, positions: 512 },
            head: vec![1024, 128, 64, 16, 1],
        }
    }

    /// From the tensors; `med` is `med_config.json`, `vit` what else is known of the image tower.
    pub(super) fn of_tensors(
        set: &TensorSet,
        layout: &Layout,
        med: Option<&Map<String, Value>>,
        vit: Option<&Map<String, Value>>,
    ) -> Result<Self, Malformed> {
        let empty = Map::new();
        let (med, vit) = (Kwargs(med.unwrap_or(&empty)), Kwargs(vit.unwrap_or(&empty)));
        let size = |name: &str, axis: usize| {
            let found = layout.shape(set, name).and_then(|shape| shape.get(axis).copied());
            found.ok_or_else(|| Malformed::Missing { name: layout.locate(name).name })
        };
        let layers = |name: &dyn Fn(usize) -> String| {
            (0..DEEPEST).take_while(|i| set.has(&layout.locate(&name(*i)).name)).count()
        };
        let inside = |i: usize| format!("vision.encoder.layers.{i}.mlp.fc1.weight");
        let wide = |i: usize| format!("blip.text_encoder.encoder.layer.{i}.intermediate.dense.weight");
        let words = "blip.text_encoder.embeddings.word_embeddings.weight";
        let (width, patch) = (size(PATCHES, 0)?, size(PATCHES, 2)?);
        let rows = size("blip.visual_encoder.pos_embed", 1)?;
        let grid = rows.saturating_sub(1).isqrt();
        if grid * grid + 1 != rows || grid * patch == 0 {
            let problem = format!("has {rows} positions, which are not those of a square of patches and a class");
            return Err(Malformed::Inconsistent { problem });
        }
        let vision = StackConfig {
            width,
            hidden: size(&inside(0), 0)?,
            layers: layers(&inside),
            heads: vit.count("vit_heads", WIDEST)?.unwrap_or(width / HEAD),
            gelu: Gelu::Exact,
            eps: 1e-6,
        };
        let width = size(words, 1)?;
        let text = StackConfig {
            width,
            hidden: size(&wide(0), 0)?,
            layers: layers(&wide),
            heads: med.count("num_attention_heads", WIDEST)?.unwrap_or(width / HEAD),
            gelu: med.choice("hidden_act", &[("gelu", Gelu::Exact)])?,
            eps: med.number("layer_norm_eps")?.unwrap_or(1e-12),
        };
        for (name, found, said) in [
            ("hidden_size", text.width, med.count("hidden_size", WIDEST)?),
            ("num_hidden_layers", text.layers, med.count("num_hidden_layers", WIDEST)?),
            ("vit_depth", vision.layers, vit.count("vit_depth", WIDEST)?),
        ] {
            if said.is_some_and(|said| said != found) {
                let problem = format!("has {name} {found}, but its configuration says {}", said.unwrap_or(0));
                return Err(Malformed::Inconsistent { problem });
            }
        }
        let outputs = |i: &usize| size(&format!("mlp.layers.{i}.weight"), 0);
        Ok(Self {
            vision: VisionConfig { stack: vision.checked()?, size: grid * patch, patch, channels: size(PATCHES, 1)? },
            text: ReaderConfig {
                stack: text.checked()?,
                vocabulary: size(words, 0)?,
                positions: size("blip.text_encoder.embeddings.position_embeddings.weight", 0)?,
            },
            head: HEAD_LAYERS.iter().map(outputs).collect::<Result<_, _>>()?,
        })
    }
}

/// The embedding of patches.
const PATCHES: &str = "blip.visual_encoder.patch_embed.proj.weight";
