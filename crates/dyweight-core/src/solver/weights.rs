//! DyWeight's numbers as a solver file keeps them: the weights and scales themselves, whatever they were learned through.

use super::{DyWeight, Rows, Scales, realised_times};
use crate::coeff::Coeff;
use crate::error::{Error, Result};
use crate::learned::{Block, Built, Frame, LearnedSolver, split};
use serde::{Deserialize, Serialize};

/// Weights and scales of a DyWeight solver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Window: the most slopes a step weighs.
    pub order: usize,
    /// Whether time is shifted by the weights' sums.
    #[serde(default = "yes")]
    pub time_shift: bool,
    /// Weights, newest last.
    pub weights: Rows,
    /// Scales of the levels told to the network; empty for none.
    pub time_scale: Scales,
}

fn yes() -> bool {
    true
}

impl Weights {
    /// Weights and scales, with time shifted.
    pub fn new(weights: Rows, time_scale: Scales) -> Self {
        let order = weights.iter().map(Vec::len).max().unwrap_or(0);
        Self { order, time_shift: true, weights, time_scale }
    }

    /// The solver.
    pub fn solver(&self) -> Result<DyWeight> {
        Ok(DyWeight::fixed(&self.weights, &self.time_scale)?.time_shift(self.time_shift))
    }

    /// Where the states of a run really are.
    pub fn realised_times(&self, sigmas: &[f64]) -> Vec<f64> {
        if self.time_shift { realised_times(sigmas, &self.weights) } else { sigmas.to_vec() }
    }
}

impl LearnedSolver for Weights {
    fn steps(&self) -> Option<usize> {
        Some(self.weights.len())
    }

    fn blocks(&self) -> Vec<Block> {
        let weights = self.weights.iter().map(Vec::len).sum();
        vec![Block::new("weights", &[weights]), Block::new("time_scale", &[self.time_scale.len()])]
    }

    fn numbers(&self) -> Vec<f64> {
        [self.weights.concat(), self.time_scale.clone()].concat()
    }

    fn replace(&mut self, numbers: &[f64]) {
        let parts = split(numbers, self.weights.iter().map(Vec::len).chain([self.time_scale.len()]));
        let (scales, rows) = parts.split_last().map_or((&[][..], &[][..]), |(s, r)| (*s, r));
        self.weights = rows.iter().map(|row| row.to_vec()).collect();
        self.time_scale = scales.to_vec();
    }

    fn check(&self) -> Result<()> {
        let window = self.weights.iter().map(Vec::len).max().unwrap_or(0);
        if self.order != window {
            let expected = format!("the longest row has {window} weights");
            return Err(Error::BadValue { name: "order", value: self.order.to_string(), expected });
        }
        self.solver().map(drop)
    }

    fn build(&self, numbers: &[Coeff], frame: &Frame) -> Result<Built> {
        let mut parts = split(numbers, self.weights.iter().map(Vec::len).chain([self.time_scale.len()]));
        let scales = parts.pop().unwrap_or_default().to_vec();
        let rows = parts.into_iter().map(<[Coeff]>::to_vec).collect();
        let solver = Box::new(DyWeight::new(rows, scales)?.time_shift(self.time_shift));
        Ok(Built { solver, times: frame.grid.coeffs() })
    }

    fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (i, row) in self.weights.iter().enumerate() {
            let sum: f64 = row.iter().sum();
            if let Some(w) = row.iter().find(|w| w.abs() > 2.5) {
                found.push(format!("step {i}: weight {w:.4} is larger than 2.5"));
            }
            if !(0.5..=1.4).contains(&sum) {
                found.push(format!("step {i}: the weights sum to {sum:.4}, outside 0.5 to 1.4"));
            }
        }
        for (i, s) in self.time_scale.iter().enumerate().filter(|(_, s)| !(0.5..=1.5).contains(*s)) {
            found.push(format!("time scale {i} is {s:.4}, outside 0.5 to 1.5"));
        }
        found
    }

    fn summary(&self) -> String {
        format!("window {}", self.order)
    }
}
