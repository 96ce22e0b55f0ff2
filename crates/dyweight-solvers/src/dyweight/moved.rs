//! DyWeight's parameters as training moves them: weights row by row, newest last, then scales, then those of a wider
//! span.
//!
//! ```text
//! free: s = θ      bounded: s = ½ + sigmoid(θ) ∈ (½, 3⁄2)
//! bands: wᵇ = θᵇ;  the file has their mean w = θ⁰ + Σ_{b>0} (θᵇ − θ⁰)/B, and vᵇ = wᵇ − w
//! ```
//!
//! Weights outside the window do not exist, so nothing has to be masked.

use crate::Weights;
use crate::learnable::{Learnable, Shown, in_blocks};
use crate::learned::{Block, Built, Frame, LearnedSolver};
use crate::solver_file::{MethodParams, SolverFile};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::Result;
use dyweight_core::solver::{Rows, Scales};
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

/// The shape of a DyWeight solver's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedWeights {
    /// As a file keeps them; what parameters it holds does not matter.
    shape: Weights,
    mode: ScaleMode,
}

impl LearnedWeights {
    /// The learnable of solvers of this shape, and the parameters that stand for the given weights and scales.
    pub fn new(rows: &Rows, scales: &Scales, mode: ScaleMode, time_shift: bool) -> (Self, Vec<f64>) {
        Self::of(Weights { time_shift, ..Weights::new(rows.clone(), scales.clone()) }, mode)
    }

    /// The same for weights with all they have.
    pub fn of(mut shape: Weights, mode: ScaleMode) -> (Self, Vec<f64>) {
        if mode == ScaleMode::None {
            shape.time_scale.clear();
        }
        let kept = shape.params();
        let shape = Self { shape, mode };
        let params = shape.as_moved(&kept);
        (shape, params)
    }

    /// Where in the list scales, and offsets of bands, stand; and how many weights each band has.
    fn places(&self) -> (std::ops::Range<usize>, usize, usize) {
        let weights: usize = self.shape.weights.iter().map(Vec::len).sum();
        let scales = weights..weights + self.shape.time_scale.len();
        let state = self.shape.span.state.as_ref().map_or(0, |s| s.state.len() + s.noise.len());
        let bands = self.shape.span.bands.as_ref().map_or(0, |bands| bands.edges.len());
        (scales.clone(), scales.end + state, bands)
    }

    /// Numbers as training moves them, from those of a file.
    fn as_moved(&self, kept: &[f64]) -> Vec<f64> {
        let (mut params, (scales, first, bands)) = (kept.to_vec(), self.places());
        if self.mode == ScaleMode::Bounded {
            // The inverse of ½ + sigmoid, kept inside where a start lies on or beyond the bound.
            for s in &mut params[scales.clone()] {
                let p = (*s - 0.5).clamp(1e-6, 1.0 - 1e-6);
                *s = (p / (1.0 - p)).ln();
            }
        }
        for k in 0..scales.start {
            let offset = |b: usize| kept[first + b * scales.start + k];
            params[k] = kept[k] - (0..bands).map(offset).sum::<f64>();
            (0..bands).for_each(|b| params[first + b * scales.start + k] = kept[k] + offset(b));
        }
        params
    }

    /// Numbers of a file, from those that training moves.
    fn as_kept(&self, params: &[Coeff]) -> Vec<Coeff> {
        let (mut kept, (scales, first, bands)) = (params.to_vec(), self.places());
        if self.mode == ScaleMode::Bounded {
            kept[scales.clone()].iter_mut().for_each(|raw| *raw = 0.5 + raw.sigmoid());
        }
        for k in (0..scales.start).filter(|_| bands > 0) {
            let lowest = &params[k];
            let others: Vec<Coeff> = (0..bands).map(|b| &params[first + b * scales.start + k] - lowest).collect();
            let mean = lowest + Coeff::sum(&others) / (bands + 1) as f64;
            for b in 0..bands {
                let place = first + b * scales.start + k;
                kept[place] = &params[place] - &mean;
            }
            kept[k] = mean;
        }
        kept
    }

    fn values_in_file(&self, params: &[f64]) -> Vec<f64> {
        let constants: Vec<Coeff> = params.iter().map(|v| Coeff::from(*v)).collect();
        self.as_kept(&constants).iter().map(Coeff::value).collect()
    }

    /// Blocks, with the weights as a full matrix: absolute columns, zeros outside the window.
    fn shown_as(&self, values: &[f64]) -> Vec<Shown> {
        let mut shown = in_blocks(&self.blocks(), values);
        let steps = self.shape.weights.len();
        let (mut matrix, mut rest) = (vec![0.0; steps * steps], values);
        for (i, width) in self.shape.weights.iter().map(Vec::len).enumerate() {
            let (row, others) = rest.split_at(width);
            let end = i * steps + i + 1;
            matrix[end - width..end].copy_from_slice(row);
            rest = others;
        }
        shown[0] = Shown { name: "weights", shape: vec![steps, steps], values: matrix };
        shown
    }
}

impl Learnable for LearnedWeights {
    fn method(&self) -> &'static str {
        "dyweight"
    }

    fn blocks(&self) -> Vec<Block> {
        self.shape.blocks()
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        self.shape.build(&self.as_kept(params), frame)
    }

    fn export(&self, params: &[f64], frame: &Frame) -> Result<SolverFile> {
        let mut weights = self.shape.clone();
        weights.replace(&self.values_in_file(params));
        SolverFile::new(MethodParams::DyWeight(weights), frame)
    }

    /// Scales and weights themselves, whatever they are made of.
    fn shown(&self, params: &[f64]) -> Vec<Shown> {
        self.shown_as(&self.values_in_file(params))
    }

    fn shown_gradient(&self, gradient: &[f64]) -> Vec<Shown> {
        self.shown_as(gradient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::{Bands, Span};

    #[test]
    fn rows_and_scales_come_back() {
        let (rows, scales) = (vec![vec![1.0], vec![-0.5, 1.5], vec![-0.4, 1.4]], vec![0.9, 1.2]);
        for mode in [ScaleMode::Free, ScaleMode::Bounded] {
            let (shape, params) = LearnedWeights::new(&rows, &scales, mode, true);
            let kept = shape.values_in_file(&params);
            assert_eq!(kept[..5], rows.concat());
            assert!(kept[5..].iter().zip(&scales).all(|(a, b)| (a - b).abs() < 1e-12));
            assert_eq!(shape.shown(&params)[0].values, [1.0, 0.0, 0.0, -0.5, 1.5, 0.0, 0.0, -0.4, 1.4]);
        }
        let (shape, params) = LearnedWeights::new(&rows, &scales, ScaleMode::None, true);
        assert_eq!(shape.values_in_file(&params), rows.concat());
    }

    /// Weights of all bands are moved one by one; a file has their mean, and what each is above it.
    #[test]
    fn bands_come_back_and_start_at_their_mean() {
        let rows = vec![vec![0.3], vec![-0.5, 1.7]];
        let mut weights = Weights::new(rows, vec![0.9]);
        weights.span = Span { bands: Some(Bands::zero(&[2.0, 5.0], &[1, 2])), ..Span::default() };
        let (shape, params) = LearnedWeights::of(weights.clone(), ScaleMode::Free);
        assert_eq!(params, [0.3, -0.5, 1.7, 0.9, 0.3, -0.5, 1.7, 0.3, -0.5, 1.7]);
        assert_eq!(shape.values_in_file(&params), weights.params());
        let moved = [0.1, -0.5, 1.7, 0.9, 0.4, -0.5, 1.7, 1.0, -0.5, 1.7];
        let kept = shape.values_in_file(&moved);
        assert!((kept[0] - 0.5).abs() < 1e-15 && (kept[4] + 0.1).abs() < 1e-15 && (kept[7] - 0.5).abs() < 1e-15);
        weights.replace(&kept);
        let again = LearnedWeights::of(weights, ScaleMode::Free).1;
        assert!(again.iter().zip(&moved).all(|(a, b)| (a - b).abs() < 1e-15));
    }
}
