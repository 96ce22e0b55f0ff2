//! How much work a run is, before it is done.

use crate::course::Prepared;
use dyweight_core::error::Result;
use dyweight_core::sample::{Plan, count_calls};
use dyweight_core::trail::Memory;

/// Network calls, each for one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Calls for their value alone.
    pub calls: usize,
    /// Calls whose gradient is taken too.
    pub gradients: usize,
}

impl Work {
    /// A call with its gradient takes about as long as this many without: processor time of `dyweight bench --model fashion --what gradient` over
    /// that of `--what forward`.
    const GRADIENT: f64 = 2.3;

    /// All of it in calls.
    pub fn in_calls(&self) -> f64 {
        self.calls as f64 + Self::GRADIENT * self.gradients as f64
    }
}

impl std::ops::Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { calls: self.calls + other.calls, gradients: self.gradients + other.gradients }
    }
}

impl Prepared {
    /// Network calls of the whole run, unless it ends early: teacher, student and validations.
    pub fn work(&self) -> Result<Work> {
        let (course, recipe, frame) = (self.course(), &self.plan.recipe, &self.plan.student.frame);
        let model = &*course.model;
        let teacher = course.spec.teacher(model, &self.plan)?;
        let plan = Plan::new(&*teacher.solver, &teacher.grid).denoise_to_zero(teacher.denoise_to_zero);
        let taught = course.spec.calls(model)? * count_calls(&plan, model.prediction())?;
        let pairs = recipe.iterations() * recipe.pairs;
        // One validation before the first iteration, and one of iPNDM.
        let validations = recipe.validate_every.map_or(0, |every| 2 + recipe.iterations().div_ceil(every));
        let validating = if validations > 0 { recipe.validation_pairs } else { 0 };
        let again = if self.plan.student.memory == Memory::Recompute { frame.nfe * pairs } else { 0 };
        let calls = taught * (pairs + validating) + frame.nfe * validating * validations + again;
        Ok(Work { calls, gradients: frame.nfe * pairs })
    }
}
