//! What an autoencoder is built from, out of a diffusers or a CompVis configuration, or of the tensors alone.

use crate::edm::kwargs::Kwargs;
use crate::weights::TensorSet;
use dyweight_files::Malformed;
use serde_json::{Map, Value};

const WIDEST: usize = 1 << 16;
const DEEPEST: usize = 256;
const MOST_LEVELS: usize = 12;
const MOST_ENTRIES: usize = 1 << 24;
/// Stable Diffusion's, which its files do not hold.
const SD_SCALING: f64 = 0.18215;

/// The shape of an autoencoder.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoencoderConfig {
    /// Channels of images.
    pub images: usize,
    /// Channels of each level, the finest first.
    pub widths: Vec<usize>,
    /// Residual blocks of an encoder level; a decoder level has one more.
    pub layers: usize,
    /// Channels of latents.
    pub latents: usize,
    /// Channels inside, where encoder and decoder meet.
    pub hidden: usize,
    /// Groups of the normalisations.
    pub groups: usize,
    /// Whether there is a 1×1 convolution behind the encoder.
    pub quant: bool,
    /// Whether there is a 1×1 convolution before the decoder.
    pub post_quant: bool,
    /// Whether the middle attends.
    pub attends: bool,
    /// Entries of the codebook, where there is one.
    pub codebook: Option<usize>,
    /// Samples of a denoiser are latents less `shift`, times `scaling`.
    pub scaling: f64,
    /// See `scaling`.
    pub shift: f64,
}

impl AutoencoderConfig {
    /// Pixels of an image along a pixel of its latents.
    pub fn factor(&self) -> usize {
        1 << (self.widths.len().max(1) - 1)
    }

    /// Stable Diffusion 1.x.
    pub fn sd15() -> Self {
        Self {
            images: 3,
            widths: vec![128, 256, 512, 512],
            layers: 2,
            latents: 4,
            hidden: 4,
            groups: 32,
            quant: true,
            post_quant: true,
            attends: true,
            codebook: None,
            scaling: SD_SCALING,
            shift: 0.0,
        }
    }

    /// The LSUN models', with a codebook of 8192 entries.
    pub(crate) fn vq_f4() -> Self {
        Self { widths: vec![128, 256, 512], latents: 3, hidden: 3, codebook: Some(8192), scaling: 1.0, ..Self::sd15() }
    }

    /// From the `config.json` of a diffusers `AutoencoderKL`.
    pub fn from_diffusers(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let options = Kwargs(map);
        let flag = |name: &str| map.get(name).and_then(Value::as_bool).unwrap_or(true);
        for (name, kind) in [("down_block_types", "DownEncoderBlock2D"), ("up_block_types", "UpDecoderBlock2D")] {
            let known = |list: &Value| list.as_array().is_some_and(|l| l.iter().all(|k| k.as_str() == Some(kind)));
            if map.get(name).is_some_and(|list| !known(list)) {
                return Err(Malformed::Inconsistent { problem: format!("{name} may hold {kind} only") });
            }
        }
        options.choice("act_fn", &[("silu", ())])?;
        let latents = options.count("latent_channels", WIDEST)?.unwrap_or(4);
        Self {
            images: options.count("out_channels", WIDEST)?.unwrap_or(3),
            widths: options.counts("block_out_channels", MOST_LEVELS, WIDEST)?.unwrap_or(vec![64]),
            layers: options.count("layers_per_block", DEEPEST)?.unwrap_or(1),
            latents,
            hidden: latents,
            groups: options.count("norm_num_groups", WIDEST)?.unwrap_or(32),
            quant: flag("use_quant_conv"),
            post_quant: flag("use_post_quant_conv"),
            attends: flag("mid_block_add_attention"),
            codebook: None,
            scaling: options.number("scaling_factor")?.unwrap_or(SD_SCALING),
            shift: options.number("shift_factor")?.unwrap_or(0.0),
        }
        .checked()
    }

    /// From the `first_stage_config` parameters of a CompVis model; `scale_factor` is that of the whole model.
    pub(crate) fn from_compvis(map: &Map<String, Value>, scale_factor: Option<f64>) -> Result<Self, Malformed> {
        let inner = map.get("ddconfig").and_then(Value::as_object);
        let inner = inner.ok_or_else(|| Malformed::Missing { name: "ddconfig".into() })?;
        let (outer, options) = (Kwargs(map), Kwargs(inner));
        let attends_inside = inner.get("attn_resolutions").and_then(Value::as_array).is_some_and(|l| !l.is_empty());
        if attends_inside {
            let problem = "attn_resolutions must be empty: attention is supported in the middle only".into();
            return Err(Malformed::Inconsistent { problem });
        }
        let codebook = outer.count("n_embed", MOST_ENTRIES)?;
        let hidden = options.needed("z_channels", WIDEST)?;
        let width = options.needed("ch", WIDEST)?;
        let multiples = options.counts("ch_mult", MOST_LEVELS, WIDEST)?.unwrap_or(vec![1, 2, 4, 8]);
        Self {
            images: options.count("out_ch", WIDEST)?.unwrap_or(3),
            widths: multiples.iter().map(|m| m * width).collect(),
            layers: options.needed("num_res_blocks", DEEPEST)?,
            latents: outer.count("embed_dim", WIDEST)?.unwrap_or(hidden),
            hidden,
            groups: 32,
            quant: true,
            post_quant: true,
            attends: true,
            codebook,
            scaling: scale_factor.unwrap_or(if codebook.is_some() { 1.0 } else { SD_SCALING }),
            shift: 0.0,
        }
        .checked()
    }

    /// Reads the configuration off the tensors of a CompVis autoencoder, whose names begin with `prefix`.
    pub(crate) fn of_compvis_tensors(
        set: &TensorSet,
        prefix: &str,
        scale_factor: Option<f64>,
    ) -> Result<Self, Malformed> {
        let shape = |name: &str| set.shape(&format!("{prefix}{name}"));
        let size = |name: &str, axis: usize| {
            let found = shape(name).and_then(|shape| shape.get(axis)).copied();
            found.ok_or_else(|| Malformed::Missing { name: format!("{prefix}{name}") })
        };
        let widths: Vec<usize> = (0..MOST_LEVELS)
            .map_while(|level| size(&format!("decoder.up.{level}.block.0.conv1.weight"), 0).ok())
            .collect();
        let blocks = (0..DEEPEST).take_while(|j| shape(&format!("decoder.up.0.block.{j}.conv1.weight")).is_some());
        let codebook = shape("quantize.embedding.weight").and_then(|shape| shape.first()).copied();
        let hidden = size("decoder.conv_in.weight", 1)?;
        let post_quant = shape("post_quant_conv.weight").is_some();
        // Without the convolutions around the latents it is FLUX's, whose constants are these.
        let (scaling, shift) = if post_quant { (SD_SCALING, 0.0) } else { (0.3611, 0.1159) };
        Self {
            images: size("decoder.conv_out.weight", 0)?,
            widths,
            layers: blocks.count().saturating_sub(1),
            latents: if post_quant { size("post_quant_conv.weight", 1)? } else { hidden },
            hidden,
            groups: 32,
            quant: shape("quant_conv.weight").is_some() || post_quant,
            post_quant,
            attends: shape("decoder.mid.attn_1.norm.weight").is_some(),
            codebook,
            scaling: scale_factor.unwrap_or(if codebook.is_some() { 1.0 } else { scaling }),
            shift,
        }
        .checked()
    }

    fn checked(self) -> Result<Self, Malformed> {
        let wrong = |problem: String| Err(Malformed::Inconsistent { problem });
        let sizes = [self.images, self.latents, self.hidden, self.groups, self.codebook.unwrap_or(1), self.layers];
        if self.widths.is_empty() || self.widths.iter().chain(&sizes).any(|size| *size == 0) {
            return wrong("a size of the autoencoder is 0".into());
        }
        if let Some(width) = self.widths.iter().find(|width| **width > WIDEST) {
            return wrong(format!("{width} channels, more than {WIDEST}"));
        }
        if let Some(width) = self.widths.iter().find(|width| **width % self.groups != 0) {
            return wrong(format!("{width} channels in {} groups", self.groups));
        }
        if !(self.scaling.is_finite() && self.scaling > 0.0 && self.shift.is_finite()) {
            return wrong(format!("scaling_factor {} and shift_factor {} cannot be", self.scaling, self.shift));
        }
        Ok(self)
    }
}
