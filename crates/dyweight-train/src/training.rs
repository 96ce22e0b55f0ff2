//! The training loop (DyWeight, CVPR 2026, Algorithm 1), as a state that is advanced one iteration at a time.
//!
//! ```text
//! at iteration i:  z ← noise of the next pairs              Recipe::pairs_of
//!                  ℓ ← distance of solver(Φ, z), teacher(z)  Training::gradients, samples put together in order
//!                  g ← ∂ℓ/∂Φ                                 Student::gradient, one reverse sweep
//!                  Φ ← Φ − η·g, as the optimiser has it      Training::update, group by group
//! every so often:  v ← ℓ of the validation pairs             Guard: the best Φ is kept, a lost one put back
//! ```
//!
//! The first four lines are the paper's; the fifth is ours, and `--plain` leaves it out. By solver steps (`by_steps`)
//! and without gradients (`ends`) an iteration has the same three parts.

mod by_steps;
mod ends;
mod gradients;
mod noise;

use super::gauss_newton::GaussNewton;
use super::guard::{Guard, Judgement};
use super::newton::Curvature;
use super::optimiser::{Moments, clip};
use super::recipe::Recipe;
use super::relax::Moved;
use super::student::{Gradient, Student};
use super::targets::Targets;
use crate::Learnable;
use crate::{Optimiser, Relaxation};
use dyweight_core::denoiser::Model;
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::dot;
use dyweight_sample::comm::Comm;
use std::ops::Range;
use std::sync::Arc;

/// What one iteration did.
#[derive(Clone, Debug, PartialEq)]
pub struct Iteration {
    /// Its number, from 0.
    pub index: usize,
    /// Training loss before the update.
    pub loss: f64,
    /// The rate used; with Gauss–Newton, the damping.
    pub rate: f64,
    /// Gradient before clipping.
    pub gradient: Vec<f64>,
    /// Its norm.
    pub norm: f64,
    /// The validation after it, where there was one.
    pub validation: Option<Validation>,
    /// Loss and parameters after every solver step, where training goes step by step.
    pub steps: Vec<(f64, Vec<f64>)>,
}

/// A validation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validation {
    /// The loss.
    pub loss: f64,
    /// What followed.
    pub event: Event,
}

/// What a validation led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new best.
    Best,
    /// Nothing.
    None,
    /// The best parameters were put back and the rate halved.
    RolledBack,
}

/// A run: it owns or shares everything it needs.
pub struct Training {
    model: Arc<dyn Model>,
    student: Student,
    learnable: Arc<dyn Learnable>,
    training: Arc<Targets>,
    validation: Arc<Targets>,
    recipe: Recipe,
    /// The current parameters.
    pub params: Vec<f64>,
    /// What the optimiser remembers of each block.
    pub moments: Vec<Moments>,
    /// Noise that has moved, where the objective is relaxed.
    pub moved: Option<Moved>,
    /// Iterations made.
    pub iteration: usize,
    /// What second-order descent knows, where there is a group that is moved by it.
    pub curvature: Option<Curvature>,
    /// What Gauss–Newton without gradients knows, where it is the rule.
    pub gauss_newton: Option<GaussNewton>,
    /// Validation's memory; none in a plain run.
    pub guard: Option<Guard>,
}

/// The parts of a run.
pub struct TrainingParts {
    /// The model.
    pub model: Arc<dyn Model>,
    /// The student.
    pub student: Student,
    /// What is learned.
    pub learnable: Arc<dyn Learnable>,
    /// Where it starts.
    pub start: Vec<f64>,
    /// Training pairs with their targets.
    pub training: Arc<Targets>,
    /// Validation pairs with theirs.
    pub validation: Arc<Targets>,
    /// The numbers of the run.
    pub recipe: Recipe,
}

impl Training {
    /// Begins a run, with a first validation unless it is plain.
    pub fn new(parts: TrainingParts) -> Result<Self> {
        let TrainingParts { model, student, learnable, start, training, validation, recipe } = parts;
        let moments = fresh(&*learnable);
        let curvature = recipe.is_second_order().then(|| Curvature::new(start.len()));
        let mut run = Self {
            model,
            student,
            learnable,
            training,
            validation,
            recipe,
            params: start,
            moments,
            moved: None,
            curvature,
            gauss_newton: None,
            iteration: 0,
            guard: None,
        };
        if let Some(Relaxation { pairs, step, .. }) = run.recipe.relax {
            let training = run.training.pairs().latents(0..pairs)?;
            let validation = run.validation.pairs().latents(0..run.recipe.validation_pairs)?;
            run.moved = Some(Moved { training, validation, step });
        }
        run.begin_gauss_newton()?;
        if run.recipe.validate_every.is_some() {
            let loss = match &run.gauss_newton {
                Some(state) => state.initial_validation,
                None => run.validation_loss(&*run.learnable, &run.params)?,
            };
            // Nothing can be judged against a start without a loss.
            finite("the validation loss of the start", 0, &[loss])?;
            run.guard = Some(Guard::new(&run.params, loss));
        }
        Ok(run)
    }

    /// The processes that share the work.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        self.training.comm()
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// What is learned.
    pub fn learnable(&self) -> &dyn Learnable {
        &*self.learnable
    }

    /// True when there is nothing left to do.
    pub fn is_finished(&self) -> bool {
        let flat = self.guard.as_ref().is_some_and(|g| g.is_flat(self.recipe.patience));
        let converged = self.gauss_newton.as_ref().is_some_and(GaussNewton::is_finished);
        self.iteration >= self.recipe.iterations() || flat || converged
    }

    /// What training has found: the best parameters, or the last ones of a plain run.
    pub fn result(&self) -> &[f64] {
        self.guard.as_ref().map_or(&self.params, |guard| &guard.best)
    }

    /// One iteration. Of one that is cancelled before it has moved a number nothing remains.
    pub fn advance(&mut self) -> Result<Iteration> {
        match (self.gauss_newton.clone(), self.student.stepwise) {
            (Some(state), _) => self.advance_gauss_newton(state),
            (None, Some(stepwise)) => self.advance_by_steps(self.iteration, stepwise),
            (None, None) => self.advance_by_gradients(self.iteration),
        }
    }

    /// The iteration of Algorithm 1.
    fn advance_by_gradients(&mut self, index: usize) -> Result<Iteration> {
        let pairs = self.recipe.pairs_of(index);
        let Some(batch) = self.sound_gradients(index, pairs.clone())? else { return Ok(self.lost(index)) };
        let (loss, gradient, rate) = (batch.loss(), batch.gradient(), self.rate(index));
        if let Some(curvature) = &mut self.curvature {
            curvature.add(&batch.probes);
        }
        let norm = self.update(index, &gradient, loss);
        self.iteration += 1;
        let validation = self.validate_if_due()?;
        if let Some(relaxation) = self.recipe.relax {
            self.move_noise(index, &relaxation, (pairs, &batch))?;
        }
        Ok(Iteration { index, loss, rate, gradient, norm, validation, steps: Vec::new() })
    }

    /// Losses and gradients of an iteration; none where they have diverged and there is somewhere to go back to.
    fn sound_gradients(&self, index: usize, pairs: Range<usize>) -> Result<Option<Gradient>> {
        let noise = self.moved.as_ref().map(|m| m.training.slice(pairs.clone()));
        let batch = match self.gradients(&self.student, &self.training, pairs, noise.as_ref()) {
            // A level outside what a network takes is a sign of runaway times.
            Err(Error::Diverged { .. } | Error::BadValue { .. }) if self.guard.is_some() => return Ok(None),
            other => other?,
        };
        let (loss, gradient) = (batch.loss(), batch.gradient());
        let is_sound = finite("the loss", index, &[loss]).and(finite("the gradient", index, &gradient));
        match self.guard {
            Some(_) => Ok(Some(batch).filter(|_| is_sound.is_ok() && !self.has_jumped(loss))),
            None => is_sound.map(|()| Some(batch)),
        }
    }

    /// True if second-order descent, whose steps are long, has left the place in which its matrix says anything.
    fn has_jumped(&self, loss: f64) -> bool {
        self.curvature.is_some() && self.guard.as_ref().is_some_and(|guard| guard.is_far(loss))
    }

    /// The rate of an iteration's first group.
    fn rate(&self, index: usize) -> f64 {
        let (phase, at) = self.recipe.at(index);
        self.rate_scale() * phase.groups.first().map_or(0.0, |g| g.rate.at(at))
    }

    fn rate_scale(&self) -> f64 {
        self.guard.as_ref().map_or(1.0, |g| g.rate_scale)
    }

    /// Moves the parameters against the gradient, group by group; returns the gradient's largest norm in a group.
    fn update(&mut self, index: usize, gradient: &[f64], loss: f64) -> f64 {
        let scale = self.rate_scale();
        let blocks = self.learnable.blocks();
        let (phase, at) = self.recipe.at(index);
        let mut largest = 0.0f64;
        for group in &phase.groups {
            let (rate, places) = (scale * group.rate.at(at), group.places(&*self.learnable));
            let mut clipped: Vec<f64> = places.iter().map(|p| gradient[*p]).collect();
            if let (Optimiser::Newton, Some(curvature)) = (group.optimiser, &self.curvature) {
                let step = curvature.step(&places, &clipped, (loss, self.recipe.pairs));
                places.iter().zip(step).for_each(|(place, step)| self.params[*place] -= rate * step);
                largest = largest.max(dot(&clipped, &clipped).sqrt());
                continue;
            }
            largest = largest.max(clip(&mut clipped, group.clip));
            let (mut first, mut rest) = (0, &clipped[..]);
            for (block, moments) in blocks.iter().zip(&mut self.moments) {
                let len = block.len();
                if group.blocks.contains(&block.name) {
                    let (own, others) = rest.split_at(len);
                    moments.update(group.optimiser, &mut self.params[first..first + len], own, rate, group.decay);
                    rest = others;
                }
                first += len;
            }
        }
        largest
    }

    /// The parameters were lost in this iteration: back to the best. It counts as a validation that failed.
    fn lost(&mut self, index: usize) -> Iteration {
        self.iteration = index + 1;
        let rate = self.rate(index);
        if let Some(guard) = &mut self.guard {
            guard.judge(&self.params, f64::INFINITY);
        }
        self.roll_back();
        let validation = Some(Validation { loss: f64::INFINITY, event: Event::RolledBack });
        let gradient = vec![f64::NAN; self.params.len()];
        Iteration { index, loss: f64::NAN, rate, gradient, norm: f64::NAN, validation, steps: Vec::new() }
    }

    fn validate_if_due(&mut self) -> Result<Option<Validation>> {
        let Some(every) = self.recipe.validate_every else { return Ok(None) };
        if !self.iteration.is_multiple_of(every) && self.iteration < self.recipe.iterations() {
            return Ok(None);
        }
        let loss = match self.validation_loss(&*self.learnable, &self.params) {
            Err(Error::Diverged { .. } | Error::BadValue { .. }) => f64::INFINITY,
            other => other?,
        };
        let Some(guard) = &mut self.guard else { return Ok(None) };
        let event = match guard.judge(&self.params, loss) {
            Judgement::Best => Event::Best,
            Judgement::Fine => Event::None,
            Judgement::RollBack => {
                self.roll_back();
                Event::RolledBack
            }
        };
        Ok(Some(Validation { loss, event }))
    }

    fn roll_back(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.roll_back();
            self.params.clone_from(&guard.best);
            self.moments = fresh(&*self.learnable);
            self.curvature = self.curvature.as_ref().map(|_| Curvature::new(self.params.len()));
        }
    }
}

fn fresh(learnable: &dyn Learnable) -> Vec<Moments> {
    learnable.blocks().iter().map(|b| Moments::new(b.len())).collect()
}

/// An error if a value is not finite.
fn finite(what: &'static str, iteration: usize, values: &[f64]) -> Result<()> {
    match values.iter().find(|v| !v.is_finite()) {
        Some(value) => Err(Error::TrainingLost { what, iteration, value: *value }),
        None => Ok(()),
    }
}
