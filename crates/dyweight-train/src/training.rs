//! The training loop, as a state that is advanced one iteration at a time.

mod ends;

use super::gauss_newton::GaussNewton;
use super::guard::{Guard, Judgement};
use super::joint::{Joint, Linearised};
use super::newton::Curvature;
use super::objective::Loss;
use super::optimiser::{Moments, clip};
use super::recipe::Recipe;
use super::relax::{self, Moved};
use super::stepwise::{Stride, Walk, tame};
use super::student::{Gradient, Signs, Student};
use super::targets::Targets;
use crate::Learnable;
use crate::{Optimiser, Relaxation, Stepwise};
use dyweight_core::denoiser::{Differentiable, Model};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::FeatureMap;
use dyweight_core::tensor::{Tensor, dot};
use dyweight_sample::comm::{Comm, Wire};
use dyweight_sample::{cut, each, in_parts, unit};
use dyweight_solvers::learned::Frame;
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

    /// Mean validation loss of any solver on the student's frame.
    pub fn validation_loss(&self, learnable: &dyn Learnable, params: &[f64]) -> Result<f64> {
        self.validation_loss_on(&self.student.frame, learnable, params)
    }

    /// Mean validation loss of any solver on any frame.
    pub fn validation_loss_on(&self, frame: &Frame, learnable: &dyn Learnable, params: &[f64]) -> Result<f64> {
        let student = Student { frame: frame.clone(), ..self.student.clone() };
        let all = 0..self.recipe.validation_pairs;
        if let Some(joint) = student.loss.joint() {
            return Ok(self.around(joint, &student, (learnable, params), &self.validation, all)?.value);
        }
        let losses =
            self.losses(&self.validation, all, self.moved.as_ref().map(|m| &m.validation), |model, noise, y, _| {
                student.losses(model, (learnable, params), noise, y)
            })?;
        Ok(losses.iter().sum::<f64>() / losses.len() as f64)
    }

    /// Something of every sample of some pairs, whose noise is `noise` or their own.
    fn losses<T: Send + Clone + Wire>(
        &self,
        targets: &Targets,
        pairs: Range<usize>,
        noise: Option<&Tensor>,
        of: impl Fn(&dyn Differentiable, &Tensor, &[Tensor], Range<usize>) -> Result<Vec<T>> + Sync,
    ) -> Result<Vec<T>> {
        let (first, taught) = (pairs.start, self.student.loss.joint().is_none());
        let part = |range: Range<usize>| {
            let noise = match noise {
                Some(noise) => noise.slice(range.start - first..range.end - first),
                None => targets.pairs().latents(range.clone())?,
            };
            let model = targets.denoiser(&*self.model, range.clone())?;
            of(&model, &noise, &if taught { targets.of(range.clone())? } else { Vec::new() }, range)
        };
        // Targets first: they are computed in chunks of their own and must not be raced for.
        if taught {
            targets.prepare(pairs.clone())?;
        }
        let share = |mine| Ok(in_parts(&*self.model, mine, self.recipe.micro_batch, part)?.concat());
        Ok(self.comm().scatter_gather(pairs, unit(&*self.model, self.recipe.micro_batch), share)?.concat())
    }

    /// One iteration. Of one that is cancelled before it has moved a number nothing remains.
    pub fn advance(&mut self) -> Result<Iteration> {
        let index = self.iteration;
        if let Some(state) = self.gauss_newton.clone() {
            return self.advance_gauss_newton(state);
        }
        if let Some(stepwise) = self.student.stepwise {
            return self.advance_by_steps(index, stepwise);
        }
        let pairs = self.recipe.pairs_of(index);
        let noise = self.moved.as_ref().map(|m| m.training.slice(pairs.clone()));
        let batch = self.gradients(&self.student, &self.training, pairs.clone(), noise.as_ref());
        if let Err(Error::Cancelled) = batch {
            return Err(Error::Cancelled);
        }
        self.iteration += 1;
        let batch = match batch {
            Ok(batch) if batch.loss().is_finite() && !self.has_jumped(batch.loss()) => batch,
            // A level outside what a network takes is a sign of runaway times.
            Ok(_) | Err(Error::Diverged { .. } | Error::BadValue { .. }) if self.guard.is_some() => {
                return Ok(self.lost(index));
            }
            other => other?,
        };
        let (loss, gradient) = (batch.loss(), batch.gradient());
        if self.guard.is_some() && gradient.iter().any(|g| !g.is_finite()) {
            return Ok(self.lost(index));
        }
        // A plain run has nowhere to go back to.
        finite("the loss", index, &[loss])?;
        finite("the gradient", index, &gradient)?;
        let rate = self.rate(index);
        if let Some(curvature) = &mut self.curvature {
            curvature.add(&batch.probes);
        }
        let norm = self.update(index, &gradient, loss);
        let validation = self.validate_if_due()?;
        if let Some(relaxation) = self.recipe.relax {
            self.move_noise(index, &relaxation, (pairs, &batch))?;
        }
        Ok(Iteration { index, loss, rate, gradient, norm, validation, steps: Vec::new() })
    }

    /// True if second-order descent, whose steps are long, has left the place in which its matrix says anything.
    fn has_jumped(&self, loss: f64) -> bool {
        self.curvature.is_some() && self.guard.as_ref().is_some_and(|guard| guard.is_far(loss))
    }

    /// One iteration, with an update for every solver step.
    fn advance_by_steps(&mut self, index: usize, stepwise: Stepwise) -> Result<Iteration> {
        let before = (self.params.clone(), self.moments.clone());
        let walked = self.walk(index, stepwise);
        if let Err(Error::Cancelled) = walked {
            (self.params, self.moments) = before;
            return Err(Error::Cancelled);
        }
        self.iteration += 1;
        match walked {
            Ok(walked) => {
                let validation = self.validate_if_due()?;
                Ok(Iteration { validation, ..walked })
            }
            Err(Error::Diverged { .. } | Error::BadValue { .. } | Error::TrainingLost { .. })
                if self.guard.is_some() =>
            {
                (self.params, self.moments) = before;
                Ok(self.lost(index))
            }
            Err(error) => Err(error),
        }
    }

    fn walk(&mut self, index: usize, stepwise: Stepwise) -> Result<Iteration> {
        let pairs = self.recipe.pairs_of(index);
        self.training.prepare(pairs.clone())?;
        let (model, training, comm) = (self.model.clone(), self.training.clone(), self.comm().clone());
        let (student, learnable) = (self.student.clone(), self.learnable.clone());
        let parts = cut(&*model, comm.share(&pairs, 1), self.recipe.micro_batch);
        let bound = parts.iter().map(|p| training.denoiser(&*model, p.clone())).collect::<Result<Vec<_>>>()?;
        let mut walks = Vec::new();
        for (denoiser, part) in bound.iter().zip(&parts) {
            let noise = training.pairs().latents(part.clone())?;
            walks.push(Walk::begin(denoiser, student.frame.afs, noise, training.of(part.clone())?));
        }
        let (mut steps, mut norm, mut gradient) = (Vec::new(), 0.0, Vec::new());
        let rate = self.rate(index);
        for step in 0..student.frame.grid.steps() {
            let stride = Stride { student: &student, learnable: &*learnable, params: &self.params, stepwise, step };
            let mut batch = Gradient::default();
            let gathered = comm.all_gather(|| {
                let mut own = Gradient::default();
                each(&*model, &mut walks, |walk| walk.step(&stride))?.into_iter().for_each(|g| own.append(g));
                Ok(own)
            })?;
            gathered.into_iter().for_each(|g| batch.append(g));
            finite("the loss", index, &[batch.loss()])?;
            if !batch.gradients.is_empty() {
                gradient = tame(&batch);
                norm = self.update(index, &gradient, batch.loss());
                finite("the numbers", index, &self.params)?;
            }
            steps.push((batch.loss(), self.params.clone()));
        }
        let loss = steps.last().map_or(f64::NAN, |(loss, _)| *loss);
        Ok(Iteration { index, loss, rate, gradient, norm, validation: None, steps })
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

    /// A distance of all samples at once, around those of some pairs.
    fn around(
        &self,
        joint: &Arc<dyn Joint>,
        student: &Student,
        solver: (&dyn Learnable, &[f64]),
        targets: &Targets,
        pairs: Range<usize>,
    ) -> Result<Linearised> {
        joint.linearised(&self.features(&**joint.map(), student, solver, targets, pairs)?)
    }

    /// Rows of features of what a solver makes of some pairs.
    pub(crate) fn features(
        &self,
        map: &dyn FeatureMap,
        student: &Student,
        solver: (&dyn Learnable, &[f64]),
        targets: &Targets,
        pairs: Range<usize>,
    ) -> Result<Vec<f64>> {
        let rows =
            self.losses(targets, pairs, None, |model, noise, _, _| student.features(model, solver, noise, map))?;
        Ok(rows.concat())
    }

    /// Losses and gradients of some pairs, in their noise too where it is given.
    fn gradients(
        &self,
        student: &Student,
        targets: &Targets,
        pairs: Range<usize>,
        noise: Option<&Tensor>,
    ) -> Result<Gradient> {
        let solver = (&*self.learnable, &self.params[..]);
        if let Some(joint) = student.loss.joint() {
            let all = pairs.start..pairs.start + self.recipe.together();
            let around = self.around(joint, student, solver, targets, all)?;
            let (value, loss) = (around.value, Loss::Linear(joint.map().clone(), Arc::new(around)));
            let mut found = self.gradients(&Student { loss, ..student.clone() }, targets, pairs, noise)?;
            found.losses.iter_mut().for_each(|own| *own = value);
            return Ok(found);
        }
        let parts = self.losses(targets, pairs, noise, |model, own, y, range| {
            let signs = |state: usize, shape: [usize; 3]| {
                targets.pairs().signs(range.clone(), shape, &format!("signs {} {state}", self.iteration))
            };
            let signs = self.curvature.as_ref().map(|_| &signs as Signs<'_>);
            Ok(vec![student.gradient(model, solver, (own, noise.is_some()), y, signs)?])
        })?;
        let mut all = Gradient::default();
        parts.into_iter().for_each(|g| all.append(g));
        Ok(all)
    }

    /// Moves the noise of a batch that was visited and, at the end of a round, of the validation pairs.
    fn move_noise(&mut self, index: usize, relaxation: &Relaxation, visited: (Range<usize>, &Gradient)) -> Result<()> {
        let Some(mut moved) = self.moved.take() else { return Ok(()) };
        let (pairs, batch) = visited;
        let how = (moved.step, relaxation.radius);
        let mut now = moved.training.slice(pairs.clone());
        self.try_noise(&self.training, pairs.clone(), &mut now, (batch, how))?;
        moved.training.replace(pairs.start, &now);
        if relaxation.ends_round(index, self.recipe.pairs) {
            let mut kept = 0;
            let all = self.recipe.validation_pairs;
            for start in (0..all).step_by(self.recipe.pairs) {
                let pairs = start..(start + self.recipe.pairs).min(all);
                let mut now = moved.validation.slice(pairs.clone());
                let batch = self.gradients(&self.student, &self.validation, pairs.clone(), Some(&now))?;
                kept += self.try_noise(&self.validation, pairs.clone(), &mut now, (&batch, how))?;
                moved.validation.replace(start, &now);
            }
            moved.step *= if kept == 0 { 0.5 } else { 1.0 };
        }
        self.moved = Some(moved);
        Ok(())
    }

    /// Takes the trial noise of a batch where its loss is lower; how many samples did.
    fn try_noise(
        &self,
        targets: &Targets,
        pairs: Range<usize>,
        now: &mut Tensor,
        (batch, how): (&Gradient, (f64, f64)),
    ) -> Result<usize> {
        let trial = relax::trial(now, &targets.pairs().latents(pairs.clone())?, batch, how);
        let after = self.losses(targets, pairs, Some(&trial), |model, noise, y, _| {
            self.student.losses(model, (&*self.learnable, &self.params), noise, y)
        })?;
        Ok(relax::keep(now, &trial, &batch.losses, &after))
    }

    /// The parameters were lost in this iteration: back to the best. It counts as a validation that failed.
    fn lost(&mut self, index: usize) -> Iteration {
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
