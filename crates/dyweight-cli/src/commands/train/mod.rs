//! `dyweight train`.

mod job;
mod options;
mod range;
mod result;
mod show;

pub use options::TrainArgs;

use crate::args::{on, opened};
use crate::{files, ui};
use dyweight::comm::Comm;
use dyweight::files::OutputGuard;
use dyweight::models::ModelSpec;
use dyweight::solver_file::SolverFile;
use dyweight::spec::Budget;
use dyweight::train::{TrainRun, run_each};
use dyweight::{Error, Result};
use job::Job;
use range::Range;
use std::path::Path;
use std::sync::Arc;

/// Runs the command.
pub fn run(args: &TrainArgs, comm: &Arc<dyn Comm>) -> Result<()> {
    // Ctrl-C is heard from here on, before the first validation has ended too.
    ui::stop_requested();
    let mut args = args.over_config()?;
    ui::set_threads(args.threads, &**comm)?;
    let name = args.job.model.clone().ok_or_else(|| Error::conflict("which model?", "give --model NAME|FILE"))?;
    let budgets = args.budgets()?;
    let out = args.job.out.clone().unwrap_or_else(|| job::default_out(&name));
    let per_budget = budgets.len() > 1 || args.job.out.is_none();
    let range = args.job.one_file.unwrap_or(false).then_some(out.as_path());
    if range.is_some() && budgets.len() < 2 {
        return Err(Error::conflict("--one-file is for several budgets", "give them as --nfe 3,5,7"));
    }
    if budgets.len() > 1 && args.trace.is_some() {
        return Err(Error::conflict("a trace belongs to one budget", "train the budgets one by one"));
    }
    let spec = args.job.options.spec(&name, None)?;
    let model = opened(&ModelSpec { beta_table: args.schedule.beta_table.clone(), ..spec })?;
    args.spec = on(args.spec, &model)?;
    let make = |args: &TrainArgs, budget, out, prompts| Job::new(args, (&model, prompts), comm, budget, out);
    let range = range.map(|out| Range { out, make: &make, comm });
    let start = range.as_ref().map(|range| range.start(&args, &budgets)).transpose()?;
    if let Some(known) = start.as_ref().map(|start| start.known(&args)).transpose()?.flatten() {
        args = known;
    }
    let stem = if range.is_some() { job::parts(&out) } else { out.clone() };
    let each = |args: &TrainArgs| {
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for budget in &budgets {
            let encoded = jobs.first().and_then(|job| job.run.trainer.config().prompts.clone());
            jobs.push(make(args, *budget, job::named(&stem, per_budget, *budget), encoded)?);
        }
        Ok(jobs)
    };
    let mut jobs = each(&args)?;
    if range.is_some() {
        // What cannot be joined is refused before the work.
        SolverFile::joined(jobs.iter().map(Job::beginning).collect::<Result<Vec<_>>>()?)?;
    }
    let own = if comm.is_root() { &jobs[..] } else { &[] };
    own.iter().flat_map(|job| &job.run.trainer.warnings).for_each(|warning| ui::warn(warning));
    // A folder that is not there yet takes whatever comes.
    let is_there = |file: &Path| range.is_none() || file.parent().is_none_or(Path::is_dir);
    let outs = own.iter().map(|job| job.out.as_path()).filter(|out| is_there(out));
    let guard = outs.fold(OutputGuard::new(args.inputs()), |guard, out| guard.solver("--out", out));
    let trace = args.trace.as_deref().filter(|_| comm.is_root());
    trace.into_iter().fold(guard, |guard, trace| guard.file("--trace", trace)).check()?;
    own.iter().try_for_each(|job| job.keep_neighbours_apart(&args))?;
    own.iter().try_for_each(|job| job.run.keep_finished())?;
    if let Some(Range { out, .. }) = range.as_ref().filter(|_| comm.is_root()) {
        let goes_on = jobs.iter().any(|job| job.run.goes_on()) && is_of(out, &budgets);
        files::keep_finished(out, args.overwrite || goes_on, "--out")?;
        let between = job::between(out, &budgets);
        let there = between.iter().filter(|file| file.parent().is_none_or(Path::is_dir));
        let guard = OutputGuard::new(args.inputs()).solver("--out", out);
        there.clone().fold(guard, |guard, file| guard.solver("a budget between,", file)).check()?;
        there.clone().try_for_each(|file| files::keep_finished(file, args.overwrite || args.resume, "--out"))?;
    }
    if args.dry_run {
        return own.iter().try_for_each(|job| job.dry_run(&args));
    }
    if let Some(folder) = stem.parent().filter(|_| range.is_some() && comm.is_root()) {
        std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    }
    let mut pairs = None;
    if let Some((settled, dataset)) = start.as_ref().map(|start| start.choose(&args)).transpose()?.flatten() {
        (args, pairs) = (settled, Some(dataset));
        jobs = each(&args)?;
    }
    let runs: Vec<&TrainRun> = jobs.iter().map(|job| &job.run).collect();
    run_each(&runs, pairs.clone(), &mut |index, dataset| {
        pairs = pairs.take().or(dataset.cloned());
        jobs[index].learn_or_say(&args, dataset)
    })?;
    match range {
        Some(range) => range.serve(&args, jobs, pairs),
        None => Ok(()),
    }
}

/// True if what is there serves a range between two of these budgets: then a run that goes on loses nothing by
/// replacing it.
fn is_of(out: &Path, budgets: &[Budget]) -> bool {
    let served = files::solver_file(out).ok().and_then(|file| file.served());
    served.is_some_and(|(least, most)| [least, most].iter().all(|nfe| budgets.contains(&Budget::Nfe(*nfe))))
}
