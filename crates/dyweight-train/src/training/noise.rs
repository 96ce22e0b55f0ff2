//! The relaxed objective: after an iteration the noise of its pairs moves.

use super::Training;
use crate::Relaxation;
use crate::relax;
use crate::student::Gradient;
use crate::targets::Targets;
use dyweight_core::error::Result;
use dyweight_core::tensor::Tensor;
use std::ops::Range;

impl Training {
    /// Moves the noise of a batch that was visited and, at the end of a round, of the validation pairs.
    pub(super) fn move_noise(
        &mut self,
        index: usize,
        relaxation: &Relaxation,
        visited: (Range<usize>, &Gradient),
    ) -> Result<()> {
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
    pub(super) fn try_noise(
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
}
