//! The rate of a training, where an entry leaves it open: the best of a few by the distance to the teacher on the seeds
//! of a search, which are not reported. One training each, with the first training seed; all trainings of the row have
//! the rate that was found.

use super::candidate::Candidate;
use super::experiment::{Entry, Experiment, Judging};
use super::results::Results;
use super::search::Runner;
use dyweight_core::error::Result;
use dyweight_sample::comm::{Comm, Solo};
use dyweight_solvers::spec::ScheduleSpec;
use dyweight_train::{TrainSpec, Work};
use std::path::Path;
use std::sync::Arc;

/// A training but for its seed, at a budget.
fn training_of(entry: &Entry) -> Option<(TrainSpec, &ScheduleSpec, usize)> {
    let Candidate::Learned { train, schedule, .. } = &entry.who else { return None };
    Some((TrainSpec { seed: None, ..(**train).clone() }, schedule, entry.nfe))
}

impl Entry {
    /// The same at another rate.
    fn at_rate(&self, rate: f64) -> Self {
        let mut entry = Self { rates: Vec::new(), ..self.clone() };
        if let Candidate::Learned { train, .. } = &mut entry.who {
            train.lr = Some(rate);
        }
        entry
    }
}

impl Experiment {
    /// The first entry of every row that leaves its rate open, at each of its rates.
    fn rated(&self) -> (Vec<&Entry>, Self) {
        let mut open: Vec<&Entry> = Vec::new();
        for entry in self.entries.iter().filter(|entry| !entry.rates.is_empty()) {
            if open.iter().all(|known| training_of(known) != training_of(entry)) {
                open.push(entry);
            }
        }
        let at_rates = |entry: &&Entry| {
            let at = |rate: &f64| Entry { row: format!("{}, rate {rate}", entry.row), ..entry.at_rate(*rate) };
            entry.rates.iter().map(at).collect::<Vec<_>>()
        };
        let entries = open.iter().flat_map(at_rates).collect();
        let judging = Judging {
            seeds: self.search.clone(),
            reference: None,
            judge: None,
            scorers: Vec::new(),
            pictures: false,
            ..self.judging.clone()
        };
        let (name, subjects, search) = ("rates".to_string(), self.subjects.clone(), self.search.clone());
        (open, Self { name, subjects, entries, judging, search })
    }

    /// The same with every open rate at the best. Every process must call it.
    pub(super) fn at_best_rates(&self, run: &mut Runner<'_>) -> Result<Vec<Entry>> {
        let (open, search) = self.rated();
        if open.is_empty() {
            return Ok(self.entries.clone());
        }
        let results: Results = run(&search, "search/rates")?;
        let distance = |entry: &Entry| {
            let score = results.score(&search, entry);
            score.and_then(|score| Some(score.rmse.as_ref()?.value)).unwrap_or(f64::INFINITY)
        };
        let best = |entry: &Entry| {
            let known = open.iter().find(|known| training_of(known) == training_of(entry))?;
            let of = |rate: &f64| distance(&known.at_rate(*rate));
            known.rates.iter().copied().min_by(|a, b| of(a).total_cmp(&of(b)))
        };
        let chosen = |entry: &Entry| match training_of(entry).and_then(|_| best(entry)) {
            Some(rate) => entry.at_rate(rate),
            None => entry.clone(),
        };
        Ok(self.entries.iter().map(chosen).collect())
    }

    /// What finding the rates costs.
    pub(super) fn rates_work(&self) -> Result<Work> {
        let search = self.rated().1;
        let alone: Arc<dyn Comm> = Arc::new(Solo);
        let folder = Path::new("search/rates");
        Ok(search.forecast(&Results::none(folder), folder, &alone)?.all())
    }
}
