//! Frozen-network CPU engine: NHWC f32 tensors, a dozen operations, each with forward and input gradient.
//!
//! Weights are packed once when an operation is built and never change: there is no weight gradient anywhere. An
//! operation is a struct with `forward` and `backward`; `backward` maps the gradient of the output to the gradient of
//! the input and says in its documentation what the caller must have kept from the forward pass:
//!
//! | operation | what `backward` needs besides the output's gradient |
//! |---|---|
//! | [`Conv2d`], [`Linear`], [`Fir`], [`concat()`], pooling by average | nothing (shapes only) |
//! | [`GroupNorm`] | its input, its [`NormStats`], its modulation |
//! | [`SelfAttention`], [`attention()`] | queries, keys, values (the softmax is computed again) |
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
pub mod error;
pub mod fir;
mod gemm;
pub mod isa;
pub mod linear;
pub mod norm;
mod parallel;
pub mod pooling;
pub mod positive;
mod simd;

pub use act::{Act, Shape};
pub use activation::{relu, relu_backward, silu, silu_backward};
pub use attention::{SelfAttention, attention, attention_backward, deinterleave_qkv};
pub use channels::{concat, split};
pub use conv::{Conv2d, ConvAlgo, ConvSpec, Padding};
pub use elementwise::{add_per_sample, add_scaled, scaled, spatial_sum};
pub use error::{Error, Result};
pub use fir::Fir;
pub use isa::Isa;
pub use linear::Linear;
pub use norm::{Activation, GroupNorm, Modulation, NormGrad, NormStats};
pub use pooling::{AvgPool, MaxPool, Winners};
pub use positive::Positive;
