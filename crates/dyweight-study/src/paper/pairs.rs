//! Appendix table: how many teacher samples training needs.

use super::setup::StudySetup;
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Entry, Measure, View};

pub const STUDY: Study = Study {
    name: "pairs",
    title: "the number of training pairs",
    claim: "The paper (appendix) finds that quality saturates: two or three times the pairs of a normal run change little.",
    entries,
    finding,
    ..PLAIN
};

/// Sizes as multiples of a normal run, in quarters.
const QUARTERS: [usize; 5] = [1, 2, 4, 8, 12];

fn iterations(setup: &StudySetup, quarters: usize) -> usize {
    (setup.iterations() * quarters / 4).max(1)
}

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let row = |quarters: usize| {
        let iterations = iterations(setup, quarters);
        let name = format!("{} pairs", iterations * setup.pairs_per_iteration());
        setup.row(&name, &setup.learned(|t| t.iters = Some(iterations)))
    };
    QUARTERS.into_iter().flat_map(row).chain(setup.ipndm()).collect()
}

fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let rows = view.rows();
    let (normal, more) = (rows[2], [rows[3], rows[4]]);
    let tallies = more.map(|row| (row, view.tally(measure, row, normal)));
    let all = tallies.iter().map(|(_, t)| t.all()).sum();
    let yes = tallies.iter().map(|(_, t)| t.all() - t.below).sum();
    let words: Vec<String> = tallies.iter().map(|(row, t)| format!("{row} against {normal}: {}", t.words())).collect();
    Finding::counted(yes, all, format!("{}.", words.join("; ")))
}
