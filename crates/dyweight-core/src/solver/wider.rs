//! Where a wider span joins DyWeight's update: it may weigh more than past slopes, and give a step other weights than
//! the solver's.
//!
//! ```text
//! x ← x + δ·( Σⱼ w_ij dⱼ + what the span adds )
//! ```
//!
//! `()` is the narrow one, of slopes alone. Those there are stand in `dyweight-solvers`.

use crate::coeff::Coeff;
use crate::error::Result;
use crate::tape::{Query, Tape, Var};

/// What a solver weighs besides slopes.
pub trait Wider: Send + Sync {
    /// Its parts, by name.
    fn parts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Channels of the samples it can be used on, where that matters.
    fn channels(&self) -> Option<usize> {
        None
    }

    /// An error unless its shapes go with rows of these widths.
    fn check(&self, _widths: &[usize]) -> Result<()> {
        Ok(())
    }

    /// Begins a run of so many steps.
    fn begin(&self, _steps: usize) -> Box<dyn WiderRun + '_> {
        Box::new(())
    }
}

/// One run of it: its memory.
pub trait WiderRun {
    /// A step's query, with what else it needs of its network call.
    fn query(&self, query: Query, _step: usize) -> Query {
        query
    }

    /// The weights of a step, whose slope is known; `times` begin at the step's nominal time.
    fn row(&self, _slope: &Var, row: &[Coeff], _times: &[Coeff]) -> Result<Vec<Coeff>> {
        Ok(row.to_vec())
    }

    /// What the update has besides weighted slopes, to be multiplied by the step's length.
    fn terms(&mut self, _tape: &mut Tape<'_>, _place: &Place<'_>) -> Result<Vec<(Coeff, Var)>> {
        Ok(Vec::new())
    }
}

/// Where a step stands.
pub struct Place<'p> {
    /// Its number.
    pub step: usize,
    /// The state.
    pub x: &'p Var,
    /// Slopes the row weighs, oldest first.
    pub window: &'p [Var],
    /// T.
    pub time: &'p Coeff,
    /// The time of the start.
    pub first: &'p Coeff,
    /// The nominal time of the next state.
    pub next: &'p Coeff,
    /// How many slopes later steps need.
    pub kept: usize,
}

impl Wider for () {}

impl WiderRun for () {}
