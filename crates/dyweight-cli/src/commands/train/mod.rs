//! `dyweight train`.

mod gain;
mod job;
mod options;
mod result;
mod show;

pub use options::TrainArgs;

use crate::args::{ModelArgs, opened};
use crate::{files, ui};
use dyweight::files::{Lock, NamedPath};
use dyweight::spec::Budget;
use dyweight::train::comm::Comm;
use dyweight::train::serves_several;
use dyweight::{Error, Result};
use job::Job;
use std::sync::Arc;

/// Runs the command.
pub fn run(args: &TrainArgs, comm: &Arc<dyn Comm>) -> Result<()> {
    // Ctrl-C is heard from here on, before the first validation has ended too.
    ui::stop_requested();
    let args = args.over_config()?;
    ui::set_threads(args.threads, &**comm)?;
    let needed = |what: &str| Error::Conflict { problem: format!("{what} is missing"), hint: format!("give --{what}") };
    let name = args.job.model.clone().ok_or_else(|| needed("model"))?;
    let out = args.job.out.clone().ok_or_else(|| needed("out"))?;
    let budgets = args.budgets()?;
    let one = serves_several(args.spec.method_name())?;
    if budgets.len() > 1 && args.trace.is_some() && !one {
        let (problem, hint) = ("a trace belongs to one budget".into(), "train the budgets one by one".into());
        return Err(Error::Conflict { problem, hint });
    }
    let job = &args.job;
    let model = ModelArgs {
        model: name,
        shape: job.shape.clone(),
        config: job.model_config.clone(),
        conv: job.conv.clone(),
        height: job.height,
        width: job.width,
        tokenizer: job.tokenizer.clone(),
        text_tokens: job.text_tokens,
    };
    let model = opened(&model.spec(None)?)?;
    let several = budgets.len() > 1;
    let jobs = if one {
        // The file shows the solver of its longest budget.
        let mut budgets = budgets;
        budgets.sort_unstable_by_key(|budget| match budget {
            Budget::Nfe(n) | Budget::Steps(n) => *n,
        });
        vec![Job::new(&args, &model, comm, &budgets, out.clone())?]
    } else {
        let job = |budget: &Budget| {
            let out = job::named(&out, several, *budget);
            Job::new(&args, &model, comm, std::slice::from_ref(budget), out)
        };
        budgets.iter().map(job).collect::<Result<Vec<_>>>()?
    };
    let own = if comm.is_first() { &jobs[..] } else { &[] };
    let mut outputs: Vec<NamedPath<'_>> = own.iter().map(|job| ("--out", job.out.as_path())).collect();
    outputs.extend(args.trace.as_deref().filter(|_| comm.is_first()).map(|trace| ("--trace", trace)));
    files::spare_solvers(&outputs[own.len()..])?;
    files::place(&outputs, &args.inputs())?;
    own.iter().try_for_each(|job| job.keep_finished(&args))?;
    if args.dry_run {
        return own.iter().try_for_each(|job| job.foresee(&args));
    }
    let _locks = own.iter().map(|job| Lock::file(&job.out)).collect::<Result<Vec<_>>>()?;
    let is_finished = || Ok(jobs.iter().map(|job| args.resume && job.is_finished()).collect());
    let is_finished: Vec<bool> = comm.from_first(is_finished)?;
    let mut shared = None;
    for (job, is_finished) in jobs.iter().zip(is_finished) {
        if is_finished {
            ui::say(&format!("{} is finished already", job.out.display()));
            continue;
        }
        // Pairs serve all budgets unless the teacher follows the student's grid.
        let pairing = match shared.take().filter(|_| job.prepared.shares_pairing()) {
            Some(pairing) => pairing,
            None => job.prepared.pairing()?,
        };
        job.run(&args, &pairing)?;
        shared = Some(pairing);
    }
    Ok(())
}
