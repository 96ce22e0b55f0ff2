//! Samples of a model in Python.

use crate::error::{foreign, raised, warn};
use crate::model::{PythonModel, unread};
use crate::payload::{batch, numbers, sent};
use crate::solver::{parsed, single};
use dyweight_core::denoiser::Model;
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Rng;
use dyweight_core::sample::State;
use dyweight_core::tensor::Tensor;
use dyweight_sample::comm::Solo;
use dyweight_sample::{Drawing, Inputs, Learned, Noise, OnModel, SampleSpec, Sampler, Show, Who, misfits};
use dyweight_solvers::spec::{Budget, ScheduleSpec, SolverSpec};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

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

/// Carries unit noise to samples; returns them and the network calls one took. Warns where the solver was learned for
/// another run. `watch(first, index, sigma, x, calls)` sees every state.
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
    let (samples, nfe, misfits) = py.detach(work).map_err(|e| raised(py, e, None))?;
    warn(py, &misfits)?;
    Ok((sent(py, samples.data()), nfe))
}

fn drawn(
    model: &PythonModel,
    request: &str,
    noise: Vec<f64>,
    watch: Option<&Py<PyAny>>,
) -> Result<(Tensor, usize, Vec<String>)> {
    let request: Request = serde_json::from_str(request).map_err(|e| unread("sample", &e))?;
    let inputs = request.inputs(model, batch(model.shape(), noise)?)?;
    let (sampler, misfits) = request.sampler(model, &inputs)?;
    let wanted: Vec<usize> = (0..inputs.noise.count().unwrap_or(0)).collect();
    let size = request.batch.unwrap_or(wanted.len()).max(1);
    let drawing = Drawing { model, inputs: &inputs, sampler: &sampler, batch: size, comm: &Solo };
    let shown = |indices: &[usize], state: &State<'_>| {
        watch.map_or(Ok(()), |watch| show(watch, indices[0], state)).map_err(foreign)
    };
    let mut parts = Vec::new();
    drawing.draw(&wanted, false, &shown, &mut |_, states| {
        parts.extend(states.last().cloned());
        Ok(())
    })?;
    Ok((Tensor::concat(&parts)?, sampler.nfe, misfits))
}

fn show(watch: &Py<PyAny>, first: usize, state: &State<'_>) -> PyResult<()> {
    Python::attach(|py| {
        let x = sent(py, state.x.tensor().data());
        watch.call1(py, (first, state.index, state.sigma, x, state.calls)).map(drop)
    })
}

impl Request {
    /// The solver, and in what the model is not the one it was learned for.
    fn sampler(&self, model: &PythonModel, inputs: &Inputs) -> Result<(Sampler, Vec<String>)> {
        let calls = model.denoiser(&inputs.condition(0..1))?.info().calls;
        let on = OnModel { model, identity: model.identity(), calls };
        if let Some(text) = &self.file {
            let file = single(parsed(text)?)?;
            let sampler = SampleSpec::default().sampler(Who::Learned(&Learned::of("the solver", file.clone())), &on)?;
            let grid = (sampler.afs, &sampler.grid);
            let mut found = misfits(&file, (model, &on.identity), self.guidance, grid);
            found.extend(file.without_gain());
            return Ok((sampler, found));
        }
        let Some(solver) = self.term.as_deref().map(SolverSpec::named) else { return Err(no_budget()) };
        let fixed = self.schedule.sigmas.is_some();
        let budget = match (self.nfe, self.steps) {
            (Some(nfe), None) => Some(Budget::Nfe(nfe)),
            (None, Some(steps)) => Some(Budget::Steps(steps)),
            (None, None) if fixed => None,
            _ => return Err(no_budget()),
        };
        let (schedule, afs, denoise_to_zero) = (self.schedule.clone(), self.afs, self.denoise_to_zero);
        let spec = SampleSpec { budget, schedule, afs, denoise_to_zero };
        Ok((spec.sampler(Who::Handcrafted(&solver), &on)?, Vec::new()))
    }

    /// What samples begin with, and what they are asked for.
    fn inputs(&self, model: &PythonModel, noise: Tensor) -> Result<Inputs> {
        let count = noise.samples();
        let show = match &self.conditions {
            Some(all) if all.len() < count => {
                let what = "conditions: one for each sample".into();
                return Err(Error::Shape { what, expected: vec![count], found: vec![all.len()] });
            }
            Some(all) => Show::Each(all.clone()),
            None => Show::Anything,
        };
        let (noise, shape, guidance) = (Noise::Latents(noise), model.shape(), self.guidance);
        Ok(Inputs { noise, shape, classes: model.classes(), show, guidance })
    }
}

fn no_budget() -> Error {
    Error::conflict(
        "how many steps?",
        "give a learned solver, or the name of a method with nfe (network calls) or steps (intervals)",
    )
}

/// Unit noise of seeds, as the command draws it.
#[pyfunction]
pub fn noise<'py>(py: Python<'py>, seeds: Vec<u64>, shape: [usize; 3], rng: &str) -> PyResult<Bound<'py, PyByteArray>> {
    let rng = Rng::named(rng).map_err(|e| raised(py, e, None))?;
    let noise = py.detach(|| rng.latents(&seeds, shape)).map_err(|e| raised(py, e, None))?;
    Ok(sent(py, noise.data()))
}
