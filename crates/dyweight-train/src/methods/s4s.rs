//! S4S and S4S-Alt (Frankel et al. 2025): coefficients by Adam at 10⁻³; with Alt in turns with the grid, for eight rounds. The recipe is second-hand.
//!
//! Our own choices: a round is half coefficients, half grid; the grid moves by RMSprop at 5·10⁻³, as LD3's.

use super::base::BaseOptions;
use super::relaxed::RelaxOptions;
use super::{Common, Method, Start};
use crate::learnable::Learnable;
use crate::optimiser::Optimiser;
use crate::rate::RateRule;
use crate::recipe::Phase;
use crate::relax::Relaxation;
use crate::spec::{TrainSpec, finite_above};
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::Result;
use dyweight_core::solver::{Ipndm, Solver};
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::MethodParams;
use dyweight_solvers::{S4s, TimeMode};

/// S4S, or S4S-Alt.
pub(super) struct S4sMethod {
    pub alt: bool,
}

const USUAL_BASE: &str = "dpmpp";
/// Of Alt.
const ROUNDS: usize = 8;

impl Method for S4sMethod {
    fn name(&self) -> &'static str {
        if self.alt { "s4s-alt" } else { "s4s" }
    }

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
            true => {
                &["afs", "order", "base", "lower-order-final", "mode", "lr2", "relax", "noise-step", "noise-radius"]
            }
        }
    }

    fn usual(&self, spec: TrainSpec) -> TrainSpec {
        TrainSpec { rate: spec.rate.or(Some(RateRule::Constant)), ..spec }
    }

    fn default_rate(&self, _: usize) -> f64 {
        1e-3
    }

    fn stand_in(&self, _: &TrainSpec, _: bool) -> Result<Box<dyn Solver>> {
        Ok(Box::new(Ipndm::euler()))
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start> {
        if let Some(body) = Start::given(self.name(), spec, frame.grid.steps())? {
            return Start::of(body, spec);
        }
        let mode = match frame.prediction {
            Prediction::Denoised => TimeMode::Lambda,
            Prediction::Velocity => TimeMode::Time,
        };
        let solver = S4s::start(BaseOptions::of(spec, USUAL_BASE), spec.ld3.mode.unwrap_or(mode), self.alt, frame)?;
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
        let lr = finite_above("lr2", spec.ld3.lr2.unwrap_or(5e-3), 0.0)?;
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
