//! LD3's recipe (Tong et al. 2024): p₁ by RMSprop, then p₁ by RMSprop and p₂ by plain descent; UniPC as teacher and as base.
//!
//! ```text
//! phase 1  p₁: RMSprop, rate 5·10⁻³        two sevenths of the run
//! phase 2  p₁ as before, p₂: descent, rate 0.1/S
//! ```
//!
//! The objective is relaxed (`relax.rs`): 50 pairs, two in a visit, seven rounds. Validation and roll-back are this program's own.

use super::base::BaseOptions;
use super::relaxed::{PAIRS, RelaxOptions};
use super::{Common, Method, Start};
use crate::learnable::Learnable;
use crate::optimiser::Optimiser;
use crate::rate::RateRule;
use crate::recipe::{Group, Phase};
use crate::relax::Relaxation;
use crate::spec::{TrainSpec, finite_above};
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::Result;
use dyweight_core::solver::Solver;
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::MethodParams;
use dyweight_solvers::{Ld3, TimeMode};
use serde::{Deserialize, Serialize};

/// LD3's own options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct Ld3Options {
    /// In which variable ld3 learns times [lambda; time for flows].
    #[cfg_attr(feature = "clap", arg(long, value_name = "lambda|time", value_parser = crate::spec::one_of::<TimeMode>(&["lambda", "time"]), help_heading = "Solver"))]
    pub mode: Option<TimeMode>,
    /// How far ld3's times for the network may lie from the solver's, of the smallest spacing [0.5].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Solver"))]
    pub window: Option<f64>,
    /// Rate of ld3's times for the network [0.1 by the number of steps].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub lr2: Option<f64>,
}

/// The method.
pub(super) struct Ld3Method;

const USUAL_BASE: &str = "unipc";
/// Pairs in a visit of the published recipe.
const BATCH: usize = 2;
/// Its rounds: two of p₁, five of both.
const ROUNDS: usize = 7;

impl Method for Ld3Method {
    fn name(&self) -> &'static str {
        "ld3"
    }

    fn options(&self) -> &'static [&'static str] {
        &[
            "order",
            "base",
            "variant",
            "predict",
            "lower-order-final",
            "mode",
            "window",
            "lr2",
            "relax",
            "noise-step",
            "noise-radius",
        ]
    }

    fn usual(&self, mut spec: TrainSpec) -> TrainSpec {
        if spec.relax.relax.unwrap_or(true) {
            let batch = spec.batch.unwrap_or(BATCH);
            spec.batch = Some(batch);
            let pairs = spec.pairs.unwrap_or(PAIRS);
            spec.iters = spec.iters.or(Some(ROUNDS * pairs.div_ceil(batch.max(1))));
            spec.validation = spec.validation.or(Some(PAIRS));
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
        BaseOptions::of(spec, USUAL_BASE).build(bounded)
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start> {
        let steps = frame.grid.steps();
        let body = match Start::given(self.name(), spec, steps)? {
            Some(body) => body,
            None => {
                let mode = match frame.prediction {
                    Prediction::Denoised => TimeMode::Lambda,
                    Prediction::Velocity => TimeMode::Time,
                };
                let (mode, window) = (spec.ld3.mode.unwrap_or(mode), spec.ld3.window.unwrap_or(0.5));
                MethodParams::Ld3(Ld3::start(BaseOptions::of(spec, USUAL_BASE), mode, window, steps))
            }
        };
        Start::of(body, spec)
    }

    fn relaxed(&self, spec: &TrainSpec, frame: &Frame, params: usize) -> Result<Option<Relaxation>> {
        RelaxOptions::of(spec, true, frame.grid.steps(), params)
    }

    fn phases(&self, spec: &TrainSpec, common: &Common, learnable: &dyn Learnable) -> Result<Vec<Phase>> {
        let steps = learnable.blocks()[0].len() - 1;
        let lr2 = finite_above("lr2", spec.ld3.lr2.unwrap_or(0.1 / steps as f64), 0.0)?;
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
