//! Appendix figure: what the learned coefficients look like.

use super::setup::{FULL, StudySetup};
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Entry, Measure, View};
use dyweight_core::solver::Initial;

pub const STUDY: Study = Study {
    name: "coefficients",
    title: "learned weights, sums and scales",
    claim: "The paper (appendix) finds learned weights far from handcrafted ones, with sums and time scales that differ from 1.",
    entries,
    finding,
    extra: |view, page| view.coefficients(page, FULL),
    ..PLAIN
};

fn entries(setup: &StudySetup) -> Vec<Entry> {
    setup.row(FULL, &setup.learned(|_| ()))
}

/// What counts as a difference.
const VISIBLE: f64 = 0.05;

fn finding(view: &View<'_>, _: Measure) -> Finding {
    let (mut weights, mut sums, mut scales) = (Vec::new(), Vec::new(), Vec::new());
    for column in view.columns() {
        let Some(training_record) = view.training_record(FULL, column) else { continue };
        let Some(learned) = training_record.file.body.weights() else { continue };
        let fixed = Initial::Ab.rows(training_record.file.steps, learned.order);
        for (row, start) in learned.weights.iter().zip(&fixed) {
            weights.extend(row.iter().zip(start).map(|(w, f)| (w - f).abs()));
            sums.push((row.iter().sum::<f64>() - 1.0).abs());
        }
        scales.extend(learned.time_scale.iter().map(|s| (s - 1.0).abs()));
    }
    let share = |list: &[f64]| list.iter().filter(|d| **d > VISIBLE).count() as f64 / list.len().max(1) as f64;
    let shares = [share(&weights), share(&sums), share(&scales)];
    let most = |list: &[f64]| list.iter().copied().fold(0.0, f64::max);
    let sentence = format!(
        "{:.0} % of {} weights differ from Adams-Bashforth's by more than {VISIBLE} (at most {:.2}), {:.0} % of the sums from 1 (at most {:.2}), {:.0} % of the scales from 1 (at most {:.2}).",
        100.0 * shares[0],
        weights.len(),
        most(&weights),
        100.0 * shares[1],
        most(&sums),
        100.0 * shares[2],
        most(&scales)
    );
    Finding::counted(shares.iter().filter(|s| **s > 0.5).count(), 3, sentence)
}
