//! Comparing solvers: measures of samples, named experiments that run and resume, and the charts and pages that show
//! them.
#![forbid(unsafe_code)]

pub mod benchmark;
pub mod compare;
mod frechet_loss;
pub mod numeric;
pub mod paper;
mod training_loss;

pub use frechet_loss::FrechetLoss;
pub use training_loss::training_loss;
