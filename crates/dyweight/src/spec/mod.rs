//! Plain descriptions, and the only place where names and files become objects.

pub mod budget;
pub mod features;
pub mod learned;
pub mod model;
mod outcome;
mod reference;
pub mod schedule;
pub mod seeds;
pub mod solver;
mod statistics;
pub mod train;

pub use budget::Budget;
pub use features::FeatureSpec;
pub use learned::Learned;
pub use model::{LoadedModel, ModelSpec};
pub use reference::{FeatureReference, reference};
pub use schedule::ScheduleSpec;
pub use seeds::Seeds;
pub use solver::{METHODS, SolverSpec};
pub use statistics::{BUILT_IN_REFERENCE, statistics};
pub use train::{TrainPlan, TrainSpec};
