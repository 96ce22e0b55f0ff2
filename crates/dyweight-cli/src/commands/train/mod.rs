//! `dyweight train`.

mod improvement;
mod job;
mod options;
mod result;
mod show;

pub use options::TrainArgs;

use crate::args::{class_of, opened};
use crate::{files, ui};
use dyweight::comm::Comm;
use dyweight::error::shown;
use dyweight::files::{NamedPath, atomic};
use dyweight::models::ModelSpec;
use dyweight::solver_file::SolverFile;
use dyweight::spec::Budget;
use dyweight::train::{ClassName, TrainRun, run_each};
use dyweight::{Error, Result};
use job::Job;
use std::path::Path;
use std::sync::Arc;

/// Runs the command.
pub fn run(args: &TrainArgs, comm: &Arc<dyn Comm>) -> Result<()> {
    // Ctrl-C is heard from here on, before the first validation has ended too.
    ui::stop_requested();
    let mut args = args.over_config()?;
    ui::set_threads(args.threads, &**comm)?;
    let needed = |what: &str| Error::Conflict { problem: format!("{what} is missing"), hint: format!("give --{what}") };
    let name = args.job.model.clone().ok_or_else(|| needed("model"))?;
    let out = args.job.out.clone().ok_or_else(|| needed("out"))?;
    let budgets = args.budgets()?;
    let range = args.job.one_file.unwrap_or(false).then_some(out.as_path());
    if range.is_some() && budgets.len() < 2 {
        let (problem, hint) = ("--one-file is for several budgets".into(), "give them as --nfe 3,5,7".into());
        return Err(Error::Conflict { problem, hint });
    }
    if budgets.len() > 1 && args.trace.is_some() {
        let (problem, hint) = ("a trace belongs to one budget".into(), "train the budgets one by one".into());
        return Err(Error::Conflict { problem, hint });
    }
    let spec = args.job.options.spec(&name, None)?;
    let model = opened(&ModelSpec { beta_table: args.schedule.beta_table.clone(), ..spec })?;
    if let Some(class) = &mut args.spec.class {
        *class = ClassName::Number(class_of(&class.to_string(), model.class_names(), &[])?);
    }
    let several = budgets.len() > 1;
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for budget in &budgets {
        let encoded = jobs.first().and_then(|job| job.run.trainer.config().prompts.clone());
        jobs.push(Job::new(&args, (&model, encoded), comm, *budget, job::named(&out, several, *budget))?);
    }
    if range.is_some() {
        // What cannot be joined is refused before the work.
        SolverFile::joined(jobs.iter().map(Job::beginning).collect::<Result<Vec<_>>>()?)?;
    }
    let own = if comm.is_root() { &jobs[..] } else { &[] };
    own.iter().flat_map(|job| &job.run.trainer.warnings).for_each(|warning| ui::warn(warning));
    let mut outputs: Vec<NamedPath<'_>> = own.iter().map(|job| ("--out", job.out.as_path())).collect();
    outputs.extend(args.trace.as_deref().filter(|_| comm.is_root()).map(|trace| ("--trace", trace)));
    files::spare_solvers(&outputs[own.len()..])?;
    files::place(&outputs, &args.inputs())?;
    own.iter().try_for_each(|job| job.keep_neighbours_apart(&args))?;
    own.iter().try_for_each(|job| job.run.keep_finished())?;
    if let Some(out) = range.filter(|_| comm.is_root()) {
        files::place(&[("--out", out)], &args.inputs())?;
        let goes_on = jobs.iter().any(|job| job.run.goes_on()) && is_of(out, &budgets);
        files::keep_finished(out, args.overwrite || goes_on, "--out")?;
    }
    if args.dry_run {
        return own.iter().try_for_each(|job| job.dry_run(&args));
    }
    let runs: Vec<&TrainRun> = jobs.iter().map(|job| &job.run).collect();
    run_each(&runs, &mut |index, dataset| match dataset {
        Some(dataset) => jobs[index].learn(&args, dataset),
        None => {
            ui::say(&format!("{} is finished already", jobs[index].out.display()));
            Ok(())
        }
    })?;
    match range.filter(|_| comm.is_root()) {
        Some(out) => join(&jobs, out, &args),
        None => Ok(()),
    }
}

/// True if what is there serves a range between two of these budgets: then a run that goes on loses nothing by replacing it.
fn is_of(out: &Path, budgets: &[Budget]) -> bool {
    let served = files::solver_file(out).ok().and_then(|file| file.served());
    served.is_some_and(|(least, most)| [least, most].iter().all(|nfe| budgets.contains(&Budget::Nfe(*nfe))))
}

/// One file for the range of all budgets, beside those of each.
fn join(jobs: &[Job<'_>], out: &Path, args: &TrainArgs) -> Result<()> {
    let named = |job: &Job<'_>| Ok((shown(&job.out), files::solver_file(&job.out)?));
    let file = SolverFile::joined(jobs.iter().map(named).collect::<Result<Vec<_>>>()?)?;
    atomic::write(out, &file.to_bytes())?;
    let Some((least, most)) = file.served() else { return Ok(()) };
    if args.json {
        ui::print_json(&serde_json::json!({ "out": files::text(out), "serves": [least, most] }));
        return Ok(());
    }
    ui::say(&format!("wrote {} for every budget from {least} to {most} network calls", shown(out)));
    ui::say(&format!("next: {} --nfe {least}", args.next_command(&jobs[0].model.name, out)));
    ui::print_path(out);
    Ok(())
}
