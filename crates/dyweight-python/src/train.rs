//! Learning a solver for a model in Python: the same options, defaults, files and results as `dyweight train`.

use crate::error::{foreign, raised, warn};
use crate::model::{PythonModel, unread};
use crate::processes::processes;
use dyweight_core::denoiser::Model;
use dyweight_core::error::{Error, Result};
use dyweight_core::option;
use dyweight_files::read_file;
use dyweight_sample::comm::{Comm, Solo};
use dyweight_solvers::solver_file::SolverFile;
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use dyweight_study::training_loss;
use dyweight_train::{
    Event, Files, Iteration, Outputs, RENAMED, StartSearch, TrainConfig, TrainRun, TrainSpec, TrainWatch, Trainer,
    Training, beside, run_each,
};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A run, as Python asks for it. Training's own options are the library's.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Request {
    nfe: Option<usize>,
    steps: Option<usize>,
    /// Options of [`TrainSpec`] and [`ScheduleSpec`], by their names in files.
    options: serde_json::Map<String, Value>,
    out: Option<PathBuf>,
    cache: Option<PathBuf>,
    resume: bool,
    overwrite: bool,
    trace: Option<PathBuf>,
    snapshot_seconds: Option<f64>,
}

/// Names of an option list, as files spell them.
fn keys<T: serde::Serialize + Default>() -> Vec<String> {
    match serde_json::to_value(T::default()) {
        Ok(Value::Object(map)) => map.into_iter().map(|(key, _)| key).collect(),
        _ => Vec::new(),
    }
}

/// What training and schedules can be told; older names of options are understood too.
#[pyfunction]
pub fn option_names() -> Vec<String> {
    let older = RENAMED.iter().map(|(old, _)| old.to_string()).collect();
    [keys::<TrainSpec>(), keys::<ScheduleSpec>(), older].concat()
}

/// Options, of which none must be given; an error names the one that cannot be read.
fn options<T: serde::de::DeserializeOwned>(given: serde_json::Map<String, Value>) -> Result<T> {
    let read = |given: serde_json::Map<_, _>| serde_json::from_value::<T>(Value::Object(given));
    let alone = |(key, value): (&String, &Value)| {
        let error = read([(key.clone(), value.clone())].into_iter().collect()).err()?;
        let said = value.as_str().map_or_else(|| value.to_string(), String::from);
        Some(Error::conflict(format!("{}: {error}", option::with(key, &said)), format!("give another `{key}`")))
    };
    read(given.clone()).map_err(|error| given.iter().find_map(alone).unwrap_or_else(|| unread("train", &error)))
}

impl Request {
    fn read(text: &str) -> Result<Self> {
        options(serde_json::from_str(text).map_err(|e| unread("train", &e))?)
    }

    fn budget(&self) -> Result<Budget> {
        match (self.nfe, self.steps) {
            (Some(nfe), None) => Ok(Budget::Nfe(nfe)),
            (None, Some(steps)) => Ok(Budget::Steps(steps)),
            _ => Err(Error::conflict(
                "how many network calls?",
                "give either nfe (network calls) or steps (intervals of the grid)",
            )),
        }
    }

    fn config(&self, model: &Arc<PythonModel>, comm: Arc<dyn Comm>) -> Result<TrainConfig> {
        let schedules = keys::<ScheduleSpec>();
        let (schedule, train): (serde_json::Map<_, _>, _) =
            self.options.clone().into_iter().partition(|(key, _)| schedules.contains(key));
        let (spec, schedule): (TrainSpec, ScheduleSpec) = (options(train)?, options(schedule)?);
        let shared: Arc<dyn Model> = model.clone();
        let loss = training_loss(&spec, &shared)?;
        let seconds = |seconds| {
            let bad = |e: std::time::TryFromFloatSecsError| {
                Error::bad_value("snapshot-seconds", format!("{seconds}"), e.to_string())
            };
            Duration::try_from_secs_f64(seconds).map_err(bad)
        };
        Ok(TrainConfig {
            arithmetic: Some(model.arithmetic()),
            schedule,
            comm,
            cache: self.cache.clone(),
            files: self.out.as_deref().map(Files::beside),
            resume: self.resume && !self.overwrite,
            between_snapshots: self.snapshot_seconds.map(seconds).transpose()?,
            ..TrainConfig::new(shared, model.identity(), self.budget()?, spec, loss)
        })
    }
}

/// What a run will do, before it does anything: steps, calls, iterations, pairs.
#[pyfunction]
pub fn plan(py: Python<'_>, model: &Bound<'_, PyAny>, request: &str) -> PyResult<String> {
    let model = PythonModel::new(model)?;
    let find = || {
        let request = Request::read(request)?;
        let trainer = request.config(&model, Arc::new(Solo))?.prepare()?;
        let (plan, mut work) = (&trainer.plan, trainer.work()?);
        if plan.recipe.validate_every.is_some() {
            work.calls += trainer.calls_of_search(plan.student.frame.nfe)?;
        }
        Ok(json!({
            "nfe": plan.student.frame.nfe, "steps": plan.student.frame.grid.steps(),
            "afs": plan.student.frame.afs, "iterations": trainer.iterations(), "pairs": plan.recipe.pairs,
            "micro_batch": plan.recipe.micro_batch, "validation_pairs": plan.recipe.validation_pairs,
            "validate_every": plan.recipe.validate_every, "calls": work.calls, "gradients": work.gradients,
            "teacher_evaluations": trainer.teacher.sampler.states() - 1,
            "recompute": plan.student.memory == dyweight_core::tape::Memory::Recompute,
        })
        .to_string())
    };
    py.detach(find).map_err(|e| raised(py, e, None))
}

/// Trains, and returns the text of the solver. `watch(index, iterations, loss, rate, norm, validation, event)` sees
/// every iteration.
#[pyfunction]
pub fn train(
    py: Python<'_>,
    model: &Bound<'_, PyAny>,
    request: &str,
    comm: Option<&Bound<'_, PyAny>>,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (model, comm) = (PythonModel::new(model)?, processes(comm)?);
    let made = AtomicUsize::new(0);
    let learn = || {
        let request = Request::read(request)?;
        let run = request.run(request.config(&model, comm)?.prepare()?)?;
        let mut listener = Listener { watch: watch.as_ref(), made: &made, iterations: run.trainer.iterations() };
        let file = solver_of(&run, &mut listener)?;
        let warnings: Vec<String> = run.trainer.warnings.iter().cloned().chain(file.without_gain()).collect();
        Ok((file, warnings))
    };
    let (file, warnings) = py.detach(learn).map_err(|e| {
        let made = made.load(Ordering::Relaxed);
        raised(py, e, (made > 0).then(|| format!("after {made} iterations of training")))
    })?;
    warn(py, &warnings)?;
    Ok(String::from_utf8_lossy(&file.to_bytes()).into_owned())
}

fn show(watch: &Py<PyAny>, iteration: &Iteration, all: usize) -> PyResult<()> {
    let validation = iteration.validation.map(|v| v.loss);
    let event = iteration.validation.map(|v| match v.event {
        Event::Best => "best",
        Event::None => "none",
        Event::RolledBack => "rolled back",
    });
    Python::attach(|py| {
        py.check_signals()?;
        let told = (iteration.index, all, iteration.loss, iteration.rate, iteration.norm, validation, event);
        watch.call1(py, told).map(drop)
    })
}

/// Tells Python of every iteration. What it raises stops the run.
struct Listener<'l> {
    watch: Option<&'l Py<PyAny>>,
    made: &'l AtomicUsize,
    iterations: usize,
}

impl TrainWatch for Listener<'_> {
    fn settled(&mut self, trainer: &Trainer, _: Option<&StartSearch>) {
        self.iterations = trainer.iterations();
    }

    fn iteration(&mut self, iteration: &Iteration, _: &Training) -> Result<()> {
        self.made.store(iteration.index + 1, Ordering::Relaxed);
        self.watch.map_or(Ok(()), |watch| show(watch, iteration, self.iterations)).map_err(foreign)
    }
}

impl Request {
    /// The run with its files: those of the command, but for the configuration, which is JSON here.
    fn run(&self, trainer: Trainer) -> Result<TrainRun> {
        let (frame, config) = (&trainer.plan.student.frame, trainer.config());
        let text = json!({
            "run": trainer.name(), "model": config.identity, "shape": config.model.shape(), "steps": frame.grid.steps(),
            "sigmas": frame.grid.sigmas(), "options": trainer.plan.resolved,
        });
        let config = self.out.as_deref().map(|out| (beside(out, "config.json"), format!("{text:#}\n")));
        let Self { out, trace, overwrite, .. } = self;
        let run = TrainRun::new(
            trainer,
            Outputs { out: out.clone(), config, trace: trace.clone(), overwrite: *overwrite, judged: true },
        )?;
        if run.trainer.config().comm.is_root() {
            run.keep_finished()?;
        }
        Ok(run)
    }
}

/// What a run finds, or a finished one has left.
fn solver_of(run: &TrainRun, listener: &mut Listener<'_>) -> Result<SolverFile> {
    let mut solver = None;
    run_each(&[run], None, &mut |_, dataset| {
        solver = Some(match (dataset, run.out()) {
            (Some(dataset), _) => {
                let (_, outcome) = run.run(dataset, listener)?;
                run.finish()?;
                outcome.file
            }
            (None, Some(out)) => found(&run.trainer.config().comm, out)?,
            (None, None) => return Ok(()),
        });
        Ok(())
    })?;
    solver.ok_or(Error::Cancelled)
}

/// The solver a finished run has left.
fn found(comm: &Arc<dyn Comm>, out: &Path) -> Result<SolverFile> {
    let read = || Ok(read_file(out, 64 << 20)?.to_vec());
    let bytes: Vec<u8> = comm.broadcast(read)?;
    SolverFile::parse(&bytes).map_err(|problem| Error::malformed(out, problem))
}
