//! The `dyweight` command: arguments, progress, tables, exit codes.
//!
//! Data goes to standard output, everything else to standard error. Exit codes: 0 fine, 1 the run failed, 2 the input
//! was wrong.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod contest;
mod files;
mod processes;
mod ui;

use clap::{Parser, Subcommand};
use dyweight::Result;
use dyweight::comm::Comm;
use std::process::ExitCode;

/// Few-step diffusion sampling: learned and handcrafted solvers for pretrained diffusion and flow models.
#[derive(Parser)]
#[command(name = "dyweight", version, about, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train, compare and report on the embedded model, in two minutes
    Quickstart(commands::quickstart::QuickstartArgs),
    /// Make samples with any solver and budget
    Sample(Box<commands::sample::SampleArgs>),
    /// Learn a solver for a model and a budget
    Train(Box<commands::train::TrainArgs>),
    /// Compare solvers on the same noise: table, plots and pictures in one report
    Compare(Box<commands::compare::CompareArgs>),
    /// The paper's experiments by name
    Study(Box<commands::study::StudyArgs>),
    /// Evaluate a model, and its gradients, at given inputs
    Probe(commands::probe::ProbeArgs),
    /// Measure sets of images: Fréchet distance (FID), kernel distance, precision and recall, distance to a teacher
    Metric(commands::metric::MetricArgs),
    /// Measure time and memory of a model on this machine
    Bench(commands::bench::BenchArgs),
    /// Say what is inside a solver file or checkpoint; nothing is executed
    Inspect(commands::inspect::InspectArgs),
    /// Turn released coefficient files into solver files, and checkpoints into safetensors
    Convert(commands::convert::ConvertArgs),
    /// List models, solvers, schedules or presets
    List(commands::list::ListArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let comm = match processes::join() {
        Ok(comm) => comm,
        Err(error) => return ExitCode::from(ui::fail(&error)),
    };
    if !comm.is_first() {
        ui::be_silent();
    }
    processes::end(&*comm, run(cli.command, &*comm))
}

fn run(command: Command, comm: &dyn Comm) -> Result<()> {
    match command {
        Command::Quickstart(args) => commands::quickstart::run(&args, comm),
        Command::Sample(args) => commands::sample::run(&args, comm),
        Command::Train(args) => commands::train::run(&args, comm),
        Command::Compare(args) => commands::compare::run(&args, comm),
        Command::Study(args) => commands::study::run(&args, comm),
        // The rest is no work to share.
        _ if !comm.is_first() => Ok(()),
        Command::Probe(args) => commands::probe::run(&args),
        Command::Metric(args) => commands::metric::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Convert(args) => commands::convert::run(&args),
        Command::List(args) => commands::list::run(&args),
    }
}
