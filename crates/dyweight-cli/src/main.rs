//! The `dyweight` command: arguments, progress, tables, exit codes.
//!
//! Data goes to standard output, everything else to standard error. Exit codes: 0 fine, 1 the run failed, 2 the input
//! was wrong.

#![forbid(unsafe_code)]

mod args;
mod benchmark;
mod colour;
mod commands;
mod dry_run;
mod examples;
mod files;
mod flags;
mod help;
mod machine;
#[cfg(feature = "mpi")]
mod mpi;
mod processes;
mod progress;
mod spread;
mod ui;

use clap::{FromArgMatches, Parser, Subcommand};
use dyweight::Result;
use dyweight::comm::Comm;
use dyweight::error::shown;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Few-step diffusion sampling: learned and handcrafted solvers for pretrained diffusion and flow models.
#[derive(Parser)]
#[command(name = "dyweight", version, about, propagate_version = true, max_term_width = 110, after_long_help = examples::ALL)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Say nothing but results, warnings and errors
    #[arg(short, long, global = true, display_order = 900)]
    quiet: bool,
    /// Say more: the machine, the model, the levels
    #[arg(short, long, global = true, display_order = 901, conflicts_with = "quiet")]
    verbose: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Train, compare and report on the embedded model, in a minute
    #[command(after_long_help = examples::QUICKSTART)]
    Quickstart(commands::quickstart::QuickstartArgs),
    /// Make samples with any solver and budget
    #[command(after_long_help = examples::SAMPLE)]
    Sample(Box<commands::sample::SampleArgs>),
    /// Learn a solver for a model and a budget
    #[command(after_long_help = examples::TRAIN)]
    Train(Box<commands::train::TrainArgs>),
    /// Compare solvers on the same noise: table, plots and pictures in one report
    #[command(after_long_help = examples::COMPARE)]
    Compare(Box<commands::compare::CompareArgs>),
    /// The paper's experiments by name
    #[command(after_long_help = examples::STUDY)]
    Study(Box<commands::study::StudyArgs>),
    /// Evaluate a model, and its gradients, at given inputs
    #[command(after_long_help = examples::PROBE)]
    Probe(commands::probe::ProbeArgs),
    /// Measure sets of images: Fréchet distance (FID), kernel distance, precision and recall, distance to a teacher
    #[command(after_long_help = examples::METRIC)]
    Metric(commands::metric::MetricArgs),
    /// Measure time and memory of a model on this machine
    #[command(after_long_help = examples::BENCH)]
    Bench(commands::bench::BenchArgs),
    /// Say what is inside a solver file or checkpoint; nothing is executed
    #[command(after_long_help = examples::INSPECT)]
    Inspect(commands::inspect::InspectArgs),
    /// Turn released coefficient files into solver files, and checkpoints into safetensors
    #[command(after_long_help = examples::CONVERT)]
    Convert(commands::convert::ConvertArgs),
    /// Print the grid of a solver file as other programs take it
    #[command(after_long_help = examples::EXPORT)]
    Export(commands::export::ExportArgs),
    /// List models, solvers, methods, schedules or presets
    #[command(after_long_help = examples::LIST)]
    List(commands::list::ListArgs),
    /// Completions for a shell
    #[command(after_long_help = examples::COMPLETIONS)]
    Completions(commands::shell::CompletionsArgs),
    /// The manual, for man
    #[command(after_long_help = examples::MAN)]
    Man(commands::shell::ManArgs),
}

fn main() -> ExitCode {
    let parsed = help::command().try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(stopped) => return refused(&stopped),
    };
    if cli.quiet {
        ui::be_quiet();
    }
    if cli.verbose {
        ui::be_verbose();
    }
    ui::detail(|| format!("dyweight {} on {}", env!("CARGO_PKG_VERSION"), machine::described()));
    let comm = match processes::join() {
        Ok(comm) => comm,
        Err(error) => return ExitCode::from(ui::fail(&error)),
    };
    if !comm.is_root() {
        ui::be_silent();
    }
    for (old, new) in help::renamed(&std::env::args_os().skip(1).collect::<Vec<_>>()) {
        ui::say(&format!("--{old} is called --{new} now"));
    }
    let ended = processes::end(&*comm, run(cli.command, &comm));
    if ended == ExitCode::SUCCESS { arrived(ui::delivered()) } else { ended }
}

/// Arguments that are wrong, or that ask for help or the version.
fn refused(stopped: &clap::Error) -> ExitCode {
    if stopped.kind() == clap::error::ErrorKind::InvalidUtf8 {
        let odd = std::env::args_os().find(|word| word.to_str().is_none()).unwrap_or_default();
        let name = shown(Path::new(&odd));
        ui::complain(
            &format!("'{name}' is not UTF-8, as names and texts that are kept with a result must be"),
            Some(RENAME),
        );
        return ExitCode::from(2);
    }
    if let Some((word, tip)) = unknown(stopped) {
        ui::complain(&format!("there is no {word} here"), Some(tip));
        return ExitCode::from(2);
    }
    match stopped.print() {
        // Nobody read what was wrong; it is wrong all the same.
        _ if stopped.use_stderr() => ExitCode::from(2),
        Err(e) if e.kind() != ErrorKind::BrokenPipe => arrived(Err(e)),
        _ => ExitCode::SUCCESS,
    }
}

/// A word that is called otherwise here, with what it is called.
fn unknown(stopped: &clap::Error) -> Option<(String, &'static str)> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) =
        (stopped.kind(), stopped.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    Some((word.clone(), help::tip(word)?))
}

const RENAME: &str =
    "rename the file, or make a link to it under another name; a terminal set to UTF-8 sends texts as such";

/// A run whose data nobody can read has failed.
fn arrived(output: std::io::Result<()>) -> ExitCode {
    let Err(error) = output else { return ExitCode::SUCCESS };
    ui::complain(&format!("cannot write to standard output: {error}"), None);
    ExitCode::from(1)
}

fn run(command: Command, comm: &Arc<dyn Comm>) -> Result<()> {
    match command {
        Command::Quickstart(args) => commands::quickstart::run(&args, comm),
        Command::Sample(args) => commands::sample::run(&args, &**comm),
        Command::Train(args) => commands::train::run(&args, comm),
        Command::Compare(args) => commands::compare::run(&args, comm),
        Command::Study(args) => commands::study::run(&args, comm),
        // The rest is no work to share.
        _ if !comm.is_root() => Ok(()),
        Command::Probe(args) => commands::probe::run(&args),
        Command::Metric(args) => commands::metric::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Convert(args) => commands::convert::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Completions(args) => commands::shell::completions(&args),
        Command::Man(args) => commands::shell::man(&args),
    }
}
