//! The image tower, with the gradient of the pixels.

use super::config::VisionConfig;
use super::layers::{Stack, StackTape};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{
    Act, LayerNorm, PatchEmbed, Shape, add_to_each, concat_tokens, pick_tokens, pick_tokens_backward, split_tokens,
};

/// With fewer tokens an image, packing the weights would take a good part of a call's time: a copy is kept.
const FEW_TOKENS: usize = 128;

/// An image tower with its weights.
pub struct VisionTower {
    config: VisionConfig,
    patches: PatchEmbed,
    /// The class token with its position, then the patches' positions.
    class: Vec<f32>,
    positions: Act,
    norm_before: LayerNorm,
    stack: Stack,
    norm_after: LayerNorm,
}

/// What the way back needs.
pub(super) struct VisionTape {
    x: Act,
    stack: StackTape,
    class: Act,
}

impl VisionTower {
    pub(super) fn new(config: &VisionConfig, scope: &Scope<'_>) -> Result<Self> {
        let VisionConfig { size, patch, channels, ref stack } = *config;
        let (width, eps, at) = (stack.width, stack.eps as f32, scope.at("embeddings"));
        let count = (size / patch).pow(2) + 1;
        let layers = if count < FEW_TOKENS { &scope.packed() } else { scope };
        let weight = at.numbers("patch_embedding.weight", &[width, channels, patch, patch])?;
        let positions = at.numbers("position_embedding.weight", &[count, width])?;
        Ok(Self {
            patches: PatchEmbed::new(channels, patch, width, &weight, None)
                .map_err(|e| at.refused("patch_embedding", e))?,
            class: at.numbers("class_embedding", &[width])?,
            positions: Act::from_nhwc(Shape::tokens(1, count, width), &positions),
            norm_before: scope.layer_norm("pre_layrnorm", width, eps)?,
            stack: Stack::new(layers, stack, false)?,
            norm_after: scope.layer_norm("post_layernorm", width, eps)?,
            config: config.clone(),
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &VisionConfig {
        &self.config
    }

    /// The vector of each image, `[n, 1, 1, width]`, from normalised pixels of the configured size.
    pub(super) fn forward(&self, pixels: &Act, record: bool) -> (Act, Option<VisionTape>) {
        let n = pixels.shape().n;
        let class = Act::from_nhwc(Shape::tokens(n, 1, self.class.len()), &self.class.repeat(n));
        let tokens = concat_tokens(&[&class, &self.patches.forward(pixels)]);
        let x = add_to_each(&tokens, &self.positions);
        drop(tokens);
        let (y, stack) = self.stack.forward(self.norm_before.forward(&x), record);
        let class = pick_tokens(&y, &vec![0; n]);
        let pooled = self.norm_after.forward(&class);
        (pooled, stack.map(|stack| VisionTape { x, stack, class }))
    }

    /// The gradient of the pixels.
    pub(super) fn backward(&self, tape: VisionTape, gy: &Act) -> Act {
        let VisionTape { x, stack, class } = tape;
        let (n, count, size) = (x.shape().n, x.shape().pixels(), self.config.size);
        let to_class = self.norm_after.backward(&class, gy);
        let g = pick_tokens_backward(&to_class, &vec![0; n], count);
        let g = self.norm_before.backward(&x, &self.stack.backward(stack, g));
        let parts = split_tokens(&g, &[1, count - 1]);
        self.patches.backward(&parts[1], [size, size])
    }
}
