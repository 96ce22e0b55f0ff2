//! How long a grid is: a number of steps, or the network calls they must cost.

use crate::denoiser::Prediction;
use crate::error::{Error, Result};
use crate::sample::{Plan, count_calls};
use crate::schedule::{Grid, Schedule};
use crate::solver::Solver;

/// The most steps a grid may have.
const MOST_STEPS: usize = 100_000;

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

impl Setting<'_> {
    /// The grid of a budget. For a number of calls, the finest grid on which the solver, run on a model that costs nothing,
    /// makes exactly that many.
    pub fn grid(&self, budget: Budget) -> Result<Grid> {
        match budget {
            Budget::Steps(steps) => {
                check_steps("steps", steps)?;
                self.schedule.grid(steps, self.range)
            }
            Budget::Nfe(nfe) => self.grid_of_calls(nfe),
        }
    }

    fn grid_of_calls(&self, nfe: usize) -> Result<Grid> {
        check_steps("nfe", nfe)?;
        let calls = |steps: usize| self.count(&self.schedule.grid(steps, self.range)?);
        let (mut low, mut high) = match self.schedule.fixed_steps() {
            Some(steps) => (steps, steps + 1),
            // With the analytical first step there can be one step more than calls.
            None => (1, nfe + 2),
        };
        // Calls never fall as steps are added: find the last grid that does not exceed the budget.
        while low + 1 < high {
            let middle = low.midpoint(high);
            if calls(middle)? <= nfe {
                low = middle;
            } else {
                high = middle;
            }
        }
        let made = calls(low)?;
        if made == nfe {
            return self.schedule.grid(low, self.range);
        }
        let next = if self.schedule.fixed_steps().is_some() { None } else { calls(high).ok() };
        let near = [Some(made), next].into_iter().flatten().filter(|n| *n > 0).collect();
        Err(Error::NoSuchBudget { solver: self.solver.label(), nfe, near })
    }

    /// Network calls the solver makes on a grid.
    pub fn count(&self, grid: &Grid) -> Result<usize> {
        let plan = Plan::new(self.solver, grid).afs(self.afs).denoise_to_zero(self.denoise_to_zero);
        Ok(self.calls * count_calls(&plan, self.prediction)?)
    }
}

/// An error unless a grid may have this many steps.
pub(super) fn check_steps(name: &'static str, steps: usize) -> Result<()> {
    if (1..=MOST_STEPS).contains(&steps) {
        return Ok(());
    }
    let expected = format!("must lie between 1 and {MOST_STEPS}");
    Err(Error::BadValue { name, value: steps.to_string(), expected })
}
