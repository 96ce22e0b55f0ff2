//! DyWeight for any budget: its weights and time scales as smooth functions of the step and of the number of steps, so that one file serves a
//! range of budgets.
//!
//! ```text
//! wᵢₖ = AB(min(i + 1, window))ₖ + Σ_f Σ_b φ_f(i, S)·ψ_b(S)·W[k][f][b]       k: slopes back, 0 the newest
//! ln sᵢ =                         Σ_f Σ_b φ_f(i, S)·ψ_b(S)·C[f][b]
//!
//! φ = T₀(u) … T_p(u), [i = 0], [i = 1], [i = S − 2], [i = S − 1]      u = (2i + 1)/S − 1
//! ψ_b = 1 at the b-th number of steps that was trained, 0 at the others, and linear in 1/S between neighbours
//! ```
//!
//! T are Chebyshev's polynomials. A budget that was trained has a column of its own, so what one of them needs does not pull at another, and one that was left out is a
//! mean of its two neighbours: polynomials in the budget fit as well and ran away in between. Corrections of a multistep method on an uneven grid go with the step length 1/S, which is therefore the
//! variable. The first two steps have fewer slopes than the others and the last two end at the data: they are unlike the rest and have
//! offsets of their own. Numbers that are 0 give iPNDM at every budget. The method is ours.

use crate::Weights;
use crate::learned::{Block, Built, Frame, LearnedSolver, require_finite, require_len, split};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{DyWeight, Initial};
use serde::{Deserialize, Serialize};

/// A coefficient as a function of step and budget: a row for each φ, a column for each ψ.
pub type Table = Vec<Vec<f64>>;

/// Steps with offsets of their own.
const ENDS: usize = 4;
/// The highest degree in the step, and the widest window: nobody learns more.
const MOST: usize = 16;
/// The longest grid.
const MOST_STEPS: usize = 1000;

/// The numbers of DyWeight for a range of budgets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnyBudget {
    /// Window: the most slopes a step weighs.
    pub order: usize,
    /// Numbers of steps it was trained on, rising. It serves every one from the first to the last.
    pub trained: Vec<usize>,
    /// W: a table for each slope of the window, the newest first.
    pub weights: Vec<Table>,
    /// C.
    pub time_scale: Table,
}

impl AnyBudget {
    /// iPNDM of this window at all of these numbers of steps, with polynomials of this degree in the step.
    pub fn start(order: usize, mut trained: Vec<usize>, degree: usize) -> Self {
        trained.sort_unstable();
        trained.dedup();
        let table = vec![vec![0.0; trained.len()]; degree + 1 + ENDS];
        Self { order, trained, weights: vec![table.clone(); order], time_scale: table }
    }

    /// The same functions with columns for other numbers of steps of its range: what is new there is what the neighbours gave.
    pub fn with_budgets(&self, mut trained: Vec<usize>) -> Self {
        trained.sort_unstable();
        trained.dedup();
        let columns: Vec<Vec<f64>> = trained.iter().map(|steps| self.budget(*steps)).collect();
        let value = |row: &Vec<f64>, psi: &Vec<f64>| row.iter().zip(psi).map(|(number, psi)| number * psi).sum();
        let table = |table: &Table| -> Table {
            table.iter().map(|row| columns.iter().map(|psi| value(row, psi)).collect()).collect()
        };
        let (weights, time_scale) = (self.weights.iter().map(table).collect(), table(&self.time_scale));
        Self { order: self.order, trained, weights, time_scale }
    }

    /// The fewest and the most steps it serves.
    pub fn range(&self) -> (usize, usize) {
        (self.trained.first().copied().unwrap_or(0), self.trained.last().copied().unwrap_or(0))
    }

    /// The numbers of a run of so many steps, whose first is analytical or not: a DyWeight solver like any other.
    pub fn weights_of(&self, steps: usize, afs: bool) -> Result<Weights> {
        let numbers: Vec<Coeff> = self.numbers().into_iter().map(Coeff::from).collect();
        let (rows, scales) = self.rows(&numbers, steps, afs)?;
        let value = |list: &Vec<Coeff>| list.iter().map(Coeff::value).collect();
        let weights = Weights::new(rows.iter().map(value).collect(), value(&scales));
        weights.check()?;
        Ok(weights)
    }

    /// Weights, newest last, and scales of a run of so many steps.
    fn rows(&self, numbers: &[Coeff], steps: usize, afs: bool) -> Result<(Vec<Vec<Coeff>>, Vec<Coeff>)> {
        let (least, most) = self.range();
        if !(least..=most).contains(&steps) {
            let expected = format!("the numbers serve {least} to {most} steps");
            return Err(Error::BadValue { name: "steps", value: steps.to_string(), expected });
        }
        let size = self.features() * self.columns();
        let tables = split(numbers, std::iter::repeat_n(size, self.order + 1));
        let budget = self.budget(steps);
        let at = |i: usize, table: usize, constant: f64| {
            let row = self.step(i, steps);
            // Offsets of other steps and columns of other budgets are 0, and no part of the record.
            let factors = row.iter().enumerate().filter(|(_, f)| **f != 0.0);
            let terms = factors.flat_map(|(f, phi)| budget.iter().enumerate().map(move |(b, psi)| (f, b, phi * psi)));
            let terms = terms.filter(|(.., factor)| *factor != 0.0);
            Coeff::affine(constant, terms.map(|(f, b, factor)| (factor, &tables[table][f * self.columns() + b])))
        };
        let weights = |(i, row): (usize, Vec<f64>)| {
            let newest = row.len() - 1;
            row.into_iter().enumerate().map(|(j, w)| at(i, newest - j, w)).collect()
        };
        let rows = Initial::Ab.rows(steps, self.order).into_iter().enumerate().map(weights).collect();
        let scales = (usize::from(afs)..steps).map(|i| at(i, self.order, 0.0).exp()).collect();
        Ok((rows, scales))
    }

    /// φ of a step.
    fn step(&self, i: usize, steps: usize) -> Vec<f64> {
        let u = (2 * i + 1) as f64 / steps as f64 - 1.0;
        let mut row = chebyshev(u, self.features() - ENDS);
        let own = [i == 0, i == 1, i + 2 == steps, i + 1 == steps];
        row.extend(own.map(|is| f64::from(u8::from(is))));
        row
    }

    /// ψ of a number of steps.
    fn budget(&self, steps: usize) -> Vec<f64> {
        let mut row = vec![0.0; self.columns()];
        let above = self.trained.partition_point(|trained| *trained < steps);
        if self.trained.get(above) == Some(&steps) {
            row[above] = 1.0;
        } else {
            let [few, own, many] = [self.trained[above - 1], steps, self.trained[above]].map(|s| 1.0 / s as f64);
            row[above - 1] = (own - many) / (few - many);
            row[above] = (few - own) / (few - many);
        }
        row
    }

    fn features(&self) -> usize {
        self.time_scale.len()
    }

    fn columns(&self) -> usize {
        self.time_scale.first().map_or(0, Vec::len)
    }
}

/// The first `count` of Chebyshev's polynomials: T₀ = 1, T₁ = x, T_{n+1} = 2x·T_n − T_{n−1}.
fn chebyshev(x: f64, count: usize) -> Vec<f64> {
    let mut values = vec![1.0, x];
    while values.len() < count {
        values.push(2.0 * x * values[values.len() - 1] - values[values.len() - 2]);
    }
    values.truncate(count);
    values
}

impl LearnedSolver for AnyBudget {
    fn steps(&self) -> Option<usize> {
        None
    }

    fn blocks(&self) -> Vec<Block> {
        let table = [self.features(), self.columns()];
        let weights = [self.order, table[0], table[1]];
        vec![Block::new("weights", &weights), Block::new("time_scale", &table)]
    }

    fn numbers(&self) -> Vec<f64> {
        self.weights.iter().chain([&self.time_scale]).flatten().flatten().copied().collect()
    }

    fn replace(&mut self, numbers: &[f64]) {
        let rows = self.weights.iter_mut().chain([&mut self.time_scale]).flatten();
        rows.flatten().zip(numbers).for_each(|(own, new)| *own = *new);
    }

    fn check(&self) -> Result<()> {
        let (least, most) = self.range();
        if least == 0 || most > MOST_STEPS || !self.trained.is_sorted_by(|a, b| a < b) {
            let expected = format!("numbers of steps from 1 to {MOST_STEPS}, each more than the one before");
            return Err(Error::BadValue { name: "trained", value: format!("{:.80}", list(&self.trained)), expected });
        }
        if !(1..=MOST).contains(&self.order) {
            let expected = format!("a window of 1 to {MOST} slopes");
            return Err(Error::BadValue { name: "order", value: self.order.to_string(), expected });
        }
        let (features, columns) = (self.features(), self.columns());
        if !(ENDS + 1..=ENDS + MOST).contains(&features) || columns != self.trained.len() {
            let what = format!("tables of {} to {} rows and a column for each number of steps", ENDS + 1, ENDS + MOST);
            return Err(Error::Shape {
                what,
                expected: vec![ENDS + 4, self.trained.len()],
                found: vec![features, columns],
            });
        }
        require_len("weights: a table for each slope of the window", self.order, self.weights.len())?;
        for table in self.weights.iter().chain([&self.time_scale]) {
            require_len("rows of a table", features, table.len())?;
            table.iter().try_for_each(|row| require_len("numbers in a row of a table", columns, row.len()))?;
        }
        require_finite("weights and time_scale", &self.numbers())
    }

    fn build(&self, numbers: &[Coeff], frame: &Frame) -> Result<Built> {
        let (rows, scales) = self.rows(numbers, frame.grid.steps(), frame.afs)?;
        Ok(Built { solver: Box::new(DyWeight::new(rows, scales)?), times: frame.grid.coeffs() })
    }

    fn summary(&self) -> String {
        let (least, most) = self.range();
        format!("window {}, one solver for each of {least} to {most} steps", self.order)
    }
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
