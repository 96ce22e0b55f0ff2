//! Figure 4: slopes and loss with and without time shifting.
//!
//! ```text
//! slope at a call   d = (x − D)/T;  its standard deviation is 1 where the state x really is at the time T the solver
//!                   believes
//! ```

use super::convergence::row;
use super::setup::StudySetup;
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Entry, Measure, TrainingRecord, View};
use dyweight_core::error::Result;
use dyweight_report::html::{Chart, Page};
use dyweight_report::{Axis, Figure, LineChart, Series};

const WITH: &str = "with time shifting";
const WITHOUT: &str = "without time shifting";

pub const STUDY: Study = Study {
    name: "stability",
    title: "slopes with and without time shifting",
    claim: "The paper (Fig. 4) finds that without time shifting the standard deviation of slopes strays from 1 while training and the loss is unsteady; with it both are steady.",
    x: ("pairs seen", true),
    entries,
    finding,
    extra,
    ..PLAIN
};

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let (iterations, nfe) = (setup.iterations(), setup.budgets[setup.budgets.len().min(2) - 1]);
    let mut stages: Vec<usize> = (0..=8).map(|k| iterations * k / 8).collect();
    stages.dedup();
    let without = setup.learned(|t| t.dyweight.no_time_shift = Some(true));
    [row(setup, WITH, &setup.learned(|_| ()), nfe, &stages), row(setup, WITHOUT, &without, nfe, &stages)].concat()
}

/// The slope's deviation at the middle call, stage by stage.
fn middle(view: &View<'_>, name: &str) -> Vec<(f64, f64)> {
    let of = |column: &&str| {
        let slopes = &view.score(name, column)?.slopes;
        Some((view.entry(name, column)?.x, *slopes.get(slopes.len() / 2)?))
    };
    view.columns().iter().filter_map(of).collect()
}

/// Largest distance from 1.
fn stray(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(_, s)| (s - 1.0).abs()).fold(0.0, f64::max)
}

/// Mean step of the logarithm of the loss from iteration to iteration.
fn unsteadiness(training_record: &TrainingRecord) -> f64 {
    let logs: Vec<f64> = training_record.losses.iter().flatten().filter(|l| **l > 0.0).map(|l| l.ln()).collect();
    let steps: Vec<f64> = logs.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    steps.iter().sum::<f64>() / steps.len().max(1) as f64
}

fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let strays = [WITH, WITHOUT].map(|name| stray(&middle(view, name)));
    let column = view.columns().last().copied().unwrap_or_default();
    let rough = [WITH, WITHOUT].map(|name| view.training_record(name, column).map_or(f64::NAN, unsteadiness));
    let end = view.tally(measure, WITH, WITHOUT);
    let sentence = format!(
        "at the middle call the slope's deviation strays from 1 by up to {:.3} with time shifting and {:.3} without; the loss moves by a factor of e^{:.3} from batch to batch with and e^{:.3} without; over all stages the result with shifting is {}.",
        strays[0],
        strays[1],
        rough[0],
        rough[1],
        end.words()
    );
    let yes = usize::from(strays[0] < strays[1]) + usize::from(rough[0] < rough[1]);
    Finding::counted(yes, 2, sentence)
}

fn extra(view: &View<'_>, page: &mut Page) -> Result<()> {
    let mut slopes = LineChart::new("", Axis::linear("pairs seen"), Axis::linear("standard deviation of the slope"));
    let mut losses = LineChart::new("", Axis::linear("iteration"), Axis::log("training loss"));
    let column = view.columns().last().copied().unwrap_or_default();
    for (index, name) in [WITH, WITHOUT].into_iter().enumerate() {
        slopes = slopes.with(Series::new(name, index, middle(view, name)));
        let loss = view.training_record(name, column).map_or(&[][..], |l| &l.losses);
        let points = loss.iter().enumerate().filter_map(|(i, l)| Some((i as f64, (*l)?))).collect();
        losses = losses.with(Series::new(name, index, points).marker(dyweight_report::Marker::None));
    }
    let section = page.section("Slopes and loss while training");
    section.chart(Chart::new(
        "Standard deviation of the slope at the middle call; 1 is expected.",
        &Figure::single(slopes, 620.0, 320.0),
    )?);
    section.chart(Chart::new("Training loss, batch by batch.", &Figure::single(losses, 620.0, 320.0))?);
    view.slopes(section, column)
}
