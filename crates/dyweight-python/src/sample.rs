//! Samples of a model in Python.

use crate::error::{foreign, raised};
use crate::model::{PythonModel, unread};
use crate::payload::{batch, numbers, sent};
use crate::solver::{Ready, parsed, ready};
use dyweight_core::denoiser::{Condition, Context, Model};
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Rng;
use dyweight_core::sample::{self as loops, Plan, State};
use dyweight_core::tensor::Tensor;
use dyweight_solvers::spec::budget::Setting;
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use dyweight_study::benchmark::Term;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::ops::ControlFlow;

/// What samples are made by.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Request {
    /// The text of a solver file.
    file: Option<String>,
    /// A handcrafted solver, as comparisons write it.
    term: Option<String>,
    nfe: Option<usize>,
    steps: Option<usize>,
    afs: bool,
    denoise_to_zero: bool,
    schedule: ScheduleSpec,
    /// The condition of each sample, none for what is asked without one.
    conditions: Option<Vec<Option<usize>>>,
    guidance: Option<f64>,
    batch: Option<usize>,
}

/// Carries unit noise to samples; returns them and the network calls one took. `watch(first, index, sigma, x, calls)` sees every state.
#[pyfunction]
pub fn sample<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyAny>,
    request: &str,
    noise: &Bound<'py, PyByteArray>,
    watch: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyByteArray>, usize)> {
    let model = PythonModel::new(model)?;
    let numbers = numbers(&noise.to_vec());
    let work = || drawn(&model, request, numbers, watch.as_ref());
    let (samples, nfe) = py.detach(work).map_err(|e| raised(py, e, None))?;
    Ok((sent(py, samples.data()), nfe))
}

fn drawn(model: &PythonModel, request: &str, noise: Vec<f64>, watch: Option<&Py<PyAny>>) -> Result<(Tensor, usize)> {
    let request: Request = serde_json::from_str(request).map_err(|e| unread("sample", &e))?;
    let noise = batch(model.shape(), noise)?;
    let Ready { solver, times, afs, denoise_to_zero } = request.ready(model)?;
    let plan = Plan { solver: &*solver, times, afs, denoise_to_zero };
    let size = request.batch.unwrap_or(noise.samples()).max(1);
    let (mut parts, mut nfe) = (Vec::new(), 0);
    for first in (0..noise.samples()).step_by(size) {
        let last = (first + size).min(noise.samples());
        let denoiser = model.denoiser(&request.condition(first..last, noise.samples())?)?;
        let outcome = loops::sample(&*denoiser, &plan, &noise.slice(first..last), &mut |state| match watch
            .map_or(Ok(()), |watch| show(watch, first, state))
        {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(foreign(error)),
        })?;
        (parts, nfe) = ([parts, vec![outcome.samples]].concat(), outcome.nfe);
    }
    Ok((Tensor::concat(&parts)?, nfe))
}

fn show(watch: &Py<PyAny>, first: usize, state: &State<'_>) -> PyResult<()> {
    Python::attach(|py| {
        let x = sent(py, state.x.tensor().data());
        watch.call1(py, (first, state.index, state.sigma, x, state.calls)).map(drop)
    })
}

impl Request {
    fn ready(&self, model: &PythonModel) -> Result<Ready> {
        match (&self.file, &self.term) {
            (Some(text), _) => {
                let file = parsed(text)?;
                if file.prediction != model.prediction() {
                    return Err(Error::Conflict {
                        problem: "the solver was learned for a model that predicts another quantity".into(),
                        hint: "coefficients of flows work on flows alone, those of denoisers on denoisers".into(),
                    });
                }
                ready(&file)
            }
            (None, Some(term)) => self.handcrafted(model, &Term::parse(term)?),
            (None, None) => Err(no_budget()),
        }
    }

    fn handcrafted(&self, model: &PythonModel, term: &Term) -> Result<Ready> {
        let solver = term.solver.build(model.is_bounded())?;
        let spec = term.grid(&self.schedule);
        let (prediction, afs) = (model.prediction(), term.afs.unwrap_or(self.afs));
        let schedule = spec.build(prediction)?;
        let range = spec.range(&schedule, model.sigma_range());
        let denoise_to_zero = self.denoise_to_zero;
        let calls = model.denoiser(&self.condition(0..1, 1)?)?.calls();
        let setting = Setting { solver: &*solver, schedule: &schedule, range, afs, denoise_to_zero, prediction, calls };
        let grid = match (self.nfe, self.steps, schedule.fixed_steps()) {
            (Some(nfe), None, _) => setting.grid(Budget::Nfe(nfe)),
            (None, Some(steps), _) | (None, None, Some(steps)) => setting.grid(Budget::Steps(steps)),
            _ => Err(no_budget()),
        }?;
        Ok(Ready { solver, times: grid.coeffs(), afs, denoise_to_zero })
    }

    /// What samples `range` of `count` are asked for.
    fn condition(&self, range: std::ops::Range<usize>, count: usize) -> Result<Condition> {
        let Some(all) = &self.conditions else { return Ok(Condition::default().guided(self.guidance)) };
        let context = |i: usize| all[i].map_or(Context::Unconditional, Context::Class);
        if all.len() < count {
            let what = "conditions: one for each sample".into();
            return Err(Error::Shape { what, expected: vec![count], found: vec![all.len()] });
        }
        Ok(Condition { contexts: range.map(context).collect(), guidance: self.guidance, ..Condition::default() })
    }
}

fn no_budget() -> Error {
    Error::Conflict {
        problem: "how many steps?".into(),
        hint: "give a learned solver, or the name of a method with nfe (network calls) or steps (intervals)".into(),
    }
}

/// Unit noise of seeds, as the command draws it.
#[pyfunction]
pub fn noise<'py>(py: Python<'py>, seeds: Vec<u64>, shape: [usize; 3], rng: &str) -> PyResult<Bound<'py, PyByteArray>> {
    let rng = named(rng).map_err(|e| raised(py, e, None))?;
    let noise = py.detach(|| rng.latents(&seeds, shape)).map_err(|e| raised(py, e, None))?;
    Ok(sent(py, noise.data()))
}

/// A noise stream by its name.
pub fn named(rng: &str) -> Result<Rng> {
    match rng {
        "native" => Ok(Rng::Native),
        "torch" => Ok(Rng::Torch),
        other => {
            let known = ["native", "torch"].map(String::from).to_vec();
            Err(Error::UnknownName { kind: "noise stream", name: other.into(), known })
        }
    }
}
