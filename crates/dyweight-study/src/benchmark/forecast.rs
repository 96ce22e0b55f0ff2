//! What is still to be done of an experiment, counted before it is done.

use super::candidate::Candidate;
use super::experiment::Experiment;
use super::results::Results;
use super::training_job::TrainingJob;
use dyweight_core::error::Result;
use dyweight_sample::comm::Comm;
use dyweight_train::{TeacherCalls, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Pieces of work that are not on record.
#[derive(Clone, Debug, Default)]
pub struct Forecast {
    /// Entries to be judged.
    pub entries: usize,
    /// What to judge them costs, without the teacher.
    pub judging: Work,
    /// Training records by key, with what each costs.
    pub training_records: BTreeMap<String, Work>,
    /// The most samples per network call of a training record.
    pub training_batch: usize,
    /// Teachers by subject, with what their samples cost; kept on disk, so that a second time costs nothing.
    pub teachers: BTreeMap<usize, Work>,
}

impl Forecast {
    /// All of it.
    pub fn all(&self) -> Work {
        let parts = self.training_records.values().chain(self.teachers.values()).copied();
        parts.fold(self.judging, |sum, work| sum + work)
    }
}

impl Experiment {
    /// The training records that are taken on a subject, by key.
    pub fn records_on(&self, subject: usize) -> BTreeSet<String> {
        let here = |entry: &&super::Entry| matches!(&entry.who, Candidate::Learned { on, .. } if *on == subject);
        self.entries.iter().filter(here).filter_map(|entry| self.record_key(entry)).collect()
    }

    /// What a run would do, given what is on record.
    pub fn forecast(&self, results: &Results, directory: &Path, comm: &Arc<dyn Comm>) -> Result<Forecast> {
        let (mut forecast, mut taught) = (Forecast::default(), TeacherCalls::new());
        let samples = self.judging.seeds.len();
        let is_taught = |subject: usize| {
            let judged = |entry: &&super::Entry| entry.subject == subject && results.score(self, entry).is_some();
            self.entries.iter().any(|entry| judged(&entry))
        };
        for entry in self.entries.iter().filter(|entry| results.score(self, entry).is_none()) {
            forecast.entries += 1;
            forecast.judging.calls += samples * entry.nfe;
            if !is_taught(entry.subject) {
                let nfe = self.judging.teacher(&self.subjects[entry.subject])?.sampler.nfe;
                forecast.teachers.insert(entry.subject, Work { calls: samples * nfe, gradients: 0 });
            }
            let (Candidate::Learned { on, .. }, Some(key)) = (&entry.who, self.record_key(entry)) else { continue };
            if results.training_records.contains_key(&key) || forecast.training_records.contains_key(&key) {
                continue;
            }
            let config = TrainingJob::of(&key, entry, &self.subjects[*on], directory, comm, None)?;
            let Some(config) = config else { continue };
            forecast.training_batch = forecast.training_batch.max(config.trainer().plan.recipe.micro_batch);
            let work = config.trainer().work_after(&mut taught)?;
            forecast.training_records.insert(key, work);
        }
        Ok(forecast)
    }
}
