//! Losses and gradients of pairs, cut over threads and processes and put together in the order of the pairs.

use super::Training;
use crate::Learnable;
use crate::joint::{Joint, Linearised};
use crate::objective::Loss;
use crate::student::{Gradient, Signs, Student};
use crate::targets::Targets;
use dyweight_core::denoiser::Differentiable;
use dyweight_core::error::Result;
use dyweight_core::features::FeatureMap;
use dyweight_core::tensor::Tensor;
use dyweight_sample::comm::Wire;
use dyweight_sample::{in_parts, unit};
use dyweight_solvers::learned::Frame;
use std::ops::Range;
use std::sync::Arc;

impl Training {
    /// Mean validation loss of any solver on the student's frame.
    pub fn validation_loss(&self, learnable: &dyn Learnable, params: &[f64]) -> Result<f64> {
        self.validation_loss_on(&self.student.frame, learnable, params)
    }

    /// Mean validation loss of any solver on any frame.
    pub(crate) fn validation_loss_on(&self, frame: &Frame, learnable: &dyn Learnable, params: &[f64]) -> Result<f64> {
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
    pub(super) fn losses<T: Send + Clone + Wire>(
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

    /// A distance of all samples at once, around those of some pairs.
    pub(super) fn around(
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
    pub(super) fn gradients(
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
}
