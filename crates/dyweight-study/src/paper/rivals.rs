//! The learned rivals, each at its best: every method by its own rule of descent at the best of three rates, and by
//! second-order descent where that can be; beside them the best handcrafted setting.
//!
//! All see the same training pairs and the same teacher, as far as their training has one of its own shape: methods
//! that are trained step by step follow that teacher on a refinement of their grid, of about as many calls. With the
//! authors' recipes each has its own teacher and rate instead.

use super::setup::{BEST, FULL, StudySetup};
use super::{Finding, PLAIN, Study};
use crate::benchmark::{Candidate, Entry, Measure, View};
use dyweight_core::error::Result;
use dyweight_report::html::{Cell, Column, Page, Table};
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use dyweight_train::{CountParallel, Loss, Optimiser, TrainPlan, TrainSpec};

pub const STUDY: Study = Study {
    name: "rivals",
    title: "all learned solvers",
    claim: "The paper (Table 1) finds DyWeight ahead of every learned solver at every budget from 3 to 9 calls.",
    pair: Some((BEST, FULL)),
    entries,
    finding,
    extra,
    ..PLAIN
};

/// What a row of numbers before training is called.
const UNTRAINED: &str = ", untrained";

/// What is said of a row that is trained by second-order descent.
const SECOND: &str = " (newton)";
/// Shares of a method's own rate, of which the best is taken.
const RATES: [f64; 3] = [1.0 / 3.0, 1.0, 3.0];

/// How the row of a method is called.
fn row_of(method: &str) -> String {
    if method == "dyweight" { FULL.into() } else { method.into() }
}

/// All rows of learned solvers there may be.
fn learned_rows() -> Vec<String> {
    let methods = dyweight_train::method::list();
    let both = |(method, ..): &(&str, _, _)| [row_of(method), format!("{}{SECOND}", row_of(method))];
    methods.iter().flat_map(both).collect()
}

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let mut entries = Vec::new();
    for nfe in &setup.budgets {
        for (method, ..) in dyweight_train::method::list() {
            if !setup.rivals.methods.is_empty() && !setup.rivals.methods.iter().any(|m| m == method) {
                continue;
            }
            let Some((train, schedule, plan)) = training(setup, method, *nfe, false) else { continue };
            let who = |train: &TrainSpec, after| {
                let (train, schedule) = (Box::new(train.clone()), schedule.clone());
                Candidate::Learned { train, schedule, on: 0, after }
            };
            let once = train.count_parallel == Some(CountParallel::Once);
            // A search has no rate.
            let is_said = setup.rivals.paper || setup.rivals.authors_rates || train.lr.is_some();
            let open = !is_said && method != "gits" && train.optimiser.is_none();
            let own = plan.resolved.lr.filter(|_| open);
            let rates: Vec<f64> = own.map_or(Vec::new(), |own| RATES.map(|share| share * own).to_vec());
            let trained = Entry { once, rates, ..Entry::new(row_of(method), *nfe, who(&train, None)) };
            // A search has no start.
            if method != "gits" {
                let row = format!("{}{UNTRAINED}", row_of(method));
                entries.push(Entry { row, who: who(&train, Some(0)), ..trained.clone() });
            }
            entries.insert(entries.len() - usize::from(method != "gits"), trained);
            if let Some((train, ..)) = training(setup, method, *nfe, true) {
                entries.push(Entry::new(format!("{}{SECOND}", row_of(method)), *nfe, who(&train, None)));
            }
        }
    }
    entries.extend(setup.best_handcrafted());
    entries
}

/// The training of a method for a budget, by second-order descent or as its authors have it; none if it cannot make
/// exactly so many calls on the model, has no feature to go by, or cannot be trained so.
fn training(
    setup: &StudySetup,
    method: &str,
    nfe: usize,
    second: bool,
) -> Option<(TrainSpec, ScheduleSpec, TrainPlan)> {
    let (name, model) = (Some(method.to_string()), &*setup.model.model);
    let mut train = TrainSpec { method: name, ..setup.train.clone() };
    if second {
        // A rule that was asked for is everybody's; an iteration of this one sweeps twice.
        if setup.train.optimiser.is_some() || setup.rivals.paper || method == "gits" {
            return None;
        }
        (train.optimiser, train.lr) = (Some(Optimiser::Newton), None);
        train.iters = Some(setup.iterations().div_ceil(2));
    }
    if setup.rivals.once && method.starts_with("epd") {
        train.count_parallel = Some(CountParallel::Once);
    }
    let stepwise = method.starts_with("epd") || method.starts_with("amed");
    if method == "gits" {
        // Costs are measured on as many samples as others learn from, or the usual number.
        (train.iters, train.batch, train.pairs, train.lr, train.loss) = (None, None, None, None, None);
    }
    // A rate that was asked for is DyWeight's.
    if method != "dyweight" {
        train.lr = None;
    }
    let schedule = ScheduleSpec::default();
    if stepwise || setup.rivals.paper {
        train.teacher_nfe = None;
    }
    if !setup.rivals.paper {
        if method == "ld3" {
            train.relax.relax = Some(false);
        }
        train.teacher = Some("ipndm".into());
        match stepwise {
            true => {
                let plan = dyweight_train::plan::plan(&train, model, &schedule, Budget::Nfe(nfe), Loss::L2).ok()?;
                let steps = plan.student.frame.grid.steps();
                train.substeps = Some((setup.teacher_nfe / steps).max(2) - 1);
            }
            false if method != "gits" => {
                train.teacher_nfe = train.teacher_nfe.or(Some(setup.teacher_nfe));
                train.teacher_denoise = Some(true);
            }
            false => train.teacher_nfe = None,
        }
    }
    let plan = dyweight_train::plan::plan(&train, model, &schedule, Budget::Nfe(nfe), Loss::L2).ok()?;
    Some((train, schedule, plan))
}

fn is_start(row: &str) -> bool {
    row.ends_with(UNTRAINED)
}

/// DyWeight against every other learned solver, budget by budget; and every method against its own start.
fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let methods = learned_rows();
    let (mut won, mut columns) = (0, 0);
    let (mut lost, mut missing, mut no_better) = (Vec::new(), Vec::new(), Vec::new());
    for column in view.columns() {
        for row in &methods {
            if view.get(measure, row, column).is_none() && view.rows().contains(&row.as_str()) {
                missing.push(format!("{row} at {column}"));
            }
            let start = format!("{row}{UNTRAINED}");
            if let (Some(own), Some(start)) = (view.judged(measure, row, column), view.judged(measure, &start, column))
                && !own.clearly_below(&start)
            {
                no_better.push(format!("{row} at {column}"));
            }
        }
        // Everybody by whichever descent is better for it.
        let (ours, rivals): (Vec<&String>, Vec<&String>) = methods.iter().partition(|row| row.starts_with(FULL));
        let ours = ours.into_iter().filter_map(|row| view.judged(measure, row, column));
        let Some(own) = ours.min_by(|a, b| a.value.total_cmp(&b.value)) else { continue };
        let best = BEST.to_string();
        let rivals = rivals.into_iter().chain([&best]);
        let found: Vec<_> = rivals.filter_map(|row| Some((row, view.judged(measure, row, column)?))).collect();
        let ahead: Vec<_> = found.iter().filter(|(_, other)| !own.clearly_below(other)).collect();
        lost.extend(ahead.iter().map(|(row, other)| format!("{row} ({other}) at {column}")));
        columns += usize::from(!found.is_empty());
        won += usize::from(!found.is_empty() && ahead.is_empty());
    }
    let list = |what: &str, rows: &[String]| match rows {
        [] => String::new(),
        rows => format!(" {what}: {}.", rows.join(", ")),
    };
    let sentence = format!(
        "{FULL} is clearly ahead of every other solver at {won} of {columns} budgets, each trained by the better rule.{}{}{}",
        list("It is not clearly ahead of", &lost),
        list("Not clearly better than their own start", &no_better),
        list("Without a number", &missing)
    );
    Finding::counted(won, columns, sentence)
}

/// What each method learned, from how much, in what time.
fn extra(view: &View<'_>, page: &mut Page) -> Result<()> {
    let columns = ["calls", "in rounds", "numbers", "pairs", "seconds"].map(Column::number);
    let mut table = Table::new("Training.", std::iter::once(Column::text("method")).chain(columns));
    for entry in view.experiment.entries.iter().filter(|e| !is_start(&e.row)) {
        let Some(key) = view.experiment.record_key(entry) else { continue };
        let Some(training_record) = view.results.training_records.get(&key) else { continue };
        let file = &training_record.file;
        let seconds = view.results.seconds.get(&format!("training-{key}"));
        table.row([
            entry.row.clone().into(),
            file.nfe.into(),
            file.sequential_calls.unwrap_or(file.nfe).into(),
            file.body.learned().params().len().into(),
            (training_record.losses.len() * training_record.pairs_per_iteration).into(),
            seconds.map_or(Cell::Empty, |s| Cell::number(*s, 0)),
        ]);
    }
    let section = page.section("What was learned from what");
    section.text(
        "Network calls as they are really made, and in rounds: calls that need nothing of each other, counted once. Numbers are those that training moves.",
    );
    section.table(table);
    view.coefficients(page, FULL)
}
