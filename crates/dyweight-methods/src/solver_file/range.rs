//! A file for a range of budgets, and the solver of one of them.

use super::{Body, SolverFile};
use crate::any_budget::{AnyBudget, Trained};
use crate::spec::Budget;
use dyweight_core::error::{Error, Result};

/// The refusal of a number of calls that a solver does not make.
pub fn other_budget(source: &str, nfe: usize, wanted: usize) -> Error {
    Error::Conflict {
        problem: format!("'{source}' is for {nfe} calls, not {wanted}"),
        hint: format!("leave --nfe out, or train a solver with --nfe {wanted}"),
    }
}

impl SolverFile {
    /// One file for the range of several budgets, each trained by itself, under the names they are called by. What else it says is the longest's.
    pub fn joined(mut files: Vec<(String, Self)>) -> Result<Self> {
        files.sort_by_key(|(_, file)| file.steps);
        let refused = |problem: String, hint: &str| Err(Error::Conflict { problem, hint: hint.into() });
        let Some((longest, last)) = files.last().filter(|_| files.len() > 1) else {
            return refused(
                "one solver has no range of budgets".into(),
                "give two or more, of different numbers of calls",
            );
        };
        let mut trained = Vec::new();
        for (name, file) in &files {
            let weights = match &file.body {
                Body::DyWeight(weights) if weights.span.is_empty() && weights.time_shift => weights,
                Body::DyWeight(_) => {
                    return refused(format!("{name} has a span, or no time shift"), "join plain solvers of dyweight");
                }
                other => {
                    return refused(format!("{name} is a solver of {}", other.method()), "join solvers of dyweight");
                }
            };
            let same = |a: &Self, b: &Self| {
                (a.afs, a.prediction, &a.schedule, a.sigma_min, a.sigma_max, a.guidance, &a.model, a.calls())
                    == (b.afs, b.prediction, &b.schedule, b.sigma_min, b.sigma_max, b.guidance, &b.model, b.calls())
            };
            if !same(file, last) {
                let problem = format!("{name} and {longest} differ in more than the number of calls");
                return refused(problem, "join solvers of one model, schedule, guidance and first step");
            }
            if trained.last().is_some_and(|t: &Trained| t.weights.len() == file.steps) {
                return refused(format!("two solvers have {} calls", file.nfe), "join one for each number of calls");
            }
            trained.push(Trained { weights: weights.weights.clone(), time_scale: weights.time_scale.clone() });
        }
        let mut file = Self { body: Body::Any(AnyBudget { trained }), ..last.clone() };
        file.body.learned().check()?;
        // Losses of one budget say nothing of the others.
        file.training.retain(|key, _| !key.ends_with("loss") && key != "rollbacks");
        file.training.insert("budgets".into(), files.iter().map(|(_, file)| file.nfe).collect());
        file.derive()?;
        Ok(file)
    }

    /// The fewest and the most network calls of a file that serves a range of budgets; none of any other.
    pub fn served(&self) -> Option<(usize, usize)> {
        let Body::Any(any) = &self.body else { return None };
        let (least, most) = any.range();
        Some((self.evaluations(least) * self.calls(), self.evaluations(most) * self.calls()))
    }

    /// Network calls of an evaluation.
    fn calls(&self) -> usize {
        (self.nfe / self.evaluations(self.steps).max(1)).max(1)
    }

    /// Evaluations of so many steps.
    fn evaluations(&self, steps: usize) -> usize {
        steps.saturating_sub(usize::from(self.afs))
    }

    /// The solver of one budget, as a file of its own: of a file for a range the one that `budget` names, of any other file itself, which must
    /// make as many calls. Evaluations cost `calls` network calls, or as many as they did in training; who says how many counts the calls of a
    /// single solver with what else it does. `source` is what the file is called.
    pub fn at(&self, source: &str, budget: Option<Budget>, calls: Option<usize>) -> Result<Self> {
        let Body::Any(any) = &self.body else {
            return match (budget, calls) {
                (Some(Budget::Nfe(wanted)), None) if wanted != self.nfe => Err(other_budget(source, self.nfe, wanted)),
                _ => Ok(self.clone()),
            };
        };
        let calls = calls.unwrap_or(self.calls()).max(1);
        let (fewest, longest) = any.range();
        let (least, most) = (self.evaluations(fewest) * calls, self.evaluations(longest) * calls);
        let refused = |problem: String, hint: String| Err(Error::Conflict { problem, hint });
        let steps = match budget {
            Some(Budget::Steps(steps)) => steps,
            Some(Budget::Nfe(nfe)) if nfe % calls != 0 => {
                let near = (nfe / calls).max(1) * calls;
                return refused(
                    format!("an evaluation costs {calls} calls, of which {nfe} is no multiple"),
                    format!("use --nfe {near} or --nfe {}", near + calls),
                );
            }
            Some(Budget::Nfe(nfe)) => (nfe / calls).saturating_add(usize::from(self.afs)),
            None => {
                return refused(
                    format!("{source} serves every budget from {least} to {most} network calls"),
                    format!("choose one with --nfe, as in --nfe {}", least.midpoint(most) / calls * calls),
                );
            }
        };
        if !(fewest..=longest).contains(&steps) {
            let asked = match budget {
                Some(Budget::Nfe(nfe)) => format!("{nfe}"),
                _ => format!("the {} of {steps} steps", self.evaluations(steps).saturating_mul(calls)),
            };
            return refused(
                format!("{source} serves budgets from {least} to {most} network calls, not {asked}"),
                "choose one of those with --nfe, or train over a wider range".into(),
            );
        }
        let body = Body::DyWeight(any.weights_of(steps)?);
        let mut file = Self { body, steps, nfe: self.evaluations(steps) * self.calls(), ..self.clone() };
        file.derive()?;
        Ok(file)
    }
}
