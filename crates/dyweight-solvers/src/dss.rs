//! DSS (Wang et al. 2025, "Differentiable Solver Search for Fast Diffusion Sampling"): learned step sizes, and slopes
//! mixed with those before.
//!
//! ```text
//! Δ = softmax(raw deltas)                           u_i = Δ₀ + … + Δ_{i−1} ∈ [0, 1], from noise to data
//! v̂_i = Σ_{j<i} C_ij v_j + (1 − Σ_{j<i} C_ij)·v_i    weights that sum to one
//! x ← x + (t_{i+1} − t_i)·v̂_i                        flow: t = t₀ + u(t_S − t₀)
//! ```
//!
//! On six steps or fewer the last two mix the slope just before alone. In the mode `released` Δ is the table itself, as
//! published (rounded, so that it may miss 1), and nothing is cut.
//!
//! Denoising models are our own adaptation: slopes d = (x − D)/σ on σ^{1/ρ} linear in u, ρ = 7, so that equal steps are
//! the EDM grid.
//!
//! DSS's recipe (Wang et al. 2025): Lion at 10⁻², against Euler on 100 steps, on the path and at the end.
//!
//! ```text
//! L = Σ_i mean (x_{i+1} − y_k)² + 1000·mean huber_{0.001}(x_S − y_100)
//!                                                                      y_k: the teacher's state k = round(100·u_{i+1})
//! ```

use crate::learnable::Learnable;
use crate::learned::{Block, Built, Frame, LearnedSolver, require_finite, require_len};
use crate::method::{Method, MethodParams, Open, Start};
use crate::rate::RateRule;
use crate::recipe::{Common, Optimiser, Phase, Supervision, Teaching};
use crate::spec::train::{TrainSpec, not_negative};
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{Run, Solver, StepTable, Times};
use serde::{Deserialize, Serialize};

/// What the raw deltas are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deltas {
    /// Logits of the step sizes.
    #[default]
    Softmax,
    /// The step sizes, as published.
    Released,
}

/// DSS's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dss {
    /// What the raw deltas are.
    #[serde(default)]
    pub mode: Deltas,
    /// Step sizes, from noise to data.
    pub raw_deltas: Vec<f64>,
    /// C: row i mixes the slopes of steps before i; only what lies strictly below the diagonal is read.
    pub coeffs: Vec<Vec<f64>>,
}

/// On so many steps or fewer the last two rows are short.
const FEW: usize = 6;
/// Of σ on denoising models.
const RHO: f64 = 7.0;

impl Dss {
    /// Equal steps and unmixed slopes: Euler.
    pub fn start(steps: usize) -> Self {
        Self { mode: Deltas::Softmax, raw_deltas: vec![1.0; steps], coeffs: vec![vec![0.0; steps]; steps] }
    }

    /// How far from noise to data each state is: u₀ = 0 … u_S.
    fn shares(&self, raw: &[Coeff]) -> Vec<Coeff> {
        let deltas = if self.mode == Deltas::Softmax { Coeff::softmax(raw) } else { raw.to_vec() };
        let mut shares = vec![Coeff::from(0.0)];
        for delta in deltas {
            shares.push(&shares[shares.len() - 1] + delta);
        }
        shares
    }

    /// Weights of step i's slopes, newest first.
    fn row(&self, i: usize, coeffs: &[Coeff]) -> Vec<Coeff> {
        let steps = self.raw_deltas.len();
        let short = self.mode == Deltas::Softmax && steps <= FEW && i + 2 >= steps;
        let oldest = if short { i.saturating_sub(1) } else { 0 };
        let older: Vec<Coeff> = (oldest..i).rev().map(|j| coeffs[i * steps + j].clone()).collect();
        let newest = 1.0 - Coeff::sum(&older);
        std::iter::once(newest).chain(older).collect()
    }
}

impl LearnedSolver for Dss {
    fn steps(&self) -> Option<usize> {
        Some(self.raw_deltas.len())
    }

    fn blocks(&self) -> Vec<Block> {
        let steps = self.raw_deltas.len();
        vec![Block::new("raw_deltas", &[steps]), Block::new("coeffs", &[steps, steps])]
    }

    fn params(&self) -> Vec<f64> {
        [self.raw_deltas.clone(), self.coeffs.concat()].concat()
    }

    fn replace(&mut self, params: &[f64]) {
        let (deltas, coeffs) = params.split_at(self.raw_deltas.len());
        self.coeffs = coeffs.chunks(self.raw_deltas.len().max(1)).map(<[f64]>::to_vec).collect();
        self.raw_deltas = deltas.to_vec();
    }

    fn check(&self) -> Result<()> {
        let steps = self.raw_deltas.len();
        if steps == 0 {
            return Err(Error::Shape { what: "raw_deltas".into(), expected: vec![1], found: vec![0] });
        }
        require_finite("raw_deltas", &self.raw_deltas)?;
        require_len("rows of coeffs", steps, self.coeffs.len())?;
        for row in &self.coeffs {
            require_len("a row of coeffs", steps, row.len())?;
            require_finite("coeffs", row)?;
        }
        Ok(())
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        let (raw, coeffs) = params.split_at(self.raw_deltas.len());
        let (first, last) = (frame.grid.first(), frame.grid.last());
        let time = |u: &Coeff| match frame.prediction {
            Prediction::Velocity => first + u * (last - first),
            Prediction::Denoised => {
                let (from, to) = (first.powf(1.0 / RHO), last.powf(1.0 / RHO));
                let root = from + u * (to - from);
                // ρ is a small whole number: a product keeps the sign of what has left the range.
                (1..RHO as usize).fold(root.clone(), |power, _| power * &root)
            }
        };
        let times = self.shares(raw).iter().map(time).collect();
        let rows = (0..self.raw_deltas.len()).map(|i| self.row(i, coeffs)).collect();
        Ok(Built { solver: Box::new(Mixed { rows }), times })
    }

    fn progress(&self, params: &[f64]) -> Option<Vec<f64>> {
        let raw: Vec<Coeff> = params[..self.raw_deltas.len()].iter().map(|v| Coeff::from(*v)).collect();
        Some(self.shares(&raw)[1..].iter().map(Coeff::value).collect())
    }

    fn summary(&self) -> String {
        "steps and mixed slopes".into()
    }
}

/// Slopes in fixed proportions.
struct Mixed {
    /// Newest first, without the step's length.
    rows: Vec<Vec<Coeff>>,
}

impl Solver for Mixed {
    fn label(&self) -> String {
        "dss".into()
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        require_len("rows: one for each step of the grid", times.len() - 1, self.rows.len())?;
        let row = |i: usize| {
            let length = &times[i + 1] - &times[i];
            self.rows[i].iter().map(|w| &length * w).collect()
        };
        Ok(StepTable { times, rows: (0..self.rows.len()).map(row).collect() }.run())
    }
}

/// DSS's own options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct DssOptions {
    /// Weight of dss's loss at the end, beside that of the path [1000].
    #[serde(rename = "dss-end-weight", alias = "end-weight")]
    #[cfg_attr(feature = "clap", arg(long = "dss-end-weight", alias = "end-weight", help_heading = "DSS"))]
    pub end_weight: Option<f64>,
}

/// The method.
pub struct DssMethod;

impl Method for DssMethod {
    fn options(&self) -> &'static [&'static str] {
        &["dss-end-weight"]
    }

    fn with_defaults(&self, spec: TrainSpec) -> TrainSpec {
        TrainSpec {
            teacher: spec.teacher.or(Some("euler".into())),
            teacher_steps: spec.teacher_steps.or(spec.teacher_nfe.is_none().then_some(100)),
            teacher_denoise: spec.teacher_denoise.or(Some(false)),
            optimiser: spec.optimiser.or(Some(Optimiser::Lion)),
            weight_decay: spec.weight_decay.or(Some(0.0)),
            rate: spec.rate.or(Some(RateRule::Constant)),
            huber_delta: spec.huber_delta.or(spec.loss.is_none().then_some(1e-3)),
            loss: spec.loss.or(Some("huber".into())),
            ..spec
        }
    }

    fn default_rate(&self, _: usize) -> f64 {
        1e-2
    }

    fn default_clip(&self) -> f64 {
        f64::INFINITY
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame, open: &Open) -> Result<Start> {
        let steps = frame.grid.steps();
        let body = Start::given(spec, steps, open)?.unwrap_or_else(|| MethodParams::Dss(Dss::start(steps)));
        Start::of(body, spec)
    }

    fn teaching(&self, spec: &TrainSpec, _: &Frame, _: &dyn Learnable) -> Result<Teaching> {
        let end = not_negative("dss-end-weight", spec.dss.end_weight.unwrap_or(1000.0))?;
        Ok(Teaching { supervision: Supervision::Near, stepwise: None, near: Some(end), halved: false })
    }

    fn phases(&self, _: &TrainSpec, common: &Common, _: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![common.phase(&["raw_deltas", "coeffs"])])
    }
}
