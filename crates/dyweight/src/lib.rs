//! Few-step diffusion sampling: handcrafted and learned ODE solvers for pretrained diffusion and flow models.
//!
//! A solver for a model, learned, kept and used:
//!
//! ```
//! # #[cfg(feature = "train")] {
//! # std::env::set_current_dir(std::env::temp_dir()).unwrap();
//! use dyweight::{Nfe, Solver, mixture::Mixture, train::TrainSpec};
//!
//! let model = Mixture::spiral();
//! let solver = dyweight::train(&model, Nfe(3), &TrainSpec::default())?;
//! solver.save("three.json")?;
//! let samples = Solver::load("three.json")?.sample(&model, 0..16)?;
//! # std::fs::remove_file("three.json").unwrap();
//! # assert_eq!(samples.samples(), 16);
//! # }
//! # Ok::<(), dyweight::Error>(())
//! ```
//!
//! The same for a model of your own:
//!
//! ```
//! # #[cfg(feature = "train")] {
//! use dyweight::denoiser::{ClosureModel, Prediction};
//! use dyweight::{Nfe, Solver, train::TrainSpec};
//!
//! // Any function of a sample and its noise level: here the exact denoiser of normal data, D = x/(1 + σ²).
//! let shrink = |x: &[f64], sigma: f64| x.iter().map(|v| v / (1.0 + sigma * sigma)).collect::<Vec<_>>();
//! let model = ClosureModel::of_samples([1, 2, 2], Prediction::Denoised, (0.002, 80.0), shrink)
//!     // ∂L/∂x from ∂L/∂D; a model without it is learned for by Gauss-Newton steps.
//!     .with_sample_pullback(move |_, sigma, g| shrink(g, sigma));
//!
//! let options = TrainSpec { iters: Some(20), batch: Some(8), validation: Some(8), ..TrainSpec::default() };
//! let solver = dyweight::train(&model, Nfe(3), &options)?;
//! let path = std::env::temp_dir().join("dyweight-three.json");
//! solver.save(&path)?;
//! let samples = Solver::load(&path)?.sample(&model, 0..4)?;
//! assert_eq!(samples.shape(), [4, 1, 2, 2]);
//! # std::fs::remove_file(path).unwrap();
//! # }
//! # Ok::<(), dyweight::Error>(())
//! ```
//!
//! Four programs stand in `examples/`: a model of your own, sampling, a comparison, a solver of your own.
//!
//! | | feature | |
//! |---|---|---|
//! | [`Solver`] | | a solver ready for use: read, written, sampled with |
//! | [`tape`], [`solver`], [`schedule`], [`denoiser`], [`sample`](mod@sample) … | | the method, and what is decided before a run |
//! | [`spec`], [`learned`], [`solver_file`] | | solvers by name, learned ones by their parameters, and the file that keeps them |
//! | [`files`] | | tensors, archives and pictures on disk |
//! | [`train()`], [`train`](mod@train) | `train` | learning a solver, alone or in many processes |
//! | [`models`] | `models` | pretrained networks by name or file |
//! | [`compare()`], [`metrics`] | `metrics` | distances, and the linear algebra they need |
//! | [`report`] | `report` | charts and pages |
//! | [`study`] | `study` | experiments of many solvers, and the paper's numerical study |
//!
//! All features are on by default; `default-features = false` leaves solvers alone, without networks, linear algebra or
//! charts.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "metrics")]
mod comparison;
mod ready;
#[cfg(feature = "train")]
mod training;

#[cfg(feature = "metrics")]
pub use comparison::{Comparison, compare};
pub use dyweight_core::{
    Error, Result, Tensor, coeff, denoiser, error, features, mixture, noise, option, schedule, tape, tensor,
};
pub use dyweight_files as files;
#[cfg(feature = "metrics")]
pub use dyweight_metrics as metrics;
#[cfg(feature = "models")]
pub use dyweight_models as models;
#[cfg(feature = "report")]
pub use dyweight_report as report;
pub use dyweight_sample::comm;
pub use dyweight_solvers::spec::Budget::{Nfe, Steps};
pub use dyweight_solvers::{presets, solver_file, spec};
#[cfg(feature = "study")]
pub use dyweight_study as study;
#[cfg(feature = "train")]
pub use dyweight_train as train;
pub use ready::{SampleOptions, Solver};
#[cfg(feature = "train")]
pub use training::{train, train_observed};

/// The sampling loop, and everything that is decided before it runs.
pub mod sample {
    pub use dyweight_core::sample::*;
    pub use dyweight_sample::{
        Drawing, GridRule, Inputs, Noise, OnModel, Prompts, SampleSpec, Sampler, Show, Stop, Take, Watch, Who, cut,
        each, in_parts, interruptible, misfits, require_prediction, stacked, unit,
    };
}

/// Learned solvers: their parameters, and whatever holds these.
pub mod learned {
    pub use dyweight_sample::learned::*;
    pub use dyweight_solvers::learned::*;
}

/// ODE solvers by their formulas, and what learned ones are made of. The trait that all of them implement is called
/// [`Method`](solver::Method) here: a [`Solver`] is one that is ready for use.
pub mod solver {
    pub use dyweight_core::solver::Solver as Method;
    pub use dyweight_core::solver::{
        Carried, Deis, DeisMode, Dpm2, DpmPp, DyWeight, Evaluated, Form, Heun, Initial, Ipndm, IpndmV, LowerOrderFinal,
        Place, Predict, Rows, Run, Scales, StepTable, Times, UniPc, Variant, Wider, WiderRun, adams_bashforth,
        check_order, realised_times,
    };
    pub use dyweight_solvers::{Base, Weights, span};
}

/// The README's program is a test.
#[cfg(all(doctest, feature = "train"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
