//! Whom a learned solver has to beat: the best handcrafted one that makes as many calls, searched on the same training
//! pairs.
//!
//! The list is every comparison's: [`settings`]. All are tried on a few training pairs, the best of them on more;
//! the winner is then judged on the validation pairs, on which nothing of it was chosen.

use crate::halving::halve_one;
use crate::targets::Targets;
use crate::trainer::{Dataset, Trainer};
use dyweight_core::error::{Error, Result};
use dyweight_core::sample::Plan;
use dyweight_sample::{OnModel, SampleSpec, Sampler, Who};
use dyweight_solvers::spec::handcrafted::{Fixed, settings};
use dyweight_solvers::spec::{Budget, Handcrafted, ScheduleSpec};
use std::ops::Range;

/// Pairs on which all are tried.
const FIRST: usize = 4;
/// How many of them are tried on more.
const KEPT: usize = 12;
/// On so many.
const SECOND: usize = 16;
/// Of a model whose calls cost nothing as many times more: few pairs take a good setting for a bad one.
const LIGHT: usize = 64;

/// The best handcrafted solver, and how it did.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// Its name, and how to ask for it.
    pub name: String,
    /// Root mean squared difference to the teacher over the validation pairs.
    pub distance: f64,
    /// How many were tried.
    pub tried: usize,
}

/// One under trial.
struct Trial {
    setting: Handcrafted,
    sampler: Sampler,
    loss: f64,
}

impl Trainer {
    /// The best handcrafted solver of `nfe` calls on the training pairs, judged on the validation pairs; none where no
    /// one makes so many. `watch` is told before each trial how many there are. Every process must call it.
    pub fn best_handcrafted(
        &self,
        dataset: &Dataset,
        nfe: usize,
        watch: &mut dyn FnMut(usize),
    ) -> Result<Option<Rival>> {
        let ready = self.handcrafted(nfe)?;
        let (tried, pairs) = (ready.len(), self.rounds());
        let ready = halve_one(ready, &[KEPT, 1], |round, one| {
            watch(tried + tried.min(KEPT));
            let pairs = pairs[round];
            one.loss = self.mean_loss(&dataset.training, 0..pairs, &one.sampler.plan())?;
            Ok(one.loss)
        })?;
        let Some(best) = ready.into_iter().next().filter(|best| best.loss.is_finite()) else {
            return Ok(None);
        };
        let loss = self.mean_loss(&dataset.validation, 0..self.plan.recipe.validation_pairs, &best.sampler.plan())?;
        Ok(Some(Rival { name: best.setting.title(), distance: loss.sqrt(), tried }))
    }

    /// Pairs of each round.
    fn rounds(&self) -> [usize; 2] {
        let (all, times) =
            (self.plan.recipe.pairs_needed().max(1), if self.config().model.is_light() { LIGHT } else { 1 });
        [FIRST, SECOND].map(|pairs| all.min(times * pairs))
    }

    pub(crate) fn on_model(&self) -> OnModel<'_> {
        let config = self.config();
        OnModel { model: &*config.model, identity: config.identity.clone(), calls: self.plan.calls() }
    }

    /// All that can make so many calls.
    fn handcrafted(&self, nfe: usize) -> Result<Vec<Trial>> {
        let on = self.on_model();
        let trial = |setting: Handcrafted| {
            let (schedule, afs) = (setting.schedule.clone(), setting.afs);
            let spec = SampleSpec { budget: Some(Budget::Nfe(nfe)), schedule, afs, denoise_to_zero: false };
            let sampler = spec.sampler(Who::Handcrafted(&setting.solver), &on).ok()?;
            Some(Trial { setting, sampler, loss: f64::INFINITY })
        };
        Ok(self.allowed()?.into_iter().filter_map(trial).collect())
    }

    /// Whatever is fixed for the solver that is learned, its rivals may choose.
    fn allowed(&self) -> Result<Vec<Handcrafted>> {
        let config = self.config();
        let (prediction, given) = (config.model.prediction(), &config.schedule);
        let (sigma_min, sigma_max) = (given.sigma_min, given.sigma_max);
        let free = ScheduleSpec { sigma_min, sigma_max, ..ScheduleSpec::default() };
        let on = |schedule: ScheduleSpec| settings(prediction, &Fixed { schedule, ..Fixed::default() });
        let (mut all, own) = (on(free)?, on(given.clone())?);
        all.extend(own.into_iter().filter(|one| !all.contains(one)).collect::<Vec<_>>());
        Ok(all)
    }

    /// Network calls of that search, and of the judgement.
    pub fn calls_of_search(&self, nfe: usize) -> Result<usize> {
        let (tried, [first, second]) = (self.handcrafted(nfe)?.len(), self.rounds());
        let solves = tried * first + tried.min(KEPT) * second + self.plan.recipe.validation_pairs;
        Ok(if tried == 0 { 0 } else { nfe * solves })
    }

    /// Mean squared difference to the teacher; infinite where a sample diverges.
    pub(crate) fn mean_loss(&self, targets: &Targets, pairs: Range<usize>, plan: &Plan<'_>) -> Result<f64> {
        let errors = match self.errors(targets, pairs, plan) {
            // It diverged, or left the levels the network takes.
            Err(Error::Diverged { .. } | Error::BadValue { .. }) => return Ok(f64::INFINITY),
            other => other?,
        };
        Ok(errors.iter().sum::<f64>() / errors.len() as f64)
    }
}
