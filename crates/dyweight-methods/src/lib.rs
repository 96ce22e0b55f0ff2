//! The learned methods of the field beside DyWeight, a file each, and the solver file that keeps any of them as text.
//!
//! A method is a [`LearnedSolver`](dyweight_core::learned::LearnedSolver): options, numbers, and the solver they stand for, on the trail and in the
//! loop that all solvers share. [`solver_file::Body`] is their list. How each is trained stands in `dyweight-train`.
#![forbid(unsafe_code)]

mod amed;
mod any_budget;
mod dlms;
mod dss;
mod epd;
mod gits;
mod ld3;
mod predictor;
mod s4s;
pub mod solver_file;

pub use amed::{Amed, AmedPlugin};
pub use any_budget::AnyBudget;
pub use dlms::Dlms;
pub use dss::{Deltas, Dss};
pub use epd::{Epd, EpdPlugin};
pub use gits::{Cost, Gits, shortest};
pub use ld3::{Ld3, TimeMode};
pub use predictor::Predictor;
pub use s4s::S4s;
