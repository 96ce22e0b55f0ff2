//! Fitting time-varying weights to one problem: Adam (Kingma and Ba, 2015) on the terminal error.
//!
//! ```text
//! m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   w ← w − lr·m̂ / (√v̂ + 10⁻⁸)
//! ```
//!
//! with β₁ = 0.9, β₂ = 0.999 and the hats for division by 1 − βᵗ. The last iterate counts, not the best.
//!
//! Not the trainer's Adam: a fit makes thousands of steps of some dozen numbers, so the update is compiled into the
//! loop for each order and instruction set, and the documented records have its rounding.

use super::adams::{AdamsSweep, classical};
use super::options::Settings;
use super::problem::{LinearProblem, Track};

const BETA: (f64, f64) = (0.9, 0.999);

/// Relative errors at t = 1 on one problem, and the fitted weights row by row.
pub(super) struct Fit {
    pub(super) standard: f64,
    pub(super) optimised: f64,
    pub(super) weights: Vec<f64>,
}

/// Runs the standard method of this order, then fits its weights.
pub(super) fn fit(problem: &LinearProblem, track: &Track, order: usize, settings: &Settings) -> Fit {
    with_order(order, FitJob { problem, track, settings })
}

/// Relative error of given weights on a problem.
pub(super) fn evaluate(problem: &LinearProblem, track: &Track, order: usize, weights: &[f64]) -> f64 {
    with_order(order, EvaluateJob { problem, track, weights })
}

/// Relative error of the classical method.
pub(super) fn evaluate_classical(problem: &LinearProblem, track: &Track, order: usize) -> f64 {
    let rows = track.steps + 1 - order;
    let weights: Vec<f64> = super::adams::CLASSICAL[order - 1].repeat(rows);
    evaluate(problem, track, order, &weights)
}

/// Work that is compiled once for each order.
trait OfOrder {
    type Output;
    fn run<const O: usize>(self) -> Self::Output;
}

/// Runs a job with the widest instructions the processor has. They change the speed, not the bits: nothing is
/// fused or reordered.
fn with_order<J: OfOrder>(order: usize, job: J) -> J::Output {
    let arch = pulp::Arch::new();
    match order {
        1 => arch.dispatch(|| job.run::<1>()),
        2 => arch.dispatch(|| job.run::<2>()),
        3 => arch.dispatch(|| job.run::<3>()),
        _ => arch.dispatch(|| job.run::<4>()),
    }
}

struct FitJob<'a> {
    problem: &'a LinearProblem,
    track: &'a Track,
    settings: &'a Settings,
}

impl OfOrder for FitJob<'_> {
    type Output = Fit;

    #[inline(always)]
    fn run<const O: usize>(self) -> Fit {
        let Self { problem, track, settings } = self;
        let states = settings.startup.states(O);
        let mut rows = vec![classical::<O>(); track.steps + 1 - states];
        let mut sweep = AdamsSweep::new(track.steps, states, track.blocks);
        let mut adam = Adam::new(rows.len(), settings.lr);
        let standard = sweep.forward(track, &problem.basis, &rows);
        let mut norm = standard;
        let mut gradient = vec![[0.0; O]; rows.len()];
        for _ in 0..settings.iterations {
            sweep.backward(track, (settings.loss, norm), &rows, &mut gradient);
            adam.step(&mut rows, &gradient);
            norm = sweep.forward(track, &problem.basis, &rows);
        }
        Fit { standard: standard / track.goal, optimised: norm / track.goal, weights: rows.as_flattened().to_vec() }
    }
}

struct EvaluateJob<'a> {
    problem: &'a LinearProblem,
    track: &'a Track,
    weights: &'a [f64],
}

impl OfOrder for EvaluateJob<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<const O: usize>(self) -> f64 {
        let rows = self.weights.as_chunks::<O>().0;
        let states = self.track.steps + 1 - rows.len();
        let mut sweep = AdamsSweep::new(self.track.steps, states, self.track.blocks);
        sweep.forward(self.track, &self.problem.basis, rows) / self.track.goal
    }
}

struct Adam<const O: usize> {
    mean: Vec<[f64; O]>,
    square: Vec<[f64; O]>,
    /// β₁ᵗ and β₂ᵗ.
    powers: (f64, f64),
    lr: f64,
}

impl<const O: usize> Adam<O> {
    fn new(rows: usize, lr: f64) -> Self {
        Self { mean: vec![[0.0; O]; rows], square: vec![[0.0; O]; rows], powers: (1.0, 1.0), lr }
    }

    #[inline(always)]
    fn step(&mut self, weights: &mut [[f64; O]], gradient: &[[f64; O]]) {
        self.powers = (self.powers.0 * BETA.0, self.powers.1 * BETA.1);
        let rate = self.lr / (1.0 - self.powers.0);
        let root = (1.0 - self.powers.1).sqrt();
        let moments = self.mean.as_flattened_mut().iter_mut().zip(self.square.as_flattened_mut());
        for ((w, g), (m, v)) in weights.as_flattened_mut().iter_mut().zip(gradient.as_flattened()).zip(moments) {
            *m = BETA.0 * *m + (1.0 - BETA.0) * g;
            *v = BETA.1 * *v + (1.0 - BETA.1) * g * g;
            *w -= rate * *m / (v.sqrt() / root + 1e-8);
        }
    }
}
