//! ImageReward (Xu et al. 2023): BLIP (Li et al. 2022) reads a prompt while looking at an image, and a head makes a
//! number of it.
//!
//! ```text
//! image   x = [class, patches + bias] + position;  layers as CLIP's, ε 10⁻⁶, exact GELU;  y = LN(x), all tokens
//! text    x = LN(word + position), ε 10⁻¹²;  layers  x = LN(x + self(x));  x = LN(x + cross(x, y));  x = LN(x +
//!         W₂·gelu(W₁·x))
//! reward  (five linear maps of x₀, with nothing between them, − 0.16717362830052426)/1.0333394966054072
//! ```
//!
//! Tokens of a prompt that are padding weigh exp(−10000) = 0 and nobody reads them: they are left out.

mod config;
mod file;
mod text;
mod tokenizer;
mod vision;

pub use config::{ReaderConfig, RewardConfig};
pub use file::{ImageReward, RewardFile};
pub use tokenizer::WordPiece;
