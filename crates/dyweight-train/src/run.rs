//! A run with all its files, from what is in its way to the solver it leaves: the one life cycle of the program, the
//! Python package and studies.
//!
//! ```text
//! check          what is in the way is refused before anything is written
//! lock           one process at a time writes here
//! finished?      the very same run, known by the content of what it was made from, is not made again
//! configuration  the first thing written
//! start, state   a search and iterations, resumed where an earlier run was interrupted
//! gain           the result beside the best handcrafted solver, which the solver file then tells
//! trace, solver  all or nothing
//! finish         the state is removed: from here on there is nothing to resume
//! ```

use crate::best_start::StartSearch;
use crate::gain::Gain;
use crate::session::{Files, remove_state};
use crate::trace::Trace;
use crate::trainer::{Dataset, TrainOutcome, Trainer};
use crate::training::{Iteration, Training};
use dyweight_core::error::{Error, Result, shown};
use dyweight_files::{Lock, atomic};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a run leaves beside state and log; nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The solver.
    pub out: Option<PathBuf>,
    /// The configuration's place and text, which has the run's name ([`Trainer::name`]) in it.
    pub config: Option<(PathBuf, String)>,
    /// All parameters, losses and gradients.
    pub trace: Option<PathBuf>,
    /// Takes the place of what is there.
    pub overwrite: bool,
    /// Compares with handcrafted solvers in the end, and has the solver say what came of it.
    pub judged: bool,
}

/// Sees a run.
pub trait TrainWatch {
    /// Another start is tried, of so many in all.
    fn searching(&mut self, _all: usize) {}

    /// This is what will run; with the search that chose its start, where one did.
    fn settled(&mut self, _trainer: &Trainer, _search: Option<&StartSearch>) {}

    /// What was learned is compared with another handcrafted solver, of so many in all.
    fn comparing(&mut self, _all: usize) {}

    /// The run before its first iteration, and before it goes on from a state.
    fn begin(&mut self, _trainer: &Arc<Trainer>, _run: &Training) -> Result<()> {
        Ok(())
    }

    /// An iteration; an error ends the run with the state saved.
    fn iteration(&mut self, iteration: &Iteration, run: &Training) -> Result<()>;
}

/// A training and its files.
pub struct TrainRun {
    /// The training.
    pub trainer: Arc<Trainer>,
    outputs: Outputs,
}

impl TrainRun {
    /// Refuses a state that is in the way or cannot be gone on with.
    pub fn new(trainer: Trainer, outputs: Outputs) -> Result<Self> {
        let run = Self { trainer: Arc::new(trainer), outputs };
        // The first process may already be writing when another comes here.
        if run.is_root() {
            run.check_state()?;
        }
        Ok(run)
    }

    fn is_root(&self) -> bool {
        self.trainer.config().comm.is_root()
    }

    fn files(&self) -> Option<&Files> {
        self.trainer.config().files.as_ref()
    }

    fn has_state(&self) -> bool {
        self.files().is_some_and(|files| files.state.exists())
    }

    fn check_state(&self) -> Result<()> {
        let (Some(files), Some(out)) = (self.files().filter(|_| self.has_state()), &self.outputs.out) else {
            return Ok(());
        };
        let resume = self.trainer.config().resume;
        if resume || self.outputs.overwrite {
            return if resume { self.trainer.check_state(&files.state) } else { Ok(()) };
        }
        // A run that goes on says so itself.
        drop(Lock::file(out)?);
        Err(Error::conflict(
            format!("{} holds an interrupted run", shown(&files.state)),
            "`resume = true` continues it, `overwrite = true` starts anew",
        ))
    }

    /// A finished solver is replaced only by someone who says so.
    pub fn keep_finished(&self) -> Result<()> {
        match &self.outputs.out {
            Some(out) if out.is_file() && !self.outputs.overwrite && !self.goes_on() => Err(Error::conflict(
                format!("{} is there already", shown(out)),
                "choose another `out`, or `overwrite = true`",
            )),
            _ => Ok(()),
        }
    }

    /// True if an earlier run is to be gone on with, or has come to its end.
    pub fn goes_on(&self) -> bool {
        self.trainer.config().resume && (self.has_state() || self.is_finished())
    }

    /// True if the very same run has left its solver and no state.
    pub fn is_finished(&self) -> bool {
        let (Some(out), Some((config, _))) = (&self.outputs.out, &self.outputs.config) else { return false };
        let name = self.trainer.name();
        let is_ours = std::fs::read_to_string(config).is_ok_and(|text| name.is_some_and(|name| text.contains(&name)));
        is_ours && out.exists() && !self.has_state()
    }

    /// Trains, or goes on training; returns the training from the start that was chosen, and what it found.
    pub fn run(&self, dataset: &Dataset, watch: &mut dyn TrainWatch) -> Result<(Arc<Trainer>, TrainOutcome)> {
        if let Some((path, text)) = self.outputs.config.as_ref().filter(|_| self.is_root()) {
            atomic::write(path, text.as_bytes())?;
        }
        let settled = self.trainer.settled(dataset, &mut |all| watch.searching(all))?;
        let (trainer, search) = match settled {
            Some((trainer, search)) => (Arc::new(trainer), Some(search)),
            None => (self.trainer.clone(), None),
        };
        watch.settled(&trainer, search.as_ref());
        let run = trainer.begin(dataset)?;
        watch.begin(&trainer, &run)?;
        let mut trace = self.outputs.trace.as_ref().map(|_| Trace::start(&run));
        let mut outcome = trainer.go_on(run, &mut |iteration, run| {
            trace.iter_mut().for_each(|trace| trace.add(iteration, run));
            watch.iteration(iteration, run)
        })?;
        if self.outputs.judged {
            outcome.gain = trainer.gain(dataset, &outcome, &mut |all| watch.comparing(all))?;
            outcome.file.training.extend(outcome.gain.iter().flat_map(Gain::facts));
        }
        // No process returns before the files are there: it may look for them.
        self.trainer.config().comm.broadcast(|| self.leave(trace.as_ref(), &outcome).map(|()| true))?;
        Ok((trainer, outcome))
    }

    fn leave(&self, trace: Option<&Trace>, outcome: &TrainOutcome) -> Result<()> {
        if let (Some(trace), Some(path)) = (trace, &self.outputs.trace) {
            trace.write(path)?;
        }
        self.outputs.out.as_ref().map_or(Ok(()), |out| atomic::write(out, &outcome.file.to_bytes()))
    }

    /// Removes the state, once all is kept that somebody wants of the outcome.
    pub fn finish(&self) -> Result<()> {
        self.files().filter(|_| self.is_root()).map_or(Ok(()), remove_state)
    }

    /// The solver.
    pub fn out(&self) -> Option<&Path> {
        self.outputs.out.as_deref()
    }
}

/// Does runs one after the other, all under lock from the beginning. Each is given the pairs it shares with the one
/// before, the first `shared`, or none if it is finished already.
pub fn run_each(
    runs: &[&TrainRun],
    mut shared: Option<Dataset>,
    one: &mut dyn FnMut(usize, Option<&Dataset>) -> Result<()>,
) -> Result<()> {
    let Some(first) = runs.first() else { return Ok(()) };
    let own = if first.is_root() { runs } else { &[] };
    let outs = own.iter().filter_map(|run| run.outputs.out.as_deref());
    let _locks = outs.map(Lock::file).collect::<Result<Vec<_>>>()?;
    let finished = |run: &&TrainRun| run.trainer.config().resume && run.is_finished();
    let finished: Vec<bool> = first.trainer.config().comm.broadcast(|| Ok(runs.iter().map(finished).collect()))?;
    for (index, (run, finished)) in runs.iter().zip(finished).enumerate() {
        if finished {
            one(index, None)?;
            continue;
        }
        // Pairs serve all budgets unless the teacher follows the student's grid.
        let dataset = match shared.take().filter(|_| run.trainer.shares_dataset()) {
            Some(dataset) => dataset,
            None => run.trainer.dataset()?,
        };
        one(index, Some(&dataset))?;
        shared = Some(dataset);
    }
    Ok(())
}
