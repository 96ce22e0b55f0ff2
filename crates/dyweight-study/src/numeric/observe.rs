//! The paper's four observations, checked against the numbers found.
//!
//! Each is a set of comparisons of cell means. An observation holds if every comparison does; otherwise the counts
//! say how far it does.

use super::record::{Record, Stat, StudyCell};
use serde::Serialize;
use std::collections::BTreeMap;

/// One observation and what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// What the paper says.
    pub claim: &'static str,
    /// True if every comparison agrees; `None` if the grid has nothing to compare.
    pub holds: Option<bool>,
    /// Comparisons that agree.
    pub agree: usize,
    /// Comparisons made.
    pub compared: usize,
    /// The numbers, in words.
    pub found: String,
}

impl Observation {
    fn new(claim: &'static str, checks: &[bool], found: String) -> Self {
        let agree = checks.iter().filter(|c| **c).count();
        let holds = (!checks.is_empty()).then_some(agree == checks.len());
        Self { claim, holds, agree, compared: checks.len(), found }
    }

    /// "holds", "holds in 5 of 7 comparisons", "not tested by this grid".
    pub fn verdict(&self) -> String {
        match self.holds {
            None => "not tested by this grid".into(),
            Some(true) => format!("holds ({} of {} comparisons)", self.agree, self.compared),
            Some(false) => format!("holds in {} of {} comparisons", self.agree, self.compared),
        }
    }
}

/// Means of a cell.
struct Means {
    standard: f64,
    optimised: f64,
    fresh: f64,
    fresh_standard: f64,
    teacher: f64,
}

type MeansByCell = BTreeMap<StudyCell, Means>;

/// All four.
pub(super) fn observations(records: &[Record]) -> Vec<Observation> {
    let means = |r: &Record| {
        let mean = |values: &[f64]| Stat::of(values).mean;
        Means {
            standard: mean(&r.standard),
            optimised: mean(&r.optimised),
            fresh: mean(&r.fresh),
            fresh_standard: mean(&r.fresh_standard),
            teacher: mean(&r.teacher),
        }
    };
    let table: MeansByCell = records.iter().map(|r| (r.cell, means(r))).collect();
    vec![hierarchy(&table), growth(&table), gap(&table), teacher(&table)]
}

/// What remains of the gain on fresh problems, in words. Gains are compared as logarithms, so that halving an error
/// counts the same wherever it starts.
pub(super) fn remaining(records: &[Record]) -> String {
    let mean = |values: &[f64]| Stat::of(values).mean;
    let excess = records.iter().map(|r| mean(&r.fresh) / mean(&r.optimised));
    let gain = |above: &[f64], below: &[f64]| libm::log(mean(above) / mean(below));
    let share = records.iter().map(|r| 100.0 * gain(&r.fresh_standard, &r.fresh) / gain(&r.standard, &r.optimised));
    format!(
        "On fresh problems the error of the fitted weights is {} times what it was on their own (median; {} to {}), and \
         {} % of the gain, measured by its logarithm, remains (median; {} % to {} %).",
        median(excess.clone()),
        digits(excess.clone().fold(f64::INFINITY, f64::min)),
        digits(excess.fold(0.0, f64::max)),
        median(share.clone()),
        digits(share.clone().fold(f64::INFINITY, f64::min)),
        digits(share.fold(f64::NEG_INFINITY, f64::max)),
    )
}

/// The result in one sentence.
pub(super) fn headline(records: &[Record]) -> String {
    let mean = |values: &[f64]| Stat::of(values).mean;
    let gain = |above: &[f64], below: &[f64]| libm::log(mean(above) / mean(below));
    let share = records.iter().map(|r| 100.0 * gain(&r.fresh_standard, &r.fresh) / gain(&r.standard, &r.optimised));
    format!(
        "Fitted weights divide the error of Adams–Bashforth methods by {}, and {} % of that gain remains on fresh problems (medians of {} cells).",
        median(records.iter().map(|r| mean(&r.standard) / mean(&r.optimised))),
        median(share),
        records.len()
    )
}

/// Pairs of cells that differ in one coordinate only, as neighbours in the grid.
fn neighbours(
    table: &MeansByCell,
    along: fn(&StudyCell) -> usize,
    across: fn(&StudyCell) -> (usize, usize),
) -> Vec<(&Means, &Means)> {
    let mut cells: Vec<(&StudyCell, &Means)> = table.iter().collect();
    cells.sort_by_key(|(c, _)| (across(c), along(c)));
    let pairs = cells.windows(2).filter(|p| across(p[0].0) == across(p[1].0));
    pairs.map(|p| (p[0].1, p[1].1)).collect()
}

fn hierarchy(table: &MeansByCell) -> Observation {
    let pairs = neighbours(table, |c| c.order, |c| (c.degree, c.steps));
    let standard: Vec<bool> = pairs.iter().map(|(low, high)| low.standard > high.standard).collect();
    let optimised: Vec<bool> = pairs.iter().map(|(low, high)| low.optimised > high.optimised).collect();
    let ratio = pairs.iter().map(|(low, high)| low.standard / high.standard);
    let found = format!(
        "raising the order by one lowers the error of the standard method in {} and of the optimised one in {}; \
         the error of the standard method falls by a factor of {} (median; {} to {}).",
        count(&standard),
        count(&optimised),
        median(ratio.clone()),
        digits(ratio.clone().fold(f64::INFINITY, f64::min)),
        digits(ratio.fold(0.0, f64::max)),
    );
    let claim = "Multi-step methods reduce the global error: AB-1 > AB-2 > AB-3 > AB-4.";
    Observation::new(claim, &[standard, optimised].concat(), found)
}

fn growth(table: &MeansByCell) -> Observation {
    let by_degree = neighbours(table, |c| c.degree, |c| (c.steps, c.order));
    let by_steps = neighbours(table, |c| c.steps, |c| (c.degree, c.order));
    let rises: Vec<bool> = by_degree
        .iter()
        .flat_map(|(low, high)| [high.standard > low.standard, high.optimised > low.optimised])
        .collect();
    let falls: Vec<bool> = by_steps
        .iter()
        .flat_map(|(few, many)| [few.standard > many.standard, few.optimised > many.optimised])
        .collect();
    let found = format!(
        "the error rises with the degree K in {} and with fewer steps S in {}, standard and optimised together.",
        count(&rises),
        count(&falls)
    );
    let claim = "The error grows with complexity and with fewer steps.";
    Observation::new(claim, &[rises, falls].concat(), found)
}

fn gap(table: &MeansByCell) -> Observation {
    let checks: Vec<bool> = table.values().map(|m| m.optimised < m.standard).collect();
    let ratio = table.values().map(|m| m.standard / m.optimised);
    let fresh = table.values().map(|m| m.fresh_standard / m.fresh);
    let better = table.values().filter(|m| m.fresh < m.fresh_standard).count();
    let found = format!(
        "fitted weights have the lower error in {}; they divide it by {} (median; {} to {}). On fresh problems the same \
         weights beat the standard ones in {better} of {} cells and divide the error by {} (median; {} to {}).",
        count(&checks),
        median(ratio.clone()),
        digits(ratio.clone().fold(f64::INFINITY, f64::min)),
        digits(ratio.fold(0.0, f64::max)),
        table.len(),
        median(fresh.clone()),
        digits(fresh.clone().fold(f64::INFINITY, f64::min)),
        digits(fresh.fold(0.0, f64::max)),
    );
    Observation::new("Handcrafted weights are suboptimal: fitted ones have lower errors everywhere.", &checks, found)
}

fn teacher(table: &MeansByCell) -> Observation {
    let checks: Vec<bool> = table.values().map(|m| m.teacher < 0.1 * m.optimised.min(m.standard)).collect();
    let largest = table.values().map(|m| m.teacher).fold(0.0, f64::max);
    let share = table.values().map(|m| m.teacher / m.optimised.min(m.standard)).fold(0.0, f64::max);
    let found = format!(
        "the teacher's relative error is at most {}; it is below a tenth of the best few-step error in {} (at most {} of it).",
        digits(largest),
        count(&checks),
        digits(share)
    );
    Observation::new(
        "High-step trajectories are reliable supervision: the teacher's error is negligible.",
        &checks,
        found,
    )
}

fn count(checks: &[bool]) -> String {
    format!("{} of {} comparisons", checks.iter().filter(|c| **c).count(), checks.len())
}

fn median(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).map_or("–".into(), |v| digits(*v))
}

/// Three significant digits.
pub(super) fn digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "–".into(),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ if size >= 0.1 => format!("{value:.3}"),
        _ if size >= 0.01 => format!("{value:.4}"),
        _ if size >= 0.001 => format!("{value:.5}"),
        _ => format!("{value:.2e}"),
    }
}
