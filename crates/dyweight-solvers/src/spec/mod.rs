//! Solvers, schedules, budgets and seeds by the words a user has for them.
//!
//! ```
//! use dyweight_solvers::spec::{Seeds, SolverSpec};
//! assert_eq!(SolverSpec::named("heun").build(true)?.label(), "heun");
//! assert_eq!(Seeds::parse("0-2,9")?.iter().collect::<Vec<_>>(), [0, 1, 2, 9]);
//! assert!(SolverSpec::named("huen").build(true).is_err_and(|e| e.hint().unwrap().contains("heun")));
//! # Ok::<(), dyweight_core::Error>(())
//! ```

pub mod budget;
pub mod effect;
pub mod handcrafted;
pub mod schedule;
pub mod seeds;
pub mod solver;
mod spelling;
mod term;
pub mod train;

pub use budget::Budget;
pub use handcrafted::Handcrafted;
pub use schedule::ScheduleSpec;
pub use seeds::Seeds;
pub use solver::{METHODS, SolverSpec};
pub use term::Term;
pub use train::TrainSpec;
#[cfg(feature = "clap")]
pub(crate) use train::one_of;
