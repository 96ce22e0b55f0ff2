//! Whom a learned solver has to beat: the best handcrafted one that makes as many calls, searched on the same training pairs.
//!
//! One list for every comparison: solvers × orders × grids × the analytical first step. All are tried on a few training pairs, the best of them on more;
//! the winner is then judged on the validation pairs, on which nothing of it was chosen.

use crate::grids::{TriedGrid, all_grids};
use crate::targets::Targets;
use crate::trainer::{Dataset, Trainer};
use dyweight_core::denoiser::{Model, Prediction};
use dyweight_core::error::{Error, Result};
use dyweight_core::sample::Plan;
use dyweight_core::schedule::Grid;
use dyweight_core::solver::{Predict, Solver};
use dyweight_solvers::spec::budget::Setting;
use dyweight_solvers::spec::{Budget, ScheduleSpec, SolverSpec};
use std::ops::Range;

/// Solvers with their orders.
const SOLVERS: [(&str, &str, Option<usize>); 14] = [
    ("Euler (DDIM)", "euler", None),
    ("Heun", "heun", None),
    ("DPM-Solver-2", "dpm2", None),
    ("iPNDM-2", "ipndm", Some(2)),
    ("iPNDM-3", "ipndm", Some(3)),
    ("iPNDM-4", "ipndm", Some(4)),
    ("DEIS-tAB2", "deis-tab", Some(2)),
    ("DEIS-tAB3", "deis-tab", Some(3)),
    ("DPM-Solver++(2M)", "dpmpp", Some(2)),
    ("DPM-Solver++(3M)", "dpmpp", Some(3)),
    ("UniPC-2", "unipc", Some(2)),
    ("UniPC-3", "unipc", Some(3)),
    ("UniPC-2, eps", "unipc", Some(2)),
    ("DPM-Solver++(2M), eps", "dpmpp", Some(2)),
];
/// Pairs on which all are tried.
const FIRST: usize = 4;
/// How many of them are tried on more.
const KEPT: usize = 12;
/// On so many.
const SECOND: usize = 16;

/// A handcrafted solver on a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Handcrafted {
    /// As a person would say it.
    pub name: String,
    /// The method.
    pub solver: SolverSpec,
    /// The rule of its grid.
    pub schedule: ScheduleSpec,
    /// The analytical first step.
    pub afs: bool,
}

/// The best handcrafted solver, and how it did.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// Its name.
    pub name: String,
    /// What it is.
    pub setting: Handcrafted,
    /// Root mean squared difference to the teacher over the validation pairs.
    pub distance: f64,
    /// How many were tried.
    pub tried: usize,
}

/// All settings for a model.
pub fn settings(model: &dyn Model, given: &ScheduleSpec) -> Vec<Handcrafted> {
    let (grids, denoised) = (all_grids(model, given), model.prediction() == Prediction::Denoised);
    let of_grid = |grid: &TriedGrid| {
        let one = |(label, name, order): &(&str, &str, Option<usize>), afs: bool| {
            let predict = label.ends_with("eps").then_some(Predict::Noise);
            let solver = SolverSpec { order: *order, predict, ..SolverSpec::named(name) };
            let afs_name = if afs { ", analytical first step" } else { "" };
            Handcrafted {
                name: format!("{label} on {}{afs_name}", grid.name),
                solver,
                schedule: grid.schedule.clone(),
                afs,
            }
        };
        let both = |solver| [false, true].into_iter().filter(|afs| denoised || !afs).map(move |afs| one(solver, afs));
        SOLVERS.iter().flat_map(both).collect::<Vec<_>>()
    };
    grids.iter().flat_map(of_grid).collect()
}

/// Ready to run.
struct Ready {
    setting: Handcrafted,
    solver: Box<dyn Solver>,
    grid: Grid,
    loss: f64,
}

impl Ready {
    /// None where it cannot make exactly so many calls.
    fn of(setting: Handcrafted, model: &dyn Model, (calls, nfe): (usize, usize)) -> Option<Self> {
        let solver = setting.solver.build(model.is_bounded()).ok()?;
        let rule = setting.schedule.on(model).ok()?;
        let range = setting.schedule.range(&rule, model.sigma_range());
        let (prediction, afs) = (model.prediction(), setting.afs);
        let budget =
            Setting { solver: &*solver, schedule: &rule, range, afs, denoise_to_zero: false, prediction, calls };
        let grid = budget.grid(Budget::Nfe(nfe)).ok()?;
        Some(Self { setting, solver, grid, loss: f64::INFINITY })
    }

    fn plan(&self) -> Plan<'_> {
        Plan::new(&*self.solver, &self.grid).afs(self.setting.afs)
    }
}

impl Trainer {
    /// The best handcrafted solver of `nfe` calls on the training pairs, judged on the validation pairs; none where no one makes so many. `watch` is
    /// told before each trial how many there are. Every process must call it.
    pub fn best_handcrafted(
        &self,
        dataset: &Dataset,
        nfe: usize,
        watch: &mut dyn FnMut(usize),
    ) -> Result<Option<Rival>> {
        let mut ready = self.handcrafted(nfe)?;
        let (tried, pairs) = (ready.len(), self.plan.recipe.pairs_needed().max(1));
        let all = tried + tried.min(KEPT);
        for (keep, pairs) in [(KEPT, pairs.min(FIRST)), (1, pairs.min(SECOND))] {
            for one in &mut ready {
                watch(all);
                one.loss = self.mean_loss(&dataset.training, 0..pairs, &one.plan())?;
            }
            ready.sort_by(|a, b| a.loss.total_cmp(&b.loss));
            ready.truncate(keep);
        }
        let Some(best) = ready.into_iter().next().filter(|best| best.loss.is_finite()) else { return Ok(None) };
        let loss = self.mean_loss(&dataset.validation, 0..self.plan.recipe.validation_pairs, &best.plan())?;
        Ok(Some(Rival { name: best.setting.name.clone(), setting: best.setting, distance: loss.sqrt(), tried }))
    }

    /// All that can make so many calls.
    fn handcrafted(&self, nfe: usize) -> Result<Vec<Ready>> {
        let config = self.config();
        let (model, calls) = (&*config.model, config.spec.calls(&*config.model)?);
        Ok(settings(model, &config.schedule)
            .into_iter()
            .filter_map(|one| Ready::of(one, model, (calls, nfe)))
            .collect())
    }

    /// Network calls of that search, and of the judgement.
    pub fn calls_of_search(&self, nfe: usize) -> Result<usize> {
        let (tried, pairs) = (self.handcrafted(nfe)?.len(), self.plan.recipe.pairs_needed().max(1));
        let solves = tried * pairs.min(FIRST) + tried.min(KEPT) * pairs.min(SECOND) + self.plan.recipe.validation_pairs;
        Ok(if tried == 0 { 0 } else { nfe * solves })
    }

    /// Mean squared difference to the teacher; infinite where a sample diverges.
    fn mean_loss(&self, targets: &Targets, pairs: Range<usize>, plan: &Plan<'_>) -> Result<f64> {
        let errors = match self.errors(targets, pairs, plan) {
            // It diverged, or left the levels the network takes.
            Err(Error::Diverged { .. } | Error::BadValue { .. }) => return Ok(f64::INFINITY),
            other => other?,
        };
        Ok(errors.iter().sum::<f64>() / errors.len() as f64)
    }
}
