//! Few-step diffusion sampling: handcrafted and learned ODE solvers for pretrained diffusion and flow models.
#![forbid(unsafe_code)]

pub mod error;
pub mod image;
pub mod report;
pub mod study;
pub mod tensor;

pub use error::{Error, Result};
pub use tensor::Tensor;
