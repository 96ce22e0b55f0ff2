//! How long a grid is: a number of steps, or the network calls they must cost.

use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::sample::{Plan, count_calls};
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::{Run, Solver, Times};
use dyweight_core::tape::{Tape, Var};

/// The most steps a grid may have.
const MOST_STEPS: usize = 100_000;

/// Steps after which no solver warms up any more, twice over.
const LONG: usize = 16;

/// What a user says about the length of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Intervals of the grid.
    Steps(usize),
    /// Network calls.
    Nfe(usize),
}

/// Everything but the length.
pub struct Setting<'s> {
    /// The method.
    pub solver: &'s dyn Solver,
    /// The rule of the grid.
    pub schedule: &'s Schedule,
    /// Smallest and largest level.
    pub range: (f64, f64),
    /// Analytical first step.
    pub afs: bool,
    /// Final denoising.
    pub denoise_to_zero: bool,
    /// What the model predicts.
    pub prediction: Prediction,
    /// Network calls per evaluation: 2 with guidance.
    pub calls: usize,
}

/// A solver that makes so many evaluations in every step and nothing of them: a stand-in, where a method has parameters
/// only once its grid is known.
pub struct Evaluations {
    /// One after the other.
    pub apart: usize,
    /// Side by side, after those.
    pub beside: usize,
}

struct EvaluationsRun<'s>(&'s Evaluations, Times<'s>);

impl Solver for Evaluations {
    fn label(&self) -> String {
        format!("a method of {} evaluations a step", self.apart + self.beside)
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        Ok(Box::new(EvaluationsRun(self, times)))
    }
}

impl Run for EvaluationsRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let Self(evaluations, times) = self;
        for k in 0..evaluations.apart + evaluations.beside {
            tape.slope(&x, &times.query(i).in_parallel(k > evaluations.apart))?;
        }
        Ok(x)
    }
}

impl Setting<'_> {
    /// The grid of a budget. For a number of calls, the finest grid on which the solver makes exactly that many, as is
    /// found by running it on a model that costs nothing.
    pub fn grid(&self, budget: Budget) -> Result<Grid> {
        match budget {
            Budget::Steps(steps) => {
                check_steps("steps", steps)?;
                self.schedule.grid(steps, self.range)
            }
            Budget::Nfe(nfe) => self.grid_of_calls(nfe),
        }
    }

    /// The grid of this many network calls, or of the next number the solver can make.
    pub fn grid_of_at_least(&self, nfe: usize) -> Result<Grid> {
        match self.grid_of_calls(nfe) {
            Err(Error::NoSuchBudget { near, .. }) if near.iter().any(|n| *n > nfe) => {
                self.grid_of_calls(near.into_iter().max().unwrap_or(nfe))
            }
            grid => grid,
        }
    }

    fn grid_of_calls(&self, nfe: usize) -> Result<Grid> {
        check_steps("nfe", nfe)?;
        let (mut low, mut high) = match self.schedule.fixed_steps() {
            Some(steps) => (steps, steps + 1),
            // With the analytical first step there can be one step more than calls.
            None => (1, nfe + 2),
        };
        // Calls never fall as steps are added: find the last grid that does not exceed the budget.
        while low + 1 < high {
            let middle = low.midpoint(high);
            if self.calls_of(middle)? <= nfe { low = middle } else { high = middle }
        }
        let made = self.calls_of(low)?;
        if made == nfe {
            return self.schedule.grid(low, self.range);
        }
        let next = if self.schedule.fixed_steps().is_some() { None } else { self.calls_of(high).ok() };
        let near = [Some(made), next].into_iter().flatten().filter(|n| *n > 0).collect();
        Err(Error::NoSuchBudget { solver: self.solver.label(), nfe, each: self.calls, near })
    }

    /// Network calls on so many steps of the rule. Long grids are not run through: after warm-up every step costs the
    /// same.
    fn calls_of(&self, steps: usize) -> Result<usize> {
        let count = |steps: usize| self.count(&self.schedule.grid(steps, self.range)?);
        if steps <= LONG || self.schedule.fixed_steps().is_some() {
            return count(steps);
        }
        let (before, made) = (count(LONG - 1)?, count(LONG)?);
        Ok(made + (made - before) * (steps - LONG))
    }

    /// Network calls the solver makes on a grid.
    pub fn count(&self, grid: &Grid) -> Result<usize> {
        let plan = Plan::new(self.solver, grid).afs(self.afs).denoise_to_zero(self.denoise_to_zero);
        Ok(self.calls * count_calls(&plan, self.prediction)?)
    }
}

/// An error unless a grid may have this many steps.
pub fn check_steps(name: &'static str, steps: usize) -> Result<()> {
    if (1..=MOST_STEPS).contains(&steps) {
        return Ok(());
    }
    Err(Error::bad_value(name, steps, format!("must lie between 1 and {MOST_STEPS}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{METHODS, SolverSpec};
    use dyweight_core::schedule::Shift;
    use std::time::{Duration, Instant};

    /// Every method with its options, on grids that end above and at 0.
    fn each(check: impl Fn(&Setting<'_>)) {
        for prediction in [Prediction::Denoised, Prediction::Velocity] {
            let (schedule, range) = match prediction {
                Prediction::Denoised => (Schedule::Karras { rho: 7.0 }, (0.002, 80.0)),
                Prediction::Velocity => (Schedule::Flow { shift: Shift::fixed(1.0).unwrap() }, (0.0, 1.0)),
            };
            for method in METHODS.iter().filter(|m| m.name != "dyweight") {
                let solver = SolverSpec::named(method.name).build(true).unwrap();
                for (afs, denoise_to_zero) in [(false, false), (true, prediction == Prediction::Denoised)] {
                    let (solver, schedule) = (&*solver, &schedule);
                    check(&Setting { solver, schedule, range, afs, denoise_to_zero, prediction, calls: 2 });
                }
            }
        }
    }

    #[test]
    fn long_grids_cost_what_they_are_taken_to_cost() {
        each(|setting| {
            for steps in [1, 2, LONG, LONG + 1, 50, 311] {
                let grid = setting.schedule.grid(steps, setting.range).unwrap();
                let (taken, made) = (setting.calls_of(steps).unwrap(), setting.count(&grid).unwrap());
                assert_eq!(taken, made, "{} on {steps} steps", setting.solver.label());
            }
        });
    }

    #[test]
    fn the_longest_budgets_are_found_at_once() {
        each(|setting| {
            let begun = Instant::now();
            let found = setting.grid(Budget::Nfe(MOST_STEPS)).or_else(|_| setting.grid(Budget::Nfe(MOST_STEPS - 2)));
            let label = setting.solver.label();
            assert!(found.unwrap().steps() > MOST_STEPS / 5, "{label}");
            assert!(begun.elapsed() < Duration::from_millis(300), "{label}: {:?}", begun.elapsed());
        });
    }
}
