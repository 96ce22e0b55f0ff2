//! Teaching a DyWeight solver to reproduce, in a few network calls, what a teacher reaches in many (paper, section 3.3 and
//! Algorithm 1).
//!
//! ```text
//! noise ──teacher (many calls, no gradient)──► target
//!   └────student DyWeight(W, s) (few calls)──► endpoint ──loss──► ∂L/∂(W, s) ──clip, Adam──► (W, s)
//! ```
//!
//! The network is frozen: the unknowns are the few dozen numbers of a [`Learnable`]. [`Training`] is the loop as a state that can be
//! advanced, saved and restored at any iteration; the same seed gives the same bits whatever the threads, micro-batches or
//! interruptions. What the released code lacks stands in [`Guard`]: validation on pairs of other seeds, roll-back, and
//! returning the best parameters seen instead of the last.

#![forbid(unsafe_code)]

mod best_start;
mod distance;
pub mod gauss_newton;
mod guard;
pub mod handcrafted;
mod identity;
mod joint;
mod learnable;
pub mod methods;
mod newton;
mod objective;
mod optimiser;
mod rate;
mod recipe;
mod relax;
mod run;
mod session;
mod snapshot;
mod spec;
mod stepwise;
mod student;
mod targets;
mod trace;
mod trainer;
mod training;
mod variety;
mod work;

pub use best_start::{StartSearch, TriedStart};
pub use dyweight_solvers::learned::{Block, Built, Frame};
pub use guard::{Guard, Judgement};
pub use joint::{Joint, Linearised};
pub use learnable::{ByParams, Learnable, Shown};
pub use methods::dyweight::DyWeightOptions;
pub use methods::learned_weights::{LearnedWeights, ScaleMode};
pub use methods::points::CountParallel;
pub use methods::span::{On, OperatorSpec, SpanSpec};
pub use newton::Curvature;
pub use objective::Loss;
pub use optimiser::{Moments, Optimiser};
pub use rate::{Rate, RateRule};
pub use recipe::{Group, Phase, Recipe};
pub use relax::{Moved, Relaxation};
pub use run::{Outputs, TrainRun, TrainWatch, run_each};
pub use session::{Files, History, Session, Watcher, beside, remove_state};
pub use snapshot::Snapshot;
pub use spec::{ClassName, Defaults, MOST_PARAMETERS, TeacherGrid, TrainPlan, TrainRecipe, TrainSpec};
pub use stepwise::{Link, Stepwise};
pub use student::{Gradient, Student};
pub use targets::{Supervision, Targets, Teacher, parse_states};
pub use trace::Trace;
pub use trainer::{Dataset, TrainConfig, TrainOutcome, Trainer, train};
pub use training::{Event, Iteration, Training, TrainingParts, Validation};
pub use work::{TeacherCalls, Work};
