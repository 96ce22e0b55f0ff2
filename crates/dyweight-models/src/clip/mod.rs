//! CLIP (Radford et al. 2021): its text tower conditions Stable Diffusion and FLUX; both towers together score how well
//! an image fits a text.
//!
//! ```text
//! text    x = token + position;  layers with a causal mask;  last = LN(x);  pooled = last at the end-of-text token
//! image   x = [class, patches] + position, x = LN(x);  layers without a mask;  pooled = LN(x₀)
//! layer   x = x + attention(LN x);  x = x + W₂·gelu(W₁·LN x)
//! score   100·cos(visual_projection·pooled image, text_projection·pooled text)
//! ```
//!
//! Tensors are asked for by the names of transformers; `names` has those of OpenCLIP.

mod config;
mod features;
mod file;
mod infer;
mod layers;
mod names;
mod published;
mod score;
mod text;
mod tokenizer;
mod vision;

pub(crate) use config::gelu_named;
pub use config::{ClipConfig, StackConfig, TextConfig, VisionConfig};
pub use features::ClipFeatures;
pub use file::{ClipFile, ClipOptions};
pub(crate) use layers::Stack;
pub(crate) use names::{open_clip, text_tower, whole};
pub(crate) use score::cosine;
pub use score::{Clip, ImageTower, Scores};
pub use text::{EncodedText, TextTower};
pub use tokenizer::{Dialect, Padding, Tokenizer};
pub use vision::VisionTower;
