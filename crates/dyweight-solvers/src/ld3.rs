//! LD3 (Tong et al. 2024, "Learning to Discretize Denoising Diffusion ODEs"): learned times for any solver, and other
//! times told to the network.
//!
//! ```text
//! q = cumsum(softmax p₁)                      n_i = (q_i − q₀)/(q_S − q₀) ∈ [0, 1]
//! lambda   λ_i = λ₀ + n_i·(λ_S − λ₀)          t_i = σ(λ_i)
//! time     t_{S−i} = t_S + n_i·(t₀ − t_S)     the last entry of p₁ rules the first interval
//! told     u_i = λ_i or t_i, plus clip(p₂, ±Δ), Δ = window × smallest spacing, not differentiated; p₂ has no say at
//!          the ends
//! network  D(x, u_i), slope (x − D)/u_i       the base solver itself knows t_i alone
//! ```
//!
//! The ends are those of the nominal grid, and p₁[0] has no effect. As in the released code, Δ in the mode `lambda` is
//! taken from neighbouring entries of p₁, not of λ: it is 0 at the start, where all entries are equal. Where λ is
//! infinite (σ = 0, or σ = 1 of a flow) only the mode `time` can be used. The released code of DPM-Solver++ and UniPC
//! evaluates the network once more at the last time and does not use it: `closing_call` repeats that for coefficients
//! that come from there.
//!
//! LD3's recipe (Tong et al. 2024): p₁ by RMSprop, then p₁ by RMSprop and p₂ by plain descent; UniPC as teacher and as
//! base.
//!
//! ```text
//! phase 1  p₁: RMSprop, rate 5·10⁻³        two sevenths of the run
//! phase 2  p₁ as before, p₂: descent, rate 0.1/S
//! ```
//!
//! The objective is relaxed (`relax.rs`): 50 pairs, two in a visit, seven rounds. Validation and roll-back are this
//! program's own.

use crate::Base;
use crate::base::BaseOptions;
use crate::learnable::Learnable;
use crate::learned::{Block, Built, Frame, LearnedSolver, require_finite, require_len};
use crate::method::{Method, MethodParams, Open, Start};
use crate::rate::RateRule;
use crate::recipe::{Common, Group, Optimiser, Phase, RELAXED_PAIRS, RelaxOptions, Relaxation};
use crate::spec::train::{TrainSpec, finite_above};
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

    /// The smallest distance of neighbours: of the grid, or in the mode `lambda` of the logits, as the released code
    /// has it.
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
        return Err(Error::conflict(
            format!("log-SNR is infinite at an end of the grid, {} or {}", first.value(), last.value()),
            "use `time-mode = time`, or a grid whose ends have a finite log-SNR",
        ));
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
            return Err(Error::bad_value("window", self.window, "must lie between 0 and 1"));
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

/// LD3's own options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct Ld3Options {
    /// In which variable ld3 learns times [lambda; time for flows].
    #[serde(rename = "time-mode", alias = "mode")]
    #[cfg_attr(feature = "clap", arg(long = "time-mode", alias = "mode", value_name = "lambda|time", value_parser = crate::spec::one_of::<TimeMode>(&["lambda", "time"]), help_heading = "LD3 and S4S"))]
    pub mode: Option<TimeMode>,
    /// How far ld3's times for the network may lie from the solver's, of the smallest spacing [0.5].
    #[serde(rename = "ld3-window", alias = "window")]
    #[cfg_attr(feature = "clap", arg(long = "ld3-window", alias = "window", help_heading = "LD3 and S4S"))]
    pub window: Option<f64>,
    /// Rate of ld3's times for the network [0.1 by the number of steps].
    #[serde(rename = "times-lr", alias = "lr2")]
    #[cfg_attr(feature = "clap", arg(long = "times-lr", alias = "lr2", help_heading = "LD3 and S4S"))]
    pub lr2: Option<f64>,
}

/// The method.
pub struct Ld3Method;

const DEFAULT_BASE: &str = "unipc";
/// Pairs in a visit of the published recipe.
const BATCH: usize = 2;
/// Its rounds: two of p₁, five of both.
const ROUNDS: usize = 7;

impl Method for Ld3Method {
    fn options(&self) -> &'static [&'static str] {
        &[
            "order",
            "base",
            "variant",
            "predict",
            "lower-order-final",
            "time-mode",
            "ld3-window",
            "times-lr",
            "relax",
            "noise-step",
            "noise-radius",
        ]
    }

    fn with_defaults(&self, mut spec: TrainSpec) -> TrainSpec {
        if spec.relax.relax.unwrap_or(true) {
            let batch = spec.batch.unwrap_or(BATCH);
            spec.batch = Some(batch);
            let pairs = spec.pairs.unwrap_or(RELAXED_PAIRS);
            spec.iters = spec.iters.or(Some(ROUNDS * pairs.div_ceil(batch.max(1))));
            spec.validation = spec.validation.or(Some(RELAXED_PAIRS));
        }
        TrainSpec {
            teacher: spec.teacher.or(Some("unipc".into())),
            teacher_steps: spec.teacher_steps.or(spec.teacher_nfe.is_none().then_some(20)),
            teacher_denoise: spec.teacher_denoise.or(Some(false)),
            optimiser: spec.optimiser.or(Some(Optimiser::RmsProp)),
            rate: spec.rate.or(Some(RateRule::Constant)),
            ..spec
        }
    }

    fn default_rate(&self, _: usize) -> f64 {
        5e-3
    }

    fn stand_in(&self, spec: &TrainSpec, bounded: bool) -> Result<Box<dyn Solver>> {
        BaseOptions::of(spec, DEFAULT_BASE).build(bounded)
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame, open: &Open) -> Result<Start> {
        let steps = frame.grid.steps();
        let body = match Start::given(spec, steps, open)? {
            Some(body) => body,
            None => {
                let mode = match frame.prediction {
                    Prediction::Denoised => TimeMode::Lambda,
                    Prediction::Velocity => TimeMode::Time,
                };
                let (mode, window) = (spec.ld3.mode.unwrap_or(mode), spec.ld3.window.unwrap_or(0.5));
                MethodParams::Ld3(Ld3::start(BaseOptions::of(spec, DEFAULT_BASE), mode, window, steps))
            }
        };
        Start::of(body, spec)
    }

    fn relaxed(&self, spec: &TrainSpec, frame: &Frame, params: usize) -> Result<Option<Relaxation>> {
        RelaxOptions::of(spec, true, frame.grid.steps(), params)
    }

    fn phases(&self, spec: &TrainSpec, common: &Common, learnable: &dyn Learnable) -> Result<Vec<Phase>> {
        let steps = learnable.blocks()[0].len() - 1;
        let lr2 = finite_above("times-lr", spec.ld3.lr2.unwrap_or(0.1 / steps as f64), 0.0)?;
        let first = (common.iterations * 2 / 7).max(1).min(common.iterations);
        let second = common.iterations - first;
        let told = Common { lr: lr2, optimiser: Optimiser::Sgd, ..*common };
        let both = |iterations: usize| -> Vec<Group> {
            vec![common.group(&["p1"], iterations), told.group(&["p2"], iterations)]
        };
        let mut phases = vec![Phase { iterations: first, groups: vec![common.group(&["p1"], first)] }];
        if second > 0 {
            phases.push(Phase { iterations: second, groups: both(second) });
        }
        Ok(phases)
    }
}
