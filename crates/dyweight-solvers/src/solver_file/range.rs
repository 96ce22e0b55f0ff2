//! A file for a range of budgets and of guidance, and the solver of one of them.

use super::{MethodParams, SolverFile};
use crate::any_budget::{AnyBudget, BudgetMember};
use crate::spec::Budget;
use dyweight_core::error::{Error, Result, counted};

/// The refusal of a number of calls that a solver does not make.
pub fn other_budget(source: &str, nfe: usize, wanted: usize) -> Error {
    Error::conflict(
        format!("'{source}' is for {}, not {wanted}", counted(nfe, "call")),
        format!("leave `nfe` out, or train a solver with `nfe = {wanted}`"),
    )
}

/// The refusal of the calls a solver was learned for, where guidance makes every evaluation cost others.
pub fn other_guidance(source: &str, file: &SolverFile, made: usize) -> Error {
    let (own, other) = match file.guidance {
        Some(g) => (format!("with guidance {g}, where every evaluation is two"), "without guidance"),
        None => ("without guidance".into(), "with guidance, where every evaluation is two,"),
    };
    Error::conflict(
        format!("'{source}' was trained for {} {own}; {other} it makes {made}", counted(file.nfe, "call")),
        format!("leave `nfe` out, or say `nfe = {made}`"),
    )
}

/// What is asked of a file that may serve a range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Which budget; a file for a range needs one.
    pub budget: Option<Budget>,
    /// Network calls of an evaluation, if not those of training. Who says them counts the calls of a single solver with
    /// what else it does.
    pub calls: Option<usize>,
    /// Strength of guidance; a file for a range of it needs one.
    pub guidance: Option<f64>,
}

impl Asked {
    /// So many network calls.
    pub fn nfe(nfe: usize) -> Self {
        Self { budget: Some(Budget::Nfe(nfe)), ..Self::default() }
    }
}

impl SolverFile {
    /// One file for the range of several budgets, or strengths of guidance, or both, each trained by itself, under the
    /// names they are called by. What else it says is the last's: of the strongest guidance, the longest.
    pub fn joined(mut files: Vec<(String, Self)>) -> Result<Self> {
        let strength = |file: &Self| file.guidance.unwrap_or(f64::NEG_INFINITY);
        files.sort_by(|(_, a), (_, b)| strength(a).total_cmp(&strength(b)).then(a.steps.cmp(&b.steps)));
        let refused = |problem: String, hint: &str| Err(Error::conflict(problem, hint));
        let Some((longest, last)) = files.last().filter(|_| files.len() > 1) else {
            return refused(
                "one solver has no range of budgets".into(),
                "give two or more, of different numbers of calls or under different guidance",
            );
        };
        let mut trained = Vec::new();
        for (name, file) in &files {
            let weights = match &file.body {
                MethodParams::DyWeight(weights) if weights.span.is_empty() && weights.time_shift => weights,
                MethodParams::DyWeight(_) => {
                    return refused(format!("{name} has a span, or no time shift"), "join plain solvers of dyweight");
                }
                other => {
                    return refused(format!("{name} is a solver of {}", other.method()), "join solvers of dyweight");
                }
            };
            let same = |a: &Self, b: &Self| {
                let guided = |file: &Self| (file.guidance.is_some(), file.calls());
                (a.afs, a.prediction, &a.schedule, a.sigma_min, a.sigma_max, &a.model, guided(a))
                    == (b.afs, b.prediction, &b.schedule, b.sigma_min, b.sigma_max, &b.model, guided(b))
            };
            if !same(file, last) {
                let problem = format!("{name} and {longest} differ in more than the number of calls and the guidance");
                return refused(problem, "join solvers of one model, schedule and first step, all guided or none");
            }
            trained.push(BudgetMember { weights: weights.weights.clone(), time_scale: weights.time_scale.clone() });
        }
        let strengths: Vec<_> = files.chunk_by(|(_, a), (_, b)| a.guidance == b.guidance).collect();
        let budgets = |group: &[(String, Self)]| group.iter().map(|(_, file)| file.nfe).collect::<Vec<_>>();
        for group in &strengths {
            let under = group[0].1.guidance.map_or(String::new(), |g| format!(" under guidance {g}"));
            if let Some(twice) = budgets(group).windows(2).find(|pair| pair[0] == pair[1]) {
                let problem = format!("two solvers have {} calls{under}", twice[0]);
                return refused(problem, "join one for each number of calls");
            }
            if budgets(group) != budgets(strengths[0]) {
                let problem =
                    format!("{:?} calls{under}, but {:?} under another", budgets(group), budgets(strengths[0]));
                return refused(problem, "join the same numbers of calls under every strength of guidance");
            }
        }
        let guidance = match &strengths[..] {
            [_] => Vec::new(),
            several => several.iter().filter_map(|group| group[0].1.guidance).collect(),
        };
        let mut file = Self { body: MethodParams::Any(AnyBudget { trained, guidance }), ..last.clone() };
        file.body.learned().check()?;
        // Losses of one budget say nothing of the others.
        file.training.retain(|key, _| !key.ends_with("loss") && key != "rollbacks");
        file.training.insert("budgets".into(), budgets(strengths[0]).into());
        file.derive()?;
        Ok(file)
    }

    /// The fewest and the most network calls of a file that serves a range of budgets; none of any other.
    pub fn served(&self) -> Option<(usize, usize)> {
        let MethodParams::Any(any) = &self.body else { return None };
        let (least, most) = any.range();
        Some((self.evaluations(least) * self.calls(), self.evaluations(most) * self.calls()))
    }

    /// Budgets between the trained ones of a file that serves a range, in network calls.
    pub fn left_out(&self) -> Vec<usize> {
        let MethodParams::Any(any) = &self.body else { return Vec::new() };
        let (least, most) = any.range();
        let between = (least..most).filter(|steps| !any.is_trained(*steps));
        between.map(|steps| self.evaluations(steps) * self.calls()).collect()
    }

    /// Network calls of an evaluation.
    pub fn calls(&self) -> usize {
        // A step of some methods is several evaluations; an analytical one is in the list, too.
        let made = self.network_levels.len().saturating_sub(usize::from(self.afs));
        (self.nfe / made.max(1)).max(1)
    }

    /// Evaluations of so many steps.
    fn evaluations(&self, steps: usize) -> usize {
        steps.saturating_sub(usize::from(self.afs))
    }

    /// The solver of one budget and strength of guidance, as a file of its own: of a file for a range the one that is
    /// asked for, of any other file itself, which must make as many calls. `source` is what the file is called.
    pub fn at(&self, source: &str, asked: Asked) -> Result<Self> {
        let Asked { budget, calls, guidance } = asked;
        let MethodParams::Any(any) = &self.body else {
            return match (budget, calls) {
                (Some(Budget::Nfe(wanted)), None) if wanted != self.nfe => Err(other_budget(source, self.nfe, wanted)),
                _ => Ok(self.clone()),
            };
        };
        let calls = calls.unwrap_or(self.calls()).max(1);
        let (fewest, longest) = any.range();
        let (least, most) = (self.evaluations(fewest) * calls, self.evaluations(longest) * calls);
        let refused = |problem: String, hint: String| Err(Error::conflict(problem, hint));
        let steps = match budget {
            Some(Budget::Steps(steps)) => steps,
            Some(Budget::Nfe(nfe)) if nfe % calls != 0 => {
                let near = (nfe / calls).max(1) * calls;
                return refused(
                    format!("with guidance an evaluation costs {calls} calls, of which {nfe} is no multiple"),
                    format!("use `nfe = {near}` or `nfe = {}`", near + calls),
                );
            }
            Some(Budget::Nfe(nfe)) => (nfe / calls).saturating_add(usize::from(self.afs)),
            None if fewest == longest => fewest,
            None => {
                return refused(
                    format!("{source} serves every budget from {least} to {most} network calls"),
                    format!("choose one with `nfe`, as in `nfe = {}`", least.midpoint(most) / calls * calls),
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
                "choose one of those with `nfe`, or train over a wider range".into(),
            );
        }
        let guidance = match any.guidance_range() {
            None => self.guidance,
            Some((weakest, strongest)) => match guidance {
                Some(strength) if (weakest..=strongest).contains(&strength) => guidance,
                other => {
                    let asked = other.map_or("none".into(), |g| g.to_string());
                    return refused(
                        format!("{source} serves guidance from {weakest} to {strongest}, not {asked}"),
                        format!("choose one with `guidance`, as in `guidance = {}`", weakest.midpoint(strongest)),
                    );
                }
            },
        };
        let body = MethodParams::DyWeight(any.weights_of(steps, guidance)?);
        let mut file = Self { body, steps, guidance, nfe: self.evaluations(steps) * self.calls(), ..self.clone() };
        file.derive()?;
        Ok(file)
    }
}
