//! AMED's recipe (Zhou et al. 2024): the predictor by Adam at 5·10⁻³, one update per step against a teacher on a refined grid.
//!
//! The next step starts from the teacher's state (amed, and around euler and dpm2), or from the student's, detached (around ipndm and dpmpp).
//! The teacher makes `substeps` + 1 steps in each of the student's, with the base's order and form where it is the same method.

use super::base::BaseOptions;
use super::epd::time_uniform;
use super::{Common, Method, Start, Teaching};
use crate::learnable::Learnable;
use crate::methods::points::Updates;
use crate::rate::RateRule;
use crate::recipe::Phase;
use crate::spec::{TrainSpec, positive};
use crate::stepwise::{Link, Stepwise};
use crate::targets::Supervision;
use dyweight_core::denoiser::{Prediction, no_feature};
use dyweight_core::error::Result;
use dyweight_core::noise::Stream;
use dyweight_core::solver::Solver;
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::MethodParams;
use dyweight_solvers::spec::ScheduleSpec;
use dyweight_solvers::spec::budget::Evaluations;
use dyweight_solvers::{Alone, Amed, AmedPlugin, Predictor};

/// AMED-Solver, or AMED-Plugin.
pub(super) struct AmedMethod {
    pub plugin: bool,
}

const USUAL_BASE: &str = "ipndm";

impl Method for AmedMethod {
    fn name(&self) -> &'static str {
        if self.plugin { "amed-plugin" } else { "amed" }
    }

    fn options(&self) -> &'static [&'static str] {
        match self.plugin {
            false => &["afs", "substeps", "direction-range", "time-range"],
            true => {
                &["afs", "order", "base", "predict", "lower-order-final", "substeps", "direction-range", "time-range"]
            }
        }
    }

    fn usual(&self, spec: TrainSpec) -> TrainSpec {
        let base = spec.base.base.clone().unwrap_or(USUAL_BASE.into());
        let (teacher, substeps) = if self.plugin { (base, 2) } else { ("heun".into(), 1) };
        TrainSpec {
            teacher: spec.teacher.or(Some(teacher)),
            teacher_denoise: Some(false),
            substeps: spec.substeps.or(Some(substeps)),
            rate: spec.rate.or(Some(RateRule::Constant)),
            ..spec
        }
    }

    fn default_afs(&self, prediction: Prediction) -> bool {
        prediction == Prediction::Denoised
    }

    fn default_schedule(&self, given: &ScheduleSpec, prediction: Prediction) -> ScheduleSpec {
        if self.plugin { given.clone() } else { time_uniform(given, prediction) }
    }

    fn default_rate(&self, _: usize) -> f64 {
        5e-3
    }

    fn default_clip(&self) -> f64 {
        f64::INFINITY
    }

    fn stand_in(&self, _: &TrainSpec, _: bool) -> Result<Box<dyn Solver>> {
        Ok(Box::new(Evaluations { apart: 2, beside: 0 }))
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start> {
        if let Some(body) = Start::given(self.name(), spec, frame.grid.steps())? {
            return Start::of(body, spec);
        }
        let features = frame.feature.ok_or_else(|| no_feature(0, None))?;
        let usual = if self.plugin { 0.2 } else { 0.0 };
        let ranges = (spec.points.direction_range.unwrap_or(0.01), spec.points.time_range.unwrap_or(usual));
        let seed = spec.seed.unwrap_or(0);
        let [mut u, mut z] = ["uniform", "normal"].map(|kind| Stream::labelled(seed, &format!("predictor {kind}")));
        let predictor = Predictor::start(features, ranges, || u.uniform(), || z.normal());
        let body = match self.plugin {
            false => MethodParams::Amed(Amed { base: Alone {}, predictor }),
            true => MethodParams::AmedPlugin(AmedPlugin { base: BaseOptions::of(spec, USUAL_BASE), predictor }),
        };
        Start::of(body, spec)
    }

    fn teaching(&self, spec: &TrainSpec, _: &Frame, learnable: &dyn Learnable) -> Result<Teaching> {
        let remembers = learnable.base().is_some_and(|base| ["ipndm", "dpmpp"].contains(&base.name.as_str()));
        let link = if remembers { Link::Detached } else { Link::Teacher };
        let stride = positive("substeps", spec.substeps.unwrap_or(1).saturating_add(1))?;
        let stepwise = Some(Stepwise { link, updates: Updates::Each });
        Ok(Teaching { supervision: Supervision::Path { stride }, stepwise, near: None, halved: false })
    }

    fn phases(&self, _: &TrainSpec, common: &Common, learnable: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![common.phase(&learnable.blocks().iter().map(|b| b.name).collect::<Vec<_>>())])
    }
}
