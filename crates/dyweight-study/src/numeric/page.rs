//! The study as a page: the observations with their verdicts, the figures, all numbers, and how to repeat it.

use super::figures;
use super::observe::{Observation, digits, headline};
use super::options::NumericOptions;
use super::record::{Record, Stat};
use super::run::Summary;
use super::tables::{CAVEAT, method};
use crate::benchmark::Repeat;
use dyweight_core::error::Result;
use dyweight_metrics::Estimate;
use dyweight_report::html::{Cell, Chart, Column, Page, Table, Verdict};

/// The report of a finished run.
pub fn page(summary: &Summary, options: &NumericOptions, repeat: Repeat) -> Result<Page> {
    let records = &summary.records;
    let mut page =
        Page::new("Numerical study of solver coefficients").headline(headline(records)).lead(method(&options.settings));
    let section = page.section("Do the four observations hold here?");
    for observation in &summary.observations {
        let found = format!("{} In numbers: {}", observation.claim, observation.found);
        section.verdict(verdict(observation), found);
    }
    let [main, appendix, fresh] = figures::all(records);
    let section = page.section("Error against complexity and steps");
    section.chart(Chart::new(
        "Relative error at the end. Dashed: standard weights, solid: fitted ones, dotted: the teacher.",
        &main,
    )?);
    let section = page.section("What is learned and what is fitted");
    section.text(format!("{CAVEAT}{}", super::observe::remaining(records)));
    section.chart(Chart::new(
        "By how much fitting divides the error, on the problem it was fitted to and on a fresh one.",
        &fresh,
    )?);
    page.section("All panels").chart(Chart::new("The same for every number of steps and every degree.", &appendix)?);
    page.section("Numbers").table(numbers(records));
    provenance(&mut page, options, repeat);
    Ok(page)
}

fn verdict(observation: &Observation) -> Verdict {
    match observation.holds {
        None => Verdict::Open,
        Some(true) => Verdict::Holds,
        Some(false) if observation.agree == 0 => Verdict::Fails,
        Some(false) => Verdict::Mixed,
    }
}

fn numbers(records: &[Record]) -> Table {
    let heads = ["Standard", "Fitted", "Fitted, fresh problem", "Standard, fresh problem", "Teacher"];
    let columns = ["K", "S", "Order"].into_iter().chain(heads).map(Column::number);
    let mut table = Table::new("Relative error at the end, mean over problems.", columns);
    for record in records {
        let cell = record.cell;
        let mut row: Vec<Cell> = vec![cell.degree.into(), cell.steps.into(), cell.order.into()];
        for values in [&record.standard, &record.optimised, &record.fresh, &record.fresh_standard, &record.teacher] {
            let stat = Stat::of(values);
            row.push(Estimate::new(stat.mean, stat.se, values.len()).into());
        }
        table.row(row);
    }
    table
}

fn provenance(page: &mut Page, options: &NumericOptions, repeat: Repeat) {
    let settings = &options.settings;
    let list = |values: &[usize]| values.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let mut facts = vec![
        ("Degrees K".to_string(), list(&options.degrees)),
        ("Steps S".into(), list(&options.steps)),
        ("Orders".into(), list(&options.orders)),
        (
            "Problems".into(),
            format!("{} in each cell, {} dimensions, seed {}", settings.problems, settings.dims, settings.seed),
        ),
        ("Fit".into(), format!("{} iterations of Adam, rate {}", settings.iterations, digits(settings.lr))),
        ("Program".into(), concat!("dyweight ", env!("CARGO_PKG_VERSION")).into()),
    ];
    if repeat.times {
        facts.extend(repeat.run);
    }
    page.section("What was run").facts(facts).code(repeat.command, "sh");
    let files = ["numeric.csv", "numeric.json", "records.jsonl", "main.svg", "appendix.svg", "fresh.svg", "report.md"];
    let section = page.section("Files");
    section.links(files.map(|file| (file.rsplit('.').next().unwrap_or_default().to_uppercase(), file)));
}
