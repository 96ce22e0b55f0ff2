//! What is on record of an experiment.

use super::experiment::{Entry, Experiment};
use super::record::{Line, Score, TrainingRecord};
use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use dyweight_files::image::Image;
use dyweight_files::journal::{FILE, Journal};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All records of an experiment.
pub struct Results {
    /// Scores by key.
    pub scores: BTreeMap<String, Score>,
    /// Training records by key.
    pub training_records: BTreeMap<String, TrainingRecord>,
    /// Seconds a process needs for a sample, in network and solver, by key; and for a training record, by `training-`
    /// and its key. Where known: a training record that was interrupted has no time.
    pub seconds: BTreeMap<String, f64>,
    /// Seconds of all runs together that came to their end.
    pub run_seconds: f64,
    pub(super) directory: PathBuf,
}

impl Results {
    /// Nothing on record yet.
    pub fn none(directory: &Path) -> Self {
        let (scores, training_records, seconds) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { scores, training_records, seconds, run_seconds: 0.0, directory: directory.to_owned() }
    }

    /// The score of an entry.
    pub fn score(&self, experiment: &Experiment, entry: &Entry) -> Option<&Score> {
        self.scores.get(&experiment.key(entry))
    }

    /// First samples of an entry.
    pub fn sheet(&self, key: &str) -> Option<Image> {
        Image::read(&super::pictures::files(&self.directory, key).0).ok()
    }

    /// States of some samples of an entry.
    pub fn way(&self, key: &str) -> Option<Image> {
        Image::read(&super::pictures::files(&self.directory, key).1).ok()
    }
}

/// What is on record of an experiment in a directory; refuses the records of another.
pub fn read(experiment: &Experiment, directory: &Path) -> Result<Results> {
    sort(directory, Journal::read(directory, &experiment.header())?)
}

pub(super) fn sort(directory: &Path, lines: Vec<Value>) -> Result<Results> {
    let mut results =
        Results { seconds: times(directory), run_seconds: run_seconds(directory), ..Results::none(directory) };
    for line in lines {
        let line = serde_json::from_value(line).map_err(|e| {
            let problem = Malformed::Json { what: "record", reason: e.to_string() };
            Error::malformed(&directory.join(FILE), problem)
        })?;
        match line {
            Line::Score(score) => drop(results.scores.insert(score.key.clone(), *score)),
            Line::TrainingRecord(training_record) => {
                drop(results.training_records.insert(training_record.training_record.clone(), *training_record))
            }
        }
    }
    Ok(results)
}

/// How long all runs on record took.
pub(super) fn run_seconds(directory: &Path) -> f64 {
    let text = std::fs::read_to_string(directory.join("times.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()?["run"].as_f64()).sum()
}

/// Times on record; a line that makes no sense is no time.
pub(super) fn times(directory: &Path) -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(directory.join("times.jsonl")).unwrap_or_default();
    let time = |line: &str| {
        let value: Value = serde_json::from_str(line).ok()?;
        let seconds = value["seconds_per_sample"].as_f64().or(value["seconds"].as_f64())?;
        Some((value["key"].as_str()?.to_string(), seconds))
    };
    text.lines().filter_map(time).collect()
}
