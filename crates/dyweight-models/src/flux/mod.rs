//! FLUX.1's transformer (Black Forest Labs 2024): a rectified flow on packed latents, with text and image tokens in one
//! attention (Esser et al. 2024, MMDiT).
//!
//! ```text
//! v = silu( MLP(E(1000·t)) + MLP(E(1000·g)) + MLP(pooled) )
//!                                                                   g: guidance, where the model was distilled with it
//! x = x_embedder(tokens),  y = context_embedder(text)
//! double blocks   two streams with weights of their own, one attention over [text; image]
//! single blocks   one stream z = [y; x], attention and MLP side by side
//! velocity = proj_out(N(x)),    N(z) = (1 + scale)·LN(z) + shift,  every scale, shift and gate linear in v
//! ```
//!
//! Tensors are asked for by the names of diffusers' `FluxTransformer2DModel`; `names` has those of the original files.
//! Blocks are used one after the other, and what they are made of is read ahead and let go again: the weights may be
//! larger than memory.

mod config;
mod double;
mod heads;
mod names;
mod net;
mod packing;
mod single;
mod vector;

pub use config::FluxConfig;
pub(crate) use names::{diffusers, original};
pub use net::Flux;
pub(crate) use net::{FluxInput, FluxTape, KEPT};
pub(crate) use packing::{pack, positions, unpack};
