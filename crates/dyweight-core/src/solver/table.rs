//! Linear multistep methods as tables: x ← x + Σⱼ C_ij·d_j over the slopes of steps j ≤ i.

use super::{Run, Times};
use crate::coeff::Coeff;
use crate::error::Result;
use crate::tape::{Tape, Var};

/// One row per step; row i holds the coefficients of the newest slopes, newest first, step length included.
pub struct StepTable<'t> {
    /// The grid.
    pub times: Times<'t>,
    /// The rows.
    pub rows: Vec<Vec<Coeff>>,
}

impl<'t> StepTable<'t> {
    /// Rows of at most `order` coefficients; `row(i, q)` gives the q coefficients of step i.
    pub fn build(times: Times<'t>, order: usize, row: impl Fn(usize, usize) -> Vec<Coeff>) -> Self {
        let rows = (0..times.len() - 1).map(|i| row(i, order.min(i + 1))).collect();
        Self { times, rows }
    }

    /// A run of the table, without any slope yet.
    pub fn run(self) -> Box<dyn Run + 't> {
        let mut needed: Vec<usize> = self.rows.iter().map(Vec::len).collect();
        for i in (1..needed.len()).rev() {
            needed[i - 1] = needed[i - 1].max(needed[i]);
        }
        Box::new(StepTableRun { table: self, needed, slopes: Vec::new() })
    }
}

struct StepTableRun<'t> {
    table: StepTable<'t>,
    /// The most slopes this row or a later one uses.
    needed: Vec<usize>,
    /// Newest first.
    slopes: Vec<Var>,
}

impl Run for StepTableRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        self.slopes.insert(0, tape.slope(&x, &self.table.times.query(i))?);
        let row = &self.table.rows[i];
        // Slopes no later row will use are let go.
        self.slopes.truncate(self.needed[i]);
        let mut terms = vec![(Coeff::from(1.0), &x)];
        terms.extend(row.iter().cloned().zip(&self.slopes));
        tape.combine(&terms)
    }
}
