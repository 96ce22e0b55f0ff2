//! The paper's figures: error against complexity and against steps, and all panels of the appendix.
//!
//! Dashed lines with hollow marks are the standard methods, solid ones the optimised; the dotted line is the teacher.
//! A third figure, which the paper does not have, shows by how much fitting divides the error: on the problem the
//! weights were fitted to, and on a fresh one.

use super::record::{Record, Stat, StudyCell};
use dyweight_core::error::Result;
use dyweight_report::{Axis, Dash, Figure, INK, LineChart, Marker, Point, Series};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The main panels' grid lines: the paper's S = 14 and K = 20 where the grid has them, else its middle.
const MAIN: (usize, usize) = (14, 20);

/// The figures: the main panels, all panels, and what remains on fresh problems.
pub(super) fn all(records: &[Record]) -> [Figure; 3] {
    let degrees: BTreeSet<usize> = records.iter().map(|r| r.cell.degree).collect();
    let steps: BTreeSet<usize> = records.iter().map(|r| r.cell.steps).collect();
    let (main_steps, main_degree) = (middle(&steps, MAIN.0), middle(&degrees, MAIN.1));
    let pair = |panel: fn(&[Record], Slice) -> LineChart| {
        let panels = [Slice::Steps(main_steps), Slice::Degree(main_degree)].map(|slice| panel(records, slice));
        panels.into_iter().fold(Figure::new(2, (222.0, 236.0)).legend_below(), Figure::with)
    };
    let slices = steps.iter().map(|s| Slice::Steps(*s)).chain(degrees.iter().map(|k| Slice::Degree(*k)));
    let every =
        slices.fold(Figure::new(4, (190.0, 196.0)).legend_below(), |figure, slice| figure.with(errors(records, slice)));
    [pair(errors), every, pair(gains)]
}

/// Writes every figure as SVG and PNG.
pub(super) fn write(records: &[Record], outdir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (name, figure) in ["main", "appendix", "fresh"].into_iter().zip(all(records)) {
        let stem = outdir.join(name);
        figure.draw()?.write(&stem)?;
        files.extend(["svg", "png"].map(|extension| stem.with_extension(extension)));
    }
    Ok(files)
}

fn middle(values: &BTreeSet<usize>, preferred: usize) -> usize {
    let sorted: Vec<usize> = values.iter().copied().collect();
    if values.contains(&preferred) { preferred } else { sorted.get(sorted.len() / 2).copied().unwrap_or(preferred) }
}

/// What a panel holds fixed.
#[derive(Clone, Copy)]
enum Slice {
    Steps(usize),
    Degree(usize),
}

impl Slice {
    fn contains(self, cell: StudyCell) -> bool {
        match self {
            Slice::Steps(steps) => cell.steps == steps,
            Slice::Degree(degree) => cell.degree == degree,
        }
    }

    fn x(self, cell: StudyCell) -> f64 {
        match self {
            Slice::Steps(_) => cell.degree as f64,
            Slice::Degree(_) => cell.steps as f64,
        }
    }

    fn words(self) -> (String, &'static str) {
        match self {
            Slice::Steps(steps) => (format!("S = {steps}"), "polynomial degree K"),
            Slice::Degree(degree) => (format!("K = {degree}"), "steps S"),
        }
    }
}

/// Standard, optimised and teacher errors.
fn errors(records: &[Record], slice: Slice) -> LineChart {
    let view = Cut::new(records, slice);
    let mut chart = view.chart(Axis::log("relative error"));
    for order in &view.orders {
        chart = chart.with(view.curve(*order, |r| &r.standard).dash(Dash::Dashed));
        chart = chart.with(view.curve(*order, |r| &r.optimised));
    }
    let mut points: Vec<Point> = view.shown.iter().map(|r| (slice.x(r.cell), Stat::of(&r.teacher).mean)).collect();
    points.dedup();
    let teacher = Series { points, ..pattern("teacher", Dash::Dotted) };
    view.legend(chart, [pattern("standard", Dash::Dashed), pattern("optimised", Dash::Solid), teacher])
}

/// By how much fitting divides the mean error, on own and on fresh problems.
fn gains(records: &[Record], slice: Slice) -> LineChart {
    let view = Cut::new(records, slice);
    let mut chart = view.chart(Axis::log("error divided by"));
    for order in &view.orders {
        chart = chart.with(view.ratio(*order, |r| (&r.standard, &r.optimised)));
        chart = chart.with(view.ratio(*order, |r| (&r.fresh_standard, &r.fresh)).dash(Dash::Dashed));
    }
    let fresh = pattern("same weights, fresh problem", Dash::Dashed);
    view.legend(chart, [pattern("fitted problem", Dash::Solid), fresh])
}

/// A line without data, for a legend that names colours and patterns once.
fn pattern(name: &str, dash: Dash) -> Series {
    Series { colour: INK, ..Series::new(name, 0, Vec::new()).dash(dash).marker(Marker::None) }
}

/// What one panel shows.
struct Cut<'a> {
    slice: Slice,
    shown: Vec<&'a Record>,
    orders: BTreeSet<usize>,
}

impl<'a> Cut<'a> {
    fn new(records: &'a [Record], slice: Slice) -> Self {
        let shown: Vec<&Record> = records.iter().filter(|r| slice.contains(r.cell)).collect();
        let orders = shown.iter().map(|r| r.cell.order).collect();
        Self { slice, shown, orders }
    }

    fn chart(&self, y: Axis) -> LineChart {
        let (title, x_label) = self.slice.words();
        let mut ticks: Vec<f64> = self.shown.iter().map(|r| self.slice.x(r.cell)).collect();
        ticks.dedup();
        LineChart { legend: false, ..LineChart::new(title, Axis::linear(x_label).ticks(&ticks), y) }
    }

    fn of_order(&self, order: usize) -> impl Iterator<Item = (f64, &Record)> {
        let of_order = self.shown.iter().filter(move |r| r.cell.order == order);
        of_order.map(|r| (self.slice.x(r.cell), *r))
    }

    /// Means with their standard errors.
    fn curve(&self, order: usize, pick: fn(&Record) -> &[f64]) -> Series {
        let points = self.of_order(order).map(|(x, r)| (x, Stat::of(pick(r)).mean)).collect();
        let errors = self.of_order(order).map(|(_, r)| Stat::of(pick(r)).se).collect();
        Series::new("", order - 1, points).errors(errors)
    }

    /// Ratios of means.
    fn ratio(&self, order: usize, pick: fn(&Record) -> (&[f64], &[f64])) -> Series {
        let ratio = |(above, below): (&[f64], &[f64])| Stat::of(above).mean / Stat::of(below).mean;
        let points = self.of_order(order).map(|(x, r)| (x, ratio(pick(r)))).collect();
        Series::new("", order - 1, points)
    }

    fn legend<const N: usize>(&self, chart: LineChart, patterns: [Series; N]) -> LineChart {
        let orders = self.orders.iter().map(|order| Series::new(format!("AB-{order}"), order - 1, Vec::new()));
        orders.chain(patterns).fold(chart, LineChart::with)
    }
}
