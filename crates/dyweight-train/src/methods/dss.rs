//! DSS's recipe (Wang et al. 2025): Lion at 10⁻², against Euler on 100 steps, on the path and at the end.
//!
//! ```text
//! L = Σ_i mean (x_{i+1} − y_k)² + 1000·mean huber_{0.001}(x_S − y_100)      y_k: the teacher's state k = round(100·u_{i+1})
//! ```

use super::{Common, Method, Start, Teaching};
use crate::learnable::Learnable;
use crate::optimiser::Optimiser;
use crate::rate::RateRule;
use crate::recipe::Phase;
use crate::spec::{TrainSpec, not_negative};
use crate::targets::Supervision;
use dyweight_core::error::Result;
use dyweight_core::solver::{Ipndm, Solver};
use dyweight_solvers::Dss;
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::MethodParams;
use serde::{Deserialize, Serialize};

/// DSS's own options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct DssOptions {
    /// Weight of dss's loss at the end, beside that of the path [1000].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation"))]
    pub end_weight: Option<f64>,
}

/// The method.
pub(super) struct DssMethod;

impl Method for DssMethod {
    fn name(&self) -> &'static str {
        "dss"
    }

    fn options(&self) -> &'static [&'static str] {
        &["end-weight"]
    }

    fn usual(&self, spec: TrainSpec) -> TrainSpec {
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

    fn stand_in(&self, _: &TrainSpec, _: bool) -> Result<Box<dyn Solver>> {
        Ok(Box::new(Ipndm::euler()))
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start> {
        let steps = frame.grid.steps();
        let body = Start::given(self.name(), spec, steps)?.unwrap_or_else(|| MethodParams::Dss(Dss::start(steps)));
        Start::of(body, spec)
    }

    fn teaching(&self, spec: &TrainSpec, _: &Frame, _: &dyn Learnable) -> Result<Teaching> {
        let end = not_negative("end-weight", spec.dss.end_weight.unwrap_or(1000.0))?;
        Ok(Teaching { supervision: Supervision::Near, stepwise: None, near: Some(end), halved: false })
    }

    fn phases(&self, _: &TrainSpec, common: &Common, _: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![common.phase(&["raw_deltas", "coeffs"])])
    }
}
