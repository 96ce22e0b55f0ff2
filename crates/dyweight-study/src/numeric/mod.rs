//! The numerical study of solver coefficients: a white-box testbed with a known solution.
//!
//! Section 3.2 of the DyWeight paper and "Controlled numerical study configuration" of its appendix. Random linear
//! problems with a polynomial solution of degree K are solved by Adams–Bashforth methods of orders 1–4 in S steps,
//! once with the classical weights and once with weights for every step, fitted to the terminal error of that very
//! problem. Beyond the paper, each set of fitted weights is also run on a fresh problem of the same kind.
//!
//! ```text
//! y' = y*'(t) + A·(y − y*(t)),    y_{n+1} = y_n + h·Σ_q W_{n,q}·f_{n−q},    min_W ‖y_S − y*(1)‖²
//! ```
//!
//! [`run()`] promises: the same numbers for the same [`Settings`], whatever the number of threads, the grid around a
//! cell or the interruptions; a run that is killed loses at most the cell it was computing.

mod adams;
mod eigen;
mod figures;
mod observe;
mod optimise;
mod options;
mod page;
#[cfg(test)]
mod plain;
mod problem;
mod record;
mod run;
mod tables;

pub use observe::Observation;
pub use options::{Coupling, EndLoss, NumericOptions, Settings, Startup};
pub use page::page;
pub use record::{Record, Stat, StudyCell};
pub use run::{CellProgress, Summary, run};
