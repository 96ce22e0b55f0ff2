//! Comparing solvers: measures of samples, named experiments that run and resume, and the charts and pages that show them.
#![forbid(unsafe_code)]

pub mod benchmark;
pub mod compare;
pub mod linalg;
pub mod metrics;
pub mod paper;
mod reference;
pub mod report;
mod statistics;
mod training_loss;

pub use reference::{FeatureReference, reference};
pub use statistics::{BUILT_IN_REFERENCE, statistics};
pub use training_loss::training_loss;
