//! Learning a solver for a model in Python: the same options, defaults, files and results as `dyweight train`.

use crate::error::{foreign, raised, warn};
use crate::model::{PythonModel, unread};
use crate::processes::processes;
use dyweight_core::denoiser::Model;
use dyweight_core::error::{Error, Result, shown};
use dyweight_files::{Lock, atomic, read_file};
use dyweight_sample::comm::{Comm, Solo};
use dyweight_solvers::solver_file::SolverFile;
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use dyweight_study::training_loss;
use dyweight_train::{Event, Files, Iteration, Trace, TrainConfig, TrainSpec, Trainer, beside, remove_state};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::ops::ControlFlow;
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

/// What training and schedules can be told.
#[pyfunction]
pub fn option_names() -> Vec<String> {
    [keys::<TrainSpec>(), keys::<ScheduleSpec>()].concat()
}

impl Request {
    fn read(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| unread("train", &e))
    }

    fn budget(&self) -> Result<Budget> {
        match (self.nfe, self.steps) {
            (Some(nfe), None) => Ok(Budget::Nfe(nfe)),
            (None, Some(steps)) => Ok(Budget::Steps(steps)),
            _ => Err(Error::Conflict {
                problem: "how many network calls?".into(),
                hint: "give either nfe (network calls) or steps (intervals of the grid)".into(),
            }),
        }
    }

    fn config(&self, model: &Arc<PythonModel>, comm: Arc<dyn Comm>) -> Result<TrainConfig> {
        let schedules = keys::<ScheduleSpec>();
        let (schedule, train): (serde_json::Map<_, _>, _) =
            self.options.clone().into_iter().partition(|(key, _)| schedules.contains(key));
        let spec: TrainSpec = serde_json::from_value(Value::Object(train)).map_err(|e| unread("train", &e))?;
        let schedule = serde_json::from_value(Value::Object(schedule)).map_err(|e| unread("schedule", &e))?;
        let shared: Arc<dyn Model> = model.clone();
        let loss = training_loss(&spec, &shared)?;
        let seconds = |seconds| {
            let bad = |e: std::time::TryFromFloatSecsError| Error::BadValue {
                name: "snapshot-seconds",
                value: format!("{seconds}"),
                expected: e.to_string(),
            };
            Duration::try_from_secs_f64(seconds).map_err(bad)
        };
        Ok(TrainConfig {
            arithmetic: Some(model.arithmetic()),
            schedule,
            comm,
            cache: self.cache.clone(),
            files: self.out.as_deref().map(Files::beside),
            resume: self.resume,
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
        let (plan, config) = (&trainer.plan, trainer.config());
        let teacher = config.spec.teacher(&*model, plan)?;
        Ok(json!({
            "nfe": plan.student.frame.nfe, "steps": plan.student.frame.grid.steps(),
            "afs": plan.student.frame.afs, "iterations": trainer.iterations(), "pairs": plan.recipe.pairs,
            "micro_batch": plan.recipe.micro_batch, "validation_pairs": plan.recipe.validation_pairs,
            "validate_every": plan.recipe.validate_every,
            "teacher_evaluations": teacher.sampler.states() - 1,
            "recompute": plan.student.memory == dyweight_core::tape::Memory::Recompute,
        })
        .to_string())
    };
    py.detach(find).map_err(|e| raised(py, e, None))
}

/// Trains, and returns the text of the solver. `watch(index, iterations, loss, rate, norm, validation, event)` sees every iteration.
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
        let job = Job::new(&request, request.config(&model, comm)?.prepare()?)?;
        let file = job.run(&mut |iteration| {
            made.store(iteration.index + 1, Ordering::Relaxed);
            match watch.as_ref().map_or(Ok(()), |watch| show(watch, iteration, job.trainer.iterations())) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(foreign(error)),
            }
        })?;
        Ok((file, job.trainer.warnings.clone()))
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

/// A run and its files: those of the command, but for the configuration, which is JSON here.
struct Job<'j> {
    request: &'j Request,
    trainer: Trainer,
    /// What the run was resolved to, to know it again.
    config: String,
}

impl<'j> Job<'j> {
    /// Refuses what is in the way before anything is written.
    fn new(request: &'j Request, trainer: Trainer) -> Result<Self> {
        let frame = &trainer.plan.student.frame;
        let config = json!({
            "model": trainer.config().identity, "shape": trainer.config().model.shape(), "steps": frame.grid.steps(),
            "sigmas": frame.grid.sigmas(), "options": trainer.plan.resolved,
        });
        let job = Self { request, config: format!("{config:#}\n"), trainer };
        if let (Some(out), true) = (&request.out, job.is_root()) {
            job.check(out)?;
        }
        Ok(job)
    }

    fn is_root(&self) -> bool {
        self.trainer.config().comm.is_root()
    }

    fn check(&self, out: &Path) -> Result<()> {
        let state = Files::beside(out).state;
        let conflict = |problem: String, hint: &str| Err(Error::Conflict { problem, hint: hint.into() });
        match (self.request.resume, state.exists()) {
            _ if self.request.overwrite => Ok(()),
            (true, true) => self.trainer.check_state(&state),
            (false, true) => conflict(
                format!("{} holds an interrupted run", shown(&state)),
                "resume=True continues it, overwrite=True starts anew",
            ),
            (resume, false) if out.exists() && !(resume && self.is_finished(out)) => {
                conflict(format!("{} is there already", shown(out)), "choose another out, or overwrite=True")
            }
            _ => Ok(()),
        }
    }

    /// True if this very run has left its solver.
    fn is_finished(&self, out: &Path) -> bool {
        let same = std::fs::read_to_string(beside(out, "config.json")).is_ok_and(|found| found == self.config);
        same && out.exists() && !Files::beside(out).state.exists()
    }

    fn run(&self, watch: &mut dyn FnMut(&Iteration) -> ControlFlow<Error>) -> Result<SolverFile> {
        let Request { out, trace, resume, overwrite, .. } = self.request;
        let comm = self.trainer.config().comm.clone();
        if let Some(out) = out {
            let finished = || Ok(*resume && !overwrite && self.is_finished(out));
            if comm.broadcast(finished)? {
                return found(&comm, out);
            }
        }
        let mine = out.as_deref().filter(|_| comm.is_root());
        let _lock = mine.map(Lock::file).transpose()?;
        if let Some(out) = mine {
            if *overwrite {
                let _ = std::fs::remove_file(Files::beside(out).state);
            }
            atomic::write(&beside(out, "config.json"), self.config.as_bytes())?;
        }
        let dataset = self.trainer.dataset()?;
        let settled = self.trainer.settled(&dataset, &mut |_| {})?;
        let trainer = settled.as_ref().map_or(&self.trainer, |(trainer, _)| trainer);
        let mut noted = trace.as_ref().map(|_| trainer.begin(&dataset)).transpose()?.map(|r| Trace::start(&r));
        let trained = trainer.run(&dataset, &mut |iteration, run| {
            if let Some(noted) = &mut noted {
                noted.add(iteration, run);
            }
            watch(iteration)
        })?;
        // No process returns before the files are there: it may look for them.
        comm.broadcast(|| {
            if let (Some(noted), Some(trace)) = (noted, trace) {
                noted.write(trace)?;
            }
            if let Some(out) = mine {
                atomic::write(out, &trained.file.to_bytes())?;
                remove_state(&Files::beside(out))?;
            }
            Ok(true)
        })?;
        Ok(trained.file)
    }
}

/// The solver a finished run has left.
fn found(comm: &Arc<dyn Comm>, out: &Path) -> Result<SolverFile> {
    let read = || Ok(read_file(out, 64 << 20)?.to_vec());
    let bytes: Vec<u8> = comm.broadcast(read)?;
    SolverFile::parse(&bytes).map_err(|problem| Error::malformed(out, problem))
}
