//! `dyweight study numeric`.

use crate::benchmark;
use crate::files::text;
use crate::ui;
use clap::Args;
use dyweight::Result;
use dyweight::comm::Solo;
use dyweight::study::numeric::{Coupling, EndLoss, NumericOptions, Startup, page, run as run_numeric};
use serde_json::json;
use std::path::PathBuf;

/// Everything it can be told.
#[derive(Args)]
pub struct NumericArgs {
    /// Directory for records, tables and figures; a run that was interrupted there is continued
    #[arg(long, value_name = "DIR", default_value = "numeric-study")]
    out: PathBuf,
    /// A small grid
    #[arg(long)]
    quick: bool,
    /// Polynomial degrees [5,10,…,40]
    #[arg(long, value_name = "K,K,…", value_delimiter = ',', num_args = 1, help_heading = "Grid")]
    degrees: Option<Vec<usize>>,
    /// Numbers of steps [6,8,…,20]
    #[arg(long, value_name = "S,S,…", value_delimiter = ',', num_args = 1, help_heading = "Grid")]
    steps: Option<Vec<usize>>,
    /// Adams-Bashforth orders [1,2,3,4]
    #[arg(long, value_name = "O,O,…", value_delimiter = ',', num_args = 1, help_heading = "Grid")]
    orders: Option<Vec<usize>>,
    /// Problems per cell [50]
    #[arg(long, help_heading = "Problems")]
    problems: Option<usize>,
    /// Dimensions of a problem [50]
    #[arg(long, help_heading = "Problems")]
    dims: Option<usize>,
    /// Iterations of the fit [2000]
    #[arg(long, help_heading = "Fit")]
    iters: Option<usize>,
    /// Learning rate [0.001]
    #[arg(long, help_heading = "Fit")]
    lr: Option<f64>,
    /// How 0.1/√D of the coupling is read: std or variance [std]
    #[arg(long, value_name = "std|variance", help_heading = "Problems")]
    coupling: Option<Coupling>,
    /// Loss of the fit: mse or l2 [mse]
    #[arg(long, value_name = "mse|l2", help_heading = "Fit")]
    loss: Option<EndLoss>,
    /// Exact states a run starts from: as many as the order, or four [order]
    #[arg(long, value_name = "order|four", help_heading = "Problems")]
    startup: Option<Startup>,
    /// Seed of the problems [0]
    #[arg(long, help_heading = "Problems")]
    seed: Option<u64>,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long)]
    threads: Option<usize>,
    /// Leave machine and threads out of the report, which then is the same bytes for the same results
    #[arg(long)]
    no_times: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl NumericArgs {
    fn options(&self) -> Result<NumericOptions> {
        let mut options = if self.quick { NumericOptions::quick() } else { NumericOptions::default() };
        let replace = |list: &mut Vec<usize>, given: &Option<Vec<usize>>| {
            if let Some(given) = given {
                list.clone_from(given);
            }
        };
        replace(&mut options.degrees, &self.degrees);
        replace(&mut options.steps, &self.steps);
        replace(&mut options.orders, &self.orders);
        let settings = &mut options.settings;
        settings.problems = self.problems.unwrap_or(settings.problems);
        settings.dims = self.dims.unwrap_or(settings.dims);
        settings.iterations = self.iters.unwrap_or(settings.iterations);
        settings.lr = self.lr.unwrap_or(settings.lr);
        settings.seed = self.seed.unwrap_or(settings.seed);
        settings.coupling = self.coupling.unwrap_or(settings.coupling);
        settings.loss = self.loss.unwrap_or(settings.loss);
        settings.startup = self.startup.unwrap_or(settings.startup);
        Ok(options)
    }
}

/// Runs the command.
pub fn run(args: &NumericArgs) -> Result<()> {
    ui::set_threads(args.threads, &Solo)?;
    let options = args.options()?;
    let mut progress = ui::Progress::new("numerical study", options.cells());
    let mut shown = 0;
    let summary = run_numeric(&options, &args.out, &mut |made| {
        let cell = made.latest.cell;
        progress.add(made.done - shown, &format!("· K {} S {} order {}", cell.degree, cell.steps, cell.order));
        shown = made.done;
        ui::go_on()
    })?;
    progress.finish();
    let repeat = benchmark::repeat_of(!args.no_times);
    let html = page(&summary, &options, repeat)?.write(&args.out)?;
    if summary.resumed > 0 {
        ui::say(&format!("{} of {} cells were on record already", summary.resumed, summary.records.len()));
    }
    if args.json {
        let files: Vec<String> = summary.files.iter().chain([&html]).map(|f| text(f)).collect();
        ui::print_json(
            &json!({ "cells": summary.records.len(), "observations": summary.observations, "files": files }),
        );
        return Ok(());
    }
    for observation in &summary.observations {
        ui::say(&format!("{} — {}", observation.claim, observation.verdict()));
    }
    summary.files.iter().chain([&html]).for_each(|f| ui::print_path(f));
    Ok(())
}
