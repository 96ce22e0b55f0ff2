//! Few-step diffusion sampling: handcrafted and learned ODE solvers for pretrained diffusion and flow models.
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod coeff;
pub mod comm;
pub mod denoiser;
pub mod error;
pub mod image;
pub mod linalg;
pub mod metrics;
pub mod models;
pub mod noise;
pub mod path;
pub mod report;
pub mod sample;
pub mod schedule;
pub mod solver;
pub mod spec;
pub mod study;
pub mod tensor;
pub mod train;

pub use error::{Error, Result};
pub use tensor::Tensor;

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
