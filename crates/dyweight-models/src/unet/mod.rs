//! The U-Nets of latent diffusion (Rombach et al. 2022): Stable Diffusion and its variants, with text, and the
//! unconditional ones of LSUN.
//!
//! ```text
//! h = conv_in(x), push h
//! down level i:  L × (h = Res(h), h = mix(h) where the level attends, push h);  h = conv stride 2 (h), push h, not at
//!                the last
//! middle:        h = Res(mix(Res(h)))
//! up level i:    (L+1) × (h = Res([h, pop]), h = mix(h) where the level attends);  h = conv(nearest ×2 (h)), not at
//!                the last
//! out = conv_out(silu(norm(h)))
//! mix: a spatial transformer with cross-attention to the context, or plain self-attention without a context
//! ```
//!
//! Tensors are asked for by the names of diffusers' `UNet2DConditionModel`; `names` has those of CompVis.

mod config;
mod infer;
mod mixer;
mod names;
mod net;
mod operations;
mod time;
mod transformer;

pub use config::UnetConfig;
pub(crate) use names::{compvis, diffusers, is_compvis};
pub use net::Unet;
pub(crate) use net::UnetTape;
pub(crate) use time::Waves;
