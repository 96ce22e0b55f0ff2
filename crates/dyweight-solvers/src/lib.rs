//! Solvers by the words a user has for them, learned methods a file each, and the solver file that keeps any as text.
//!
//! A method's file has parameters and the solver they stand for ([`LearnedSolver`](learned::LearnedSolver)), on the
//! tape and in the loop that all solvers share, and how its authors teach it ([`Method`](method::Method)).
//! [`method::METHODS`] is their list. The trainer, which is the same for all, is `dyweight-train`.
#![forbid(unsafe_code)]

mod amed;
mod any_budget;
mod base;
mod dlms;
mod dss;
pub mod dyweight;
mod epd;
mod gits;
mod ld3;
pub mod learnable;
pub mod learned;
pub mod method;
mod predictor;
pub mod presets;
mod rate;
pub mod recipe;
mod s4s;
mod small_net;
pub mod solver_file;
pub mod span;
pub mod spec;

pub use amed::{Alone, Amed, AmedPlugin, Outer};
pub use any_budget::{AnyBudget, BudgetMember};
pub use base::{Base, BaseOptions};
pub use dlms::Dlms;
pub use dss::{Deltas, Dss, DssOptions};
pub use dyweight::Weights;
pub use epd::{Epd, EpdPlugin, History, PointOptions, Reach};
pub use gits::{Cost, Gits, GitsOptions, shortest};
pub use ld3::{Ld3, Ld3Options, TimeMode};
pub use predictor::Predictor;
pub use rate::{Rate, RateRule};
pub use s4s::S4s;
pub use small_net::Layers;
