//! Who competes.

use dyweight_core::error::{Error, Result};
use dyweight_sample::Learned;
use dyweight_solvers::solver_file::{Asked, SolverFile};
use dyweight_solvers::spec::{ScheduleSpec, SolverSpec};
use dyweight_train::TrainSpec;
use serde::Serialize;

/// A solver that takes part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Candidate {
    /// A method with fixed coefficients.
    Handcrafted {
        /// The method.
        solver: SolverSpec,
        /// Its grid.
        schedule: ScheduleSpec,
        /// Analytical first step.
        afs: bool,
    },
    /// Coefficients from a file or preset, used on the grid they were learned on.
    Given {
        /// The solver file.
        file: Box<SolverFile>,
    },
    /// Coefficients learned here.
    Learned {
        /// How.
        train: Box<TrainSpec>,
        /// On which grid.
        schedule: ScheduleSpec,
        /// On which subject, by its number.
        on: usize,
        /// The parameters after this many iterations instead of the best of the whole run.
        after: Option<usize>,
    },
}

/// A handcrafted solver as written on the command line: `NAME[:ORDER][@SCHEDULE][+afs|-afs]`, as in `dpmpp:2@logsnr+afs`.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The method and its order.
    pub solver: SolverSpec,
    /// The rule of its grid, if it has one of its own.
    pub schedule: Option<String>,
    /// The analytical first step, if it was said.
    pub afs: Option<bool>,
}

impl Term {
    /// Reads a term.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |expected: &str| Error::BadValue { name: "solvers", value: text.into(), expected: expected.into() };
        let (rest, afs) = match text.trim() {
            t if t.ends_with("+afs") => (&t[..t.len() - 4], Some(true)),
            t if t.ends_with("-afs") => (&t[..t.len() - 4], Some(false)),
            t => (t, None),
        };
        let (rest, schedule) = match rest.split_once('@') {
            Some((_, "")) => return Err(bad("a schedule must follow '@', as in dpmpp:2@logsnr")),
            Some((rest, schedule)) => (rest, Some(schedule.to_string())),
            None => (rest, None),
        };
        let (name, order) = match rest.split_once(':') {
            Some((name, order)) => {
                let order = order.parse().map_err(|_| bad("an order must follow ':', as in ipndm:3"))?;
                (name, Some(order))
            }
            None => (rest, None),
        };
        let solver = SolverSpec { order, ..SolverSpec::named(name) };
        solver.method()?;
        Ok(Self { solver, schedule, afs })
    }

    /// The candidate, with what the term leaves open.
    pub fn candidate(&self, schedule: &ScheduleSpec, afs: bool) -> Candidate {
        let schedule = match &self.schedule {
            Some(name) => ScheduleSpec { schedule: Some(name.clone()), ..ScheduleSpec::default() },
            None => schedule.clone(),
        };
        Candidate::Handcrafted { solver: self.solver.clone(), schedule, afs: self.afs.unwrap_or(afs) }
    }
}

impl Candidate {
    /// A preset, a solver file, or a tensor file that is one; of a file for a range one solver for each budget that is asked for. Evaluations cost `calls`.
    pub fn open(source: &str, budgets: &[usize], calls: Option<usize>, guidance: Option<f64>) -> Result<Vec<Self>> {
        let file = Learned::open(source)?.into_file()?;
        let given = |file| Candidate::Given { file: Box::new(file) };
        if file.served().is_none() || budgets.is_empty() {
            return Ok(vec![given(file.at(source, Asked::default())?)]);
        }
        let at = |nfe: &usize| file.at(source, Asked { calls, guidance, ..Asked::nfe(*nfe) }).map(given);
        budgets.iter().map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_say_order_schedule_and_first_step() {
        let term = Term::parse("dpmpp:2@logsnr+afs").unwrap();
        assert_eq!((term.solver.order, term.schedule.as_deref(), term.afs), (Some(2), Some("logsnr"), Some(true)));
        let plain = Term::parse("ddim").unwrap();
        assert_eq!((plain.solver.order, plain.schedule, plain.afs), (None, None, None));
        assert_eq!(Term::parse("ipndm-v:3-afs").unwrap().solver.solver, "ipndm-v");
        for bad in ["", "ipdnm", "ipndm:x", "dpmpp@", "ipndm:3:4"] {
            assert!(Term::parse(bad).is_err(), "{bad}");
        }
    }
}
