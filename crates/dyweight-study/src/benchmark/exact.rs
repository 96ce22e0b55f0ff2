//! How far a teacher is from the exact solution of its own ODE, on models whose calls cost nothing.
//!
//! A distance to the teacher far below this one says that the teacher was imitated, not that samples are right.

use super::evaluator::Evaluator;
use dyweight_core::error::Result;
use dyweight_metrics::Estimate;
use dyweight_metrics::teacher::{rmse, squared_errors};
use dyweight_sample::{OnModel, SampleSpec, Sampler, Who, in_parts};
use dyweight_solvers::spec::{Budget, ScheduleSpec, SolverSpec};
use std::ops::Range;

/// Steps of Heun's method, which is then within 1e-5 of the solution.
pub(super) const STEPS: usize = 1000;
/// Samples that are looked at.
pub(super) const SAMPLES: usize = 4096;

impl Evaluator<'_> {
    /// The teacher's root mean squared difference to the exact solution; none of a network, and at every rank but 0.
    pub(super) fn teacher_to_exact(&self) -> Result<Option<Estimate>> {
        let model = &*self.subject.model.model;
        if !model.is_light() {
            return Ok(None);
        }
        let (sampler, share) = (self.exact()?, self.share());
        let part = |range| self.errors_of_teacher(&sampler, range);
        let own = || {
            Ok(in_parts(model, share.start.min(SAMPLES)..share.end.min(SAMPLES), self.judging.batch, part)?.concat())
        };
        let errors: Vec<f64> = self.targets.comm().gather(own)?.concat();
        Ok(Some(errors).filter(|errors| !errors.is_empty()).map(|errors| rmse(&errors)))
    }

    /// From the teacher's first level to its last.
    fn exact(&self) -> Result<Sampler> {
        let sigmas = self.judging.teacher(self.subject)?.sampler.sigmas();
        let (sigma_max, sigma_min) = (sigmas.first().copied(), sigmas.last().copied());
        let schedule = ScheduleSpec { sigma_min, sigma_max, ..ScheduleSpec::default() };
        let spec = SampleSpec { budget: Some(Budget::Steps(STEPS)), schedule, ..SampleSpec::default() };
        let on: OnModel<'_> = self.subject.on()?;
        spec.sampler(Who::Handcrafted(&SolverSpec::named("heun")), &on)
    }

    fn errors_of_teacher(&self, exact: &Sampler, range: Range<usize>) -> Result<Vec<f64>> {
        let pairs = self.targets.pairs();
        let bound = self.subject.model.model.denoiser(&pairs.condition(range.clone()))?;
        let solved = exact.sample(&*bound, &pairs.latents(range.clone())?, &mut |_| Ok(()))?;
        let targets = self.targets.of(range)?;
        squared_errors(&targets[targets.len() - 1], &solved.samples)
    }
}
