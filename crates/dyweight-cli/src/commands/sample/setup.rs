//! Everything decided before the first network call: solver, grid, extras, and whether they fit the model.

use super::DrawArgs;
use crate::ui;
use dyweight::coeff::Coeff;
use dyweight::error::number;
use dyweight::learned::{Built, Frame};
use dyweight::models::LoadedModel;
use dyweight::sample::{Plan, count_calls, require_channels};
use dyweight::schedule::Grid;
use dyweight::solver::Solver;
use dyweight::solver_file::{SolverFile, other_budget};
use dyweight::spec::Budget;
use dyweight::spec::budget::{Setting, check_steps};
use dyweight::train::Learned;
use dyweight::{Error, Result};

/// The handcrafted solver the arguments name; none where learned coefficients say what it is.
pub fn solver(args: &DrawArgs, learned: Option<&Learned>, bounded: bool) -> Result<Option<Box<dyn Solver>>> {
    let Some(learned) = learned else {
        return args.solver.spec(args.solver.solver.as_deref().unwrap_or("ipndm"))?.build(bounded).map(Some);
    };
    let method = learned.body.method();
    let name = args.solver.solver.as_deref().unwrap_or(method);
    // Options are read all the same: what is misspelt is said.
    args.solver.spec(name)?;
    if !name.eq_ignore_ascii_case(method) {
        return Err(Error::Conflict {
            problem: format!("weights belong to the solver {method}, not to {name}"),
            hint: format!("leave --weights out, or use --solver {method}"),
        });
    }
    if let Some(order) = args.solver.order {
        let expected = "the window is a property of the weights".into();
        return Err(Error::BadValue { name: "order", value: order.to_string(), expected });
    }
    Ok(None)
}

/// The decisions.
pub struct Sampling {
    pub solver: Box<dyn Solver>,
    times: Vec<Coeff>,
    /// The nominal grid.
    grid: Grid,
    pub afs: bool,
    pub denoise_to_zero: bool,
    /// Network calls one sample will cost.
    pub nfe: usize,
    /// Fingerprint of learned coefficients.
    pub coefficients: Option<String>,
}

impl Sampling {
    /// Decides, and refuses what does not go together; an evaluation of the model costs `calls` calls.
    pub fn new(args: &DrawArgs, model: &LoadedModel, calls: usize, learned: Option<&Learned>) -> Result<Self> {
        let file = learned.and_then(|l| l.file.as_ref());
        if let Some(file) = file {
            refuse_other_prediction(file, model)?;
        }
        let afs = args.afs || file.is_some_and(|f| f.afs);
        let prediction = model.model.prediction();
        let (schedule, range) = match file {
            // What the command line does not say is as it was learned.
            Some(file) if args.schedule.is_default() => {
                (file.schedule_on(&*model.model), (file.sigma_min, file.sigma_max))
            }
            _ => {
                let spec = args.schedule.spec();
                let schedule = spec.on(&*model.model)?;
                let range = spec.range(&schedule, model.model.sigma_range());
                (schedule, range)
            }
        };
        let (denoise_to_zero, bounded) = (args.denoise_to_zero, model.model.is_bounded());
        let (solver, times, grid) = match (learned, self::solver(args, learned, bounded)?) {
            (None, None) => return Err(no_budget()),
            (None, Some(solver)) => {
                let own = || schedule.fixed_steps().map(Budget::Steps).ok_or_else(no_budget);
                let budget = args.budget.budget().map_or_else(own, Ok)?;
                let setting =
                    Setting { solver: &*solver, schedule: &schedule, range, afs, denoise_to_zero, prediction, calls };
                let grid = setting.grid(budget)?;
                (solver, grid.coeffs(), grid)
            }
            (Some(learned), _) => {
                // Coefficients decide the number of steps; a budget in calls is then checked, not searched.
                let steps = args.budget.steps.or(learned.steps()).ok_or_else(no_budget)?;
                check_steps("steps", steps)?;
                let bounded = file.map_or(bounded, |f| f.bounded);
                let frame = Frame { afs, bounded, ..Frame::new(schedule, steps, range, prediction)? };
                let Built { solver, times } = learned.body.learned().fixed(&frame)?;
                (solver, times, frame.grid)
            }
        };
        require_channels(&*solver, model.model.shape()[0])?;
        let plan = Plan { solver: &*solver, times: times.clone(), afs, denoise_to_zero };
        let nfe = calls * count_calls(&plan, prediction)?;
        if let Some(wanted) = args.budget.nfe.filter(|n| *n != nfe) {
            return Err(match &args.weights {
                Some(weights) => other_budget(weights, nfe, wanted),
                None => Error::NoSuchBudget { solver: solver.label(), nfe: wanted, near: vec![nfe] },
            });
        }
        let coefficients = learned.map(Learned::fingerprint);
        let setup = Self { solver, times, grid, afs, denoise_to_zero, nfe, coefficients };
        if let Some(file) = file {
            setup.check_fit(args, file, model)?;
        }
        Ok(setup)
    }

    /// What sampling runs.
    pub fn plan(&self) -> Plan<'_> {
        let times = self.times.clone();
        Plan { solver: &*self.solver, times, afs: self.afs, denoise_to_zero: self.denoise_to_zero }
    }

    /// Intervals of the grid.
    pub fn steps(&self) -> usize {
        self.times.len() - 1
    }

    /// Its levels.
    pub fn sigmas(&self) -> Vec<f64> {
        self.times.iter().map(Coeff::value).collect()
    }

    /// States of a run, the start included.
    pub fn states(&self) -> usize {
        self.times.len() + usize::from(self.denoise_to_zero)
    }

    /// Warns of, or with --strict refuses, coefficients used on something they were not learned for. Unusual values are no such thing: training
    /// itself finds them.
    fn check_fit(&self, args: &DrawArgs, file: &SolverFile, model: &LoadedModel) -> Result<()> {
        let mut found = Vec::new();
        let learned_for = &file.model;
        match &learned_for.sha256 {
            Some(sha) if *sha != model.sha256 => {
                found.push(format!(
                    "the solver was learned on weights of '{}' that '{}' does not have",
                    learned_for.name, model.name
                ));
            }
            None if learned_for.name != model.name => {
                found.push(format!("the solver was learned for '{}', not for '{}'", learned_for.name, model.name));
            }
            _ => {}
        }
        let guidance = args.guidance.or(model.model.default_guidance());
        if file.guidance.or(model.model.default_guidance()) != guidance {
            let say = |g: Option<f64>| g.map_or("none".into(), number);
            found.push(format!("the solver was learned under guidance {}, not {}", say(file.guidance), say(guidance)));
        }
        if file.afs != self.afs || file.grid().is_ok_and(|learned| learned != self.grid) {
            found.push("the grid or first step is not the one the solver was learned on".into());
        }
        if let (true, Some(first)) = (args.strict, found.first()) {
            return Err(Error::Conflict {
                problem: format!("--strict: {first}"),
                hint: "leave --strict out to sample all the same".into(),
            });
        }
        found.iter().chain(&file.warnings()).for_each(|w| ui::warn(w));
        Ok(())
    }
}

/// Coefficients of velocities mean nothing to a denoiser, nor the other way round.
fn refuse_other_prediction(file: &SolverFile, model: &LoadedModel) -> Result<()> {
    let is_same = file.prediction == model.model.prediction();
    let (learned_for, name) = (&file.model.name, &model.name);
    if is_same {
        return Ok(());
    }
    Err(Error::Conflict {
        problem: format!("the solver was learned for '{learned_for}', which predicts another quantity than '{name}'"),
        hint: "coefficients of flows work on flows alone, those of denoisers on denoisers: leave --weights out".into(),
    })
}

fn no_budget() -> Error {
    Error::Conflict {
        problem: "how many steps?".into(),
        hint: "give --nfe (network calls) or --steps (intervals of the grid)".into(),
    }
}
