//! LD3 (Tong et al. 2024, "Learning to Discretize Denoising Diffusion ODEs"): learned times for any solver, and other times told to the network.
//!
//! ```text
//! q = cumsum(softmax p₁)                      n_i = (q_i − q₀)/(q_S − q₀) ∈ [0, 1]
//! lambda   λ_i = λ₀ + n_i·(λ_S − λ₀)          t_i = σ(λ_i)
//! time     t_{S−i} = t_S + n_i·(t₀ − t_S)     the last entry of p₁ rules the first interval
//! told     u_i = λ_i or t_i, plus clip(p₂, ±Δ), Δ = window × smallest spacing, not differentiated; p₂ has no say at the ends
//! network  D(x, u_i), slope (x − D)/u_i       the base solver itself knows t_i alone
//! ```
//!
//! The ends are those of the nominal grid, and p₁[0] has no effect. As in the released code, Δ in the mode `lambda` is taken from neighbouring
//! entries of p₁, not of λ: it is 0 at the start, where all entries are equal. Where λ is infinite (σ = 0, or σ = 1 of a flow) only the mode
//! `time` can be used. The released code of DPM-Solver++ and UniPC evaluates the network once more at the last time and does not use it:
//! `closing_call` repeats that for coefficients that come from there.

use crate::Base;
use crate::learned::{Block, Built, Frame, LearnedSolver, require_finite, require_len};
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{Run, Solver, Times};
use dyweight_core::tape::{Tape, Var};
use serde::{Deserialize, Serialize};

/// In which variable the grid is learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeMode {
    /// λ = ln(α/σ); for pixels.
    #[default]
    Lambda,
    /// The noise level itself; for latents.
    Time,
}

/// LD3's parameters and options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ld3 {
    /// The solver whose times are learned.
    #[serde(flatten)]
    pub base: Base,
    /// Where.
    #[serde(default)]
    pub mode: TimeMode,
    /// How far the network's times may lie from the solver's, as a fraction of the smallest spacing.
    #[serde(default = "half")]
    pub window: f64,
    /// One more, unused evaluation at the end, as the released code makes with DPM-Solver++ and UniPC.
    #[serde(default)]
    pub closing_call: bool,
    /// Logits of the spacings, one more than steps.
    pub p1: Vec<f64>,
    /// Shifts of the network's times.
    pub p2: Vec<f64>,
    /// Takes the nodes of UniPC's system as constants when differentiating, as the released code does.
    #[serde(skip)]
    pub frozen_nodes: bool,
}

fn half() -> f64 {
    0.5
}

impl Ld3 {
    /// The start: times equally spaced in the variable of the mode, and told as they are.
    pub fn start(base: Base, mode: TimeMode, window: f64, steps: usize) -> Self {
        let (p1, p2) = (vec![1.0; steps + 1], vec![0.0; steps + 1]);
        Self { base, mode, window, closing_call: false, p1, p2, frozen_nodes: false }
    }

    /// The solver's times and the network's.
    fn times(&self, p1: &[Coeff], p2: &[Coeff], frame: &Frame) -> Result<(Vec<Coeff>, Vec<Coeff>)> {
        let (inner, times) = grid_of(self.mode, p1, frame)?;
        let delta = self.window * self.spacing(&inner, p1);
        let shifted = inner.iter().zip(p2).map(|(v, p)| v + p.clamp(-delta, delta));
        let mut told: Vec<Coeff> = shifted.map(|v| self.mode.level(frame.prediction, &v)).collect();
        let last = times.len() - 1;
        (told[0], told[last]) = (times[0].clone(), times[last].clone());
        Ok((times, told))
    }

    /// The smallest distance of neighbours: of the grid, or in the mode `lambda` of the logits, as the released code has it.
    fn spacing(&self, grid: &[Coeff], p1: &[Coeff]) -> f64 {
        let list = if self.mode == TimeMode::Lambda { p1 } else { grid };
        list.windows(2).map(|w| (w[1].value() - w[0].value()).abs()).fold(f64::INFINITY, f64::min)
    }
}

/// The grid of logits between a frame's ends: in the variable of the mode, and as times.
pub(super) fn grid_of(mode: TimeMode, p1: &[Coeff], frame: &Frame) -> Result<(Vec<Coeff>, Vec<Coeff>)> {
    let steps = p1.len() - 1;
    let (first, last) = (Coeff::from(frame.grid.first()), Coeff::from(frame.grid.last()));
    let variable = |t: &Coeff| if mode == TimeMode::Lambda { frame.prediction.log_snr(t) } else { t.clone() };
    let (from, to) = (variable(&first), variable(&last));
    if !(from.value().is_finite() && to.value().is_finite()) {
        return Err(Error::Conflict {
            problem: format!("log-SNR is infinite at an end of the grid, {} or {}", first.value(), last.value()),
            hint: "use --mode time, or a grid whose ends have a finite log-SNR".into(),
        });
    }
    let mut sums = vec![Coeff::from(0.0)];
    for share in Coeff::softmax(p1) {
        sums.push(&sums[sums.len() - 1] + share);
    }
    // q begins with the first share, which drops out: its difference to itself is 0.
    let whole = &sums[steps + 1] - &sums[1];
    let share = |i: usize| (&sums[i + 1] - &sums[1]) / &whole;
    let span = &to - &from;
    let place = |i: usize| match mode {
        TimeMode::Lambda => &from + share(i) * &span,
        TimeMode::Time => &to - share(steps - i) * &span,
    };
    let inner: Vec<Coeff> = (0..=steps).map(place).collect();
    let mut times: Vec<Coeff> = inner.iter().map(|v| mode.level(frame.prediction, v)).collect();
    (times[0], times[steps]) = (first, last);
    Ok((inner, times))
}

impl TimeMode {
    /// σ of a value of the variable.
    fn level(self, prediction: Prediction, value: &Coeff) -> Coeff {
        match (self, prediction) {
            (TimeMode::Time, _) => value.clone(),
            (TimeMode::Lambda, Prediction::Denoised) => (-value).exp(),
            (TimeMode::Lambda, Prediction::Velocity) => (-value).sigmoid(),
        }
    }
}

impl LearnedSolver for Ld3 {
    fn steps(&self) -> Option<usize> {
        Some(self.p1.len().saturating_sub(1))
    }

    fn blocks(&self) -> Vec<Block> {
        vec![Block::new("p1", &[self.p1.len()]), Block::new("p2", &[self.p2.len()])]
    }

    fn params(&self) -> Vec<f64> {
        [self.p1.clone(), self.p2.clone()].concat()
    }

    fn replace(&mut self, params: &[f64]) {
        let (p1, p2) = params.split_at(self.p1.len());
        (self.p1, self.p2) = (p1.to_vec(), p2.to_vec());
    }

    fn check(&self) -> Result<()> {
        if self.p1.len() < 2 {
            return Err(Error::Shape {
                what: "p1: one more than steps".into(),
                expected: vec![2],
                found: vec![self.p1.len()],
            });
        }
        require_len("p2: as many as p1", self.p1.len(), self.p2.len())?;
        require_finite("p1", &self.p1)?;
        require_finite("p2", &self.p2)?;
        if !(0.0..=1.0).contains(&self.window) {
            let expected = "must lie between 0 and 1".into();
            return Err(Error::BadValue { name: "window", value: self.window.to_string(), expected });
        }
        self.base.without_threshold(false).map(drop)
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        let (p1, p2) = params.split_at(self.p1.len());
        let (times, told) = self.times(p1, p2, frame)?;
        let base = self.base.without_threshold(self.frozen_nodes)?;
        Ok(Built { solver: Box::new(Retimed { base, told, closing_call: self.closing_call }), times })
    }

    fn base(&self) -> Option<Base> {
        Some(self.base.clone())
    }

    fn summary(&self) -> String {
        let mode = if self.mode == TimeMode::Lambda { "log-SNR" } else { "time" };
        format!("times of {} learned in {mode}, window {}", self.base.name, self.window)
    }
}

/// A solver whose network is told other times than its own.
struct Retimed {
    base: Box<dyn Solver>,
    /// One for each time of the grid.
    told: Vec<Coeff>,
    closing_call: bool,
}

struct RetimedRun<'s> {
    solver: &'s Retimed,
    times: Times<'s>,
    base: Box<dyn Run + 's>,
    made_before: usize,
}

impl Solver for Retimed {
    fn label(&self) -> String {
        format!("ld3[{}]", self.base.label())
    }

    fn times<'s>(&'s self, times: &'s [Coeff]) -> Times<'s> {
        Times::from(times).told(&self.told)
    }

    fn begin<'s>(&'s self, times: Times<'s>, prediction: Prediction) -> Result<Box<dyn Run + 's>> {
        require_len("times told to the network", times.len(), self.told.len())?;
        let times = times.told(&self.told);
        let base = self.base.begin(times, prediction)?;
        Ok(Box::new(RetimedRun { solver: self, times, base, made_before: 0 }))
    }
}

impl Run for RetimedRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let Retimed { told, closing_call, .. } = self.solver;
        if i == 0 {
            self.made_before = tape.evaluations();
        }
        let x = self.base.step(tape, i, x)?;
        // The released code of the exponential integrators always ends with an evaluation.
        if *closing_call && i + 1 == told.len() - 1 && tape.evaluations() - self.made_before < told.len() {
            tape.denoised(&x, &self.times.query(i + 1))?;
        }
        Ok(x)
    }
}
