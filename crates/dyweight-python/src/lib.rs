//! The compiled part of the Python package `dyweight`: the trainer, the sampling loop and the comparison, driving a
//! model that stays where it is, in the interpreter's process, on its device and in its precision.
//!
//! ```text
//! python/dyweight/*.py    the interface: types, documentation, tensors of whatever library
//! dyweight._native        this crate: descriptions arrive as JSON, numbers as bytes; nothing is decided here
//! ```
//!
//! The interpreter's lock is held while the model, a callback or another process is asked, and at no other time.

#![forbid(unsafe_code)]

mod compare;
mod error;
mod gauss_newton;
mod model;
mod payload;
mod processes;
mod sample;
mod solver;
mod train;

#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::compare::compare;
    #[pymodule_export]
    use super::gauss_newton::{Optimiser, most_solves};
    #[pymodule_export]
    use super::model::predict;
    #[pymodule_export]
    use super::sample::{noise, sample};
    #[pymodule_export]
    use super::solver::{
        presets, solver_at, solver_checked, solver_facts, solver_joined, solver_of, solver_svg, write,
    };
    #[pymodule_export]
    use super::train::{option_names, plan, train};
}
