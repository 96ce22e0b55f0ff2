//! Figure 6: quality against the pairs seen while training.

use super::setup::StudySetup;
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Candidate, Entry, Measure, View};

const AB: &str = "Adams-Bashforth start, K = 3";
const EULER: &str = "Euler start, K = 3";
const ALL: &str = "Adams-Bashforth start, K = N";

pub const STUDY: Study = Study {
    name: "convergence",
    title: "quality against pairs seen",
    claim: "The paper (Fig. 6) finds most of the gain after some 600 pairs, and a faster start from Adams-Bashforth weights than from Euler's.",
    x: ("pairs seen", true),
    entries,
    finding,
    ..PLAIN
};

/// Iterations after which solvers are judged: doubling, up to the whole run.
pub(super) fn stages(iterations: usize, most: usize) -> Vec<usize> {
    let mut stages: Vec<usize> = (0..most).map(|k| iterations >> k).take_while(|s| *s > 0).collect();
    stages.push(0);
    stages.reverse();
    stages
}

/// A row over the stages of one training run.
pub(super) fn row(setup: &StudySetup, name: &str, who: &Candidate, nfe: usize, stages: &[usize]) -> Vec<Entry> {
    let Candidate::Learned { train, schedule, on, .. } = who else { return Vec::new() };
    let entry = |made: &usize| {
        let pairs = made * setup.pairs_per_iteration();
        // The start has no place on a logarithmic axis; it is drawn at half of an iteration.
        let x = pairs.max(setup.pairs_per_iteration() / 2).max(1) as f64;
        let who = Candidate::Learned { train: train.clone(), schedule: schedule.clone(), on: *on, after: Some(*made) };
        Entry { column: format!("{pairs} pairs"), x, ..Entry::new(name, nfe, who) }
    };
    stages.iter().map(entry).collect()
}

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let (stages, nfe) = (stages(setup.iterations(), 8), setup.budgets[setup.budgets.len().min(2) - 1]);
    let variants = [
        (AB, setup.learned(|_| ())),
        (EULER, setup.learned(|t| t.init = Some("euler".into()))),
        (ALL, setup.learned(|t| t.order = Some(64))),
    ];
    variants.iter().flat_map(|(name, who)| row(setup, name, who, nfe, &stages)).collect()
}

fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let columns = view.columns();
    let value = |row: &str, column: &str| Some(view.get(measure, row, column)?.value);
    let pairs = |column: &str| view.entry(AB, column).map_or(0.0, |e| e.x);
    let (Some(start), Some(end)) =
        (columns.first().and_then(|c| value(AB, c)), columns.last().and_then(|c| value(AB, c)))
    else {
        return Finding::counted(0, 0, "no numbers".into());
    };
    let (whole, last) = (start - end, columns.last().map_or(0.0, |c| pairs(c)));
    // The last stage within the paper's 600 pairs, or a quarter of a shorter run.
    let early = columns.iter().rfind(|c| pairs(c) <= 640f64.max(last / 4.0).min(last / 2.0));
    let gained = early.and_then(|c| value(AB, c)).map_or(f64::NAN, |v| (start - v) / whole);
    let ahead =
        columns.iter().filter(|c| matches!((value(AB, c), value(EULER, c)), (Some(a), Some(b)) if a < b)).count();
    let sentence = format!(
        "of the gain of the whole run (from {start:.4} to {end:.4}), {:.0} % are there after {}; the Adams-Bashforth start is ahead of Euler's at {ahead} of {} stages.",
        100.0 * gained,
        early.map_or("no stage", |c| c),
        columns.len()
    );
    let yes = usize::from(whole > 0.0 && gained > 0.5) + usize::from(2 * ahead > columns.len());
    Finding::counted(yes, 2, sentence)
}
