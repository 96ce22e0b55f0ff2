//! What the tensors of a CLIP model say about it.
//!
//! ```text
//! heads   not stored: 64 wide, but for 16 heads of widths 1280, 1408 and 1664 (ViT-H, g and bigG)
//! size    √(positions − 1)·patch
//! ```

use super::config::{ClipConfig, StackConfig, TextConfig, VisionConfig};
use crate::weights::{Layout, TensorSet};
use dyweight_files::Malformed;
use dyweight_nn::Gelu;

const DEEPEST: usize = 256;
const HEAD: usize = 64;
/// Widths of vision towers with sixteen heads wider than the others'.
const SIXTEEN: [usize; 3] = [1280, 1408, 1664];

impl ClipConfig {
    /// Reads a configuration off the tensors, but for the activation, which they do not tell.
    pub(crate) fn of_tensors(set: &TensorSet, layout: &Layout, gelu: Gelu) -> Result<Self, Malformed> {
        let size = |name: &str, axis: usize| size(set, layout, name, axis);
        let stack = |tower: &str, width: usize| -> Result<StackConfig, Malformed> {
            let heads = if tower == "vision_model" && SIXTEEN.contains(&width) { 16 } else { width / HEAD };
            if heads == 0 || !width.is_multiple_of(heads) {
                let problem =
                    format!("does not say how many heads its {tower} of width {width} has: give its configuration");
                return Err(Malformed::Inconsistent { problem });
            }
            let name = |i: usize| format!("{tower}.encoder.layers.{i}.mlp.fc1.weight");
            let layers = (0..DEEPEST).take_while(|i| set.has(&layout.locate(&name(*i)).name)).count();
            Ok(StackConfig { width, hidden: size(&name(0), 0)?, layers, heads, gelu, eps: 1e-5 })
        };
        let (tokens, places) =
            ("text_model.embeddings.token_embedding.weight", "text_model.embeddings.position_embedding.weight");
        let patches = "vision_model.embeddings.patch_embedding.weight";
        let patch = size(patches, 2)?;
        let rows = size("vision_model.embeddings.position_embedding.weight", 0)?;
        let grid = rows.saturating_sub(1).isqrt();
        if grid * grid + 1 != rows || grid == 0 || patch == 0 {
            let problem = format!("has {rows} positions, which are not those of a square of patches and a class");
            return Err(Malformed::Inconsistent { problem });
        }
        Ok(Self {
            text: TextConfig {
                stack: stack("text_model", size(tokens, 1)?)?,
                vocabulary: size(tokens, 0)?,
                positions: size(places, 0)?,
                end: None,
            },
            vision: VisionConfig {
                stack: stack("vision_model", size(patches, 0)?)?,
                size: grid * patch,
                patch,
                channels: size(patches, 1)?,
            },
            features: size("visual_projection.weight", 0)?,
        })
    }

    /// The same with the widths inside layers as the tensors have them: configurations round them in several ways.
    pub(crate) fn with_hidden_of(mut self, set: &TensorSet, layout: &Layout) -> Self {
        for (tower, stack) in [("text_model", &mut self.text.stack), ("vision_model", &mut self.vision.stack)] {
            let name = format!("{tower}.encoder.layers.0.mlp.fc1.weight");
            stack.hidden = layout.shape(set, &name).and_then(|s| s.first().copied()).unwrap_or(stack.hidden);
        }
        self
    }
}

fn size(set: &TensorSet, layout: &Layout, name: &str, axis: usize) -> Result<usize, Malformed> {
    let found = layout.shape(set, name).and_then(|shape| shape.get(axis).copied());
    found.ok_or_else(|| Malformed::Missing { name: layout.locate(name).name })
}
