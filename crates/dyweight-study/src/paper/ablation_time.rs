//! Figures 7a, 7b: what time shifting and time scaling are worth.

use super::setup::{FULL, StudySetup};
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Entry, Measure, View};

const NO_SHIFT: &str = "without shifting";
const NO_SCALE: &str = "without scaling";
const NEITHER: &str = "without either";

pub const STUDY: Study = Study {
    name: "ablation-time",
    title: "time shifting and time scaling",
    claim: "The paper (Fig. 7) finds that leaving out time shifting or time scaling makes results worse, and leaving out both much worse.",
    pair: Some((NEITHER, FULL)),
    entries,
    finding,
    ..PLAIN
};

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let variant = |name: &str, shift: bool, scale: bool| {
        setup.row(
            name,
            &setup.learned(|t| {
                (t.dyweight.no_time_shift, t.dyweight.no_time_scale) = (Some(!shift), Some(!scale));
            }),
        )
    };
    let rows = [
        setup.row(FULL, &setup.learned(|_| ())),
        variant(NO_SHIFT, false, true),
        variant(NO_SCALE, true, false),
        variant(NEITHER, false, false),
        setup.ipndm(),
    ];
    rows.concat()
}

fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let without = [NO_SHIFT, NO_SCALE, NEITHER].map(|row| (row, view.tally(measure, FULL, row)));
    let yes = without.iter().map(|(_, t)| t.below).sum();
    let all = without.iter().map(|(_, t)| t.all()).sum();
    let parts = [("time shifting", NO_SHIFT), ("time scaling", NO_SCALE), ("both together", NEITHER)];
    let words = parts.map(|(what, row)| worth(view, measure, what, row));
    Finding::counted(yes, all, format!("{}.", words.join("; ")))
}

/// "time shifting matters: 0.177 → 0.126 at 3 calls", where it differs most.
fn worth(view: &View<'_>, measure: Measure, what: &str, without: &str) -> String {
    let Some((column, full, left_out)) = view.clearest(measure, FULL, without) else {
        return format!("{what} makes no clear difference");
    };
    let word = if full < left_out { "matters" } else { "does harm" };
    format!("{what} {word}: {} → {} at {column}", brief(left_out), brief(full))
}

/// Three digits.
fn brief(value: f64) -> String {
    let decimals = (2.0 - value.abs().max(1e-6).log10().floor()).clamp(0.0, 8.0);
    format!("{value:.0$}", decimals as usize)
}
