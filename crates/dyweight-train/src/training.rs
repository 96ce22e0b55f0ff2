//! The training loop, as a state that is advanced one iteration at a time.

use super::guard::{Guard, Judgement};
use super::learnable::Learnable;
use super::optimiser::{Moments, clip};
use super::recipe::Recipe;
use super::student::{Gradient, Student};
use super::targets::{Targets, in_parts};
use crate::comm::Comm;
use dyweight_core::denoiser::Model;
use dyweight_core::error::{Error, Result};
use dyweight_core::learned::Frame;
use std::ops::Range;
use std::sync::Arc;

/// What one iteration did.
#[derive(Clone, Debug, PartialEq)]
pub struct Iteration {
    /// Its number, from 0.
    pub index: usize,
    /// Training loss before the update.
    pub loss: f64,
    /// The rate used.
    pub rate: f64,
    /// Gradient before clipping.
    pub gradient: Vec<f64>,
    /// Its norm.
    pub norm: f64,
    /// The validation after it, where there was one.
    pub validation: Option<Validation>,
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
    /// The current numbers.
    pub numbers: Vec<f64>,
    /// What the optimiser remembers of each block.
    pub moments: Vec<Moments>,
    /// Iterations made.
    pub iteration: usize,
    /// Validation's memory; none in a plain run.
    pub guard: Option<Guard>,
}

/// The parts of a run.
pub struct Parts {
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
    pub fn new(parts: Parts) -> Result<Self> {
        let Parts { model, student, learnable, start, training, validation, recipe } = parts;
        let moments = fresh(&*learnable);
        let mut run = Self {
            model,
            student,
            learnable,
            training,
            validation,
            recipe,
            numbers: start,
            moments,
            iteration: 0,
            guard: None,
        };
        if run.recipe.validate_every.is_some() {
            let loss = run.validation_loss(&*run.learnable, &run.numbers)?;
            // Nothing can be judged against a start without a loss.
            finite("the validation loss of the start", 0, &[loss])?;
            run.guard = Some(Guard::new(&run.numbers, loss));
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
        self.iteration >= self.recipe.iterations() || flat
    }

    /// What training has found: the best numbers, or the last ones of a plain run.
    pub fn result(&self) -> &[f64] {
        self.guard.as_ref().map_or(&self.numbers, |guard| &guard.best)
    }

    /// Mean validation loss of any solver on the student's frame.
    pub fn validation_loss(&self, learnable: &dyn Learnable, numbers: &[f64]) -> Result<f64> {
        self.validation_loss_on(&self.student.frame, learnable, numbers)
    }

    /// Mean validation loss of any solver on any frame.
    pub fn validation_loss_on(&self, frame: &Frame, learnable: &dyn Learnable, numbers: &[f64]) -> Result<f64> {
        let student = Student { frame: frame.clone(), ..self.student.clone() };
        let part = |range: Range<usize>| {
            let noise = self.validation.pairs().latents(range.clone())?;
            let model = self.model.denoiser(&self.validation.pairs().condition(range.clone()))?;
            student.losses(&*model, (learnable, numbers), &noise, &self.validation.of(range)?)
        };
        let all = 0..self.recipe.validation_pairs;
        // Targets first: they are computed in chunks of their own and must not be raced for.
        self.validation.prepare(all.clone())?;
        let share = |mine| Ok(in_parts(&*self.model, mine, self.recipe.micro_batch, part)?.concat());
        let losses: Vec<f64> = self.comm().spread(all, share)?.concat();
        Ok(losses.iter().sum::<f64>() / losses.len() as f64)
    }

    /// One iteration.
    pub fn advance(&mut self) -> Result<Iteration> {
        let index = self.iteration;
        let batch = self.batch_gradient(index);
        self.iteration += 1;
        let batch = match batch {
            Ok(batch) if batch.loss().is_finite() => batch,
            // A level outside what a network takes is a sign of runaway times.
            Ok(_) | Err(Error::Diverged { .. } | Error::BadValue { .. }) if self.guard.is_some() => {
                return Ok(self.lost(index));
            }
            other => other?,
        };
        let gradient = batch.gradient();
        if self.guard.is_some() && gradient.iter().any(|g| !g.is_finite()) {
            return Ok(self.lost(index));
        }
        // A plain run has nowhere to go back to.
        finite("the loss", index, &[batch.loss()])?;
        finite("the gradient", index, &gradient)?;
        let rate = self.rate(index);
        let norm = self.update(index, &gradient);
        let validation = self.validate_if_due()?;
        Ok(Iteration { index, loss: batch.loss(), rate, gradient, norm, validation })
    }

    /// The rate of an iteration's first group.
    fn rate(&self, index: usize) -> f64 {
        let (phase, at) = self.recipe.at(index);
        self.rate_scale() * phase.groups.first().map_or(0.0, |g| g.rate.at(at))
    }

    fn rate_scale(&self) -> f64 {
        self.guard.as_ref().map_or(1.0, |g| g.rate_scale)
    }

    /// Moves the numbers against the gradient, group by group; returns the gradient's largest norm in a group.
    fn update(&mut self, index: usize, gradient: &[f64]) -> f64 {
        let scale = self.rate_scale();
        let blocks = self.learnable.blocks();
        let (phase, at) = self.recipe.at(index);
        let mut largest = 0.0f64;
        for group in &phase.groups {
            let (rate, places) = (scale * group.rate.at(at), group.places(&*self.learnable));
            let mut clipped: Vec<f64> = places.iter().map(|p| gradient[*p]).collect();
            largest = largest.max(clip(&mut clipped, group.clip));
            let (mut first, mut rest) = (0, &clipped[..]);
            for (block, moments) in blocks.iter().zip(&mut self.moments) {
                let len = block.len();
                if group.blocks.contains(&block.name) {
                    let (own, others) = rest.split_at(len);
                    moments.update(group.optimiser, &mut self.numbers[first..first + len], own, rate, group.decay);
                    rest = others;
                }
                first += len;
            }
        }
        largest
    }

    fn batch_gradient(&self, index: usize) -> Result<Gradient> {
        let pairs = index * self.recipe.pairs..(index + 1) * self.recipe.pairs;
        self.training.prepare(pairs.clone())?;
        let mut all = Gradient::default();
        self.comm().spread(pairs, |mine| self.gradient_of(mine))?.into_iter().for_each(|g| all.append(g));
        Ok(all)
    }

    /// Losses and gradients of some pairs.
    fn gradient_of(&self, pairs: Range<usize>) -> Result<Gradient> {
        let targets = self.training.of(pairs.clone())?;
        let first = pairs.start;
        let part = |range: Range<usize>| {
            let noise = self.training.pairs().latents(range.clone())?;
            let model = self.model.denoiser(&self.training.pairs().condition(range.clone()))?;
            let inside = range.start - first..range.end - first;
            let targets: Vec<_> = targets.iter().map(|t| t.slice(inside.clone())).collect();
            self.student.gradient(&*model, (&*self.learnable, &self.numbers), &noise, &targets)
        };
        let mut all = Gradient::default();
        in_parts(&*self.model, pairs, self.recipe.micro_batch, part)?.into_iter().for_each(|g| all.append(g));
        Ok(all)
    }

    /// The numbers were lost in this iteration: back to the best. It counts as a validation that failed.
    fn lost(&mut self, index: usize) -> Iteration {
        let rate = self.rate(index);
        if let Some(guard) = &mut self.guard {
            guard.judge(&self.numbers, f64::INFINITY);
        }
        self.roll_back();
        let validation = Some(Validation { loss: f64::INFINITY, event: Event::RolledBack });
        let gradient = vec![f64::NAN; self.numbers.len()];
        Iteration { index, loss: f64::NAN, rate, gradient, norm: f64::NAN, validation }
    }

    fn validate_if_due(&mut self) -> Result<Option<Validation>> {
        let Some(every) = self.recipe.validate_every else { return Ok(None) };
        if !self.iteration.is_multiple_of(every) && self.iteration < self.recipe.iterations() {
            return Ok(None);
        }
        let loss = match self.validation_loss(&*self.learnable, &self.numbers) {
            Err(Error::Diverged { .. } | Error::BadValue { .. }) => f64::INFINITY,
            other => other?,
        };
        let Some(guard) = &mut self.guard else { return Ok(None) };
        let event = match guard.judge(&self.numbers, loss) {
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
            self.numbers.clone_from(&guard.best);
            self.moments = fresh(&*self.learnable);
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
