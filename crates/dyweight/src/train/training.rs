//! The training loop, as a state that is advanced one iteration at a time.

use super::guard::{Guard, Verdict};
use super::optimiser::{Adam, Optimiser, clip};
use super::parameters::Parameters;
use super::rate::Rate;
use super::student::{Gradient, Student};
use super::targets::{Targets, in_parts};
use crate::comm::Comm;
use crate::denoiser::Model;
use crate::error::{Error, Result};
use std::ops::Range;

/// The numbers of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Pairs per iteration: batch times accumulation rounds.
    pub pairs: usize,
    /// Samples per network call; changes memory, not results.
    pub micro_batch: usize,
    /// The learning rate; its length is the run's.
    pub rate: Rate,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// Weight decay of AdamW.
    pub weight_decay: f64,
    /// Largest norm of a gradient.
    pub clip: f64,
    /// Iterations between validations; none is the reference algorithm and nothing else.
    pub validate_every: Option<usize>,
    /// Validation pairs.
    pub validation_pairs: usize,
    /// Validations without improvement after which training stops.
    pub patience: Option<usize>,
}

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

/// A run.
pub struct Training<'t> {
    model: &'t dyn Model,
    student: Student,
    training: &'t Targets<'t>,
    validation: &'t Targets<'t>,
    recipe: Recipe,
    /// The current parameters.
    pub parameters: Parameters,
    /// The optimiser's moments.
    pub adam: Adam,
    /// Iterations made.
    pub iteration: usize,
    /// Validation's memory; none in a plain run.
    pub guard: Option<Guard>,
}

impl<'t> Training<'t> {
    /// Begins a run, with a first validation unless it is plain.
    pub fn new(
        model: &'t dyn Model,
        student: Student,
        parameters: Parameters,
        (training, validation): (&'t Targets<'t>, &'t Targets<'t>),
        recipe: Recipe,
    ) -> Result<Self> {
        let adam = Adam::new(parameters.values.len());
        let mut run =
            Self { model, student, training, validation, recipe, parameters, adam, iteration: 0, guard: None };
        if run.recipe.validate_every.is_some() {
            let loss = run.validation_loss(&run.parameters)?;
            // Nothing can be judged against a start without a loss.
            finite("the validation loss of the start", 0, &[loss])?;
            run.guard = Some(Guard::new(&run.parameters.values, loss));
        }
        Ok(run)
    }

    /// The processes that share the work.
    pub fn comm(&self) -> &'t dyn Comm {
        self.training.comm()
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// True when there is nothing left to do.
    pub fn is_finished(&self) -> bool {
        let flat = self.guard.as_ref().is_some_and(|g| g.is_flat(self.recipe.patience));
        self.iteration >= self.recipe.rate.iterations || flat
    }

    /// What training has found: the best parameters, or the last ones of a plain run.
    pub fn result(&self) -> Parameters {
        let mut result = self.parameters.clone();
        if let Some(guard) = &self.guard {
            result.values.clone_from(&guard.best);
        }
        result
    }

    /// Mean validation loss of any parameters on the student's grid.
    pub fn validation_loss(&self, parameters: &Parameters) -> Result<f64> {
        let part = |range: Range<usize>| {
            let noise = self.validation.pairs().latents(range.clone())?;
            let model = self.model.bind(&self.validation.pairs().condition(range.clone()))?;
            self.student.losses(&*model, parameters, &noise, &self.validation.of(range)?)
        };
        let all = 0..self.recipe.validation_pairs;
        // Targets first: they are computed in chunks of their own and must not be raced for.
        self.validation.prepare(all.clone())?;
        let share = |mine| Ok(in_parts(self.model, mine, self.recipe.micro_batch, part)?.concat());
        let losses: Vec<f64> = self.comm().spread(all, share)?.concat();
        Ok(losses.iter().sum::<f64>() / losses.len() as f64)
    }

    /// One iteration.
    pub fn advance(&mut self) -> Result<Iteration> {
        let index = self.iteration;
        let scale = self.guard.as_ref().map_or(1.0, |g| g.rate_scale);
        let rate = scale * self.recipe.rate.at(index);
        let batch = self.batch_gradient(index);
        self.iteration += 1;
        let batch = match batch {
            Ok(batch) if batch.loss().is_finite() => batch,
            // A level outside what a network takes is a sign of runaway times.
            Ok(_) | Err(Error::Diverged { .. } | Error::BadValue { .. }) if self.guard.is_some() => {
                return Ok(self.lost(index, rate));
            }
            other => other?,
        };
        let gradient = batch.gradient();
        if self.guard.is_some() && gradient.iter().any(|g| !g.is_finite()) {
            return Ok(self.lost(index, rate));
        }
        // A plain run has nowhere to go back to.
        finite("the loss", index, &[batch.loss()])?;
        finite("the gradient", index, &gradient)?;
        let mut clipped = gradient.clone();
        let norm = clip(&mut clipped, self.recipe.clip);
        let decay = if self.recipe.optimiser == Optimiser::AdamW { self.recipe.weight_decay } else { 0.0 };
        self.adam.update(&mut self.parameters.values, &clipped, rate, decay);
        let validation = self.validate_if_due()?;
        Ok(Iteration { index, loss: batch.loss(), rate, gradient, norm, validation })
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
            let model = self.model.bind(&self.training.pairs().condition(range.clone()))?;
            let inside = range.start - first..range.end - first;
            let targets: Vec<_> = targets.iter().map(|t| t.slice(inside.clone())).collect();
            self.student.gradient(&*model, &self.parameters, &noise, &targets)
        };
        let mut all = Gradient::default();
        in_parts(self.model, pairs, self.recipe.micro_batch, part)?.into_iter().for_each(|g| all.append(g));
        Ok(all)
    }

    /// The numbers were lost in this iteration: back to the best.
    fn lost(&mut self, index: usize, rate: f64) -> Iteration {
        self.roll_back();
        let validation = Some(Validation { loss: f64::INFINITY, event: Event::RolledBack });
        let gradient = vec![f64::NAN; self.parameters.values.len()];
        Iteration { index, loss: f64::NAN, rate, gradient, norm: f64::NAN, validation }
    }

    fn validate_if_due(&mut self) -> Result<Option<Validation>> {
        let Some(every) = self.recipe.validate_every else { return Ok(None) };
        if !self.iteration.is_multiple_of(every) && self.iteration < self.recipe.rate.iterations {
            return Ok(None);
        }
        let loss = match self.validation_loss(&self.parameters) {
            Err(Error::Diverged { .. } | Error::BadValue { .. }) => f64::INFINITY,
            other => other?,
        };
        let Some(guard) = &mut self.guard else { return Ok(None) };
        let event = match guard.judge(&self.parameters.values, loss) {
            Verdict::Best => Event::Best,
            Verdict::Fine => Event::None,
            Verdict::RollBack => {
                self.roll_back();
                Event::RolledBack
            }
        };
        Ok(Some(Validation { loss, event }))
    }

    fn roll_back(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.roll_back();
            self.parameters.values.clone_from(&guard.best);
            self.adam = Adam::new(self.parameters.values.len());
        }
    }
}

/// An error if a value is not finite.
fn finite(what: &'static str, iteration: usize, values: &[f64]) -> Result<()> {
    match values.iter().find(|v| !v.is_finite()) {
        Some(value) => Err(Error::TrainingLost { what, iteration, value: *value }),
        None => Ok(()),
    }
}
