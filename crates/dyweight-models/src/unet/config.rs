//! What a U-Net is built from, out of a diffusers or a CompVis configuration.

use crate::edm::kwargs::Kwargs;
use dyweight_files::Malformed;
use serde_json::{Map, Value};

/// No released network is wider, deeper or has more levels.
const WIDEST: usize = 1 << 16;
const DEEPEST: usize = 256;
const MOST_LEVELS: usize = 12;

/// The shape of a U-Net.
#[derive(Clone, Debug, PartialEq)]
pub struct UnetConfig {
    /// Channels of the latents that come in.
    pub inputs: usize,
    /// Channels of the prediction.
    pub outputs: usize,
    /// Channels of each level, the finest first.
    pub widths: Vec<usize>,
    /// Residual blocks of a down level; an up level has one more.
    pub layers: usize,
    /// Which levels attend on the way down, the finest first.
    pub down_attends: Vec<bool>,
    /// Which levels attend on the way up, the coarsest first.
    pub up_attends: Vec<bool>,
    /// Attention heads of each level, the finest first.
    pub heads: Vec<usize>,
    /// Transformer blocks of each level, the finest first.
    pub depths: Vec<usize>,
    /// Width of a context's tokens; none for plain self-attention.
    pub context: Option<usize>,
    /// Groups of the normalisations.
    pub groups: usize,
    /// ε of the normalisations in residual blocks and at the end.
    pub eps: f64,
    /// Whether the time vector has its cosines before its sines.
    pub cosines_first: bool,
    /// What is taken from the number of frequencies in their exponent.
    pub frequency_shift: f64,
    /// Rows and columns of the latents it was trained on, where that is known.
    pub size: Option<usize>,
}

impl UnetConfig {
    /// Width of the time vector.
    pub(crate) fn time_width(&self) -> usize {
        4 * self.widths.first().copied().unwrap_or(0)
    }

    /// Latents must have rows and columns that are multiples of this.
    pub(crate) fn granularity(&self) -> usize {
        1 << (self.widths.len().max(1) - 1)
    }

    /// Stable Diffusion 1.x.
    pub fn sd15() -> Self {
        Self {
            inputs: 4,
            outputs: 4,
            widths: vec![320, 640, 1280, 1280],
            layers: 2,
            down_attends: vec![true, true, true, false],
            up_attends: vec![false, true, true, true],
            heads: vec![8; 4],
            depths: vec![1; 4],
            context: Some(768),
            groups: 32,
            eps: 1e-5,
            cosines_first: true,
            frequency_shift: 0.0,
            size: Some(64),
        }
    }

    /// Stable Diffusion 2.1 for images of 768 pixels.
    pub fn sd21() -> Self {
        Self { heads: vec![5, 10, 20, 20], context: Some(1024), size: Some(96), ..Self::sd15() }
    }

    /// The LSUN bedroom model.
    pub fn lsun_ldm() -> Self {
        Self {
            inputs: 3,
            outputs: 3,
            widths: vec![224, 448, 672, 896],
            down_attends: vec![false, true, true, true],
            up_attends: vec![true, true, true, false],
            heads: vec![7, 14, 21, 28],
            context: None,
            ..Self::sd15()
        }
    }

    /// From the `config.json` of a diffusers `UNet2DConditionModel`.
    pub fn from_diffusers(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let options = Kwargs(map);
        refuse_unless_neutral(map)?;
        let count = |name: &str, otherwise: usize| options.count(name, WIDEST).map(|v| v.unwrap_or(otherwise));
        let widths = options.counts("block_out_channels", MOST_LEVELS, WIDEST)?.unwrap_or(vec![320, 640, 1280, 1280]);
        let levels = widths.len();
        let cross = ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"];
        let down = attends(map, "down_block_types", ["CrossAttnDownBlock2D", "DownBlock2D"], &cross)?;
        let cross = ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"];
        let up = attends(map, "up_block_types", ["CrossAttnUpBlock2D", "UpBlock2D"], &cross)?;
        // The key says width of a head, but has always held the number of heads.
        let heads = match per_level(map, "num_attention_heads", levels)? {
            Some(heads) => heads,
            None => per_level(map, "attention_head_dim", levels)?.unwrap_or(vec![8; levels]),
        };
        let size = match map.get("sample_size") {
            Some(Value::Array(_)) | None => None,
            Some(_) => options.count("sample_size", WIDEST)?,
        };
        Self {
            inputs: count("in_channels", 4)?,
            outputs: count("out_channels", 4)?,
            layers: options.count("layers_per_block", DEEPEST)?.unwrap_or(2),
            down_attends: down,
            up_attends: up,
            heads,
            depths: per_level(map, "transformer_layers_per_block", levels)?.unwrap_or(vec![1; levels]),
            context: Some(count("cross_attention_dim", 1280)?),
            groups: count("norm_num_groups", 32)?,
            eps: options.number("norm_eps")?.unwrap_or(1e-5),
            cosines_first: map.get("flip_sin_to_cos").and_then(Value::as_bool).unwrap_or(true),
            frequency_shift: options.number("freq_shift")?.unwrap_or(0.0),
            size,
            widths,
        }
        .checked()
    }

    /// From the `unet_config` parameters of a CompVis model.
    pub(crate) fn from_compvis(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let options = Kwargs(map);
        for option in ["resblock_updown", "use_scale_shift_norm", "use_new_attention_order"] {
            refuse(option, map.get(option), &Value::Bool(false))?;
        }
        refuse("conv_resample", map.get("conv_resample"), &Value::Bool(true))?;
        for option in ["num_classes", "n_embed"] {
            refuse(option, map.get(option), &Value::Null)?;
        }
        let width = options.needed("model_channels", WIDEST)?;
        let multiples = options.counts("channel_mult", MOST_LEVELS, WIDEST)?.unwrap_or(vec![1, 2, 4, 8]);
        let widths: Vec<usize> = multiples.iter().map(|m| m * width).collect();
        let factors = options.counts("attention_resolutions", MOST_LEVELS, WIDEST)?.unwrap_or_default();
        let down: Vec<bool> = (0..widths.len()).map(|level| factors.contains(&(1 << level))).collect();
        let transformer = map.get("use_spatial_transformer").and_then(Value::as_bool).unwrap_or(false);
        let context = if transformer { Some(options.needed("context_dim", WIDEST)?) } else { None };
        let head_width = options.count("num_head_channels", WIDEST).ok().flatten().filter(|w| *w > 0);
        let heads = match head_width {
            Some(head) => widths.iter().map(|width| width / head).collect(),
            None => vec![options.count("num_heads", WIDEST)?.unwrap_or(1); widths.len()],
        };
        let depth = options.count("transformer_depth", DEEPEST)?.unwrap_or(1);
        Self {
            inputs: options.needed("in_channels", WIDEST)?,
            outputs: options.needed("out_channels", WIDEST)?,
            layers: options.needed("num_res_blocks", DEEPEST)?,
            size: options.count("image_size", WIDEST)?,
            ..Self::compvis(widths, down, heads, (depth, context))
        }
        .checked()
    }

    /// What all U-Nets of CompVis have in common.
    pub(super) fn compvis(
        widths: Vec<usize>,
        down_attends: Vec<bool>,
        heads: Vec<usize>,
        (depth, context): (usize, Option<usize>),
    ) -> Self {
        Self {
            inputs: 0,
            outputs: 0,
            layers: 0,
            up_attends: down_attends.iter().rev().copied().collect(),
            down_attends,
            heads,
            depths: vec![depth; widths.len()],
            context,
            groups: 32,
            eps: 1e-5,
            cosines_first: true,
            frequency_shift: 0.0,
            size: None,
            widths,
        }
    }

    /// Refuses sizes that contradict each other, or that no network has.
    pub(super) fn checked(self) -> Result<Self, Malformed> {
        let levels = self.widths.len();
        let wrong = |problem: String| Err(Malformed::Inconsistent { problem });
        for (name, found) in [
            ("levels that attend on the way down", self.down_attends.len()),
            ("levels that attend on the way up", self.up_attends.len()),
            ("numbers of heads", self.heads.len()),
            ("transformer depths", self.depths.len()),
        ] {
            if found != levels {
                return wrong(format!("{levels} levels of channels, but {found} {name}"));
            }
        }
        let sizes = [self.inputs, self.outputs, self.groups, self.layers, self.context.unwrap_or(1)];
        if levels == 0 || self.widths.iter().chain(&sizes).any(|size| *size == 0) || self.layers > DEEPEST {
            return wrong("a size of the U-Net is 0 or out of bounds".into());
        }
        if let Some(width) = self.widths.iter().find(|width| **width > WIDEST) {
            return wrong(format!("{width} channels, more than {WIDEST}"));
        }
        if self.depths.iter().any(|depth| *depth == 0 || *depth > DEEPEST) {
            return wrong(format!("transformer depths {:?} must be 1 to {DEEPEST}", self.depths));
        }
        for (width, heads) in self.widths.iter().zip(&self.heads) {
            if *heads == 0 || width % heads != 0 || width % self.groups != 0 {
                return wrong(format!("{width} channels in {heads} heads and {} groups", self.groups));
            }
        }
        if !(self.eps > 0.0 && self.frequency_shift.abs() < 2.0 && self.widths[0] >= 8) {
            return wrong(format!(
                "norm_eps {}, freq_shift {} and {} channels cannot be",
                self.eps, self.frequency_shift, self.widths[0]
            ));
        }
        Ok(self)
    }
}

/// Which blocks attend: of the two type names the first does.
fn attends(
    map: &Map<String, Value>,
    name: &str,
    [with, without]: [&str; 2],
    otherwise: &[&str],
) -> Result<Vec<bool>, Malformed> {
    let Some(list) = map.get(name).filter(|v| !v.is_null()) else {
        return Ok(otherwise.iter().map(|kind| *kind == with).collect());
    };
    let list = list.as_array().filter(|list| !list.is_empty() && list.len() <= MOST_LEVELS);
    let wrong = || Malformed::Inconsistent { problem: format!("{name} must list {with} and {without}") };
    let attends = |kind: &Value| match kind.as_str() {
        Some(kind) if kind == with => Ok(true),
        Some(kind) if kind == without => Ok(false),
        _ => Err(wrong()),
    };
    list.ok_or_else(wrong)?.iter().map(attends).collect()
}

/// One number for all levels, or one for each.
fn per_level(map: &Map<String, Value>, name: &str, levels: usize) -> Result<Option<Vec<usize>>, Malformed> {
    let options = Kwargs(map);
    match map.get(name) {
        Some(Value::Array(_)) => options.counts(name, MOST_LEVELS, WIDEST),
        _ => Ok(options.count(name, WIDEST)?.map(|one| vec![one; levels])),
    }
}

/// Options that would make another network, with the value that leaves it as it is.
fn refuse_unless_neutral(map: &Map<String, Value>) -> Result<(), Malformed> {
    use serde_json::json;
    let texts = [
        ("act_fn", json!("silu")),
        ("mid_block_type", json!("UNetMidBlock2DCrossAttn")),
        ("resnet_time_scale_shift", json!("default")),
        ("time_embedding_type", json!("positional")),
        ("attention_type", json!("default")),
        ("center_input_sample", json!(false)),
        ("class_embeddings_concat", json!(false)),
        ("dual_cross_attention", json!(false)),
        ("only_cross_attention", json!(false)),
        ("mid_block_only_cross_attention", json!(false)),
        ("resnet_skip_time_act", json!(false)),
        ("downsample_padding", json!(1)),
        ("mid_block_scale_factor", json!(1)),
        ("resnet_out_scale_factor", json!(1)),
        ("conv_in_kernel", json!(3)),
        ("conv_out_kernel", json!(3)),
    ];
    let absent = [
        "time_embedding_dim",
        "time_embedding_act_fn",
        "time_cond_proj_dim",
        "timestep_post_act",
        "class_embed_type",
        "num_class_embeds",
        "addition_embed_type",
        "encoder_hid_dim",
        "encoder_hid_dim_type",
        "cross_attention_norm",
        "reverse_transformer_layers_per_block",
    ];
    for (name, neutral) in texts {
        refuse(name, map.get(name), &neutral)?;
    }
    absent.into_iter().try_for_each(|name| refuse(name, map.get(name), &Value::Null))
}

/// Refuses an option that is given and is not neutral.
fn refuse(name: &str, found: Option<&Value>, neutral: &Value) -> Result<(), Malformed> {
    let same = |value: &Value| match (value.as_f64(), neutral.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => value == neutral,
    };
    match found.filter(|value| !value.is_null()) {
        Some(value) if !same(value) => {
            let shown = dyweight_core::error::printable(&value.to_string());
            Err(Malformed::Inconsistent { problem: format!("{name} is {shown}; only {neutral} is supported") })
        }
        _ => Ok(()),
    }
}
