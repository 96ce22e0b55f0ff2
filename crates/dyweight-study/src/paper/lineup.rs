//! The handcrafted solvers everyone compares with, a row for each method: at every budget the best of its orders and
//! grids, with the analytical first step or without, chosen on samples that are not reported (`benchmark/search.rs`).

use super::super::benchmark::{Candidate, Entry, Subject};
use dyweight_solvers::spec::{ScheduleSpec, Term};

/// Rows, and the method each is.
pub(crate) const FAMILIES: &[(&str, &str)] = &[
    ("Euler (DDIM)", "euler"),
    ("Heun", "heun"),
    ("DPM-Solver-2", "dpm2"),
    ("iPNDM", "ipndm"),
    ("DEIS", "deis-tab"),
    ("DPM-Solver++", "dpmpp"),
    ("UniPC", "unipc"),
];

/// All that can make exactly `nfe` calls on a subject.
pub(crate) fn lineup(subject: &Subject, nfe: usize) -> Vec<Entry> {
    let entry = |(row, method): &(&str, &str)| {
        let term = Term::parse("solvers", method).ok()?;
        let open = Candidate::best_of(&term, &ScheduleSpec::default(), None);
        let entry = Entry::new(*row, nfe, open);
        entry.possible_on(subject).is_ok().then_some(entry)
    };
    FAMILIES.iter().filter_map(entry).collect()
}
