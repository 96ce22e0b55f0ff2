//! What the towers are built from.

use crate::edm::kwargs::Kwargs;
use crate::weights::TensorSet;
use dyweight_core::error::{Error, named};
use dyweight_files::Malformed;
use dyweight_nn::Gelu;
use serde_json::{Map, Value};

const WIDEST: usize = 1 << 16;
const DEEPEST: usize = 256;
const MOST_ROWS: usize = 1 << 24;
/// Every released tower has heads of this width, but for those that say otherwise.
const HEAD: usize = 64;
/// The end of a text where a configuration of transformers says nothing.
const END: usize = 49407;
/// Released configurations carry this number for the end of a text, which it is not.
const STALE_END: usize = 2;

/// A stack of layers.
#[derive(Clone, Debug, PartialEq)]
pub struct StackConfig {
    /// Width of a token.
    pub width: usize,
    /// Width inside the feed-forward layers.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Which Gaussian error linear unit.
    pub gelu: Gelu,
    /// ε of the normalisations.
    pub eps: f64,
}

/// The text tower.
#[derive(Clone, Debug, PartialEq)]
pub struct TextConfig {
    /// Its layers.
    pub stack: StackConfig,
    /// Number of tokens there are.
    pub vocabulary: usize,
    /// Tokens of a text.
    pub positions: usize,
    /// The token at the end of a text; none takes the largest in the text.
    pub end: Option<usize>,
}

/// The image tower.
#[derive(Clone, Debug, PartialEq)]
pub struct VisionConfig {
    /// Its layers.
    pub stack: StackConfig,
    /// Rows and columns of an image.
    pub size: usize,
    /// Rows and columns of a patch.
    pub patch: usize,
    /// Channels of an image.
    pub channels: usize,
}

/// Both towers.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipConfig {
    /// The text tower.
    pub text: TextConfig,
    /// The image tower.
    pub vision: VisionConfig,
    /// Width of the features both are projected to.
    pub features: usize,
}

const GELUS: [(&str, Gelu); 5] = [
    ("quick_gelu", Gelu::Quick),
    ("gelu", Gelu::Exact),
    ("gelu_new", Gelu::Tanh),
    ("gelu_pytorch_tanh", Gelu::Tanh),
    ("gelu_fast", Gelu::Tanh),
];

/// A unit by the name configurations have for it.
pub(crate) fn gelu_named(name: &str) -> Result<Gelu, Error> {
    named("activation", name, &GELUS[..2])
}

impl StackConfig {
    fn from_transformers(map: &Map<String, Value>, defaults: [usize; 4]) -> Result<Self, Malformed> {
        let options = Kwargs(map);
        let count =
            |name: &str, most: usize, otherwise: usize| options.count(name, most).map(|v| v.unwrap_or(otherwise));
        let [width, hidden, layers, heads] = defaults;
        Self {
            width: count("hidden_size", WIDEST, width)?,
            hidden: count("intermediate_size", WIDEST, hidden)?,
            layers: count("num_hidden_layers", DEEPEST, layers)?,
            heads: count("num_attention_heads", WIDEST, heads)?,
            gelu: options.choice("hidden_act", &GELUS)?,
            eps: options.number("layer_norm_eps")?.unwrap_or(1e-5),
        }
        .checked()
    }

    pub(crate) fn checked(self) -> Result<Self, Malformed> {
        let Self { width, hidden, layers, heads, eps, .. } = self;
        let fits = width > 0 && hidden > 0 && layers > 0 && heads > 0 && width % heads.max(1) == 0 && eps > 0.0;
        if fits {
            return Ok(self);
        }
        let problem = format!("a tower of width {width}, {hidden} inside, {layers} layers and {heads} heads cannot be");
        Err(Malformed::Inconsistent { problem })
    }
}

impl TextConfig {
    /// From a transformers `CLIPTextConfig`.
    pub(crate) fn from_transformers(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let options = Kwargs(map);
        let end = options.count("eos_token_id", MOST_ROWS)?.unwrap_or(END);
        Ok(Self {
            stack: StackConfig::from_transformers(map, [512, 2048, 12, 8])?,
            vocabulary: options.count("vocab_size", MOST_ROWS)?.unwrap_or(49408),
            positions: options.count("max_position_embeddings", WIDEST)?.unwrap_or(77),
            end: Some(end).filter(|end| *end != STALE_END),
        })
    }

    /// Reads the configuration off the tensors of a text tower alone, whose names begin with `prefix`; heads are 64
    /// wide, as in every released tower. One narrower than that is a test's, with four.
    pub(crate) fn of_tensors(set: &TensorSet, prefix: &str) -> Result<Self, Malformed> {
        let size = |name: &str, axis: usize| {
            let name = format!("{prefix}{name}");
            set.shape(&name).and_then(|s| s.get(axis)).copied().ok_or(Malformed::Missing { name })
        };
        let width = size("embeddings.token_embedding.weight", 1)?;
        let layer = |i: &usize| set.has(&format!("{prefix}encoder.layers.{i}.mlp.fc1.weight"));
        Ok(Self {
            stack: StackConfig {
                width,
                hidden: size("encoder.layers.0.mlp.fc1.weight", 0)?,
                layers: (0..DEEPEST).take_while(layer).count(),
                heads: if width >= HEAD { width / HEAD } else { 4 },
                gelu: Gelu::Quick,
                eps: 1e-5,
            }
            .checked()?,
            vocabulary: size("embeddings.token_embedding.weight", 0)?,
            positions: size("embeddings.position_embedding.weight", 0)?,
            end: None,
        })
    }
}

impl ClipConfig {
    /// From a transformers `CLIPConfig` or an OpenCLIP configuration, whichever it is.
    pub fn from_map(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let map = map.get("model_cfg").and_then(Value::as_object).unwrap_or(map);
        let config =
            if map.contains_key("vision_cfg") { Self::from_open_clip(map) } else { Self::from_transformers(map) };
        let config = config?;
        let VisionConfig { size, patch, channels, .. } = config.vision;
        if patch == 0 || size % patch.max(1) != 0 || channels == 0 || config.features == 0 {
            let problem = format!("images of {size} pixels in patches of {patch}, {} features", config.features);
            return Err(Malformed::Inconsistent { problem });
        }
        Ok(config)
    }

    fn from_transformers(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let (text, vision) = (tower(map, "text_config"), tower(map, "vision_config"));
        let options = Kwargs(&vision);
        Ok(Self {
            text: TextConfig::from_transformers(&text)?,
            vision: VisionConfig {
                stack: StackConfig::from_transformers(&vision, [768, 3072, 12, 12])?,
                size: options.count("image_size", WIDEST)?.unwrap_or(224),
                patch: options.count("patch_size", WIDEST)?.unwrap_or(32),
                channels: options.count("num_channels", WIDEST)?.unwrap_or(3),
            },
            features: Kwargs(map).count("projection_dim", WIDEST)?.unwrap_or(512),
        })
    }

    fn from_open_clip(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let (text, vision) = (object(map, "text_cfg")?, object(map, "vision_cfg")?);
        let (t, v) = (Kwargs(text), Kwargs(vision));
        [text, vision].into_iter().try_for_each(refuse_others)?;
        let quick = map.get("quick_gelu").and_then(Value::as_bool).unwrap_or(false);
        let gelu = if quick { Gelu::Quick } else { Gelu::Exact };
        let stack = |options: &Kwargs<'_>, heads: usize| -> Result<StackConfig, Malformed> {
            let width = options.needed("width", WIDEST)?;
            let ratio = options.number("mlp_ratio")?.unwrap_or(4.0);
            if !(ratio > 0.0 && ratio < 64.0) {
                return Err(Malformed::Inconsistent { problem: format!("mlp_ratio {ratio} cannot be") });
            }
            let hidden = (width as f64 * ratio) as usize;
            let layers = options.needed("layers", DEEPEST)?;
            StackConfig { width, hidden, layers, heads, gelu, eps: 1e-5 }.checked()
        };
        let head = v.count("head_width", WIDEST)?.unwrap_or(HEAD).max(1);
        Ok(Self {
            text: TextConfig {
                stack: stack(&t, t.needed("heads", WIDEST)?)?,
                vocabulary: t.count("vocab_size", MOST_ROWS)?.unwrap_or(49408),
                positions: t.count("context_length", WIDEST)?.unwrap_or(77),
                end: None,
            },
            vision: VisionConfig {
                stack: stack(&v, v.needed("width", WIDEST)? / head)?,
                size: v.count("image_size", WIDEST)?.unwrap_or(224),
                patch: v.needed("patch_size", WIDEST)?,
                channels: 3,
            },
            features: Kwargs(map).needed("embed_dim", WIDEST)?,
        })
    }
}

/// A tower's part of a transformers configuration. Older files carry it twice, and what stands in the second counts.
fn tower(map: &Map<String, Value>, name: &str) -> Map<String, Value> {
    let part = |name: &str| map.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut config = part(name);
    config.extend(part(&format!("{name}_dict")));
    config
}

/// Options of OpenCLIP that make another network with the same tensors.
const OTHERS: [&str; 9] = [
    "hf_model_name",
    "timm_model_name",
    "attentional_pool",
    "global_average_pool",
    "no_causal_mask",
    "no_ln_pre",
    "embed_cls",
    "norm_kwargs",
    "act_kwargs",
];

fn refuse_others(tower: &Map<String, Value>) -> Result<(), Malformed> {
    let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let odd = OTHERS.iter().find(|name| tower.get(**name).is_some_and(is_set)).copied();
    let pooling = tower.get("pool_type").and_then(Value::as_str).filter(|kind| !["tok", "argmax"].contains(kind));
    match odd.or(pooling.map(|_| "pool_type")) {
        None => Ok(()),
        Some(name) => Err(Malformed::Inconsistent {
            problem: format!("asks for '{name}' = {}, which is not supported", tower[name]),
        }),
    }
}

fn object<'m>(map: &'m Map<String, Value>, name: &str) -> Result<&'m Map<String, Value>, Malformed> {
    map.get(name).and_then(Value::as_object).ok_or_else(|| Malformed::Missing { name: name.into() })
}
