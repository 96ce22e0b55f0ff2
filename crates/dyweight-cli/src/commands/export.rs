//! `dyweight export`.

use super::inspect::refuse_guidance;
use crate::ui;
use clap::{Args, ValueEnum};
use dyweight::Result;
use dyweight::error::Error;
use dyweight::learned::Learned;
use dyweight::solver_file::{Asked, SolverFile};
use dyweight::spec::Budget;

/// What to hand to whom.
#[derive(Args)]
pub struct ExportArgs {
    /// A solver file or preset:NAME
    solver: String,
    /// As what
    #[arg(long, value_enum, default_value = "sigmas")]
    to: Target,
    /// Network calls, of a file that serves a range of budgets
    #[arg(long, value_name = "N")]
    nfe: Option<usize>,
    /// Guidance, of a file that serves a range of it
    #[arg(long, value_name = "G")]
    guidance: Option<f64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Target {
    /// The grid as a list of noise levels, as ComfyUI, diffusers and k-diffusion take it
    Sigmas,
}

/// Runs the command.
pub fn run(args: &ExportArgs) -> Result<()> {
    let Target::Sigmas = args.to;
    let asked = Asked { budget: args.nfe.map(Budget::Nfe), guidance: args.guidance, calls: None };
    let learned = Learned::open(&args.solver)?.at(asked)?;
    if let Some(file) = Learned::open(&args.solver)?.file {
        refuse_guidance(&file, args.guidance)?;
    }
    let Some(file) = learned.file else {
        return Err(Error::conflict(
            format!("{} holds bare numbers without their grid", args.solver),
            "export solver files ('dyweight train' and 'dyweight convert' write them) or presets",
        ));
    };
    let list: Vec<String> = levels(&file).iter().map(|sigma| format!("{sigma}")).collect();
    ui::print(&list.join(","));
    missing(&file).iter().for_each(|what| ui::say(&format!("a list of levels does not carry {what}")));
    Ok(())
}

/// Where the states are. The last one counts as finished, wherever weights have taken it.
fn levels(file: &SolverFile) -> Vec<f64> {
    let mut levels = file.realised_times.clone();
    if let (Some(last), Ok(grid)) = (levels.last_mut(), file.grid())
        && file.body.weights().is_some()
    {
        *last = grid.last();
    }
    levels
}

/// What of the solver is not in the list.
fn missing(file: &SolverFile) -> Vec<String> {
    let learned = file.body.learned();
    let mut missing = Vec::new();
    match (file.body.method(), learned.base()) {
        ("gits" | "ld3", Some(base)) => missing.push(format!("the solver it was made for, {}", base.name)),
        (method, _) => missing.push(format!("what {method} does within and between the steps ({})", learned.summary())),
    }
    if file.afs {
        missing.push("the analytical first step: the first call is not made by the network".into());
    }
    let told = file.network_levels.iter().zip(&file.realised_times);
    if file.body.method() == "ld3" && told.clone().any(|(told, time)| told.is_some_and(|told| told != *time)) {
        missing.push("the times told to the network, which differ from the grid's".into());
    }
    if let Some(guidance) = file.guidance {
        missing.push(format!("the guidance it was learned under, {guidance}"));
    }
    missing
}
