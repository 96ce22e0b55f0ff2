//! The best setting of every handcrafted row, found on samples that are not reported.
//!
//! A learned solver has its grid, its window and its first step chosen for it. So a handcrafted one is given the best
//! of the settings that its row leaves open ([`handcrafted::settings`]), by successive halving on seeds of their own:
//!
//! ```text
//! all settings that can make the calls     on a sixteenth of the seeds
//! the best quarter of them                 on a quarter
//! the best quarter of these                on all; the best takes the row's place
//! ```

use super::candidate::Candidate;
use super::experiment::{Entry, Experiment, Judging, Subject};
use super::results::Results;
use super::samplers::handcrafted;
use dyweight_core::error::{Error, Result};
use dyweight_solvers::spec::Seeds;
use dyweight_solvers::spec::handcrafted::{Handcrafted, settings};
use dyweight_train::{Work, halve};
use std::ops::Range;

/// Where the seeds of a search begin, unless these are judged on.
const FIRST_SEED: u64 = 1_000_000_000;
/// Seeds of a search, unless fewer are judged on: of two settings that are close, few seeds take the worse.
const LEAST: usize = 64;
const MOST: usize = 256;
/// Of so many settings, one goes on to the next round.
const KEPT: usize = 4;
/// Rounds of a search.
const ROUNDS: u32 = 3;

/// What a search found for a row at a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The setting, as a list of solvers has it.
    pub term: String,
    /// How many were tried.
    pub tried: usize,
}

/// Runs an experiment, or reads what is on record of it, in a folder of this name.
pub type Runner<'r> = dyn FnMut(&Experiment, &str) -> Result<Results> + 'r;

impl Judging {
    /// Seeds to search on, none of those that are judged on: a quarter as many, within bounds.
    pub(super) fn search_seeds(&self) -> Result<Seeds> {
        let judged = self.seeds.len();
        let many = (judged / 4).clamp(LEAST, MOST).min(judged).max(2) as u64;
        let begins = |first: &u64| self.seeds.iter().all(|seed| !(*first..first + many).contains(&seed));
        let first = (0..).map(|k| FIRST_SEED + k * many).find(begins).unwrap_or(FIRST_SEED);
        Seeds::parse(&format!("{first}-{}", first + many - 1))
    }
}

impl Experiment {
    /// True if a row has something to be searched for.
    pub fn is_open(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.who, Candidate::Open { .. }))
    }

    /// The same with every open row at its best setting, and every open rate at the best. Every process must call it.
    pub fn searched(mut self, run: &mut Runner<'_>) -> Result<Self> {
        self.entries = self.at_best_rates(run)?;
        let (rows, mut open) = self.open()?;
        halved(&mut open, |round, left| {
            let (search, places) = self.round(&rows, left, round)?;
            if search.entries.is_empty() {
                return Ok(Vec::new());
            }
            let results = run(&search, &format!("search/{}", search.judging.seeds.len()))?;
            let distance = |place: usize| {
                let score = results.score(&search, &search.entries[place]);
                score.and_then(|score| Some(score.rmse.as_ref()?.value)).unwrap_or(f64::INFINITY)
            };
            Ok(places.into_iter().map(|places| places.map(distance).collect()).collect())
        })?;
        Ok(self.at_first(rows, open))
    }

    /// The same with every open row at its first possible setting: as many calls, before anything is known.
    pub fn unsearched(self) -> Result<Self> {
        let (rows, open) = self.open()?;
        Ok(self.at_first(rows, open))
    }

    /// What a search costs, teacher and all.
    pub fn search_work(&self) -> Result<Work> {
        let ((rows, mut open), mut calls) = (self.open()?, 0);
        halved(&mut open, |round, left| {
            let (search, places) = self.round(&rows, left, round)?;
            let samples = search.judging.seeds.len();
            calls += search.entries.iter().map(|entry| samples * entry.nfe).sum::<usize>();
            for subject in search.subjects.iter().filter(|_| !search.entries.is_empty()) {
                calls += samples * search.judging.teacher(subject)?.sampler.nfe;
            }
            Ok(places.into_iter().map(|places| vec![0.0; places.len()]).collect())
        })?;
        Ok(Work { calls, gradients: 0 } + self.rates_work()?)
    }

    /// The same with every open row at the first of its settings.
    fn at_first(mut self, rows: Vec<usize>, open: Vec<Vec<Handcrafted>>) -> Self {
        for (at, settings) in rows.into_iter().zip(open) {
            self.entries[at].choose(&settings[0], settings.len());
        }
        self
    }

    /// The open rows, and the settings that each may take.
    fn open(&self) -> Result<(Vec<usize>, Vec<Vec<Handcrafted>>)> {
        let is_open = |at: &usize| matches!(self.entries[*at].who, Candidate::Open { .. });
        let rows: Vec<usize> = (0..self.entries.len()).filter(is_open).collect();
        let settings = |at: &usize| self.entries[*at].settings_on(&self.subjects[self.entries[*at].subject]);
        let open = rows.iter().map(settings).collect::<Result<_>>()?;
        Ok((rows, open))
    }

    /// An experiment of everything that is still open, and where each row's settings stand in it; a row with one
    /// setting needs none.
    fn round(
        &self,
        rows: &[usize],
        open: &[&mut [Handcrafted]],
        round: usize,
    ) -> Result<(Experiment, Vec<Range<usize>>)> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places = Vec::new();
        for (at, settings) in rows.iter().zip(open) {
            let first = entries.len();
            if settings.len() > 1 {
                let own = &self.entries[*at];
                entries.extend(settings.iter().map(|s| Entry { row: s.term(), who: s.into(), ..own.clone() }));
            }
            places.push(first..entries.len());
        }
        let all = self.search.iter().collect::<Vec<u64>>();
        let many = all.len().div_ceil(KEPT.pow(ROUNDS - 1 - round as u32)).clamp(all.len().min(2), all.len());
        let seeds = Seeds::parse(&format!("{}-{}", all[0], all[many - 1]))?;
        let judging = Judging {
            seeds,
            reference: None,
            judge: None,
            scorers: Vec::new(),
            pictures: false,
            ..self.judging.clone()
        };
        let (name, subjects) = ("search".to_string(), self.subjects.clone());
        Ok((Experiment { name, subjects, entries, judging, search: self.search.clone() }, places))
    }
}

/// Sorts the settings of every row, the best first, by the scores of each round.
fn halved(
    open: &mut [Vec<Handcrafted>],
    score: impl FnMut(usize, &mut [&mut [Handcrafted]]) -> Result<Vec<Vec<f64>>>,
) -> Result<()> {
    halve(open, ROUNDS as usize, |_, many| many.div_ceil(KEPT), score)
}

impl From<&Handcrafted> for Candidate {
    fn from(setting: &Handcrafted) -> Self {
        let Handcrafted { solver, schedule, afs } = setting.clone();
        Candidate::Handcrafted { solver, schedule, afs }
    }
}

impl Entry {
    fn choose(&mut self, setting: &Handcrafted, tried: usize) {
        self.who = setting.into();
        self.chosen = Some(Chosen { term: setting.term(), tried });
    }

    /// The settings an open entry may take at its budget; an error where there is none.
    pub(super) fn settings_on(&self, subject: &Subject) -> Result<Vec<Handcrafted>> {
        let Candidate::Open { fixed } = &self.who else { return Ok(Vec::new()) };
        let on = subject.on()?;
        let (mut possible, mut refused) = (Vec::new(), None);
        for setting in settings(on.model.prediction(), fixed)? {
            let entry = Entry { who: (&setting).into(), ..self.clone() };
            match handcrafted(&entry, &on) {
                Ok(_) => possible.push(setting),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(error) if possible.is_empty() => Err(error),
            None if possible.is_empty() => Err(Error::Cancelled),
            _ => Ok(possible),
        }
    }
}
