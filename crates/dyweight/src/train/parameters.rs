//! The learnables as one flat list, and the solver they stand for.
//!
//! ```text
//! θ = (weights row by row, newest last | scales)      free: s = θ      bounded: s = ½ + sigmoid(θ) ∈ (½, 3⁄2)
//! ```
//!
//! Weights outside the window do not exist, so nothing has to be masked.

use crate::coeff::Coeff;
use crate::error::Result;
use crate::noise::Stream;
use crate::solver::{DyWeight, Rows, Scales};
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

/// The unknowns of a DyWeight solver.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The flat list.
    pub values: Vec<f64>,
    widths: Vec<usize>,
    mode: ScaleMode,
    time_shift: bool,
}

impl Parameters {
    /// Parameters that stand for the given weights and scales.
    pub fn new(rows: &Rows, scales: &Scales, mode: ScaleMode, time_shift: bool) -> Self {
        let raw = |s: &f64| match mode {
            // The inverse of ½ + sigmoid, kept inside where a start lies on or beyond the bound.
            ScaleMode::Bounded => {
                let p = (s - 0.5).clamp(1e-6, 1.0 - 1e-6);
                (p / (1.0 - p)).ln()
            }
            _ => *s,
        };
        let scales = if mode == ScaleMode::None { Vec::new() } else { scales.iter().map(raw).collect() };
        let values = [rows.concat(), scales].concat();
        Self { values, widths: rows.iter().map(Vec::len).collect(), mode, time_shift }
    }

    /// Moves every parameter by a uniform amount of at most `amount`.
    pub fn perturb(&mut self, amount: f64, seed: u64) {
        let mut stream = Stream::labelled(seed, "perturbed start");
        self.values.iter_mut().for_each(|v| *v += amount * (2.0 * stream.uniform() - 1.0));
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.widths.len()
    }

    /// Number of weights; scales follow them in the list.
    pub fn weight_count(&self) -> usize {
        self.widths.iter().sum()
    }

    /// A list laid out like the parameters as rows and the rest.
    pub fn split<'v>(&self, values: &'v [f64]) -> (Vec<&'v [f64]>, &'v [f64]) {
        let (mut weights, rest) = values.split_at(self.weight_count());
        let mut rows = Vec::new();
        for width in &self.widths {
            let (row, others) = weights.split_at(*width);
            rows.push(row);
            weights = others;
        }
        (rows, rest)
    }

    /// A list laid out like the parameters as a full matrix with absolute columns, zeros outside the window.
    pub fn matrix(&self, values: &[f64]) -> Vec<f64> {
        let steps = self.steps();
        let mut out = vec![0.0; steps * steps];
        for (i, row) in self.split(values).0.iter().enumerate() {
            let end = i * steps + i + 1;
            out[end - row.len()..end].copy_from_slice(row);
        }
        out
    }

    /// The weights.
    pub fn rows(&self) -> Rows {
        self.split(&self.values).0.into_iter().map(<[f64]>::to_vec).collect()
    }

    /// The scales.
    pub fn scales(&self) -> Scales {
        let raw = self.split(&self.values).1;
        raw.iter().map(|v| self.scale(&Coeff::from(*v)).value()).collect()
    }

    /// Whether time is shifted.
    pub fn time_shift(&self) -> bool {
        self.time_shift
    }

    fn scale(&self, raw: &Coeff) -> Coeff {
        match self.mode {
            ScaleMode::Bounded => 0.5 + raw.sigmoid(),
            _ => raw.clone(),
        }
    }

    /// The solver, with every parameter recorded if `record`.
    pub fn solver(&self, record: bool) -> Result<DyWeight> {
        let coeff = |(i, v): (usize, &f64)| if record { Coeff::parameter(*v, i) } else { Coeff::from(*v) };
        let mut all = self.values.iter().enumerate().map(coeff);
        let rows = self.widths.iter().map(|w| all.by_ref().take(*w).collect()).collect();
        let scales = all.map(|raw| self.scale(&raw)).collect();
        Ok(DyWeight::new(rows, scales)?.time_shift(self.time_shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_scales_come_back() {
        let (rows, scales) = (vec![vec![1.0], vec![-0.5, 1.5], vec![-0.4, 1.4]], vec![0.9, 1.2]);
        for mode in [ScaleMode::Free, ScaleMode::Bounded] {
            let p = Parameters::new(&rows, &scales, mode, true);
            assert_eq!(p.rows(), rows);
            assert!(p.scales().iter().zip(&scales).all(|(a, b)| (a - b).abs() < 1e-12));
            assert_eq!(p.matrix(&p.values), [1.0, 0.0, 0.0, -0.5, 1.5, 0.0, 0.0, -0.4, 1.4]);
        }
        assert!(Parameters::new(&rows, &scales, ScaleMode::None, true).scales().is_empty());
    }
}
