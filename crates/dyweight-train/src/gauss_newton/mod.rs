//! Gauss–Newton without gradients: Levenberg–Marquardt on whole solves, whose Jacobian is made of differences.
//!
//! ```text
//! rᵢ(p)  end of pair i's few-step solve minus the teacher's        ℓ = mean over pairs of |rᵢ|²/D
//! J·ₖ ≈ (r(p + hₖeₖ) − r(p))/hₖ                                    parameters + 1 solves of every training pair,
//!     forward calls only
//! Δ(λ) = −(JᵀJ + λ·max(diag JᵀJ, mean/100))⁻¹Jᵀr                  for every λ of a ladder around the last one
//! p ← p + Δ(λ*)                                                    λ* has the lowest validation loss; p stays where
//!     none is lower
//! ```
//!
//! Why: a few-step solver has some twenty parameters, and the ends of a few solves say how each of them moves a sample.
//! A network's gradient is not needed, so compiled, quantised or remote models can be learned for, in the memory of
//! sampling. Pairs are few and can be learned by heart; so the damping, and when to stop, are up to the validation
//! pairs. Damping: Marquardt (1963). The steps hₖ: `differences.rs`. How many pairs make an iteration: `stages.rs`.
//!
//! Sums are made pair by pair in the order of pairs: the same bits for any batch, thread or process.

mod differences;
mod equations;
mod stages;
#[cfg(test)]
mod tests;

pub use equations::{Equations, losses, normal};

use dyweight_core::error::Result;
use stages::{Stage, stages};
use std::ops::Range;

/// Which pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Those that make the Jacobian.
    Training,
    /// Those that choose the damping and the end.
    Validation,
}

/// Residuals as `[candidate][pair]`; none where a solve has diverged.
pub type Residuals = Vec<Vec<Option<Vec<f64>>>>;

/// What is minimised: ends of few-step solves against the teacher's. The optimiser sees nothing else.
pub trait Solves {
    /// How many pairs there are. Without validation pairs the training pairs judge.
    fn pairs(&self, split: Split) -> usize;

    /// End minus target of some pairs under each candidate, scaled so that the mean square is the loss.
    fn residuals(&mut self, candidates: &[Vec<f64>], split: Split, pairs: Range<usize>) -> Result<Residuals>;

    /// Pairs whose residuals fit into memory under all candidates.
    fn together(&self) -> usize {
        16
    }

    /// Losses as `[candidate][pair]`; infinite where a solve has diverged.
    fn losses(&mut self, candidates: &[Vec<f64>], split: Split, pairs: Range<usize>) -> Result<Vec<Vec<f64>>> {
        Ok(losses(&self.residuals(candidates, split, pairs)?))
    }

    /// Normal equations of each training pair, as [`normal`] makes them of the candidates' residuals; none where a
    /// solve has diverged.
    fn equations(&mut self, candidates: &[Vec<f64>], pairs: Range<usize>, steps: &[f64]) -> Result<PerPair> {
        Ok(normal(&self.residuals(candidates, Split::Training, pairs)?, steps))
    }
}

/// Packed normal equations, pair by pair.
pub type PerPair = Vec<Option<Vec<f64>>>;

/// How long and how carefully.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Most iterations.
    pub iterations: usize,
    /// The first λ.
    pub damping: f64,
    /// The first hₖ.
    pub difference: f64,
    /// Iterations in a row that improve by less than `IMPROVEMENT`, after which it stops.
    pub patience: usize,
    /// Begins with a part of the pairs.
    pub grows: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { iterations: 8, damping: 1e-2, difference: 1e-2, patience: 2, grows: false }
    }
}

/// λ's that are tried, as multiples of the last one.
pub(crate) const LADDER: [f64; 5] = [1e-2, 1e-1, 1.0, 10.0, 100.0];
/// Where no λ was low enough, the next ladder stands this much higher.
const HIGHER: f64 = 1e4;
/// A smaller share of the loss is no progress.
pub(crate) const IMPROVEMENT: f64 = 0.01;
/// Damping stays where it makes a difference.
const BOUNDS: (f64, f64) = (1e-9, 1e9);

/// The state between two iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussNewton {
    /// How long and how carefully.
    pub options: Options,
    /// The best parameters by validation. The start counts.
    pub best: Vec<f64>,
    /// Their validation loss.
    pub best_validation: f64,
    /// That of the start.
    pub initial_validation: f64,
    /// λ.
    pub lambda: f64,
    /// hₖ.
    pub differences: Vec<f64>,
    /// Iterations made.
    pub iteration: usize,
    /// Iterations in a row without progress.
    pub flat: usize,
    /// Which part of the pairs it is at.
    stage: usize,
    /// Iterations made there.
    in_stage: usize,
    /// True if a step was taken there.
    gained: bool,
    /// True if there is no more to be had.
    has_ended: bool,
    /// Solves of one pair made.
    pub solves: usize,
    /// The equations at the best parameters, where they are known already.
    kept: Option<Equations>,
}

/// What one iteration did.
#[derive(Clone, Debug, PartialEq)]
pub struct Iteration {
    /// Its number, from 0.
    pub index: usize,
    /// Training loss before the step; NaN where every solve has diverged.
    pub loss: f64,
    /// Its derivative.
    pub gradient: Vec<f64>,
    /// λ of the best step.
    pub lambda: f64,
    /// The lowest validation loss among the steps; infinite where all have diverged.
    pub validation: f64,
    /// True if the step was taken.
    pub taken: bool,
}

impl GaussNewton {
    /// Begins at some parameters, which are judged.
    pub fn new(start: Vec<f64>, options: Options, solves: &mut dyn Solves) -> Result<Self> {
        let mut all = Self {
            options,
            differences: vec![options.difference; start.len()],
            best: start,
            best_validation: f64::INFINITY,
            initial_validation: f64::INFINITY,
            lambda: options.damping,
            iteration: 0,
            flat: 0,
            stage: 0,
            in_stage: 0,
            gained: false,
            has_ended: false,
            solves: 0,
            kept: None,
        };
        all.initial_validation = all.judge(&[all.best.clone()], solves)?[0];
        all.best_validation = all.initial_validation;
        Ok(all)
    }

    /// The same state with other options.
    pub fn with(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// True when there is nothing left to do.
    pub fn is_finished(&self) -> bool {
        self.iteration >= self.options.iterations || self.has_ended || self.best.is_empty()
    }

    /// One iteration. Of one that fails nothing remains.
    pub fn advance(&mut self, solves: &mut dyn Solves) -> Result<Iteration> {
        let mut next = self.clone();
        let stages = stages(&self.options, solves.pairs(Split::Training));
        let stage = stages[self.stage.min(stages.len() - 1)];
        let iteration = next.step(stage.pairs, solves)?;
        next.move_on(&iteration, stage, stages.len());
        *self = next;
        Ok(iteration)
    }

    /// Goes on to more pairs where a part has brought what it can.
    fn move_on(&mut self, made: &Iteration, stage: Stage, stages: usize) {
        self.in_stage += 1;
        self.gained |= made.taken;
        if self.in_stage < stage.iterations && self.flat < self.options.patience {
            return;
        }
        let is_futile = self.stage > 0 && !self.gained;
        if self.stage + 1 >= stages || is_futile {
            self.has_ended = true;
            return;
        }
        // Other pairs, other equations, and a ladder that is as wide again.
        (self.stage, self.in_stage, self.flat, self.gained) = (self.stage + 1, 0, 0, false);
        (self.kept, self.lambda) = (None, self.options.damping);
    }

    fn step(&mut self, pairs: usize, solves: &mut dyn Solves) -> Result<Iteration> {
        let index = self.iteration;
        self.iteration += 1;
        let Some(equations) = self.equations(pairs, solves)? else { return Ok(self.lost(index)) };
        let dampings = LADDER.map(|factor| (factor * self.lambda).clamp(BOUNDS.0, BOUNDS.1));
        let moved = |damping: &f64| added(&self.best, &equations.step(*damping));
        let candidates: Vec<Vec<f64>> = dampings.iter().map(moved).collect();
        let losses = self.judge(&candidates, solves)?;
        let lowest = (0..losses.len()).min_by(|a, b| losses[*a].total_cmp(&losses[*b])).unwrap_or(0);
        let (validation, lambda) = (losses[lowest], dampings[lowest]);
        let (loss, gradient) = (equations.loss, equations.slope());
        let taken = validation < self.best_validation;
        self.flat = if validation < self.best_validation * (1.0 - IMPROVEMENT) { 0 } else { self.flat + 1 };
        if taken {
            (self.best, self.best_validation, self.lambda) = (candidates[lowest].clone(), validation, lambda);
        } else {
            self.kept = Some(equations);
            self.lambda = (self.lambda * HIGHER).min(BOUNDS.1);
        }
        Ok(Iteration { index, loss, gradient, lambda, validation, taken })
    }

    /// Every solve around the best parameters has diverged: closer ones next time.
    fn lost(&mut self, index: usize) -> Iteration {
        self.flat += 1;
        self.differences.iter_mut().for_each(|h| *h *= 0.25);
        let gradient = vec![f64::NAN; self.best.len()];
        let (loss, validation) = (f64::NAN, f64::INFINITY);
        Iteration { index, loss, gradient, lambda: self.lambda, validation, taken: false }
    }

    /// The equations at the best parameters, over the first pairs that can be solved.
    fn equations(&mut self, all: usize, solves: &mut dyn Solves) -> Result<Option<Equations>> {
        if let Some(kept) = self.kept.take() {
            return Ok(Some(kept));
        }
        self.size_differences(all, solves)?;
        let together = solves.together().max(1);
        let candidates = differences::forward(&self.best, &self.differences);
        let mut sum = equations::Sum::new(self.best.len());
        for first in (0..all).step_by(together) {
            let pairs = first..(first + together).min(all);
            solves.equations(&candidates, pairs, &self.differences)?.iter().flatten().for_each(|pair| sum.add(pair));
        }
        self.solves += all * candidates.len();
        Ok(sum.mean())
    }

    /// Looks at one pair, another in every iteration, for how long the differences may be.
    fn size_differences(&mut self, all: usize, solves: &mut dyn Solves) -> Result<()> {
        if all == 0 {
            return Ok(());
        }
        let pair = (self.iteration - 1) % all;
        let candidates = differences::probe(&self.best, &self.differences);
        let found = solves.residuals(&candidates, Split::Training, pair..pair + 1)?;
        self.solves += candidates.len();
        self.differences = differences::sized(&self.differences, &found);
        Ok(())
    }

    /// Mean validation loss of each candidate.
    fn judge(&mut self, candidates: &[Vec<f64>], solves: &mut dyn Solves) -> Result<Vec<f64>> {
        let split = if solves.pairs(Split::Validation) > 0 { Split::Validation } else { Split::Training };
        let (all, together) = (solves.pairs(split), solves.together().max(1));
        let mut sums = vec![0.0; candidates.len()];
        for first in (0..all).step_by(together) {
            let losses = solves.losses(candidates, split, first..(first + together).min(all))?;
            sums.iter_mut().zip(losses).for_each(|(sum, of_one)| of_one.iter().for_each(|loss| *sum += loss));
        }
        self.solves += all * candidates.len();
        let mean = |sum: f64| if sum.is_finite() { sum / all.max(1) as f64 } else { f64::INFINITY };
        Ok(sums.into_iter().map(mean).collect())
    }

    /// Solves of one pair that a run of so many parameters makes, if it does not end early and every step is taken.
    pub fn most_solves(options: &Options, parameters: usize, (training, validation): (usize, usize)) -> usize {
        let judging = if validation > 0 { validation } else { training };
        let probing = if training > 0 { differences::probes(parameters) } else { 0 };
        let of = |Stage { pairs, iterations }: Stage| {
            iterations * (probing + (parameters + 1) * pairs + LADDER.len() * judging)
        };
        judging + stages(options, training).into_iter().map(of).sum::<usize>()
    }

    /// The state as a list, for a file.
    pub fn to_list(&self) -> Vec<f64> {
        let flags = [self.gained, self.has_ended].map(usize::from);
        let counts = [self.iteration, self.flat, self.solves, self.stage, self.in_stage, flags[0], flags[1]];
        let counts = counts.map(|n| n as f64);
        let scalars = [self.best_validation, self.initial_validation, self.lambda];
        let kept = self.kept.as_ref().map(Equations::to_list).unwrap_or_default();
        [&counts[..], &scalars, &self.best, &self.differences, &kept].concat()
    }

    /// The state of such a list; none if it is of another number of parameters, or no state.
    pub fn from_list(list: &[f64], parameters: usize, options: Options) -> Option<Self> {
        let (head, rest) = list.split_at_checked(10)?;
        let (best, rest) = rest.split_at_checked(parameters)?;
        let (differences, kept) = rest.split_at_checked(parameters)?;
        let kept = if kept.is_empty() { None } else { Some(Equations::from_list(kept, parameters)?) };
        Some(Self {
            options,
            best: best.to_vec(),
            differences: differences.to_vec(),
            iteration: count(head[0])?,
            flat: count(head[1])?,
            solves: count(head[2])?,
            stage: count(head[3])?,
            in_stage: count(head[4])?,
            gained: count(head[5])? > 0,
            has_ended: count(head[6])? > 0,
            best_validation: head[7],
            initial_validation: head[8],
            lambda: head[9],
            kept,
        })
    }
}

fn count(value: f64) -> Option<usize> {
    let sound = (0.0..1e15).contains(&value) && value.fract() == 0.0;
    sound.then_some(value as usize)
}

fn added(point: &[f64], step: &[f64]) -> Vec<f64> {
    point.iter().zip(step).map(|(p, s)| p + s).collect()
}
