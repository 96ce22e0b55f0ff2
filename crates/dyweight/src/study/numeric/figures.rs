//! The paper's figures: error against complexity and against steps, and all panels of the appendix.
//!
//! Dashed lines with hollow marks are the standard methods, solid ones the optimised; the dotted line is the teacher.
//! A third figure, which the paper does not have, adds the optimised weights on fresh problems.

use super::record::{Cell, Record, Stat};
use crate::error::Result;
use crate::report::{Axis, Dash, Figure, INK, LineChart, Marker, Point, Series};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The main panels' grid lines: the paper's S = 14 and K = 20 where the grid has them, else its middle.
const MAIN: (usize, usize) = (14, 20);

/// Writes every figure as SVG and PNG.
pub(super) fn write(records: &[Record], outdir: &Path) -> Result<Vec<PathBuf>> {
    let degrees: BTreeSet<usize> = records.iter().map(|r| r.cell.degree).collect();
    let steps: BTreeSet<usize> = records.iter().map(|r| r.cell.steps).collect();
    let (main_steps, main_degree) = (middle(&steps, MAIN.0), middle(&degrees, MAIN.1));
    let pair = |lines: Lines| {
        let panels = [Slice::Steps(main_steps), Slice::Degree(main_degree)].map(|slice| panel(records, slice, lines));
        panels.into_iter().fold(Figure::new(2, (222.0, 196.0)).legend_below(), Figure::with)
    };
    let slices = steps.iter().map(|s| Slice::Steps(*s)).chain(degrees.iter().map(|k| Slice::Degree(*k)));
    let all = slices.fold(Figure::new(4, (190.0, 172.0)).legend_below(), |figure, slice| {
        figure.with(panel(records, slice, Lines::Paper))
    });
    let figures = [("main", pair(Lines::Paper)), ("appendix", all), ("fresh", pair(Lines::Fresh))];
    let mut files = Vec::new();
    for (name, figure) in figures {
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
    fn contains(self, cell: Cell) -> bool {
        match self {
            Slice::Steps(steps) => cell.steps == steps,
            Slice::Degree(degree) => cell.degree == degree,
        }
    }

    fn x(self, cell: Cell) -> f64 {
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

/// Which lines a panel has.
#[derive(Clone, Copy, PartialEq)]
enum Lines {
    /// Standard, optimised, teacher.
    Paper,
    /// Optimised on their own problems and on fresh ones, against standard on fresh ones.
    Fresh,
}

fn panel(records: &[Record], slice: Slice, lines: Lines) -> LineChart {
    let (title, x_label) = slice.words();
    let shown: Vec<&Record> = records.iter().filter(|r| slice.contains(r.cell)).collect();
    let ticks: BTreeSet<u64> = shown.iter().map(|r| slice.x(r.cell) as u64).collect();
    let ticks: Vec<f64> = ticks.into_iter().map(|v| v as f64).collect();
    let mut chart = LineChart::new(title, Axis::linear(x_label).ticks(&ticks), Axis::log("relative error"));
    chart.legend = false;
    let orders: BTreeSet<usize> = shown.iter().map(|r| r.cell.order).collect();
    for order in &orders {
        let line = |pick: fn(&Record) -> &[f64], dash| curve(&shown, slice, *order, pick).dash(dash);
        chart = match lines {
            Lines::Paper => chart.with(line(|r| &r.standard, Dash::Dashed)).with(line(|r| &r.optimised, Dash::Solid)),
            Lines::Fresh => chart
                .with(line(|r| &r.fresh_standard, Dash::Dashed))
                .with(Series { width: 1.0, ..line(|r| &r.fresh, Dash::Dotted).marker(Marker::None) })
                .with(line(|r| &r.optimised, Dash::Solid)),
        };
    }
    legend(chart.with(teacher(&shown, slice)), &orders, lines)
}

fn curve(shown: &[&Record], slice: Slice, order: usize, pick: fn(&Record) -> &[f64]) -> Series {
    let of_order = shown.iter().filter(|r| r.cell.order == order);
    let stats: Vec<(f64, Stat)> = of_order.map(|r| (slice.x(r.cell), Stat::of(pick(r)))).collect();
    let points: Vec<Point> = stats.iter().map(|(x, s)| (*x, s.mean)).collect();
    Series::new("", order - 1, points).errors(stats.iter().map(|(_, s)| s.se).collect())
}

fn teacher(shown: &[&Record], slice: Slice) -> Series {
    let mut points: Vec<Point> = shown.iter().map(|r| (slice.x(r.cell), Stat::of(&r.teacher).mean)).collect();
    points.dedup();
    Series { colour: INK, ..Series::new("teacher", 0, points).marker(Marker::None).dash(Dash::Dotted) }
}

/// Lines without data, for a legend that names colours and patterns once.
fn legend(mut chart: LineChart, orders: &BTreeSet<usize>, lines: Lines) -> LineChart {
    for order in orders {
        chart = chart.with(Series::new(format!("AB-{order}"), order - 1, Vec::new()));
    }
    let pattern =
        |name: &str, dash| Series { colour: INK, ..Series::new(name, 0, Vec::new()).dash(dash).marker(Marker::None) };
    let names: &[(&str, Dash)] = match lines {
        Lines::Paper => &[("standard", Dash::Dashed), ("optimised", Dash::Solid)],
        Lines::Fresh => {
            &[("standard", Dash::Dashed), ("optimised", Dash::Solid), ("optimised, fresh problem", Dash::Dotted)]
        }
    };
    names.iter().fold(chart, |chart, (name, dash)| chart.with(pattern(name, *dash)))
}
