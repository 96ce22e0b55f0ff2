//! T5's text encoder (Raffel et al. 2020; version 1.1, Shazeer 2020), as FLUX takes its prompts from it.
//!
//! ```text
//! x = shared[ids]
//! x = x + W_o·attend(rms(x)),  scores q·k + bias[bucket(j − i)]
//!                                                                       not scaled; one table of biases for all blocks
//! x = x + W_out·(gelu(W_0·y)∘W_1·y),  y = rms(x)
//! out = rms(x)                                                           no bias in any layer, no mask
//! ```

mod buckets;
mod config;
mod net;
mod normaliser;
mod pieces;
mod proto;
mod tokenizer;

pub use config::T5Config;
pub use net::T5;
pub(crate) use net::{landmark, layout};
pub use tokenizer::UnigramTokenizer;
