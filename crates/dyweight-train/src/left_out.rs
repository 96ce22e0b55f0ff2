//! Budgets that a file for a range serves though they were not trained: each against its handcrafted rival.

use crate::handcrafted::Rival;
use crate::trainer::{Dataset, Trainer};
use dyweight_core::error::Result;
use dyweight_sample::{Learned, SampleSpec, Who};
use dyweight_solvers::solver_file::{Asked, SolverFile};
use dyweight_solvers::spec::Budget;

/// A budget that is no closer than this share of its rival's distance is as good as none: on other pairs it may be
/// further.
const CLEARLY: f64 = 0.75;

/// A budget between trained ones.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// Network calls.
    pub nfe: usize,
    /// Root mean squared difference to the teacher over the validation pairs.
    pub distance: f64,
    /// The best handcrafted solver of as many calls.
    pub rival: Option<Rival>,
}

impl LeftOut {
    /// True if it is not clearly closer than its rival: then it is worth a training of its own.
    pub fn is_weak(&self) -> bool {
        // NaN is further than anything.
        self.rival.as_ref().is_some_and(|rival| self.distance > CLEARLY * rival.distance || self.distance.is_nan())
    }
}

impl Trainer {
    /// Every budget that `file` serves without training, fewest calls first. Rivals are chosen on the training pairs;
    /// both are judged on the validation pairs. `watch` is told before each trial how many there are. Every process
    /// must call it.
    pub fn left_out(&self, dataset: &Dataset, file: &SolverFile, watch: &mut dyn FnMut(usize)) -> Result<Vec<LeftOut>> {
        let budgets = file.left_out();
        let all = budgets.len();
        let one = |nfe: usize| {
            let distance = self.distance_to_teacher(dataset, file, nfe)?;
            let rival = self.best_handcrafted(dataset, nfe, &mut |trials| watch(all * trials))?;
            Ok(LeftOut { nfe, distance, rival })
        };
        budgets.into_iter().map(one).collect()
    }

    /// Root mean squared difference between what a solver makes with `nfe` calls and the teacher's results, over the
    /// validation pairs. Every process must call it.
    pub fn distance_to_teacher(&self, dataset: &Dataset, file: &SolverFile, nfe: usize) -> Result<f64> {
        let learned = Learned::of("the file", file.at("the file", Asked::nfe(nfe))?);
        let spec = SampleSpec { budget: Some(Budget::Nfe(nfe)), ..SampleSpec::default() };
        let sampler = spec.sampler(Who::Learned(&learned), &self.on_model())?;
        let pairs = 0..self.plan.recipe.validation_pairs;
        Ok(self.mean_loss(&dataset.validation, pairs, &sampler.plan())?.sqrt())
    }
}
