//! The results as tables see them: a measure for each row and column.

use super::candidate::Candidate;
use super::experiment::{Entry, Experiment};
use super::record::{Score, TrainingRecord};
use super::results::Results;
use dyweight_metrics::Estimate;
use dyweight_models::ScoreKind;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Distance to the teacher on the same noise.
    Rmse,
    /// The same in decibels.
    Psnr,
    /// Distance of the distribution to that of the teacher's samples on the same noise.
    Imitation,
    /// Distance of the distribution to the reference.
    Frechet,
    /// Distance to the teacher's samples by a second network.
    JudgedImitation,
    /// Distance to the reference by a second network.
    JudgedFrechet,
    /// A score of images and their prompts.
    Prompted(ScoreKind),
}

impl Measure {
    /// Of a score.
    pub fn of(self, score: &Score) -> Option<Estimate> {
        match self {
            Measure::Rmse => score.rmse.clone(),
            Measure::Psnr => score.psnr.clone(),
            Measure::Imitation => score.imitation.clone(),
            Measure::Frechet => score.frechet.clone(),
            Measure::JudgedImitation => score.judged.as_ref()?.imitation.clone(),
            Measure::JudgedFrechet => score.judged.as_ref()?.frechet.clone(),
            Measure::Prompted(kind) => score.prompted.get(kind.name()).cloned(),
        }
    }

    /// Its name in running text.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Rmse => "distance to the teacher",
            Measure::Psnr => "signal-to-noise ratio",
            Measure::Imitation => "Fréchet distance to the teacher's samples",
            Measure::Frechet => "Fréchet distance to the reference",
            Measure::JudgedImitation => "Fréchet distance to the teacher's samples, by the second network",
            Measure::JudgedFrechet => "Fréchet distance to the reference, by the second network",
            Measure::Prompted(kind) => kind.title(),
        }
    }

    /// The name of its files.
    pub fn file_name(self) -> &'static str {
        match self {
            Measure::Rmse | Measure::Psnr => "teacher-distance",
            Measure::Imitation => "frechet-teacher",
            Measure::Frechet => "frechet",
            Measure::JudgedImitation => "frechet-teacher-second",
            Measure::JudgedFrechet => "frechet-second",
            Measure::Prompted(kind) => kind.name(),
        }
    }

    /// True if more is better.
    pub(crate) fn more_is_better(self) -> bool {
        matches!(self, Measure::Psnr | Measure::Prompted(_))
    }
}

/// An experiment with its results.
pub struct View<'v> {
    /// What was asked.
    pub experiment: &'v Experiment,
    /// What was found.
    pub results: &'v Results,
}

impl<'v> View<'v> {
    /// Rows, in the order of their first entry.
    pub fn rows(&self) -> Vec<&'v str> {
        distinct(self.experiment.entries.iter().map(|e| e.row.as_str()))
    }

    /// Columns, in the order of their first entry.
    pub fn columns(&self) -> Vec<&'v str> {
        distinct(self.experiment.entries.iter().map(|e| e.column.as_str()))
    }

    /// The measures there are, the ones where less is better.
    pub fn measures(&self) -> Vec<Measure> {
        let judging = &self.experiment.judging;
        let mut found = vec![Measure::Rmse];
        if judging.reference.is_some() {
            found.extend([Measure::Imitation, Measure::Frechet]);
        }
        if judging.judge.is_some() {
            found.extend([Measure::JudgedImitation, Measure::JudgedFrechet]);
        }
        found
    }

    /// Those, and the scores of images and their prompts, of which more is better.
    pub fn all_measures(&self) -> Vec<Measure> {
        let scores = self.experiment.judging.scorers.iter().map(|scorer| Measure::Prompted(scorer.kind()));
        self.measures().into_iter().chain(scores).collect()
    }

    /// The entry of a cell.
    pub fn entry(&self, row: &str, column: &str) -> Option<&'v Entry> {
        self.experiment.entries.iter().find(|e| e.row == row && e.column == column)
    }

    /// The score of a cell.
    pub fn score(&self, row: &str, column: &str) -> Option<&'v Score> {
        self.results.score(self.experiment, self.entry(row, column)?)
    }

    /// All entries of a cell: one for each training.
    pub fn entries(&self, row: &str, column: &str) -> Vec<&'v Entry> {
        self.experiment.entries.iter().filter(|e| e.row == row && e.column == column).collect()
    }

    /// A measure of a cell, over all its trainings; none if one of them has no number.
    pub fn get(&self, measure: Measure, row: &str, column: &str) -> Option<Estimate> {
        let one = |entry: &&Entry| measure.of(self.results.score(self.experiment, entry)?);
        Estimate::over_trainings(self.entries(row, column).iter().map(one).collect::<Option<Vec<_>>>()?)
    }

    /// Why a cell has no numbers.
    pub fn failure(&self, row: &str, column: &str) -> Option<&'v str> {
        let score = |entry: &&'v Entry| self.results.score(self.experiment, entry)?.failed.as_deref();
        self.entries(row, column).iter().find_map(score)
    }

    /// The most trainings behind a cell.
    pub fn trainings(&self) -> usize {
        let cells = self.rows().into_iter().flat_map(|row| self.columns().into_iter().map(move |column| (row, column)));
        cells.map(|(row, column)| self.entries(row, column).len()).max().unwrap_or(0)
    }

    /// What was learned for a cell.
    pub(crate) fn training_record(&self, row: &str, column: &str) -> Option<&'v TrainingRecord> {
        self.results.training_records.get(&self.experiment.record_key(self.entry(row, column)?)?)
    }

    /// True if the coefficients of a row are not fixed ones.
    pub fn is_learned(&self, row: &str) -> bool {
        let given = |e: &Entry| matches!(e.who, Candidate::Given { .. } | Candidate::Learned { .. });
        self.columns().iter().any(|column| self.entry(row, column).is_some_and(given))
    }

    /// The result as a person would say it, in one sentence: how much closer to the teacher the best learned solver is
    /// than the best with fixed coefficients. None where not both take part.
    pub fn headline(&self) -> Option<String> {
        let gains: Vec<Gain> = self.columns().into_iter().filter_map(|column| self.gain(column)).collect();
        let first = gains.first()?;
        let alike = gains.iter().all(|g| g.row == first.row && g.is_closer() && g.is_clear);
        if alike && gains.len() > 1 {
            let percents: Vec<String> = gains.iter().map(|g| format!("{:.0} %", g.percent)).collect();
            let columns: Vec<&str> =
                gains.iter().map(|g| g.column.trim_end_matches(" calls").trim_end_matches(" call")).collect();
            return Some(format!(
                "{} calls: {} is {} closer to the teacher than {}.",
                listed(&columns),
                first.row,
                listed(&percents.iter().map(String::as_str).collect::<Vec<_>>()),
                best_of(gains.iter().map(|g| g.tried).min().unwrap_or(0), None)
            ));
        }
        let said: Vec<String> = gains.iter().map(Gain::words).collect();
        Some(format!("{}.", said.join("; ")))
    }

    /// The best learned solver of a column against the best other one.
    fn gain(&self, column: &'v str) -> Option<Gain<'v>> {
        let learned = self.rows().into_iter().filter(|row| self.is_learned(row));
        let learned = learned.filter_map(|row| Some((row, self.judged(Measure::Rmse, row, column)?)));
        let (row, ours) = learned.min_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
        let (other, theirs) = self.best_handcrafted(column)?;
        let tried = self.tried(column);
        let percent = 100.0 * (1.0 - ours.value / theirs.value);
        let is_clear = ours.clearly_below(&theirs) || theirs.clearly_below(&ours);
        Some(Gain { column, row, other, tried, percent, is_clear })
    }

    /// The column in which two rows differ most by ratio, of those in which they clearly differ, with both values.
    pub(crate) fn clearest(&self, measure: Measure, row: &str, against: &str) -> Option<(&str, f64, f64)> {
        let clear = |column| {
            let (a, b) = self.judged(measure, row, column).zip(self.judged(measure, against, column))?;
            (a.clearly_below(&b) || b.clearly_below(&a)).then_some((column, a.value, b.value))
        };
        let ratio = |(_, a, b): &(&str, f64, f64)| (a / b).ln().abs();
        self.columns().into_iter().filter_map(clear).max_by(|a, b| ratio(a).total_cmp(&ratio(b)))
    }

    /// Compares two rows in every column where both have numbers.
    pub(crate) fn tally(&self, measure: Measure, row: &str, against: &str) -> Tally {
        let mut tally = Tally::default();
        for column in self.columns() {
            if let (Some(a), Some(b)) = (self.judged(measure, row, column), self.judged(measure, against, column)) {
                tally.add(&a, &b);
            }
        }
        tally
    }
}

/// What learning was worth at a budget.
struct Gain<'v> {
    column: &'v str,
    row: &'v str,
    other: &'v str,
    /// Settings of handcrafted solvers that were tried.
    tried: usize,
    /// Closer to the teacher, of the other's distance.
    percent: f64,
    is_clear: bool,
}

impl Gain<'_> {
    fn is_closer(&self) -> bool {
        self.percent >= 0.0
    }

    fn words(&self) -> String {
        let Self { column, row, percent, .. } = self;
        let best = best_of(self.tried, Some(self.other));
        if percent.abs() < 0.5 {
            return format!("{column}: {row} is as close to the teacher as {best}");
        }
        let word = if self.is_closer() { "closer to" } else { "further from" };
        let doubt = if self.is_clear { "" } else { ", though not clearly" };
        format!("{column}: {row} is {:.0} % {word} the teacher than {best}{doubt}", percent.abs())
    }
}

/// Whom a learned solver is compared with.
fn best_of(tried: usize, name: Option<&str>) -> String {
    let name = name.map_or_else(String::new, |name| format!(", {name}"));
    if tried == 0 {
        format!("the best handcrafted solver{name}")
    } else {
        format!("the best of {tried} handcrafted settings{name}")
    }
}

/// `3, 5 and 7`.
fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn distinct<'t>(names: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Comparisons by outcome; clear ones are beyond two standard errors of the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Clearly smaller.
    pub below: usize,
    /// Not clearly different.
    pub level: usize,
    /// Clearly larger.
    pub above: usize,
}

impl Tally {
    /// Adds the comparison of `a` with `b`.
    pub fn add(&mut self, a: &Estimate, b: &Estimate) {
        if a.clearly_below(b) {
            self.below += 1;
        } else if b.clearly_below(a) {
            self.above += 1;
        } else {
            self.level += 1;
        }
    }

    /// All comparisons.
    pub fn all(&self) -> usize {
        self.below + self.level + self.above
    }

    /// The comparisons in words: how often the first was smaller.
    pub fn words(&self) -> String {
        let all = self.all();
        if all > 0 && self.below == all {
            return if all == 1 { "clearly better".into() } else { format!("clearly better in all {all} comparisons") };
        }
        let part = |(count, words): (usize, &str)| (count > 0).then(|| format!("{words} in {count}"));
        let counts = [(self.below, "clearly better"), (self.level, "level"), (self.above, "clearly worse")];
        let said: Vec<String> = counts.into_iter().filter_map(part).collect();
        format!("{} of {all} comparisons", said.join(", "))
    }
}
