//! Few-step diffusion sampling: handcrafted and learned ODE solvers for pretrained diffusion and flow models.
//!
//! A solver for a model of your own, learned and used:
//!
//! ```
//! use dyweight::denoiser::{ClosureModel, Levels, Prediction};
//! use dyweight::spec::Budget;
//! use dyweight::train::{TrainSpec, train};
//! use dyweight::Tensor;
//! use std::sync::Arc;
//!
//! // Any function of a batch and its noise levels: here the exact denoiser of normal data, D = x/(1 + σ²).
//! let shrink = |x: &Tensor, levels: &Levels| {
//!     let (mut out, len) = (x.clone(), x.sample_len());
//!     out.data_mut().iter_mut().enumerate().for_each(|(i, v)| *v /= 1.0 + levels.of(i / len).powi(2));
//!     Ok::<_, std::io::Error>(out)
//! };
//! let model = ClosureModel::new([1, 2, 2], Prediction::Denoised, (0.002, 80.0), shrink)
//!     // ∂L/∂x from ∂L/∂D; the derivative in the level is a finite difference.
//!     .with_state_pullback(move |_, levels, cotangent| shrink(cotangent, levels));
//! let options = TrainSpec { iters: Some(20), batch: Some(8), validation: Some(8), ..TrainSpec::default() };
//! let solver = train(Arc::new(model), Budget::Nfe(3), &options)?;
//! assert_eq!((solver.nfe, solver.steps, solver.afs), (3, 4, true));
//! # Ok::<(), dyweight::Error>(())
//! ```
//!
//! | | |
//! |---|---|
//! | [`sample`](mod@sample), [`solver`], [`schedule`], [`denoiser`], [`tape`] … | the method: `dyweight-core` |
//! | [`methods`], [`spec`], [`solver_file`] | solvers by name, learned ones by their numbers, and the file that keeps any of them |
//! | [`models`] | pretrained networks by name or file |
//! | [`train`] | learning a solver, alone or in many processes; opening learned ones |
//! | [`study`] | measures, comparisons, charts and pages |
//! | [`files`] | tensors, archives and pictures on disk |
//! | [`numeric`] | the paper's numerical study |
#![forbid(unsafe_code)]

pub use dyweight_core::{
    Error, Result, Tensor, coeff, denoiser, error, features, mixture, noise, schedule, tape, tensor,
};
pub use dyweight_files as files;
pub use dyweight_metrics as metrics;
pub use dyweight_models as models;
pub use dyweight_report as report;
pub use dyweight_sample::comm;
pub use dyweight_solvers as solvers;
pub use dyweight_solvers::{solver_file, spec};
pub use dyweight_study as study;
pub use dyweight_study::numeric;
pub use dyweight_train as train;

/// The sampling loop, and everything that is decided before it runs.
pub mod sample {
    pub use dyweight_core::sample::*;
    pub use dyweight_sample::{
        Drawing, GridRule, Inputs, Learned, Noise, OnModel, Prompts, SampleSpec, Sampler, Show, Stop, Who, cut, each,
        in_parts, interruptible, misfits, require_prediction, stacked, unit,
    };
}

/// Learned solvers: their parameters, and whatever holds these.
pub mod learned {
    pub use dyweight_sample::learned::*;
    pub use dyweight_solvers::learned::*;
}

/// ODE solvers, and what learned ones are made of.
pub mod solver {
    pub use dyweight_core::solver::*;
    pub use dyweight_solvers::{Base, Weights, span};
}

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
