//! Normal equations: of one pair from its residuals, of all from those of each.
//!
//! ```text
//! packed   upper triangle of [r J]ᵀ[r J]/D: the loss, Jᵀr/D, JᵀJ/D
//! ```

use super::{PerPair, Residuals};
use crate::newton::solve;
use dyweight_core::tensor::dot;

/// A parameter of less curvature than this share of the mean is damped as one that has so much: what hardly moves a
/// sample would else go far for little, a time scale to 20 or −100.
const WEAK: f64 = 1e-2;

/// JᵀJ, Jᵀr and the loss, as means over pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Equations {
    /// The mean loss.
    pub loss: f64,
    /// Jᵀr.
    pub gradient: Vec<f64>,
    /// JᵀJ, row by row.
    pub matrix: Vec<f64>,
}

/// Packed equations of each pair, from its residuals at a point, and at the point moved by a step in each parameter in
/// turn.
pub fn normal(residuals: &Residuals, steps: &[f64]) -> PerPair {
    let pairs = residuals.first().map_or(0, Vec::len);
    (0..pairs).map(|pair| of_pair(residuals, pair, steps)).collect()
}

fn of_pair(residuals: &Residuals, pair: usize, steps: &[f64]) -> Option<Vec<f64>> {
    let all = residuals.iter().map(|of_one| of_one[pair].as_deref()).collect::<Option<Vec<&[f64]>>>()?;
    let (base, moved) = all.split_first()?;
    let slope = |(moved, h): (&&[f64], &f64)| moved.iter().zip(*base).map(|(m, b)| (m - b) / h).collect();
    let columns: Vec<Vec<f64>> = std::iter::once(base.to_vec()).chain(moved.iter().zip(steps).map(slope)).collect();
    let len = base.len().max(1) as f64;
    let products = (0..columns.len()).flat_map(|i| (i..columns.len()).map(move |j| (i, j)));
    let packed: Vec<f64> = products.map(|(i, j)| dot(&columns[i], &columns[j]) / len).collect();
    packed.iter().all(|v| v.is_finite()).then_some(packed)
}

/// Mean square of each residual; infinite where there is none.
pub fn losses(residuals: &Residuals) -> Vec<Vec<f64>> {
    residuals.iter().map(|of_one| of_one.iter().map(loss).collect()).collect()
}

fn loss(residual: &Option<Vec<f64>>) -> f64 {
    let mean = |r: &Vec<f64>| dot(r, r) / r.len().max(1) as f64;
    residual.as_ref().map(mean).filter(|loss| loss.is_finite()).unwrap_or(f64::INFINITY)
}

/// Packed equations, added pair by pair.
pub(super) struct Sum {
    parameters: usize,
    packed: Vec<f64>,
    pairs: usize,
}

impl Sum {
    pub fn new(parameters: usize) -> Self {
        Self { parameters, packed: vec![0.0; (parameters + 1) * (parameters + 2) / 2], pairs: 0 }
    }

    pub fn add(&mut self, pair: &[f64]) {
        self.packed.iter_mut().zip(pair).for_each(|(sum, value)| *sum += value);
        self.pairs += 1;
    }

    /// None without a pair.
    pub fn mean(self) -> Option<Equations> {
        let pairs = self.pairs as f64;
        let packed: Vec<f64> = self.packed.iter().map(|v| v / pairs).collect();
        if self.pairs == 0 { None } else { Equations::from_list(&packed, self.parameters) }
    }
}

impl Equations {
    /// The derivative of the loss.
    pub fn slope(&self) -> Vec<f64> {
        self.gradient.iter().map(|g| 2.0 * g).collect()
    }

    /// Δ(λ).
    pub fn step(&self, damping: f64) -> Vec<f64> {
        let n = self.gradient.len();
        let mean = (0..n).map(|i| self.matrix[i * n + i]).sum::<f64>() / n.max(1) as f64;
        let mut damped = self.matrix.clone();
        for i in 0..n {
            let own = &mut damped[i * n + i];
            // A parameter without effect has neither curvature nor slope: any bound keeps it where it is.
            *own += damping * own.max(WEAK * mean) + 1e-9 * mean + f64::MIN_POSITIVE;
        }
        solve(damped, &self.gradient).into_iter().map(|v| -v).collect()
    }

    pub(super) fn to_list(&self) -> Vec<f64> {
        let n = self.gradient.len();
        let rows = (0..n).flat_map(|i| (i..n).map(move |j| self.matrix[i * n + j]));
        std::iter::once(self.loss).chain(self.gradient.iter().copied()).chain(rows).collect()
    }

    pub(super) fn from_list(packed: &[f64], parameters: usize) -> Option<Self> {
        let (loss, rest) = packed.split_first()?;
        let (gradient, mut rest) = rest.split_at_checked(parameters)?;
        let mut matrix = vec![0.0; parameters * parameters];
        for i in 0..parameters {
            let (row, others) = rest.split_at_checked(parameters - i)?;
            for (j, value) in (i..parameters).zip(row) {
                (matrix[i * parameters + j], matrix[j * parameters + i]) = (*value, *value);
            }
            rest = others;
        }
        rest.is_empty().then(|| Self { loss: *loss, gradient: gradient.to_vec(), matrix })
    }
}
