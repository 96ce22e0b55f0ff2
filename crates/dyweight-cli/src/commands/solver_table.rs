//! A solver file as a table, for people.

use crate::ui;
use dyweight::error::{counted, number};
use dyweight::solver::Weights;
use dyweight::solver_file::SolverFile;
use serde_json::json;

/// Prints a solver file.
pub fn print(file: &SolverFile) {
    let first = if file.afs { "analytical" } else { "network" };
    let (method, summary) = (file.body.method(), file.body.learned().summary());
    let (name, steps) = (&file.model.name, file.steps);
    ui::print(&format!("{method} for '{name}': {}, {steps} steps, {summary}, {first} first step", calls(file)));
    let schedule = json!(file.schedule);
    ui::print(&format!("schedule {schedule}, sigma {} to {}", number(file.sigma_max), number(file.sigma_min)));
    match file.body.weights() {
        Some(weights) => {
            ui::table(&weight_rows(file, weights));
            bars(weights).iter().for_each(|line| ui::print(line));
        }
        None => {
            ui::table(&time_rows(file));
            blocks(file).iter().for_each(|line| ui::print(line));
        }
    }
    line_of_times(&file.realised_times).iter().for_each(|line| ui::print(line));
    for (key, value) in &file.training {
        ui::print(&format!("  {key}: {value}"));
    }
    file.warnings().iter().for_each(|w| ui::warn(w));
}

/// Network calls, and how many of them one after the other where that is less.
fn calls(file: &SolverFile) -> String {
    let in_turn = file.sequential_calls.map_or(String::new(), |r| format!(", {r} one after the other"));
    format!("{}{in_turn}", counted(file.nfe, "call"))
}

fn weight_rows(file: &SolverFile, learned: &Weights) -> Vec<Vec<String>> {
    let mut rows = vec![["step", "time", "level told", "sum", "weights, newest last"].map(String::from).to_vec()];
    for (i, row) in learned.weights.iter().enumerate() {
        let weights: Vec<String> = row.iter().map(|w| format!("{w:>8.4}")).collect();
        let sum: f64 = row.iter().sum();
        let (time, level) = (format!("{:.5}", file.realised_times[i]), level(file, i));
        rows.push(vec![i.to_string(), time, level, format!("{sum:.4}"), weights.join(" ")]);
    }
    let last = file.realised_times.last().copied().unwrap_or(0.0);
    rows.push(vec!["end".into(), format!("{last:.5}")]);
    rows
}

/// Times, and the levels told where there is one for each.
fn time_rows(file: &SolverFile) -> Vec<Vec<String>> {
    let one_each = file.network_levels.len() == file.steps;
    let mut rows = vec![["step", "time", "level told"].map(String::from).to_vec()];
    for (i, time) in file.realised_times.iter().enumerate() {
        let is_end = i == file.steps;
        let told = if one_each && !is_end { level(file, i) } else { String::new() };
        rows.push(vec![if is_end { "end".into() } else { i.to_string() }, format!("{time:.5}"), told]);
    }
    rows
}

fn level(file: &SolverFile, i: usize) -> String {
    file.network_levels.get(i).copied().flatten().map_or("-".into(), |l| format!("{l:.5}"))
}

/// The numbers of every block that is short enough to be read.
fn blocks(file: &SolverFile) -> Vec<String> {
    let learned = file.body.learned();
    let params = learned.params();
    let (mut rest, mut lines) = (&params[..], Vec::new());
    for block in learned.blocks() {
        let (own, others) = rest.split_at(block.len());
        rest = others;
        if own.len() > MOST_SHOWN {
            lines.push(format!("  {}: {} numbers {:?}", block.name, own.len(), block.shape));
            continue;
        }
        let width = block.shape.last().copied().unwrap_or(1).max(1);
        let row = |row: &[f64]| row.iter().map(|v| format!("{v:>9.4}")).collect::<Vec<_>>().join(" ");
        let rows: Vec<String> = own.chunks(width).map(row).collect();
        lines.push(format!("  {}: {}", block.name, rows.join("\n      ")));
    }
    lines
}

/// More numbers are not read.
const MOST_SHOWN: usize = 200;

/// Cells of the longest bar.
const BAR: usize = 12;
/// Cells of the line of times.
const LINE: usize = 60;

/// The weights of each step as bars, light where they are negative.
fn bars(learned: &Weights) -> Vec<String> {
    let largest = learned.weights.iter().flatten().fold(1e-9, |most: f64, w| most.max(w.abs()));
    let bar = |w: &f64| {
        let cells = (w.abs() / largest * BAR as f64).round() as usize;
        format!("{:<BAR$}", (if *w < 0.0 { "░" } else { "█" }).repeat(cells))
    };
    let row = |(i, row): (usize, &Vec<f64>)| {
        format!("{i:>4}  {}", row.iter().map(bar).collect::<Vec<_>>().join(" ")).trim_end().to_string()
    };
    learned.weights.iter().enumerate().map(row).collect()
}

/// Times along a line, logarithmic unless it ends at 0.
fn line_of_times(times: &[f64]) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(first), Some(last)) = (times.first(), times.last()) {
        let place = |t: f64| if *last > 0.0 { t.max(*last).ln() } else { t };
        let span = (place(*first) - place(*last)).max(1e-9);
        let mut line = vec!['─'; LINE + 1];
        for t in times {
            let share = ((place(*first) - place(*t)) / span).clamp(0.0, 1.0);
            line[(share * LINE as f64).round() as usize] = '●';
        }
        let line: String = line.into_iter().collect();
        lines.push(format!("time  {line}  {} to {}", number(*first), number(*last)));
    }
    lines
}
