//! What the transformer is built from.

use super::double::RATIO;
use crate::edm::kwargs::Kwargs;
use crate::weights::TensorSet;
use dyweight_files::Malformed;
use serde_json::{Map, Value};

const WIDEST: usize = 1 << 16;
const MOST_BLOCKS: usize = 1 << 10;
const MOST_AXES: usize = 8;

/// Sizes of a FLUX transformer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluxConfig {
    /// Numbers of an image token: four pixels of latents.
    pub inputs: usize,
    /// Numbers of the prediction for one.
    pub outputs: usize,
    /// Blocks with two streams.
    pub doubles: usize,
    /// Blocks with one.
    pub singles: usize,
    /// Width of an attention head.
    pub head: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width of a text token.
    pub context: usize,
    /// Width of the vector for the whole text.
    pub pooled: usize,
    /// Whether the strength of guidance is an input.
    pub guidance: bool,
    /// Channels of a head that turn with each axis of a token's position.
    pub axes: Vec<usize>,
}

impl FluxConfig {
    /// FLUX.1-dev.
    pub fn dev() -> Self {
        Self {
            inputs: 64,
            outputs: 64,
            doubles: 19,
            singles: 38,
            head: 128,
            heads: 24,
            context: 4096,
            pooled: 768,
            guidance: true,
            axes: vec![16, 56, 56],
        }
    }

    /// Multiplications and additions for one sample of so many text and image tokens.
    pub(crate) fn operations(&self, texts: usize, images: usize) -> f64 {
        let (width, tokens) = (self.width() as f64, (texts + images) as f64);
        // Attention's four projections and the MLP; attention itself.
        let linear = 2.0 * tokens * width * width * (4 + 2 * RATIO) as f64;
        let attention = 4.0 * tokens * tokens * width;
        // The modulations are of one vector, and small.
        (self.doubles + self.singles) as f64 * (linear + attention)
            + 2.0 * width * (texts * self.context + images * (self.inputs + self.outputs)) as f64
    }

    /// Bytes of activations that are alive at a time for so many tokens, without a gradient: those of a single block
    /// are the most.
    pub(crate) fn activation_bytes(&self, tokens: usize) -> usize {
        // The stream twice, projections as they are and aligned, what was gathered, the branch, and the MLP three
        // times.
        tokens * self.width() * (2 + 3 + 3 + 1 + 1 + 3 * RATIO) * size_of::<f32>()
    }

    /// Bytes of activations one block keeps for the way back, for a sample of so many tokens.
    pub(crate) fn kept_by_a_block(&self, tokens: usize) -> usize {
        // Queries, keys, values, what was gathered, two branches and the middle, and the inside of the MLP.
        tokens * self.width() * (8 + RATIO) * size_of::<f32>()
    }

    /// From the configuration of a diffusers `FluxTransformer2DModel`.
    pub fn from_diffusers(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let (options, dev) = (Kwargs(map), Self::dev());
        let count = |name: &str, most: usize, otherwise: usize| Ok(options.count(name, most)?.unwrap_or(otherwise));
        let inputs = count("in_channels", WIDEST, dev.inputs)?;
        if count("patch_size", WIDEST, 1)? != 1 {
            return Err(Malformed::Inconsistent { problem: "patch_size must be 1".into() });
        }
        Self {
            inputs,
            outputs: count("out_channels", WIDEST, inputs)?,
            doubles: count("num_layers", MOST_BLOCKS, dev.doubles)?,
            singles: count("num_single_layers", MOST_BLOCKS, dev.singles)?,
            head: count("attention_head_dim", WIDEST, dev.head)?,
            heads: count("num_attention_heads", WIDEST, dev.heads)?,
            context: count("joint_attention_dim", WIDEST, dev.context)?,
            pooled: count("pooled_projection_dim", WIDEST, dev.pooled)?,
            guidance: options.flag("guidance_embeds")?.unwrap_or(false),
            axes: options.counts("axes_dims_rope", MOST_AXES, WIDEST)?.unwrap_or(dev.axes),
        }
        .checked()
    }

    /// Reads the sizes off the tensors of an original file, whose names begin with `prefix`. Heads are as wide as their
    /// norms; how they are divided among the axes is in no tensor: rows and columns get 7/16 each, rounded to even
    /// numbers, as released.
    pub(crate) fn of_original_tensors(set: &TensorSet, prefix: &str) -> Result<Self, Malformed> {
        let size = |name: &str, axis: usize| {
            let name = format!("{prefix}{name}");
            set.shape(&name).and_then(|s| s.get(axis)).copied().ok_or(Malformed::Missing { name })
        };
        let blocks = |kind: &str, landmark: &str| {
            (0..MOST_BLOCKS).take_while(|i| set.has(&format!("{prefix}{kind}.{i}.{landmark}"))).count()
        };
        let width = size("img_in.weight", 0)?;
        let head = size("double_blocks.0.img_attn.norm.key_norm.scale", 0)?.max(1);
        let side = 7 * head / 16 / 2 * 2;
        Self {
            inputs: size("img_in.weight", 1)?,
            outputs: size("final_layer.linear.weight", 0)?,
            doubles: blocks("double_blocks", "img_mod.lin.weight"),
            singles: blocks("single_blocks", "modulation.lin.weight"),
            head,
            heads: width / head,
            context: size("txt_in.weight", 1)?,
            pooled: size("vector_in.in_layer.weight", 1)?,
            guidance: set.has(&format!("{prefix}guidance_in.in_layer.weight")),
            axes: vec![head - 2 * side, side, side],
        }
        .checked()
    }

    fn checked(self) -> Result<Self, Malformed> {
        let Self { inputs, outputs, doubles, singles, head, heads, context, pooled, axes, .. } = &self;
        let wrong = |problem: String| Err(Malformed::Inconsistent { problem });
        if [inputs, outputs, head, heads, context, pooled].iter().any(|size| **size == 0) || doubles + singles == 0 {
            return wrong(format!(
                "a transformer of {doubles} and {singles} blocks, {heads} heads of {head}, {inputs} inputs, {outputs} outputs, \
                 contexts of {context} and {pooled} cannot be"
            ));
        }
        if heads * head > WIDEST {
            return wrong(format!("{heads} heads of {head} are {} wide, more than {WIDEST}", heads * head));
        }
        // A position has three numbers: which image, row and column.
        if axes.len() != 3 || axes.iter().sum::<usize>() != *head || axes.iter().any(|axis| axis % 2 == 1) {
            return wrong(format!(
                "axes_dims_rope is {axes:?}: must be three even numbers whose sum is the head's width, {head}"
            ));
        }
        Ok(self)
    }

    /// Width of a token inside.
    pub fn width(&self) -> usize {
        self.heads * self.head
    }

    /// Channels of the latents that are packed into tokens; none if tokens are not four pixels.
    pub(crate) fn latent_channels(&self) -> Option<usize> {
        (self.inputs.is_multiple_of(4) && self.inputs == self.outputs).then_some(self.inputs / 4)
    }
}
