//! Who competes.

use dyweight_core::error::{Error, Result};
use dyweight_sample::Learned;
use dyweight_solvers::solver_file::{Asked, SolverFile};
use dyweight_solvers::spec::handcrafted::Fixed;
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
    /// The best setting of a method, or of all, that this much leaves open; found before anything is judged.
    Open {
        /// What stays.
        #[serde(skip)]
        fixed: Fixed,
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

/// A handcrafted solver as written on the command line: `NAME[:ORDER][@SCHEDULE[:EXPONENT]][+afs|-afs]`, as in
/// `dpmpp:2@karras:5+afs`. The exponent of a flow's grid is its shift.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The method and its order.
    pub solver: SolverSpec,
    /// The rule of its grid, and its exponent, if it has one of its own.
    pub schedule: Option<(String, Option<f64>)>,
    /// The analytical first step, if it was said.
    pub afs: Option<bool>,
}

impl Term {
    /// Reads a term.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |expected: &str| Error::bad_value("solvers", text, expected);
        let (rest, afs) = match text.trim() {
            t if t.ends_with("+afs") => (&t[..t.len() - 4], Some(true)),
            t if t.ends_with("-afs") => (&t[..t.len() - 4], Some(false)),
            t => (t, None),
        };
        let (rest, schedule) = match rest.split_once('@') {
            Some((_, "")) => return Err(bad("a schedule must follow '@', as in dpmpp:2@logsnr")),
            Some((rest, schedule)) => (rest, Some(grid(schedule).ok_or_else(|| bad(GRID))?)),
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

    /// The candidate as it is written, with what the term leaves open.
    pub fn candidate(&self, schedule: &ScheduleSpec, afs: bool) -> Candidate {
        let (solver, afs) = (self.solver.clone(), self.afs.unwrap_or(afs));
        Candidate::Handcrafted { solver, schedule: self.grid(schedule), afs }
    }

    /// The best of what the term and those options leave open.
    pub fn open(&self, schedule: &ScheduleSpec, afs: Option<bool>) -> Candidate {
        let (solver, schedule) = (Some(self.solver.clone()), self.grid(schedule));
        Candidate::Open { fixed: Fixed { solver, schedule, afs: self.afs.or(afs) } }
    }

    /// The term's own rule in the place of the common one. Both have the same ends, and what else was said of the grid;
    /// what does not belong to the rule is refused where the grid is built.
    pub fn grid(&self, common: &ScheduleSpec) -> ScheduleSpec {
        let Some((name, exponent)) = &self.schedule else { return common.clone() };
        let own = ScheduleSpec { schedule: Some(name.clone()), ..common.clone() };
        match exponent {
            Some(shift) if name == "flow" => ScheduleSpec { shift: Some(*shift), ..own },
            Some(rho) => ScheduleSpec { rho: Some(*rho), ..own },
            None => own,
        }
    }
}

/// What may follow '@'.
const GRID: &str = "a schedule follows '@', and its exponent ':', as in karras:5";

/// `karras` or `karras:5`.
fn grid(text: &str) -> Option<(String, Option<f64>)> {
    let Some((name, exponent)) = text.split_once(':') else { return Some((text.into(), None)) };
    let exponent: f64 = exponent.parse().ok()?;
    (!name.is_empty() && exponent.is_finite()).then(|| (name.into(), Some(exponent)))
}

impl Candidate {
    /// True if it was trained on features of a network, which then is no judge of it.
    pub(super) fn learned_features(&self) -> bool {
        match self {
            Candidate::Given { file } => file.training.contains_key("features"),
            Candidate::Learned { train, .. } => matches!(train.loss.as_deref(), Some("features" | "frechet")),
            _ => false,
        }
    }

    /// A preset, a solver file, or a tensor file that is one; of a file for a range one solver for each budget that is
    /// asked for. Evaluations cost `calls`.
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
        assert_eq!((term.solver.order, term.schedule, term.afs), (Some(2), Some(("logsnr".into(), None)), Some(true)));
        assert_eq!(Term::parse("euler@karras:5").unwrap().schedule, Some(("karras".into(), Some(5.0))));
        let plain = Term::parse("ddim").unwrap();
        assert_eq!((plain.solver.order, plain.schedule, plain.afs), (None, None, None));
        assert_eq!(Term::parse("ipndm-v:3-afs").unwrap().solver.solver, "ipndm-v");
        for bad in ["", "ipdnm", "ipndm:x", "dpmpp@", "ipndm:3:4", "ipndm@karras:", "ipndm@:5"] {
            assert!(Term::parse(bad).is_err(), "{bad}");
        }
    }
}
