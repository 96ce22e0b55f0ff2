//! A solver on its grid, ready to run on a model.
//!
//! ```text
//! words of a user ──SampleSpec──► Sampler: solver, times, extras, calls
//! seeds, prompts  ──────────────► Inputs: noise and conditions, sample by sample
//! both            ──Drawing─────► samples, batch by batch, in one process or many
//! ```
//!
//! ```
//! use dyweight_core::mixture::Mixture;
//! use dyweight_sample::{OnModel, SampleSpec, Who};
//! use dyweight_solvers::spec::{Budget, SolverSpec};
//! let model = Mixture::spiral();
//! let spec = SampleSpec { budget: Some(Budget::Nfe(9)), ..SampleSpec::default() };
//! let sampler = spec.sampler(Who::Handcrafted(&SolverSpec::named("ipndm")), &OnModel::new(&model, "spiral")?)?;
//! assert_eq!((sampler.nfe, sampler.steps()), (9, 9));
//! # Ok::<(), dyweight_core::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod comm;
mod drawing;
mod fit;
mod inputs;
mod interrupt;
pub mod learned;
mod parts;
mod prompts;
mod sampler;

pub use drawing::{Drawing, Take, Watch};
pub use fit::{misfits, require_prediction};
pub use inputs::{Inputs, Noise, Show};
pub use interrupt::{Stop, interruptible};
pub use learned::Learned;
pub use parts::{cut, each, in_parts, stacked, unit};
pub use prompts::Prompts;
pub use sampler::{GridRule, OnModel, SampleSpec, Sampler, Who, not_made};
