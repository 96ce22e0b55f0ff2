//! What is written down: one line for each training record and each score.

use dyweight_metrics::Estimate;
use dyweight_solvers::solver_file::SolverFile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How an entry did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The entry's key.
    pub key: String,
    /// Row of the table when it was made.
    pub row: String,
    /// The solver, with its options.
    pub solver: String,
    /// Network calls, counted.
    pub nfe: usize,
    /// The same with calls that could be made side by side counted once, where that is less.
    #[serde(rename = "rounds", default, skip_serializing_if = "Option::is_none")]
    pub sequential_calls: Option<usize>,
    /// Intervals of its grid.
    pub steps: usize,
    /// Why there are no numbers: the solver lost them.
    pub failed: Option<String>,
    /// Distance to the teacher.
    pub rmse: Option<Estimate>,
    /// The same as a signal-to-noise ratio in decibels.
    pub psnr: Option<Estimate>,
    /// Fréchet distance to the reference.
    pub frechet: Option<Estimate>,
    /// Fréchet distance to the teacher's samples on the same noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imitation: Option<Estimate>,
    /// The last two by a second network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<ByFeatures>,
    /// Scores of images and their prompts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompted: BTreeMap<String, Estimate>,
    /// Distance of each sample to the teacher's, of the first few thousand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<f32>,
    /// Standard deviation of the slope at each evaluation; 1 where state and time agree.
    pub slopes: Vec<f64>,
}

/// Fréchet distances in the features of one network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByFeatures {
    /// To the reference.
    pub frechet: Option<Estimate>,
    /// To the teacher's samples on the same noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imitation: Option<Estimate>,
}

/// What training found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingRecord {
    /// The training record's key.
    pub training_record: String,
    /// The solver.
    pub file: Box<SolverFile>,
    /// Training loss of each iteration.
    pub losses: Vec<Option<f64>>,
    /// (iteration, validation loss).
    pub validation: Vec<(usize, f64)>,
    /// Pairs seen in one iteration.
    pub pairs_per_iteration: usize,
    /// Solvers on the way: after so many iterations.
    pub stages: Vec<(usize, Box<SolverFile>)>,
}

/// A line of the journal.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    Score(Box<Score>),
    TrainingRecord(Box<TrainingRecord>),
}
