//! Learning a solver for a frozen model (DyWeight, CVPR 2026, Algorithm 1).
//!
//! ```text
//! Φ ← iPNDM's weights, scales of 1                     a recipe's start               solvers/dyweight
//! repeat:
//!     z ← noise of the next pairs                      numbered, the same in any run  pairs
//!     y ← teacher(z)                                   35 calls, no gradient          targets
//!     x ← solver(Φ, z)                                 Algorithm 2, few calls         student
//!     ℓ ← distance of x and y                          per sample, summed in order    objective
//!     Φ ← Φ moved by Adam                              ∂ℓ/∂Φ by one reverse sweep     optimiser
//!         or by a sampled Gauss–Newton matrix          one sweep more                 newton
//!         or by Gauss–Newton on differences of ends    forward calls alone            gauss_newton
//!     remember Φ if validation pairs like it best      or turn back                   guard
//! return the Φ that was liked best
//! ```
//!
//! Where paper and this crate differ: the paper returns the last Φ and never turns back. Here other pairs validate, the
//! start counts, and what diverges is undone ([`Guard`]). `--recipe paper --plain` is the paper's.
//!
//! The network is never trained. The unknowns are the parameters of a [`Learnable`], a few dozen. [`Training`] is the
//! loop as a state that can be advanced, saved and restored at any iteration; the same seed gives the same bits
//! whatever the threads, micro-batches, processes or interruptions. `docs/method.md` says why each of the three rules
//! is there.

#![forbid(unsafe_code)]

mod best_start;
mod distance;
mod gain;
pub mod gauss_newton;
mod guard;
mod halving;
pub mod handcrafted;
mod identity;
mod joint;
mod left_out;
mod newton;
mod objective;
mod optimiser;
pub mod plan;
mod recipe;
mod relax;
mod run;
mod search;
mod session;
mod snapshot;
mod stepwise;
mod student;
mod targets;
mod trace;
mod trainer;
mod training;
mod variety;
mod work;

pub use best_start::{StartSearch, TriedStart};
pub use dyweight_solvers::dyweight::{DyWeightOptions, LearnedWeights, ScaleMode};
pub use dyweight_solvers::learnable::{ByParams, Learnable, Shown};
pub use dyweight_solvers::learned::{Block, Built, Frame};
pub use dyweight_solvers::recipe::{CountParallel, Group, Link, Optimiser, Phase, Relaxation, Stepwise, Supervision};
pub use dyweight_solvers::span::{On, OperatorSpec, SpanSpec};
pub use dyweight_solvers::spec::train::{ClassName, RENAMED, TeacherGrid, TrainRecipe, TrainSpec};
pub use dyweight_solvers::{Rate, RateRule, method};
pub use gain::Gain;
pub use guard::{Guard, Judgement};
pub use halving::halve;
pub use joint::{Joint, Linearised};
pub use left_out::LeftOut;
pub use newton::Curvature;
pub use objective::Loss;
pub use optimiser::Moments;
pub use plan::{Defaults, TrainPlan};
pub use recipe::Recipe;
pub use relax::Moved;
pub use run::{Outputs, TrainRun, TrainWatch, run_each};
pub use session::{Files, History, Session, Watcher, beside, remove_state};
pub use snapshot::Snapshot;
pub use student::{Gradient, Student};
pub use targets::{Targets, Teacher, parse_states};
pub use trace::Trace;
pub use trainer::{Dataset, TrainConfig, TrainOutcome, Trainer};
pub use training::{Event, Iteration, Training, TrainingParts, Validation};
pub use work::{TeacherCalls, Work};
