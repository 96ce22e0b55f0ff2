//! The image tower, a ViT whose every token is used.

use crate::clip::{Stack, VisionConfig};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, LayerNorm, PatchEmbed, Shape, add_to_each, concat_tokens};

/// An image tower with its weights.
pub(super) struct Eye {
    patches: PatchEmbed,
    class: Vec<f32>,
    positions: Act,
    stack: Stack,
    norm: LayerNorm,
}

impl Eye {
    pub(super) fn new(config: &VisionConfig, root: &Scope<'_>) -> Result<Self> {
        let VisionConfig { size, patch, channels, ref stack } = *config;
        let (width, at) = (stack.width, root.at("blip.visual_encoder"));
        let count = (size / patch).pow(2) + 1;
        let weight = at.numbers("patch_embed.proj.weight", &[width, channels, patch, patch])?;
        let bias = at.numbers("patch_embed.proj.bias", &[width])?;
        let positions = at.numbers("pos_embed", &[1, count, width])?;
        Ok(Self {
            patches: PatchEmbed::new(channels, patch, width, &weight, Some(&bias))
                .map_err(|e| at.refused("patch_embed.proj", e))?,
            class: at.numbers("cls_token", &[1, 1, width])?,
            positions: Act::from_nhwc(Shape::tokens(1, count, width), &positions),
            stack: Stack::new(&root.at("vision"), stack, false)?,
            norm: at.layer_norm("norm", width, stack.eps as f32)?,
        })
    }

    /// The tokens of each image, `[n, 1, tokens, width]`, from normalised pixels of the configured size.
    pub(super) fn forward(&self, pixels: &Act) -> Act {
        let n = pixels.shape().n;
        let class = Act::from_nhwc(Shape::tokens(n, 1, self.class.len()), &self.class.repeat(n));
        let tokens = concat_tokens(&[&class, &self.patches.forward(pixels)]);
        let x = add_to_each(&tokens, &self.positions);
        drop(tokens);
        self.norm.forward(&self.stack.forward(x, false).0)
    }
}
