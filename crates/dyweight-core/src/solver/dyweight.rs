//! DyWeight (CVPR 2026, Algorithm 2): learned weights on past slopes that need not sum to one.
//!
//! ```text
//! T ← t₀
//! at step i:  dᵢ = (x − D(x, |sᵢT|))/T       time scaling: the network is told sᵢT
//!             δ  = t_{i+1} − T               nominal next time minus the shifted current one
//!             x ← x + δ·Σⱼ w_ij dⱼ            over the window
//!             T ← T + δ·Σⱼ w_ij              time shifting: the state is where the weights took it
//! ```
//!
//! Where paper and released code differ we follow the code: the network time is taken absolute, slopes divide by T +
//! 10⁻⁸, with the analytical first step the scales begin at step 1, and the last T, which is never asked for, may be
//! negative. Without time shifting (an ablation) T is the nominal time. Adams–Bashforth rows and s = 1 give iPNDM. A
//! [`Wider`] span adds directions to the update, and is not in the paper.

use super::{Place, Run, Solver, Times, Wider, WiderRun, adams_bashforth};
use crate::coeff::Coeff;
use crate::denoiser::Prediction;
use crate::error::{Error, Result};
use crate::tape::{Query, Tape, Var};

/// The released code's guard of the division by T.
const GUARD: f64 = 1e-8;

/// Weights, one row per step. Row i holds the weights of steps …, i−1, i: **newest last**, at most i + 1.
pub type Rows = Vec<Vec<f64>>;

/// Time scales of the last steps: as many as steps, one fewer with the analytical first step, or none.
pub type Scales = Vec<f64>;

/// What the weights are before training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initial {
    /// Adams–Bashforth of order min(i + 1, window, 4): iPNDM.
    #[default]
    Ab,
    /// The newest slope alone.
    Euler,
    /// The mean of the window.
    Uniform,
}

impl Initial {
    /// The rows of a window on a number of steps.
    pub fn rows(self, steps: usize, window: usize) -> Rows {
        (0..steps).map(|i| self.row((i + 1).min(window))).collect()
    }

    fn row(self, width: usize) -> Vec<f64> {
        let mut row = match self {
            Initial::Ab => adams_bashforth(width.min(4)).to_vec(),
            Initial::Euler => vec![1.0],
            Initial::Uniform => vec![1.0 / width as f64; width],
        };
        row.resize(width, 0.0);
        row.reverse();
        row
    }
}

/// The times T₀ … T_S at which the states of a weighted run really are.
pub fn realised_times(sigmas: &[f64], rows: &Rows) -> Vec<f64> {
    let Some((first, rest)) = sigmas.split_first() else { return Vec::new() };
    let mut times = vec![*first];
    for (next, row) in rest.iter().zip(rows) {
        let time = times[times.len() - 1];
        times.push(time + (next - time) * row.iter().sum::<f64>());
    }
    times
}

/// DyWeight with given, possibly recorded, weights and scales.
pub struct DyWeight {
    rows: Vec<Vec<Coeff>>,
    scales: Vec<Coeff>,
    shift: bool,
    span: Box<dyn Wider>,
}

impl DyWeight {
    /// Checks the shapes: row i has 1 to i + 1 weights, and there are as many scales as steps, one fewer, or none.
    pub fn new(rows: Vec<Vec<Coeff>>, scales: Vec<Coeff>) -> Result<Self> {
        if rows.is_empty() {
            return Err(Error::Shape { what: "weights".into(), expected: vec![1, 1], found: vec![0] });
        }
        for (i, row) in rows.iter().enumerate() {
            if row.is_empty() || row.len() > i + 1 {
                let what = format!("weights of step {i}: between 1 and {}", i + 1);
                return Err(Error::Shape { what, expected: vec![i + 1], found: vec![row.len()] });
            }
        }
        let steps = rows.len();
        if !(scales.is_empty() || scales.len() == steps || scales.len() + 1 == steps) {
            let what = "time_scale (one per step, or one fewer with the analytical first step)".into();
            return Err(Error::Shape { what, expected: vec![steps], found: vec![scales.len()] });
        }
        Ok(Self { rows, scales, shift: true, span: Box::new(()) })
    }

    /// Fixed weights and scales, which must be finite.
    pub fn fixed(rows: &Rows, scales: &Scales) -> Result<Self> {
        let flat: Vec<f64> = rows.iter().flatten().copied().collect();
        for (what, list) in [("weights", &flat), ("time_scale", scales)] {
            if let Some(index) = list.iter().position(|v| !v.is_finite()) {
                return Err(Error::NotFinite { what: what.into(), index, value: list[index] });
            }
        }
        let constants = |list: &Vec<f64>| list.iter().map(|v| Coeff::from(*v)).collect();
        Self::new(rows.iter().map(constants).collect(), constants(scales))
    }

    /// Switches time shifting.
    pub fn time_shift(mut self, on: bool) -> Self {
        self.shift = on;
        self
    }

    /// Widens the span; its shapes must go with the weights'.
    pub fn span(mut self, span: impl Wider + 'static) -> Result<Self> {
        span.check(&self.rows.iter().map(Vec::len).collect::<Vec<_>>())?;
        self.span = Box::new(span);
        Ok(self)
    }

    /// How many slopes later steps need after step i, for each i.
    fn kept(&self) -> Vec<usize> {
        let mut kept = vec![0; self.rows.len()];
        for i in (1..kept.len()).rev() {
            kept[i - 1] = kept[i].max(self.rows[i].len()) - 1;
        }
        kept
    }

    fn scale(&self, i: usize) -> Option<&Coeff> {
        let first = self.rows.len() - self.scales.len();
        i.checked_sub(first).and_then(|k| self.scales.get(k))
    }
}

struct DyWeightRun<'s> {
    solver: &'s DyWeight,
    times: Times<'s>,
    /// T.
    time: Coeff,
    /// Oldest first, as far as later steps need them.
    slopes: Vec<Var>,
    kept: Vec<usize>,
    span: Box<dyn WiderRun + 's>,
}

impl Solver for DyWeight {
    fn label(&self) -> String {
        let window = self.rows.iter().map(Vec::len).max().unwrap_or(0).to_string();
        format!("dyweight({})", [vec![window], self.span.parts()].concat().join(","))
    }

    fn channels(&self) -> Option<usize> {
        self.span.channels()
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        if times.len() != self.rows.len() + 1 {
            let (expected, found) = (vec![times.len() - 1], vec![self.rows.len()]);
            return Err(Error::Shape { what: "weights: one row per step of the grid".into(), expected, found });
        }
        Ok(Box::new(DyWeightRun::new(self, times)))
    }
}

impl<'s> DyWeightRun<'s> {
    fn new(solver: &'s DyWeight, times: Times<'s>) -> Self {
        let (kept, span) = (solver.kept(), solver.span.begin(solver.rows.len()));
        Self { solver, times, time: times[0].clone(), slopes: Vec::new(), kept, span }
    }
}

impl Run for DyWeightRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let time = self.time.clone();
        let level = self.solver.scale(i).map_or_else(|| time.clone(), |s| s * &time).abs();
        let query = self.span.query(Query { guard: GUARD, ..Query::told(&time, level) }, i);
        let slope = tape.slope(&x, &query)?;
        let row = &self.span.row(&slope, &self.solver.rows[i], &self.times[i..])?;
        self.slopes.push(slope);
        let length = &self.times[i + 1] - &time;
        let mut terms = vec![(Coeff::from(1.0), &x)];
        let window = &self.slopes[self.slopes.len() - row.len()..];
        terms.extend(row.iter().map(|w| &length * w).zip(window));
        let (first, next, kept) = (&self.times[0], &self.times[i + 1], self.kept[i]);
        let place = Place { step: i, x: &x, window, time: &time, first, next, kept };
        let wider = self.span.terms(tape, &place)?;
        terms.extend(wider.iter().map(|(c, v)| (&length * c, v)));
        let next = tape.combine(&terms)?;
        self.slopes.drain(..self.slopes.len() - self.kept[i]);
        self.time = if self.solver.shift { time + length * Coeff::sum(row) } else { self.times[i + 1].clone() };
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixture::Mixture;
    use crate::tensor::Tensor;

    #[test]
    fn initial_rows() {
        assert_eq!(Initial::Ab.rows(3, 2), vec![vec![1.0], vec![-0.5, 1.5], vec![-0.5, 1.5]]);
        assert_eq!(Initial::Euler.rows(2, 2), vec![vec![1.0], vec![0.0, 1.0]]);
        assert_eq!(Initial::Uniform.rows(2, 4), vec![vec![1.0], vec![0.5, 0.5]]);
        let wide = &Initial::Ab.rows(6, 6)[5];
        assert_eq!((wide.len(), wide[0], wide[1], wide[5]), (6, 0.0, 0.0, 55.0 / 24.0));
    }

    #[test]
    fn shapes_are_checked() {
        assert!(DyWeight::fixed(&vec![vec![1.0], vec![0.5, 0.5, 1.0]], &vec![]).is_err());
        assert!(DyWeight::fixed(&vec![vec![1.0], vec![]], &vec![]).is_err());
        assert!(DyWeight::fixed(&vec![vec![1.0], vec![1.0]], &vec![1.0, 1.0, 1.0]).is_err());
        assert!(DyWeight::fixed(&vec![vec![f64::NAN]], &vec![]).is_err());
        assert!(DyWeight::fixed(&vec![], &vec![]).is_err());
    }

    #[test]
    fn slopes_are_let_go_when_no_later_step_needs_them() {
        let rows = vec![vec![1.0], vec![1.0], vec![0.2, 0.3, 0.5], vec![1.0], vec![0.5, 0.5], vec![1.0]];
        let solver = DyWeight::fixed(&rows, &vec![]).unwrap();
        let times: Vec<Coeff> = (0..=6).map(|i| Coeff::from(7.0 - f64::from(i))).collect();
        let model = Mixture::spiral();
        let mut tape = Tape::sampling(&model);
        let mut run = DyWeightRun::new(&solver, times[..].into());
        let mut x = tape.start(Tensor::zeros([1, 2, 1, 1]));
        let held = (0..6).map(|i| {
            x = run.step(&mut tape, i, x.clone()).unwrap();
            run.slopes.len()
        });
        assert_eq!(held.collect::<Vec<_>>(), [1, 2, 0, 1, 0, 0]);
    }

    #[test]
    fn realised_times_of_a_released_solver() {
        // CIFAR-10, 3 calls, as released.
        let sigmas = [80.0, 17.52783196464411, 2.515218976147159, 0.16975275626876413, 0.002];
        let rows = vec![
            vec![1.0776885747909546],
            vec![-0.7249023914337158, 1.7242870330810547],
            vec![0.3425636887550354, -1.3497024774551392, 1.845731258392334],
            vec![0.39534372091293335, -1.331130862236023, 1.9210981130599976],
        ];
        let expected = [80.0, 12.674458265876282, 2.5214705489007763, 0.5493377171583369, 0.010039859196795065];
        for (a, b) in realised_times(&sigmas, &rows).iter().zip(expected) {
            assert!((a - b).abs() < 1e-12);
        }
    }
}
