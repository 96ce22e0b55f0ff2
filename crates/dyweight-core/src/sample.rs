//! The one sampling loop: noise → solver → samples.
//!
//! ```
//! use dyweight_core::mixture::Mixture;
//! use dyweight_core::noise::Rng;
//! use dyweight_core::sample::{Plan, sample};
//! use dyweight_core::schedule::Schedule;
//! use dyweight_core::solver::Ipndm;
//! let (model, solver) = (Mixture::spiral(), Ipndm::new(3)?);
//! let grid = Schedule::Karras { rho: 7.0 }.grid(9, (0.002, 80.0))?;
//! let noise = Rng::Native.latents(&[0, 1, 2], [2, 1, 1])?;
//! let outcome = sample(&model, &Plan::new(&solver, &grid), &noise)?;
//! assert_eq!((outcome.samples.samples(), outcome.nfe), (3, 9));
//! # Ok::<(), dyweight_core::Error>(())
//! ```

use crate::coeff::Coeff;
use crate::denoiser::{Denoiser, Embedding, Info, Levels, Prediction};
use crate::error::{Error, Result};
use crate::schedule::Grid;
use crate::solver::Solver;
use crate::tape::{Fault, Tape, Var};
use crate::tensor::Tensor;
use std::sync::Mutex;

/// How a batch is carried from noise to samples.
pub struct Plan<'p> {
    /// The method.
    pub solver: &'p dyn Solver,
    /// The grid, as coefficients: constants unless it is being learned.
    pub times: Vec<Coeff>,
    /// Answer the first evaluation analytically.
    pub afs: bool,
    /// Replace the result by its data prediction: one more call, one more state.
    pub denoise_to_zero: bool,
}

impl<'p> Plan<'p> {
    /// A plan on a fixed grid, without extras.
    pub fn new(solver: &'p dyn Solver, grid: &Grid) -> Self {
        Self { solver, times: grid.coeffs(), afs: false, denoise_to_zero: false }
    }

    /// Switches the analytical first step.
    pub fn afs(mut self, on: bool) -> Self {
        self.afs = on;
        self
    }

    /// Switches the final denoising.
    pub fn denoise_to_zero(mut self, on: bool) -> Self {
        self.denoise_to_zero = on;
        self
    }
}

/// A state of a run, shown to an observer as soon as it is reached.
pub struct State<'s> {
    /// 0 is the start; with the final denoising there is one more than the grid has points.
    pub index: usize,
    /// Nominal noise level.
    pub sigma: f64,
    /// The batch.
    pub x: &'s Var,
    /// Network calls made so far.
    pub calls: usize,
}

/// Sees every state; an error ends the run at that state, and is the run's.
pub type Observer<'o> = dyn FnMut(&State<'_>) -> Result<()> + 'o;

/// What sampling gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The samples.
    pub samples: Tensor,
    /// Network calls made.
    pub nfe: usize,
    /// The same with calls that could be made side by side counted once.
    pub sequential_calls: usize,
}

/// Carries unit noise to samples.
pub fn sample(model: &dyn Denoiser, plan: &Plan<'_>, noise: &Tensor) -> Result<Outcome> {
    sample_observed(model, plan, noise, &mut |_| Ok(()))
}

/// The same with every state shown as soon as it is reached.
pub fn sample_observed(
    model: &dyn Denoiser,
    plan: &Plan<'_>,
    noise: &Tensor,
    observer: &mut Observer<'_>,
) -> Result<Outcome> {
    let mut tape = Tape::sampling(model).analytic_first(plan.afs);
    let noise = tape.start(noise.clone());
    let x = integrate(&mut tape, plan, &noise, observer)?;
    Ok(Outcome { samples: x.tensor().clone(), nfe: tape.calls(), sequential_calls: tape.sequential_calls() })
}

/// The loop itself, on any tape, recording or not, from unit noise that is part of it.
pub fn integrate(tape: &mut Tape<'_>, plan: &Plan<'_>, noise: &Var, observer: &mut Observer<'_>) -> Result<Var> {
    let mut x = start(tape, plan, noise)?;
    let (times, steps) = (plan.solver.times(&plan.times), plan.times.len() - 1);
    let mut run = plan.solver.begin(times, tape.prediction())?;
    let mut show = |tape: &Tape<'_>, index: usize, x: &Var| {
        let sigma = times[index.min(steps)].value();
        observer(&State { index, sigma, x, calls: tape.calls() })
    };
    show(tape, 0, &x)?;
    for i in 0..steps {
        x = step(tape, plan, i, |tape| run.step(tape, i, x))?;
        show(tape, i + 1, &x)?;
    }
    if plan.denoise_to_zero {
        x = step(tape, plan, steps, |tape| tape.denoised(&x, &times.query(steps)))?;
        show(tape, steps + 1, &x)?;
    }
    Ok(x)
}

/// The state a run begins with: unit noise at the size of the first time. An error if the plan cannot be run.
pub fn start(tape: &mut Tape<'_>, plan: &Plan<'_>, noise: &Var) -> Result<Var> {
    noise.tensor().require_finite("latents")?;
    if plan.times.len() < 2 {
        let (expected, found) = (vec![2], vec![plan.times.len()]);
        return Err(Error::Shape { what: "times: a run has two or more".into(), expected, found });
    }
    check_ends(tape.prediction(), plan)?;
    require_channels(plan.solver, noise.tensor().shape()[1])?;
    let x = tape.combine(&[(plan.times[0].clone(), noise)])?;
    check_numbers(plan, 0, &x)?;
    Ok(x)
}

/// One step of the loop, made by `make`: errors say where they were met, and the state it ends in has no NaN or
/// infinity.
pub fn step<'m>(
    tape: &mut Tape<'m>,
    plan: &Plan<'_>,
    i: usize,
    make: impl FnOnce(&mut Tape<'m>) -> Result<Var>,
) -> Result<Var> {
    tape.begin_step(i);
    let x = make(tape).map_err(|e| placed(e, plan.solver, i, tape))?;
    check_numbers(plan, i + 1, &x)?;
    Ok(x)
}

/// Network calls a plan makes for a kind of prediction, found by making them on a model that costs nothing.
pub fn count_calls(plan: &Plan<'_>, prediction: Prediction) -> Result<usize> {
    Ok(probe(plan, prediction)?.calls)
}

/// What a plan asks of a network.
pub struct Probed {
    /// Network calls.
    pub calls: usize,
    /// Calls, with those that could be made side by side counted once.
    pub sequential_calls: usize,
    /// The level told at each evaluation; none at an analytical one, and where samples have levels of their own.
    pub levels: Vec<Option<f64>>,
}

/// Runs a plan on a model that costs nothing, and notes what it is asked.
pub fn probe(plan: &Plan<'_>, prediction: Prediction) -> Result<Probed> {
    let free = Free { prediction, asked: Mutex::default() };
    let noise = Tensor::zeros([1, plan.solver.channels().unwrap_or(1), 1, 1]);
    let outcome = sample(&free, plan, &noise)?;
    let asked = free.asked.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let levels = plan.afs.then_some(None).into_iter().chain(asked).collect();
    Ok(Probed { calls: outcome.nfe, sequential_calls: outcome.sequential_calls, levels })
}

/// The model that costs nothing.
struct Free {
    prediction: Prediction,
    asked: Mutex<Vec<Option<f64>>>,
}

impl Denoiser for Free {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        let level = if let Levels::One(level) = levels.parts().0 { Some(*level) } else { None };
        self.asked.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(level);
        Ok(x.map(|v| 0.5 * v))
    }

    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        Ok((self.predict(x, levels)?, vec![vec![0.0; len]; x.samples()]))
    }

    fn info(&self) -> Info {
        Info { embedding: Embedding::Any, ..self.prediction.into() }
    }
}

fn check_ends(prediction: Prediction, plan: &Plan<'_>) -> Result<()> {
    let (first, last) = (plan.times[0].value(), plan.times[plan.times.len() - 1].value());
    if prediction == Prediction::Velocity && first > 1.0 {
        let expected = "a velocity model's levels run from 1 to 0";
        return Err(Error::bad_value("sigma-max", crate::error::number(first), expected));
    }
    if plan.denoise_to_zero && last == 0.0 {
        return Err(Error::conflict(
            "denoise-to-zero on a grid that already ends at sigma 0",
            "leave `denoise-to-zero` out, or end the grid above 0",
        ));
    }
    Ok(())
}

/// An error unless the solver can be used on samples of so many channels.
pub fn require_channels(solver: &dyn Solver, found: usize) -> Result<()> {
    match solver.channels() {
        Some(channels) if channels != found => {
            let what = format!("channels of the samples that {} was learned for", solver.label());
            Err(Error::Shape { what, expected: vec![channels], found: vec![found] })
        }
        _ => Ok(()),
    }
}

/// Says where a prediction without numbers was met; other errors are passed on.
fn placed(error: Error, solver: &dyn Solver, step: usize, tape: &Tape<'_>) -> Error {
    let Some(Fault { level: sigma, sample, value }) = tape.fault() else { return error };
    Error::Diverged { solver: solver.label(), step, sigma, tensor: "the network's output", sample, value }
}

fn check_numbers(plan: &Plan<'_>, index: usize, x: &Var) -> Result<()> {
    let Some((at, value)) = x.tensor().first_not_finite() else { return Ok(()) };
    let (sample, step) = (at / x.tensor().sample_len().max(1), index.saturating_sub(1));
    let sigma = plan.times[index.min(plan.times.len() - 1)].value();
    Err(Error::Diverged { solver: plan.solver.label(), step, sigma, tensor: "the state", sample, value })
}
