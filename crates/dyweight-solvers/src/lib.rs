//! Solvers by the words a user has for them, and the learned ones by their parameters: DyWeight's with all it may weigh, those of other papers, a
//! file each, and the solver file that keeps any of them as text.
//!
//! A learned method is a [`LearnedSolver`](learned::LearnedSolver): options, parameters, and the solver they stand for, on the tape and in the
//! loop that all solvers share. [`solver_file::MethodParams`] is their list. How each is trained stands in `dyweight-train`.
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
