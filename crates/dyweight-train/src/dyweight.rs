//! DyWeight's numbers: weights row by row, newest last, then scales.
//!
//! ```text
//! free: s = θ      bounded: s = ½ + sigmoid(θ) ∈ (½, 3⁄2)
//! ```
//!
//! Weights outside the window do not exist, so nothing has to be masked.

use crate::learnable::{Block, Built, Frame, Learnable, Shown};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::Result;
use dyweight_core::noise::Stream;
use dyweight_core::solver::{DyWeight, Rows, Scales};
use dyweight_core::solver_file::{Parts, SolverFile};
use serde::{Deserialize, Serialize};

/// How scales are parametrised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleMode {
    /// The parameter is the scale.
    #[default]
    Free,
    /// Scales between ½ and 3⁄2 through a sigmoid, as the released FLUX training has it.
    Bounded,
    /// No scales: s ≡ 1.
    None,
}

/// The shape of a DyWeight solver's numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedWeights {
    widths: Vec<usize>,
    scales: usize,
    mode: ScaleMode,
    time_shift: bool,
}

impl LearnedWeights {
    /// The learnable of solvers of this shape, and the numbers that stand for the given weights and scales.
    pub fn new(rows: &Rows, scales: &Scales, mode: ScaleMode, time_shift: bool) -> (Self, Vec<f64>) {
        let raw = |s: &f64| match mode {
            // The inverse of ½ + sigmoid, kept inside where a start lies on or beyond the bound.
            ScaleMode::Bounded => {
                let p = (s - 0.5).clamp(1e-6, 1.0 - 1e-6);
                (p / (1.0 - p)).ln()
            }
            _ => *s,
        };
        let scales: Vec<f64> = if mode == ScaleMode::None { Vec::new() } else { scales.iter().map(raw).collect() };
        let shape = Self { widths: rows.iter().map(Vec::len).collect(), scales: scales.len(), mode, time_shift };
        (shape, [rows.concat(), scales].concat())
    }

    fn steps(&self) -> usize {
        self.widths.len()
    }

    fn split<'v, T>(&self, values: &'v [T]) -> (Vec<&'v [T]>, &'v [T]) {
        let (mut weights, rest) = values.split_at(self.widths.iter().sum());
        let mut rows = Vec::new();
        for width in &self.widths {
            let (row, others) = weights.split_at(*width);
            rows.push(row);
            weights = others;
        }
        (rows, rest)
    }

    /// Weights as a full matrix with absolute columns, zeros outside the window.
    fn matrix(&self, values: &[f64]) -> Shown {
        let steps = self.steps();
        let mut out = vec![0.0; steps * steps];
        for (i, row) in self.split(values).0.iter().enumerate() {
            let end = i * steps + i + 1;
            out[end - row.len()..end].copy_from_slice(row);
        }
        Shown { name: "weights", shape: vec![steps, steps], values: out }
    }

    fn scale(&self, raw: &Coeff) -> Coeff {
        match self.mode {
            ScaleMode::Bounded => 0.5 + raw.sigmoid(),
            _ => raw.clone(),
        }
    }

    fn scales(&self, values: &[f64]) -> Scales {
        self.split(values).1.iter().map(|v| self.scale(&Coeff::from(*v)).value()).collect()
    }

    fn shown_scales(&self, values: Vec<f64>) -> Shown {
        Shown { name: "time_scale", shape: vec![self.scales], values }
    }
}

impl Learnable for LearnedWeights {
    fn method(&self) -> &'static str {
        "dyweight"
    }

    fn blocks(&self) -> Vec<Block> {
        let weights = self.widths.iter().sum();
        vec![Block { name: "weights", len: weights }, Block { name: "time_scale", len: self.scales }]
    }

    fn build(&self, numbers: &[Coeff], frame: &Frame) -> Result<Built> {
        let (rows, scales) = self.split(numbers);
        let rows = rows.into_iter().map(<[Coeff]>::to_vec).collect();
        let scales = scales.iter().map(|raw| self.scale(raw)).collect();
        let solver = Box::new(DyWeight::new(rows, scales)?.time_shift(self.time_shift));
        Ok(Built { solver, times: frame.grid.coeffs() })
    }

    fn export(&self, numbers: &[f64], frame: &Frame) -> Result<SolverFile> {
        SolverFile::new(Parts {
            weights: self.split(numbers).0.into_iter().map(<[f64]>::to_vec).collect(),
            time_scale: self.scales(numbers),
            afs: frame.afs,
            time_shift: self.time_shift,
            prediction: frame.prediction,
            schedule: frame.schedule.clone(),
            range: frame.range,
            nfe: frame.nfe,
        })
    }

    /// The scales themselves, whatever they are made of.
    fn shown(&self, numbers: &[f64]) -> Vec<Shown> {
        vec![self.matrix(numbers), self.shown_scales(self.scales(numbers))]
    }

    fn shown_gradient(&self, gradient: &[f64]) -> Vec<Shown> {
        vec![self.matrix(gradient), self.shown_scales(self.split(gradient).1.to_vec())]
    }
}

/// Moves every number by a uniform amount of at most `amount`.
pub(crate) fn perturb(numbers: &mut [f64], amount: f64, seed: u64) {
    let mut stream = Stream::labelled(seed, "perturbed start");
    numbers.iter_mut().for_each(|v| *v += amount * (2.0 * stream.uniform() - 1.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_scales_come_back() {
        let (rows, scales) = (vec![vec![1.0], vec![-0.5, 1.5], vec![-0.4, 1.4]], vec![0.9, 1.2]);
        for mode in [ScaleMode::Free, ScaleMode::Bounded] {
            let (shape, numbers) = LearnedWeights::new(&rows, &scales, mode, true);
            assert_eq!(shape.split(&numbers).0, rows);
            assert!(shape.scales(&numbers).iter().zip(&scales).all(|(a, b)| (a - b).abs() < 1e-12));
            assert_eq!(shape.shown(&numbers)[0].values, [1.0, 0.0, 0.0, -0.5, 1.5, 0.0, 0.0, -0.4, 1.4]);
        }
        let (shape, numbers) = LearnedWeights::new(&rows, &scales, ScaleMode::None, true);
        assert!(shape.scales(&numbers).is_empty());
    }
}
