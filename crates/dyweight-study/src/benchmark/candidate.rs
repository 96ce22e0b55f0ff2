//! Who competes.

use dyweight_core::error::Result;
use dyweight_sample::Learned;
use dyweight_solvers::solver_file::{Asked, SolverFile};
use dyweight_solvers::spec::handcrafted::Fixed;
use dyweight_solvers::spec::{ScheduleSpec, SolverSpec, Term};
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

impl Candidate {
    /// A handcrafted solver as it is written: what the term leaves open is the method's default, and the common grid.
    pub fn written(term: &Term, schedule: &ScheduleSpec, afs: bool) -> Self {
        let (solver, afs) = (term.solver.with_order(), term.afs.unwrap_or(afs));
        Candidate::Handcrafted { solver, schedule: term.grid(schedule), afs }
    }

    /// The best of what the term and those options leave open.
    pub fn best_of(term: &Term, schedule: &ScheduleSpec, afs: Option<bool>) -> Self {
        let (solver, schedule) = (Some(term.solver.clone()), term.grid(schedule));
        Candidate::Open { fixed: Fixed { solver, schedule, afs: term.afs.or(afs) } }
    }

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
