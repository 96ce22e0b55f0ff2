//! Table 4: which teacher, and with how many steps.

use super::setup::{IPNDM, StudySetup};
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Entry, Measure, View};

pub const STUDY: Study = Study {
    name: "teacher",
    title: "the teacher's solver and steps",
    claim: "The paper (Table 4) finds the student's quality stable across teachers: iPNDM with 18, 35 or 50 points, DPM-Solver-2 and Heun with 35.",
    entries,
    finding,
    ..PLAIN
};

/// Points of a grid are one more than its steps.
const TEACHERS: &[(&str, &str, usize)] = &[
    ("iPNDM (18)", "ipndm", 17),
    ("iPNDM (35)", "ipndm", 34),
    ("iPNDM (50)", "ipndm", 49),
    ("DPM-Solver-2 (35)", "dpm2", 34),
    ("Heun (35)", "heun", 34),
];

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let row = |(name, solver, steps): &(&str, &str, usize)| {
        let who = setup.learned(|t| {
            (t.teacher, t.teacher_nfe, t.teacher_steps) = (Some(solver.to_string()), None, Some(*steps));
        });
        setup.row(name, &who)
    };
    TEACHERS.iter().flat_map(row).chain(setup.ipndm()).collect()
}

fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let (mut yes, mut all, mut words) = (0, 0, Vec::new());
    for column in view.columns() {
        let values: Vec<f64> =
            TEACHERS.iter().filter_map(|(row, ..)| Some(view.judged(measure, row, column)?.value)).collect();
        let Some(ipndm) = view.judged(measure, IPNDM, column).filter(|_| !values.is_empty()) else { continue };
        let (best, worst) =
            (values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(0.0, f64::max));
        all += 1;
        // Stable: teachers differ among each other by less than the worst of them differs from no learning at all.
        yes += usize::from(worst < ipndm.value && worst - best < ipndm.value - worst);
        words.push(format!("{column}: {best:.4} to {worst:.4}, {IPNDM} {:.4}", ipndm.value));
    }
    let sentence = format!(
        "teachers differ less than the worst of them differs from {IPNDM} at {yes} of {all} budgets ({}).",
        words.join("; ")
    );
    Finding::counted(yes, all, sentence)
}
