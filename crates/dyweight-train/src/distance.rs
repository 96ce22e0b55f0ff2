//! How far any solver ends from the teacher, on the pairs that training is judged on.

use crate::targets::Targets;
use crate::trainer::{Dataset, TrainOutcome, Trainer};
use dyweight_core::error::Result;
use dyweight_core::sample::{Plan, sample};
use dyweight_core::tensor::squared_distance;
use dyweight_sample::{in_parts, unit};
use dyweight_solvers::learnable::coeffs;
use std::ops::Range;

impl Trainer {
    /// Root mean squared difference between the ends of a plan and of the teacher, over all validation pairs. Every
    /// process must call it.
    pub fn distance(&self, dataset: &Dataset, plan: &Plan<'_>) -> Result<f64> {
        let errors = self.errors(&dataset.validation, 0..self.plan.recipe.validation_pairs, plan)?;
        Ok((errors.iter().sum::<f64>() / errors.len() as f64).sqrt())
    }

    /// Mean squared difference of each pair.
    pub(crate) fn errors(&self, targets: &Targets, all: Range<usize>, plan: &Plan<'_>) -> Result<Vec<f64>> {
        let model = &*self.config().model;
        let part = |range: Range<usize>| {
            let noise = targets.pairs().latents(range.clone())?;
            let denoiser = targets.denoiser(model, range.clone())?;
            let outcome = sample(&denoiser, plan, &noise)?;
            let states = targets.of(range)?;
            let (made, wanted) = (&outcome.samples, &states[states.len() - 1]);
            let error = |i: usize| squared_distance(made.sample(i), 1.0, wanted.sample(i)) / made.sample_len() as f64;
            Ok((0..made.samples()).map(error).collect::<Vec<f64>>())
        };
        targets.prepare(all.clone())?;
        let batch = self.plan.recipe.micro_batch;
        let share = |mine| Ok(in_parts(model, mine, batch, part)?.concat());
        Ok(targets.comm().scatter_gather(all, unit(model, batch), share)?.concat())
    }

    /// The same of what was learned.
    pub fn distance_of(&self, dataset: &Dataset, trained: &TrainOutcome) -> Result<f64> {
        let frame = &self.plan.student.frame;
        let built = trained.run.learnable().build(&coeffs(&trained.params, false), frame)?;
        let plan = Plan { solver: &*built.solver, times: built.times, afs: frame.afs, denoise_to_zero: false };
        self.distance(dataset, &plan)
    }
}
