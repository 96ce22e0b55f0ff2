//! The method in one sitting: carrying noise to samples along the probability-flow ODE of a pretrained model, with
//! handcrafted solvers and with DyWeight's learned one, and differentiating all of it in its coefficients.
//!
//! Read it in this order:
//!
//! | module | what |
//! |---|---|
//! | [`tensor`] | a batch of samples |
//! | [`coeff`] | a scalar that remembers how it was made |
//! | [`noise`] | what a seed stands for |
//! | [`schedule`] | which noise levels are visited |
//! | [`denoiser`] | a model as solvers see it; conditioning and guidance |
//! | [`tape`] | network calls and linear combinations, recorded, and the one reverse sweep |
//! | [`solver`] | the methods, a file each; [`solver::DyWeight`] is the paper's |
//! | [`sample`](mod@sample) | the one loop |
//! | [`mixture`] | a model with a closed form, to try everything on |
//!
//! There are no threads, files or clock in this crate, and nothing that needs a linear-algebra library.
#![forbid(unsafe_code)]

pub mod coeff;
pub mod denoiser;
pub mod error;
pub mod features;
pub mod json;
pub mod mixture;
pub mod noise;
pub mod option;
pub mod sample;
pub mod schedule;
pub mod solver;
pub mod tape;
pub mod tensor;

pub use error::{Error, Result};
pub use tensor::Tensor;
