//! Solvers compared in one call.

use crate::Solver;
use crate::denoiser::SharedModel;
use crate::error::{Error, Result};
use crate::metrics::Estimate;
use crate::metrics::teacher::{rmse, squared_errors};
use std::fmt;

/// How far solvers end from a teacher on the same noise, in the order they were given.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of each solver and its root mean squared distance, with a standard error over seeds.
    pub rows: Vec<(String, Estimate)>,
}

/// Compares solvers with the results of a teacher: one of many calls, whose results count as right.
///
/// ```
/// use dyweight::mixture::Mixture;
/// use dyweight::{Nfe, Solver};
/// let solvers = [Solver::named("euler", Nfe(5))?, Solver::named("ipndm", Nfe(5))?];
/// let found = dyweight::compare(&Mixture::spiral(), &solvers, &Solver::named("ipndm", Nfe(50))?, 0..32)?;
/// assert!(found.rows[1].1.value < found.rows[0].1.value, "{found}");
/// # Ok::<(), dyweight::Error>(())
/// ```
pub fn compare(
    model: &impl SharedModel,
    solvers: &[Solver],
    teacher: &Solver,
    seeds: std::ops::Range<u64>,
) -> Result<Comparison> {
    if seeds.end.saturating_sub(seeds.start) < 2 {
        return Err(Error::bad_value("seeds", format!("{seeds:?}"), "an error bar needs at least two samples"));
    }
    let right = teacher.sample(model, seeds.clone())?;
    let row = |solver: &Solver| {
        let errors = squared_errors(&solver.sample(model, seeds.clone())?, &right)?;
        Ok((solver.name(), rmse(&errors)))
    };
    Ok(Comparison { rows: solvers.iter().map(row).collect::<Result<_>>()? })
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        self.rows.iter().try_for_each(|(name, distance)| writeln!(f, "{name:width$}  {distance}"))
    }
}
