//! An iteration with an update after every solver step.

use super::{Iteration, Training, finite};
use crate::Stepwise;
use crate::stepwise::{Stride, Walk, tame};
use crate::student::Gradient;
use dyweight_core::error::{Error, Result};
use dyweight_sample::{cut, each};

impl Training {
    /// One iteration, with an update for every solver step.
    pub(super) fn advance_by_steps(&mut self, index: usize, stepwise: Stepwise) -> Result<Iteration> {
        let before = (self.params.clone(), self.moments.clone());
        match self.walk(index, stepwise) {
            Ok(walked) => {
                self.iteration += 1;
                Ok(Iteration { validation: self.validate_if_due()?, ..walked })
            }
            Err(error) => {
                (self.params, self.moments) = before;
                match error {
                    Error::Diverged { .. } | Error::BadValue { .. } | Error::TrainingLost { .. }
                        if self.guard.is_some() =>
                    {
                        Ok(self.lost(index))
                    }
                    other => Err(other),
                }
            }
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
}
