//! DyWeight's parameters as a solver file keeps them: the weights and scales themselves, whatever they were learned
//! through.

mod moved;
mod recipe;

pub use moved::{LearnedWeights, ScaleMode};
pub use recipe::{DyWeightMethod, DyWeightOptions};

use crate::learned::{Block, Built, Frame, LearnedSolver, split};
use crate::span::{Span, widths};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{DyWeight, Rows, Scales, realised_times};
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
    /// What is weighed besides slopes.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub span: Span,
}

fn yes() -> bool {
    true
}

impl Weights {
    /// Weights and scales, with time shifted.
    pub fn new(weights: Rows, time_scale: Scales) -> Self {
        let order = weights.iter().map(Vec::len).max().unwrap_or(0);
        Self { order, time_shift: true, weights, time_scale, span: Span::default() }
    }

    /// The solver.
    pub fn solver(&self) -> Result<DyWeight> {
        let constants: Vec<Coeff> = self.span.params().into_iter().map(|v| Coeff::from(*v)).collect();
        let solver = DyWeight::fixed(&self.weights, &self.time_scale)?.time_shift(self.time_shift);
        solver.span(self.span.with(&constants))
    }

    /// Rows, scales, and the numbers of the span.
    fn cut<'v, T: Clone>(&self, params: &'v [T]) -> (Vec<Vec<T>>, Vec<T>, &'v [T]) {
        let span = self.span.params().len();
        let lengths = self.weights.iter().map(Vec::len).chain([self.time_scale.len(), span]);
        let mut parts = split(params, lengths);
        let (span, scales) = (parts.pop().unwrap_or_default(), parts.pop().unwrap_or_default().to_vec());
        (parts.into_iter().map(<[T]>::to_vec).collect(), scales, span)
    }
}

impl LearnedSolver for Weights {
    fn steps(&self) -> Option<usize> {
        Some(self.weights.len())
    }

    fn blocks(&self) -> Vec<Block> {
        let weights = self.weights.iter().map(Vec::len).sum();
        let own = vec![Block::new("weights", &[weights]), Block::new("time_scale", &[self.time_scale.len()])];
        own.into_iter().chain(self.span.blocks()).collect()
    }

    fn params(&self) -> Vec<f64> {
        let span = self.span.params().into_iter().copied().collect();
        [self.weights.concat(), self.time_scale.clone(), span].concat()
    }

    fn replace(&mut self, params: &[f64]) {
        let (rows, scales, span) = self.cut(params);
        (self.weights, self.time_scale, self.span) = (rows, scales, self.span.with(span));
    }

    fn check(&self) -> Result<()> {
        let window = self.weights.iter().map(Vec::len).max().unwrap_or(0);
        if self.order != window {
            return Err(Error::bad_value("order", self.order, format!("the longest row has {window} weights")));
        }
        self.span.check(&widths(&self.weights))?;
        self.span.require_finite()?;
        self.solver().map(drop)
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        let (rows, scales, span) = self.cut(params);
        let solver = DyWeight::new(rows, scales)?.time_shift(self.time_shift).span(self.span.with(span))?;
        Ok(Built { solver: Box::new(solver), times: frame.grid.coeffs() })
    }

    fn realised_times(&self, nominal: &[f64], _: Option<f64>) -> Result<Vec<f64>> {
        Ok(if self.time_shift { realised_times(nominal, &self.weights) } else { nominal.to_vec() })
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
        match self.span.is_empty() {
            true => format!("window {}", self.order),
            false => format!(
                "window {}, span {} of {} numbers",
                self.order,
                self.span.parts().join(","),
                self.span.params().len()
            ),
        }
    }
}
