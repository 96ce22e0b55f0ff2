//! Everything decided before the first network call: solver, grid, extras, and how many calls they make.

use crate::fit::require_prediction;
use crate::learned::Learned;
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::{Condition, Denoiser, Model, ModelIdentity, Prediction};
use dyweight_core::error::{Error, Result, counted};
use dyweight_core::sample::{Observer, Outcome, Plan, Probed, probe, require_channels, sample_observed};
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::Solver;
use dyweight_core::tensor::Tensor;
use dyweight_solvers::learned::{Built, Frame, LearnedSolver};
use dyweight_solvers::solver_file::{SolverFile, other_budget, other_guidance};
use dyweight_solvers::spec::budget::{Setting, check_steps};
use dyweight_solvers::spec::{Budget, ScheduleSpec, SolverSpec, Term};

/// A model, and what an evaluation of it costs.
#[derive(Clone)]
pub struct OnModel<'m> {
    /// The model.
    pub model: &'m dyn Model,
    /// Which one it is.
    pub identity: ModelIdentity,
    /// Network calls of one evaluation: 2 with guidance.
    pub calls: usize,
}

impl<'m> OnModel<'m> {
    /// A model asked for nothing in particular.
    pub fn new(model: &'m dyn Model, name: &str) -> Result<Self> {
        let identity = ModelIdentity { name: name.into(), sha256: None };
        let calls = model.denoiser(&Condition::classes((model.classes() > 0).then_some(0)))?.info().calls;
        Ok(Self { model, identity, calls })
    }
}

/// The rule of a model's grids.
pub struct GridRule {
    /// The rule.
    pub schedule: Schedule,
    /// Smallest and largest level.
    pub range: (f64, f64),
    /// What the model predicts.
    pub prediction: Prediction,
    /// Network calls of one evaluation.
    pub calls: usize,
}

impl GridRule {
    /// The rule a user names, on a model whose evaluations cost `calls`.
    pub fn new(spec: &ScheduleSpec, model: &dyn Model, calls: usize) -> Result<Self> {
        let schedule = spec.on(model)?;
        let range = spec.range(&schedule, model.sigma_range());
        Ok(Self { schedule, range, prediction: model.prediction(), calls })
    }

    /// The rule of a frame.
    pub fn of(frame: &Frame, calls: usize) -> Self {
        Self { schedule: frame.schedule.clone(), range: frame.range, prediction: frame.prediction, calls }
    }

    /// How a solver uses it.
    pub fn setting<'s>(&'s self, solver: &'s dyn Solver, afs: bool, denoise_to_zero: bool) -> Setting<'s> {
        let Self { schedule, range, prediction, calls } = self;
        let (range, prediction, calls) = (*range, *prediction, *calls);
        Setting { solver, schedule, range, afs, denoise_to_zero, prediction, calls }
    }
}

/// Whose samples.
#[derive(Clone, Copy)]
pub enum Who<'w> {
    /// A handcrafted solver.
    Handcrafted(&'w SolverSpec),
    /// Learned coefficients.
    Learned(&'w Learned),
}

/// What a user says about a run. What is left out follows from the model, or from what was learned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleSpec {
    /// Length of the grid; learned coefficients know theirs.
    pub budget: Option<Budget>,
    /// The grid's rule.
    pub schedule: ScheduleSpec,
    /// Analytical first step.
    pub afs: bool,
    /// Final denoising.
    pub denoise_to_zero: bool,
}

impl SampleSpec {
    /// Decides, and refuses what does not go together.
    pub fn sampler(&self, who: Who<'_>, on: &OnModel<'_>) -> Result<Sampler> {
        match who {
            Who::Handcrafted(solver) => {
                let (solver, schedule, afs) = Term::beside(solver, &self.schedule, self.afs)?;
                Self { schedule, afs, ..self.clone() }.handcrafted(solver.build(on.model.is_bounded())?, on)
            }
            Who::Learned(learned) => self.learned(learned, on),
        }
    }

    fn handcrafted(&self, solver: Box<dyn Solver>, on: &OnModel<'_>) -> Result<Sampler> {
        let rule = GridRule::new(&self.schedule, on.model, on.calls)?;
        let own = || rule.schedule.fixed_steps().map(Budget::Steps).ok_or_else(no_budget);
        let budget = self.budget.map_or_else(own, Ok)?;
        let grid = rule.setting(&*solver, self.afs, self.denoise_to_zero).grid(budget)?;
        let times = grid.coeffs();
        self.ready(Built { solver, times }, grid, self.afs, on)
    }

    /// Coefficients decide the number of steps; a budget in calls is then checked, not searched.
    fn learned(&self, learned: &Learned, on: &OnModel<'_>) -> Result<Sampler> {
        let file = learned.file.as_ref();
        file.map_or(Ok(()), |file| require_prediction(file, on.model, &on.identity))?;
        let steps = if let Some(Budget::Steps(steps)) = self.budget { Some(steps) } else { learned.steps() };
        let steps = steps.ok_or_else(no_budget)?;
        check_steps("steps", steps)?;
        if let (Some(levels), Some(_)) = (&self.schedule.sigmas, learned.steps())
            && levels.len() != steps + 1
        {
            let expected = format!("{} takes {}, from level to level", learned.source, counted(steps, "step"));
            return Err(Error::bad_value("sigmas", counted(levels.len(), "level"), expected));
        }
        let (schedule, range) = match file {
            // What nobody says is as it was learned.
            Some(file) if self.schedule == ScheduleSpec::default() => {
                (file.schedule_on(on.model), (file.sigma_min, file.sigma_max))
            }
            _ => {
                let rule = GridRule::new(&self.schedule, on.model, on.calls)?;
                (rule.schedule, rule.range)
            }
        };
        let afs = self.afs || file.is_some_and(|f| f.afs);
        let bounded = file.map_or(on.model.is_bounded(), |f| f.bounded);
        let frame = Frame { afs, bounded, ..Frame::new(schedule, steps, range, on.model.prediction())? };
        let mut sampler = self.ready(learned.body.learned().fixed(&frame)?, frame.grid, afs, on)?;
        let realised = learned.body.weights().map(|weights| weights.realised_times(&sampler.sigmas(), None));
        sampler.realised = realised.transpose()?;
        match self.budget {
            Some(Budget::Nfe(wanted)) if wanted != sampler.nfe => {
                Err(not_made(&learned.source, file, (sampler.nfe, on.calls), wanted))
            }
            _ => Ok(sampler),
        }
    }

    fn ready(&self, built: Built, grid: Grid, afs: bool, on: &OnModel<'_>) -> Result<Sampler> {
        Sampler::new(built, grid, (afs, self.denoise_to_zero), on.model, on.calls)
    }
}

/// A solver ready to run.
pub struct Sampler {
    /// The method.
    pub solver: Box<dyn Solver>,
    /// Its times: the grid's, unless they are learned.
    pub times: Vec<Coeff>,
    /// The nominal grid.
    pub grid: Grid,
    /// Analytical first step.
    pub afs: bool,
    /// Final denoising.
    pub denoise_to_zero: bool,
    /// Network calls of one sample.
    pub nfe: usize,
    /// The same, with calls that could be made side by side counted once.
    pub sequential_calls: usize,
    /// The times at which states really are, where weights that do not add up to one move them.
    pub realised: Option<Vec<f64>>,
}

impl Sampler {
    /// A solver on its times, with the analytical first step and the final denoising it is to have, on a model whose
    /// evaluations cost `each` calls. How many it makes is counted on a model that costs nothing.
    pub fn new(
        built: Built,
        grid: Grid,
        (afs, denoise_to_zero): (bool, bool),
        model: &dyn Model,
        each: usize,
    ) -> Result<Self> {
        let Built { solver, times } = built;
        require_channels(&*solver, model.shape()[0])?;
        let mut sampler =
            Self { solver, times, grid, afs, denoise_to_zero, nfe: 0, sequential_calls: 0, realised: None };
        let Probed { calls, sequential_calls, .. } = probe(&sampler.plan(), model.prediction())?;
        (sampler.nfe, sampler.sequential_calls) = (each * calls, each * sequential_calls);
        Ok(sampler)
    }

    /// What the loop runs.
    pub fn plan(&self) -> Plan<'_> {
        let times = self.times.clone();
        Plan { solver: &*self.solver, times, afs: self.afs, denoise_to_zero: self.denoise_to_zero }
    }

    /// Carries unit noise to samples.
    pub fn sample(&self, model: &dyn Denoiser, noise: &Tensor, observer: &mut Observer<'_>) -> Result<Outcome> {
        sample_observed(model, &self.plan(), noise, observer)
    }

    /// Intervals of the grid.
    pub fn steps(&self) -> usize {
        self.times.len() - 1
    }

    /// The levels it steps through.
    pub fn sigmas(&self) -> Vec<f64> {
        self.times.iter().map(Coeff::value).collect()
    }

    /// States of a run, the start included.
    pub fn states(&self) -> usize {
        self.times.len() + usize::from(self.denoise_to_zero)
    }
}

/// Why learned coefficients make other calls than are `wanted`: they are for others, or guidance doubles them.
pub fn not_made(source: &str, file: Option<&SolverFile>, (made, each): (usize, usize), wanted: usize) -> Error {
    match file.filter(|file| file.nfe == wanted && file.calls() != each) {
        Some(file) => other_guidance(source, file, made),
        None => other_budget(source, made, wanted),
    }
}

fn no_budget() -> Error {
    Error::conflict("how many steps?", "give `nfe` (network calls) or `steps` (intervals of the grid)")
}
