//! What is measured, each with its standard error and the number of samples behind it; never a bare number.

mod estimate;

pub use estimate::Estimate;
