//! The learned rivals: every method that is learned, beside the handcrafted ones.
//!
//! All see the same training pairs and the same teacher, as far as their training has one of its own shape: methods
//! that are trained step by step follow that teacher on a refinement of their grid, of about as many calls. With the
//! authors' recipes each has its own teacher instead.

use super::setup::{FULL, IPNDM, StudySetup};
use super::{Finding, PLAIN, Study, lineup};
use crate::benchmark::{Candidate, Entry, Measure, View};
use dyweight_core::error::Result;
use dyweight_report::html::{Cell, Column, Page, Table};
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use dyweight_train::{CountParallel, Loss, TrainSpec};

pub const STUDY: Study = Study {
    name: "rivals",
    title: "all learned solvers",
    claim: "The paper (Table 1) finds DyWeight ahead of every learned solver at every budget from 3 to 9 calls.",
    pair: Some((IPNDM, FULL)),
    entries,
    finding,
    extra,
    ..PLAIN
};

/// What a row of numbers before training is called.
const UNTRAINED: &str = ", untrained";

/// How the row of a method is called.
fn row_of(method: &str) -> String {
    if method == "dyweight" { FULL.into() } else { method.into() }
}

fn entries(setup: &StudySetup) -> Vec<Entry> {
    let mut entries = Vec::new();
    for nfe in &setup.budgets {
        for (method, ..) in dyweight_train::method::list() {
            if !setup.rivals.methods.is_empty() && !setup.rivals.methods.iter().any(|m| m == method) {
                continue;
            }
            let Some((train, schedule)) = training(setup, method, *nfe) else { continue };
            let who =
                |after| Candidate::Learned { train: Box::new(train.clone()), schedule: schedule.clone(), on: 0, after };
            let once = train.count_parallel == Some(CountParallel::Once);
            entries.push(Entry { once, ..Entry::new(row_of(method), *nfe, who(None)) });
            // A search has no start.
            if method != "gits" {
                let row = format!("{}{UNTRAINED}", row_of(method));
                entries.push(Entry { once, ..Entry::new(row, *nfe, who(Some(0))) });
            }
        }
    }
    let subject = setup.subject();
    entries.extend(setup.budgets.iter().flat_map(|nfe| lineup(&subject, *nfe)));
    entries
}

/// The training of a method for a budget; none if it cannot make exactly so many calls on the model, or has no feature
/// to go by.
fn training(setup: &StudySetup, method: &str, nfe: usize) -> Option<(TrainSpec, ScheduleSpec)> {
    let (name, model) = (Some(method.to_string()), &*setup.model.model);
    let mut train = TrainSpec { method: name, ..setup.train.clone() };
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
    dyweight_train::plan::plan(&train, model, &schedule, Budget::Nfe(nfe), Loss::L2).ok()?;
    Some((train, schedule))
}

fn is_start(row: &str) -> bool {
    row.ends_with(UNTRAINED)
}

/// DyWeight against every other learned solver, budget by budget; and every method against its own start.
fn finding(view: &View<'_>, measure: Measure) -> Finding {
    let methods: Vec<String> = dyweight_train::method::list().iter().map(|(m, ..)| row_of(m)).collect();
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
        let Some(own) = view.judged(measure, FULL, column) else { continue };
        let rivals = methods.iter().filter(|row| *row != FULL);
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
        "{FULL} is clearly ahead of every other learned solver at {won} of {columns} budgets.{}{}{}",
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
