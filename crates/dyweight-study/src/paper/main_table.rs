//! Table 1: all solvers over all budgets.

use super::setup::{FULL, IPNDM, StudySetup};
use super::{Finding, PLAIN, Study, lineup};
use crate::benchmark::{Candidate, Entry, Measure, Tally, View};

pub const STUDY: Study = Study {
    name: "main",
    title: "all solvers, all budgets",
    claim: "The paper (Table 1) finds DyWeight ahead of every handcrafted solver at every budget from 3 to 9 calls.",
    pair: Some((IPNDM, FULL)),
    asks_who_is_best: true,
    entries,
    finding,
    extra: |view, page| view.coefficients(page, FULL),
    ..PLAIN
};

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let subject = setup.subject();
    let handcrafted: Vec<Entry> = setup.budgets.iter().flat_map(|nfe| lineup(&subject, *nfe)).collect();
    // Learned ones first: they are what everyone waits for.
    [setup.row(FULL, &setup.learned(|_| ())), given(setup), handcrafted].concat()
}

/// Solver files of learned rivals at the budgets asked for; those of other budgets, or that cannot be read, take no
/// part.
fn given(setup: &StudySetup) -> Vec<Entry> {
    let entry = |(source, nfe): (&String, &usize)| {
        let who = Candidate::open(source, &[*nfe], None, setup.guidance).ok()?.pop()?;
        let Candidate::Given { file } = &who else { return None };
        (file.nfe == *nfe).then(|| Entry::new(crate::compare::row_of(source).0, *nfe, who))
    };
    let cells = setup.rivals.files.iter().flat_map(|source| setup.budgets.iter().map(move |nfe| (source, nfe)));
    cells.filter_map(entry).collect()
}

/// The learned row against all others, budget by budget.
pub(super) fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let (mut won, mut columns, mut lost) = (0, 0, Vec::new());
    for column in view.columns() {
        let Some(own) = view.judged(measure, FULL, column) else { continue };
        let mut tally = Tally::default();
        for row in view.rows().into_iter().filter(|r| *r != FULL) {
            if let Some(other) = view.judged(measure, row, column) {
                tally.add(&own, &other);
                if !own.clearly_below(&other) {
                    lost.push(format!("{row} at {column}"));
                }
            }
        }
        columns += 1;
        won += usize::from(tally.all() > 0 && tally.below == tally.all());
    }
    let exceptions =
        if lost.is_empty() { String::new() } else { format!("; not clearly ahead of {}", lost.join(", ")) };
    let budgets = if won == columns { format!("all {columns}") } else { format!("{won} of {columns}") };
    let sentence = format!("{FULL} is clearly ahead of every handcrafted solver at {budgets} budgets{exceptions}.");
    Finding::counted(won, columns, sentence)
}
