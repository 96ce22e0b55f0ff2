//! The one sampling loop: noise → solver → samples.

use crate::coeff::Coeff;
use crate::denoiser::{Denoiser, Prediction};
use crate::error::{Error, Result};
use crate::path::{Fault, Path, Query, Sample};
use crate::schedule::Grid;
use crate::solver::Solver;
use crate::tensor::Tensor;
use std::ops::ControlFlow;

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
        let times = grid.sigmas().iter().map(|s| Coeff::from(*s)).collect();
        Self { solver, times, afs: false, denoise_to_zero: false }
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
    pub x: &'s Sample,
    /// Network calls made so far.
    pub calls: usize,
}

/// Sees every state; `Break` cancels the run at that state.
pub type Observer<'o> = dyn FnMut(&State<'_>) -> ControlFlow<()> + 'o;

/// What sampling gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The samples.
    pub samples: Tensor,
    /// Network calls made.
    pub nfe: usize,
}

/// Carries unit noise to samples.
pub fn sample(model: &dyn Denoiser, plan: &Plan<'_>, noise: &Tensor, observer: &mut Observer<'_>) -> Result<Outcome> {
    let mut path = Path::sampling(model).analytic_first(plan.afs);
    let x = integrate(&mut path, plan, noise.clone(), observer)?;
    Ok(Outcome { samples: x.tensor().clone(), nfe: path.calls() })
}

/// The loop itself, on any path: recording or not.
pub fn integrate(path: &mut Path<'_>, plan: &Plan<'_>, noise: Tensor, observer: &mut Observer<'_>) -> Result<Sample> {
    noise.require_finite("latents")?;
    let (times, steps) = (&plan.times, plan.times.len() - 1);
    check_ends(path.prediction(), plan)?;
    let mut run = plan.solver.begin(times, path.prediction())?;
    let noise = path.start(noise);
    let mut x = path.combine(&[(times[0].clone(), &noise)])?;
    let mut show = |path: &Path<'_>, index: usize, x: &Sample| {
        let sigma = times[index.min(steps)].value();
        check_numbers(plan.solver, index, sigma, x)?;
        match observer(&State { index, sigma, x, calls: path.calls() }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    };
    show(path, 0, &x)?;
    for i in 0..steps {
        x = run.step(path, i, x).map_err(|e| placed(e, plan.solver, i, path))?;
        show(path, i + 1, &x)?;
    }
    if plan.denoise_to_zero {
        x = path.denoised(&x, &Query::at(&times[steps])).map_err(|e| placed(e, plan.solver, steps, path))?;
        show(path, steps + 1, &x)?;
    }
    Ok(x)
}

/// Network calls a plan makes for a kind of prediction, found by making them on a model that costs nothing.
pub fn count_calls(plan: &Plan<'_>, prediction: Prediction) -> Result<usize> {
    struct Free(Prediction);
    impl Denoiser for Free {
        fn predict(&self, x: &Tensor, _: &crate::denoiser::Levels) -> Result<Tensor> {
            Ok(x.map(|v| 0.5 * v))
        }
        fn prediction(&self) -> Prediction {
            self.0
        }
        fn sigma_range(&self) -> (f64, f64) {
            (0.0, f64::INFINITY)
        }
    }
    let outcome = sample(&Free(prediction), plan, &Tensor::zeros([1, 1, 1, 1]), &mut |_| ControlFlow::Continue(()))?;
    Ok(outcome.nfe)
}

fn check_ends(prediction: Prediction, plan: &Plan<'_>) -> Result<()> {
    let (first, last) = (plan.times[0].value(), plan.times[plan.times.len() - 1].value());
    if prediction == Prediction::Velocity && first > 1.0 {
        let expected = "a velocity model's levels run from 1 to 0".into();
        return Err(Error::BadValue { name: "sigma-max", value: first.to_string(), expected });
    }
    if plan.denoise_to_zero && last == 0.0 {
        return Err(Error::Conflict {
            problem: "denoise-to-zero on a grid that already ends at sigma 0".into(),
            hint: "leave --denoise-to-zero out, or end the grid above 0".into(),
        });
    }
    Ok(())
}

/// Says where a prediction without numbers was met; other errors are passed on.
fn placed(error: Error, solver: &dyn Solver, step: usize, path: &Path<'_>) -> Error {
    let Some(Fault { level: sigma, sample, value }) = path.fault() else { return error };
    Error::Diverged { solver: solver.label(), step, sigma, tensor: "the network's output", sample, value }
}

fn check_numbers(solver: &dyn Solver, index: usize, sigma: f64, x: &Sample) -> Result<()> {
    let Some((at, value)) = x.tensor().first_not_finite() else { return Ok(()) };
    let sample = at / x.tensor().sample_len().max(1);
    let step = index.saturating_sub(1);
    Err(Error::Diverged { solver: solver.label(), step, sigma, tensor: "the state", sample, value })
}
