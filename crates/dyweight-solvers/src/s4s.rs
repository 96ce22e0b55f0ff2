//! S4S and S4S-Alt (Frankel et al. 2025, "S4S: Solving for a Diffusion Model Solver"): free coefficients of a linear
//! multistep method, and with Alt its grid too.
//!
//! ```text
//! data   x ← (σ_b/σ_a)x + β·Σ_j c_j D(x_j, u_j)      β = α_b − α_a·σ_b/σ_a,  a = t_i, b = t_{i+1}
//! noise  x ← x + (b − a)·Σ_j c_j d_j                 d_j = slope at x_j, the network told u_j
//! Alt    t from p₁ as LD3 has it
//! ```
//!
//! c starts at DPM-Solver++ of the order (data) or iPNDM (noise), on the nominal grid.
//!
//! There is no public code. Our own choices: row i weighs the last `order` predictions; the network's times are u_j =
//! t_j·e^{ξ_j} (a shift of the log-SNR), for flows t_j + ξ_j kept inside [0, 1]; Alt's p₁ starts at the logarithms of
//! the nominal spacings, so that it starts on the nominal grid.
//!
//! S4S and S4S-Alt (Frankel et al. 2025): coefficients by Adam at 10⁻³; with Alt in turns with the grid, for eight
//! rounds. The recipe is second-hand.
//!
//! Our own choices: a round is half coefficients, half grid; the grid moves by RMSprop at 5·10⁻³, as LD3's.

use crate::Base;
use crate::base::BaseOptions;
use crate::ld3::{TimeMode, grid_of};
use crate::learnable::Learnable;
use crate::learned::{Block, Built, Frame, LearnedSolver, require_finite, require_len, split};
use crate::method::{Method, MethodParams, Open, Start};
use crate::rate::RateRule;
use crate::recipe::{Common, Optimiser, Phase, RelaxOptions, Relaxation};
use crate::spec::train::{TrainSpec, finite_above};
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{DpmPp, Form, Predict, Rows, Run, Solver, Times, adams_bashforth};
use dyweight_core::tape::{Query, Tape, Var};
use serde::{Deserialize, Serialize};

/// S4S's parameters; with p₁, S4S-Alt's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct S4s {
    /// dpmpp (data predictions) or ipndm (slopes): where it starts, and what it weighs.
    #[serde(flatten)]
    pub base: Base,
    /// In which variable Alt's grid is learned.
    #[serde(default)]
    pub mode: TimeMode,
    /// c: row i belongs to step i, newest prediction last.
    pub coeffs: Rows,
    /// ξ: shifts of the network's times, one for each step.
    pub xi: Vec<f64>,
    /// Logits of the grid's spacings, one more than steps; empty for the nominal grid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub p1: Vec<f64>,
}

impl S4s {
    /// The start on a frame's grid; `learns_grid` is Alt.
    pub fn start(base: Base, mode: TimeMode, learns_grid: bool, frame: &Frame) -> Result<Self> {
        let times = frame.grid.coeffs();
        let steps = frame.grid.steps();
        let coeffs = (0..steps).map(|i| row(&base, &times, i, frame.prediction)).collect::<Result<_>>()?;
        let p1 = if learns_grid { logits(mode, frame)? } else { Vec::new() };
        Ok(Self { base, mode, coeffs, xi: vec![0.0; steps], p1 })
    }

    fn form(&self) -> Result<Predict> {
        form(&self.base)
    }
}

fn form(base: &Base) -> Result<Predict> {
    match base.spec()?.method()?.name {
        "dpmpp" => Ok(Predict::Data),
        "ipndm" => Ok(Predict::Noise),
        _ => Err(Error::unknown_name("base of s4s", base.name.clone(), ["dpmpp", "ipndm"])),
    }
}

/// Coefficients of step i's start, newest last.
fn row(base: &Base, times: &[Coeff], i: usize, prediction: Prediction) -> Result<Vec<f64>> {
    let mut row: Vec<f64> = match form(base)? {
        Predict::Noise => adams_bashforth(base.order.unwrap_or(4).min(4).min(i + 1)).to_vec(),
        Predict::Data => {
            let lower_order_final = base.lower_order_final.unwrap_or_default();
            let order = base.order.unwrap_or(DpmPp::HIGHEST);
            let dpmpp = DpmPp::new(order, Form { lower_order_final, ..Form::default() })?;
            dpmpp.shares(times, i, prediction).iter().map(Coeff::value).collect()
        }
    };
    let width = base.order.unwrap_or(if form(base)? == Predict::Data { DpmPp::HIGHEST } else { 4 }).min(i + 1);
    row.resize(width.max(row.len()), 0.0);
    row.reverse();
    Ok(row)
}

/// p₁ of the nominal grid.
fn logits(mode: TimeMode, frame: &Frame) -> Result<Vec<f64>> {
    let inner = |t: &Coeff| if mode == TimeMode::Lambda { frame.prediction.log_snr(t).value() } else { t.value() };
    let values: Vec<f64> = frame.grid.coeffs().iter().map(inner).collect();
    require_finite("log-SNR of the nominal grid (use `time-mode = time`)", &values)?;
    let mut spacings: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs().ln()).collect();
    if mode == TimeMode::Time {
        spacings.reverse();
    }
    Ok(std::iter::once(0.0).chain(spacings).collect())
}

impl LearnedSolver for S4s {
    fn steps(&self) -> Option<usize> {
        Some(self.coeffs.len())
    }

    fn blocks(&self) -> Vec<Block> {
        let coeffs = self.coeffs.iter().map(Vec::len).sum();
        let mut blocks = vec![Block::new("coeffs", &[coeffs]), Block::new("xi", &[self.xi.len()])];
        if !self.p1.is_empty() {
            blocks.push(Block::new("p1", &[self.p1.len()]));
        }
        blocks
    }

    fn params(&self) -> Vec<f64> {
        [self.coeffs.concat(), self.xi.clone(), self.p1.clone()].concat()
    }

    fn replace(&mut self, params: &[f64]) {
        let lengths = self.coeffs.iter().map(Vec::len).chain([self.xi.len(), self.p1.len()]);
        let parts = split(params, lengths);
        let steps = self.coeffs.len();
        self.coeffs = parts[..steps].iter().map(|row| row.to_vec()).collect();
        (self.xi, self.p1) = (parts[steps].to_vec(), parts[steps + 1].to_vec());
    }

    fn check(&self) -> Result<()> {
        self.form()?;
        let steps = self.coeffs.len();
        for (i, row) in self.coeffs.iter().enumerate() {
            if row.is_empty() || row.len() > i + 1 {
                let what = format!("coeffs of step {i}: between 1 and {}", i + 1);
                return Err(Error::Shape { what, expected: vec![i + 1], found: vec![row.len()] });
            }
            require_finite("coeffs", row)?;
        }
        require_len("xi: one for each step", steps.max(1), self.xi.len())?;
        require_finite("xi", &self.xi)?;
        if !self.p1.is_empty() {
            require_len("p1: one more than steps", steps + 1, self.p1.len())?;
            require_finite("p1", &self.p1)?;
        }
        Ok(())
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        let lengths = self.coeffs.iter().map(Vec::len).chain([self.xi.len(), self.p1.len()]);
        let parts = split(params, lengths);
        let steps = self.coeffs.len();
        let rows = parts[..steps].iter().map(|row| row.to_vec()).collect();
        let times = match parts[steps + 1] {
            [] => frame.grid.coeffs(),
            p1 => grid_of(self.mode, p1, frame)?.1,
        };
        let solver = FreeMultistep { rows, xi: parts[steps].to_vec(), predict: self.form()? };
        Ok(Built { solver: Box::new(solver), times })
    }

    fn base(&self) -> Option<Base> {
        Some(self.base.clone())
    }

    fn summary(&self) -> String {
        let grid = if self.p1.is_empty() { "" } else { " and grid" };
        format!("coefficients{grid} of a multistep method, from {}", self.base.name)
    }
}

/// A linear multistep method with coefficients of its own for every step.
struct FreeMultistep {
    rows: Vec<Vec<Coeff>>,
    xi: Vec<Coeff>,
    predict: Predict,
}

struct FreeRun<'s> {
    solver: &'s FreeMultistep,
    times: Times<'s>,
    /// Newest last.
    known: Vec<Var>,
    longest: usize,
}

impl Solver for FreeMultistep {
    fn label(&self) -> String {
        format!("s4s({})", self.rows.iter().map(Vec::len).max().unwrap_or(0))
    }

    fn begin<'s>(&'s self, times: Times<'s>, _: Prediction) -> Result<Box<dyn Run + 's>> {
        require_len("rows: one for each step of the grid", times.len() - 1, self.rows.len())?;
        let longest = self.rows.iter().map(Vec::len).max().unwrap_or(1);
        Ok(Box::new(FreeRun { solver: self, times, known: Vec::new(), longest }))
    }
}

impl Run for FreeRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let (a, b, xi) = (&self.times[i], &self.times[i + 1], &self.solver.xi[i]);
        let level = match tape.prediction() {
            Prediction::Denoised => a * xi.exp(),
            // At its start ξ = 0 says what the time says, also on the bound.
            Prediction::Velocity => (a + xi).clamp(-1e-12, 1.0 + 1e-12),
        };
        let query = Query::told(a, level);
        let row = &self.solver.rows[i];
        let (keep, outer) = match self.solver.predict {
            Predict::Data => {
                let keep = b / a;
                let prediction = tape.prediction();
                let outer = prediction.alpha(b) - prediction.alpha(a) * &keep;
                self.known.push(tape.denoised(&x, &query)?);
                (keep, outer)
            }
            Predict::Noise => {
                self.known.push(tape.slope(&x, &query)?);
                (Coeff::from(1.0), b - a)
            }
        };
        let first = self.known.len().saturating_sub(self.longest);
        self.known.drain(..first);
        let mut terms = vec![(keep, &x)];
        terms.extend(row.iter().map(|c| &outer * c).zip(&self.known[self.known.len() - row.len()..]));
        tape.combine(&terms)
    }
}

/// S4S, or S4S-Alt.
pub struct S4sMethod {
    pub alt: bool,
}

const DEFAULT_BASE: &str = "dpmpp";
/// Of Alt.
const ROUNDS: usize = 8;

impl Method for S4sMethod {
    fn options(&self) -> &'static [&'static str] {
        match self.alt {
            false => &[
                "afs",
                "order",
                "base",
                "lower-order-final",
                "supervision",
                "substeps",
                "relax",
                "noise-step",
                "noise-radius",
            ],
            true => &[
                "afs",
                "order",
                "base",
                "lower-order-final",
                "time-mode",
                "times-lr",
                "relax",
                "noise-step",
                "noise-radius",
            ],
        }
    }

    fn with_defaults(&self, spec: TrainSpec) -> TrainSpec {
        TrainSpec { rate: spec.rate.or(Some(RateRule::Constant)), ..spec }
    }

    fn default_rate(&self, _: usize) -> f64 {
        1e-3
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame, open: &Open) -> Result<Start> {
        if let Some(body) = Start::given(spec, frame.grid.steps(), open)? {
            return Start::of(body, spec);
        }
        let mode = match frame.prediction {
            Prediction::Denoised => TimeMode::Lambda,
            Prediction::Velocity => TimeMode::Time,
        };
        let solver = S4s::start(BaseOptions::of(spec, DEFAULT_BASE), spec.ld3.mode.unwrap_or(mode), self.alt, frame)?;
        Start::of(if self.alt { MethodParams::S4sAlt(solver) } else { MethodParams::S4s(solver) }, spec)
    }

    fn relaxed(&self, spec: &TrainSpec, frame: &Frame, params: usize) -> Result<Option<Relaxation>> {
        RelaxOptions::of(spec, false, frame.grid.steps(), params)
    }

    fn phases(&self, spec: &TrainSpec, common: &Common, _: &dyn Learnable) -> Result<Vec<Phase>> {
        const COEFFS: [&str; 2] = ["coeffs", "xi"];
        if !self.alt {
            return Ok(vec![common.phase(&COEFFS)]);
        }
        let lr = finite_above("times-lr", spec.ld3.lr2.unwrap_or(5e-3), 0.0)?;
        let grid = Common { lr, optimiser: Optimiser::RmsProp, ..*common };
        let mut phases = Vec::new();
        let border = |k: usize| common.iterations * k / (2 * ROUNDS);
        for k in 0..2 * ROUNDS {
            let iterations = border(k + 1) - border(k);
            if iterations > 0 {
                let group =
                    if k % 2 == 0 { common.group(&COEFFS, iterations) } else { grid.group(&["p1"], iterations) };
                phases.push(Phase { iterations, groups: vec![group] });
            }
        }
        Ok(phases)
    }
}
