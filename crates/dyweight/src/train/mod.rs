//! Teaching a DyWeight solver to reproduce, in a few network calls, what a teacher reaches in many (paper, section 3.3 and
//! Algorithm 1).
//!
//! ```text
//! noise ──teacher (many calls, no gradient)──► target
//!   └────student DyWeight(W, s) (few calls)──► endpoint ──loss──► ∂L/∂(W, s) ──clip, Adam──► (W, s)
//! ```
//!
//! The network is frozen: the unknowns are the few dozen numbers of [`Parameters`]. [`Training`] is the loop as a state that can be
//! advanced, saved and restored at any iteration; the same seed gives the same bits whatever the threads, micro-batches or
//! interruptions. What the released code lacks stands in [`Guard`]: validation on pairs of other seeds, roll-back, and
//! returning the best parameters seen instead of the last.

mod guard;
mod objective;
mod optimiser;
mod pairs;
mod parameters;
mod rate;
mod session;
mod snapshot;
mod student;
mod targets;
mod training;

pub use guard::{Guard, Verdict};
pub use objective::Loss;
pub use optimiser::{Adam, Optimiser};
pub use pairs::{Noise, Pairs};
pub use parameters::{Parameters, ScaleMode};
pub use rate::Rate;
pub use session::{Files, Session, Trace, remove_state};
pub use snapshot::Snapshot;
pub use student::{Gradient, Student};
pub use targets::{Supervision, Targets, Teacher, in_parts, parse_states};
pub use training::{Event, Iteration, Recipe, Training, Validation};
