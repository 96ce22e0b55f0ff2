//! DyWeight's numbers: weights row by row, newest last, then scales.
//!
//! ```text
//! free: s = θ      bounded: s = ½ + sigmoid(θ) ∈ (½, 3⁄2)
//! ```
//!
//! Weights outside the window do not exist, so nothing has to be masked.

use super::{Common, Method, Start, other_method};
use crate::learnable::{Learnable, Shown};
use crate::learned::Learned;
use crate::recipe::Phase;
use crate::spec::TrainSpec;
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::learned::{Block, Built, Frame};
use dyweight_core::noise::Stream;
use dyweight_core::solver::{DyWeight, Initial, Ipndm, Rows, Scales, Solver, Weights};
use dyweight_core::spec::Budget;
use dyweight_methods::solver_file::{Body, SolverFile};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// DyWeight's own options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct DyWeightOptions {
    /// Time scales: free or bounded to (0.5, 1.5).
    #[cfg_attr(feature = "clap", arg(long, value_name = "free|bounded", value_parser = crate::spec::one_of::<ScaleMode>(&["free", "bounded"]), help_heading = "Solver", help = "Time scales: free or bounded to (0.5, 1.5) [free]"))]
    pub scale: Option<ScaleMode>,
    /// Ablation: time is not shifted.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver", help = "Ablation: time is not shifted"))]
    pub no_time_shift: Option<bool>,
    /// Ablation: no time scales.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver", help = "Ablation: no time scales"))]
    pub no_time_scale: Option<bool>,
}

/// The method.
pub(super) struct DyWeightMethod;

impl Method for DyWeightMethod {
    fn name(&self) -> &'static str {
        "dyweight"
    }

    fn options(&self) -> &'static [&'static str] {
        &["afs", "order", "scale", "no-time-shift", "no-time-scale", "supervision", "substeps"]
    }

    fn usual_afs(&self, prediction: Prediction) -> bool {
        prediction == Prediction::Denoised
    }

    /// Rates that work: lower for more steps, as the paper has it (1e-3 … 5e-2).
    fn usual_rate(&self, steps: usize) -> f64 {
        match steps {
            0..=4 => 3e-2,
            5 | 6 => 2e-2,
            _ => 1e-2,
        }
    }

    fn stand_in(&self, _: &TrainSpec, _: bool) -> Result<Box<dyn Solver>> {
        Ok(Box::new(Ipndm::euler()))
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start> {
        let begins = beginning(spec, frame.grid.steps(), frame.afs)?;
        let window = begins.rows.iter().map(Vec::len).max().unwrap_or(1);
        let mode = match spec.dyweight.no_time_scale.unwrap_or(false) {
            true => ScaleMode::None,
            false => spec.dyweight.scale.unwrap_or_default(),
        };
        let (learnable, mut numbers) = LearnedWeights::new(&begins.rows, &begins.scales, mode, begins.time_shift);
        if begins.perturbed {
            perturb(&mut numbers, 0.05, spec.seed.unwrap_or(0));
        }
        let mut settled = TrainSpec { order: Some(window), ..spec.clone() };
        settled.dyweight.no_time_shift = (!begins.time_shift).then_some(true);
        Ok(Start { learnable: Arc::new(learnable), numbers, window, settled })
    }

    fn phases(&self, _: &TrainSpec, common: &Common, _: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![common.phase(&["weights", "time_scale"])])
    }
}

/// Where a DyWeight solver starts.
struct Beginning {
    rows: Rows,
    scales: Scales,
    time_shift: bool,
    perturbed: bool,
}

/// Nobody learns more weights; guards against a window that would fill the memory.
const MOST_WEIGHTS: usize = 1 << 20;

/// Weights, scales and time shifting to begin with.
fn beginning(spec: &TrainSpec, steps: usize, afs: bool) -> Result<Beginning> {
    let window = spec.order.unwrap_or(3);
    if window == 0 {
        let expected = "a window has at least the current slope: 1 or more".into();
        return Err(Error::BadValue { name: "order", value: "0".into(), expected });
    }
    if steps.saturating_mul(window.min(steps)) > MOST_WEIGHTS {
        let expected = format!("{steps} steps of so many weights are more than {MOST_WEIGHTS}");
        return Err(Error::BadValue { name: "order", value: window.to_string(), expected });
    }
    let scales = vec![1.0; steps - usize::from(afs)];
    let time_shift = !spec.dyweight.no_time_shift.unwrap_or(false);
    let start = |rows: Initial| Beginning { rows: rows.rows(steps, window), scales, time_shift, perturbed: false };
    Ok(match spec.init.as_deref().unwrap_or("ab") {
        "ab" | "ipndm" => start(Initial::Ab),
        "euler" => start(Initial::Euler),
        "uniform" => start(Initial::Uniform),
        "perturbed" => Beginning { perturbed: true, ..start(Initial::Ab) },
        file => start_from(spec, file, steps, afs)?,
    })
}

/// The start from a solver file of the same length. What the options leave open the file decides.
fn start_from(spec: &TrainSpec, file: &str, steps: usize, afs: bool) -> Result<Beginning> {
    let learned = match Learned::open(file) {
        Err(Error::UnknownName { .. }) | Err(Error::Io { .. }) if !file.contains(['.', '/', ':']) => {
            let known = ["ab", "euler", "uniform", "perturbed", "a solver file"].map(String::from).to_vec();
            return Err(Error::UnknownName { kind: "initialisation", name: file.into(), known });
        }
        other => other?.at(file, Some(Budget::Steps(steps)), None)?,
    };
    let Some(weights) = learned.body.weights() else {
        return Err(other_method(file, learned.body.method(), "dyweight"));
    };
    if weights.weights.len() != steps {
        let what = format!("steps of {file}, given as the start");
        return Err(Error::Shape { what, expected: vec![steps], found: vec![weights.weights.len()] });
    }
    // Scales belong to the last steps: what is missing or too many is so at the front.
    let wanted = steps - usize::from(afs);
    let missing = wanted.saturating_sub(weights.time_scale.len());
    let first = weights.time_scale.len().saturating_sub(wanted);
    let scales = [vec![1.0; missing], weights.time_scale[first..].to_vec()].concat();
    // A window of another width loses the oldest weights, or gains some that are 0.
    let fitted = |(i, row): (usize, &Vec<f64>)| {
        let width = spec.order.map_or(row.len(), |window| window.min(i + 1));
        let kept = &row[row.len().saturating_sub(width)..];
        [vec![0.0; width - kept.len()], kept.to_vec()].concat()
    };
    let rows = weights.weights.iter().enumerate().map(fitted).collect();
    let time_shift = spec.dyweight.no_time_shift.map_or(weights.time_shift, |off| !off);
    Ok(Beginning { rows, scales, time_shift, perturbed: false })
}

/// Moves every number by a uniform amount of at most `amount`.
fn perturb(numbers: &mut [f64], amount: f64, seed: u64) {
    let mut stream = Stream::labelled(seed, "perturbed start");
    numbers.iter_mut().for_each(|v| *v += amount * (2.0 * stream.uniform() - 1.0));
}

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
        vec![Block::new("weights", &[weights]), Block::new("time_scale", &[self.scales])]
    }

    fn build(&self, numbers: &[Coeff], frame: &Frame) -> Result<Built> {
        let (rows, scales) = self.split(numbers);
        let rows = rows.into_iter().map(<[Coeff]>::to_vec).collect();
        let scales = scales.iter().map(|raw| self.scale(raw)).collect();
        let solver = Box::new(DyWeight::new(rows, scales)?.time_shift(self.time_shift));
        Ok(Built { solver, times: frame.grid.coeffs() })
    }

    fn export(&self, numbers: &[f64], frame: &Frame) -> Result<SolverFile> {
        let rows = self.split(numbers).0.into_iter().map(<[f64]>::to_vec).collect();
        let weights = Weights { time_shift: self.time_shift, ..Weights::new(rows, self.scales(numbers)) };
        SolverFile::new(Body::DyWeight(weights), frame)
    }

    /// The scales themselves, whatever they are made of.
    fn shown(&self, numbers: &[f64]) -> Vec<Shown> {
        vec![self.matrix(numbers), self.shown_scales(self.scales(numbers))]
    }

    fn shown_gradient(&self, gradient: &[f64]) -> Vec<Shown> {
        vec![self.matrix(gradient), self.shown_scales(self.split(gradient).1.to_vec())]
    }
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
