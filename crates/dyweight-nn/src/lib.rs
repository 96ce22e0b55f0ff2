//! Frozen-network CPU engine: NHWC f32 tensors, some two dozen operations, each with forward and input gradient.
//!
//! Weights never change: there is no weight gradient anywhere. They are packed once when an operation is built, or stay
//! where they are stored, in half precision if they are ([`Weights`]).
//!
//! An operation is a struct with `forward` and `backward`; `backward` maps the gradient of the output to the gradient
//! of the input and says in its documentation what the caller must have kept from the forward pass:
//!
//! | operation | what `backward` needs besides the output's gradient |
//! |---|---|
//! | [`Conv2d`], [`Linear`], [`Fir`], [`concat()`], [`concat_tokens`], [`pick_tokens`], [`Rotary`], [`PatchEmbed`], [`upsample_nearest`], pooling by average | nothing (shapes only) |
//! | [`LayerNorm`], [`RmsNorm`], [`Gelu`] | its input |
//! | [`LayerNorm::forward_modulated`] | its input and scale |
//! | [`gated_residual`] | its gate and gated branch |
//! | [`GroupNorm`] | its input, its [`NormStats`], its modulation |
//! | [`SelfAttention`], [`attention()`] | queries, keys, values (the softmax is computed again) |
//! | [`Attention`] | queries, keys, values, its output and [`LogSums`] |
//! | [`silu`] | its input |
//! | [`relu`], [`Conv2d::forward_relu`] | its input or output, or the [`Positive`] bits of its output |
//! | [`MaxPool`] | the [`Winners`] of its windows |
//!
//! Promises, all tested:
//! * any channel count, any spatial size, any batch;
//! * for one instruction set, results are bit-identical for every thread count and every split of the samples into
//!   batches: the order of every sum depends on one sample's shape only;
//! * buffers of dropped activations are reused ([`buffer`]).
//!
//! Constructors return [`Error`] on weights that do not fit. Running an operation on an activation of the wrong shape
//! is a programming error and panics.
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::needless_range_loop, reason = "one index often names a register in several arrays")]

pub mod act;
pub mod activation;
pub mod attention;
pub mod buffer;
pub mod channels;
pub mod conv;
pub mod elementwise;
pub mod embedding;
pub mod error;
pub mod fir;
mod fixed;
pub mod gated;
pub mod gelu;
mod gemm;
pub mod isa;
pub mod linear;
pub mod norm;
mod pairs;
mod parallel;
pub mod patches;
pub mod pooling;
pub mod positive;
pub mod precision;
mod reduce;
pub mod rotary;
pub mod row_norm;
mod simd;
pub mod tokens;
pub mod upsample;
pub mod weights;

pub use act::{Act, Shape};
pub use activation::{relu, relu_backward, silu, silu_backward};
pub use attention::{Attention, Bias, LogSums, SelfAttention, attention, attention_backward};
pub use channels::{concat, split};
pub use conv::{Conv2d, ConvAlgo, ConvSpec, Padding};
pub use elementwise::{add_per_sample, add_scaled, scaled, spatial_sum};
pub use embedding::Embedding;
pub use error::{Error, Result};
pub use fir::Fir;
pub use gated::{gated_residual, gated_residual_backward};
pub use gelu::Gelu;
pub use isa::Isa;
pub use linear::Linear;
pub use norm::{Activation, GroupNorm, Modulation, NormGrad, NormStats};
pub use patches::PatchEmbed;
pub use pooling::{AvgPool, MaxPool, Winners};
pub use positive::Positive;
pub use precision::Precision;
pub use rotary::Rotary;
pub use row_norm::{LayerNorm, ModulatedGrad, RmsNorm};
pub use tokens::{add_to_each, concat_tokens, pick_tokens, pick_tokens_backward, split_tokens};
pub use upsample::{upsample_nearest, upsample_nearest_backward};
pub use weights::{Dtype, Owner, Weights};
