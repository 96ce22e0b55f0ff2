//! `dyweight train`.

mod job;
mod options;
mod result;
mod show;

pub use options::TrainArgs;

use crate::args::ModelArgs;
use crate::ui;
use dyweight::checkpoint::Lock;
use dyweight::comm::Comm;
use dyweight::{Error, Result};
use job::{Common, Job};

/// Runs the command.
pub fn run(args: &TrainArgs, comm: &dyn Comm) -> Result<()> {
    args.check_numbers()?;
    let args = args.over_config()?;
    args.check_names()?;
    ui::set_threads(args.threads, comm)?;
    let needed = |what: &str| Error::Conflict { problem: format!("{what} is missing"), hint: format!("give --{what}") };
    let name = args.model.clone().ok_or_else(|| needed("model"))?;
    let out = args.out.clone().ok_or_else(|| needed("out"))?;
    let budgets = args.budgets()?;
    if budgets.len() > 1 && args.trace.is_some() {
        let (problem, hint) = ("a trace belongs to one budget".into(), "train the budgets one by one".into());
        return Err(Error::Conflict { problem, hint });
    }
    let spec = args.spec()?;
    let (shape, config, conv) = (args.shape.clone(), args.model_config.clone(), args.conv.clone());
    let model_args = ModelArgs { model: name, shape, config, conv };
    let model = model_args.spec(None)?.build()?;
    let loss = spec.loss(model.model.shape())?;
    let common = Common { args: &args, spec: &spec, model: &model, comm, loss, budgets: budgets.len(), out: &out };
    let jobs = budgets.iter().map(|budget| Job::new(&common, *budget)).collect::<Result<Vec<_>>>()?;
    let own = if comm.is_first() { &jobs[..] } else { &[] };
    let _locks = own.iter().map(|job| Lock::file(&job.out)).collect::<Result<Vec<_>>>()?;
    let is_finished = || Ok(jobs.iter().map(|job| args.resume && job.is_finished()).collect());
    let is_finished: Vec<bool> = comm.from_first(is_finished)?;
    let validation = jobs[0].targets(&spec, "validation", &args)?;
    let training = jobs[0].targets(&spec, "training", &args)?;
    for (job, is_finished) in jobs.iter().zip(is_finished) {
        if is_finished {
            ui::say(&format!("{} is finished already", job.out.display()));
            continue;
        }
        // Targets serve all budgets unless the teacher follows the student's grid.
        match job.shares_targets() {
            true => job.run(&args, &spec, (&training, &validation))?,
            false => {
                let (training, validation) =
                    (job.targets(&spec, "training", &args)?, job.targets(&spec, "validation", &args)?);
                job.run(&args, &spec, (&training, &validation))?;
            }
        }
    }
    Ok(())
}
