//! EPD's recipe (Zhu et al. 2025): tables drawn from N(0, 1), Adam at 0.2 on a cosine, step by step against a teacher on a refined grid.
//!
//! The teacher makes `substeps` + 1 steps in each of the student's; one with two stages makes twice as many, each halved on the EDM grid, as the
//! released code has it. States are not detached between steps, the plugin's history is.

use super::points::{CountParallel, PointOptions, Updates};
use super::{Common, Method, Start, Teaching};
use crate::learnable::Learnable;
use crate::rate::RateRule;
use crate::recipe::Phase;
use crate::spec::{TrainSpec, positive};
use crate::stepwise::{Link, Stepwise};
use crate::targets::Supervision;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::Result;
use dyweight_core::noise::Stream;
use dyweight_core::solver::Solver;
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::MethodParams;
use dyweight_solvers::spec::budget::Evaluations;
use dyweight_solvers::spec::{ScheduleSpec, SolverSpec};
use dyweight_solvers::{Epd, History};

/// EPD, or EPD around iPNDM.
pub(super) struct EpdMethod {
    pub plugin: bool,
}

/// Steps below which images are compared at the end alone.
const FEW: usize = 5;

/// What the authors use on images: uniform in the time of a fitted VP process.
pub(super) fn time_uniform(given: &ScheduleSpec, prediction: Prediction) -> ScheduleSpec {
    let open = given.schedule.is_none() && given.sigmas.is_none() && given.rho.is_none();
    let schedule = (open && prediction == Prediction::Denoised).then(|| "time-uniform".to_string());
    ScheduleSpec { schedule: schedule.or(given.schedule.clone()), ..given.clone() }
}

/// True if a teacher has two stages.
fn has_two_stages(spec: &TrainSpec) -> bool {
    let teacher = SolverSpec::named(spec.teacher.as_deref().unwrap_or_default());
    teacher.method().is_ok_and(|m| ["heun", "dpm2"].contains(&m.name))
}

impl Method for EpdMethod {
    fn name(&self) -> &'static str {
        if self.plugin { "epd-plugin" } else { "epd" }
    }

    fn options(&self) -> &'static [&'static str] {
        match self.plugin {
            false => &[
                "afs",
                "count-parallel",
                "substeps",
                "points",
                "direction-range",
                "time-range",
                "last-direction-one",
                "updates",
            ],
            true => &[
                "afs",
                "count-parallel",
                "order",
                "substeps",
                "points",
                "direction-range",
                "time-range",
                "last-direction-one",
                "updates",
            ],
        }
    }

    fn usual(&self, spec: TrainSpec) -> TrainSpec {
        TrainSpec {
            teacher: spec.teacher.or(Some("dpm2".into())),
            teacher_denoise: Some(false),
            substeps: spec.substeps.or(Some(3)),
            rate: spec.rate.or(Some(RateRule::Cosine)),
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
        0.2
    }

    fn default_clip(&self) -> f64 {
        f64::INFINITY
    }

    fn stand_in(&self, spec: &TrainSpec, _: bool) -> Result<Box<dyn Solver>> {
        let points = positive("points", spec.points.points.unwrap_or(2))?;
        let beside = if spec.count_parallel == Some(CountParallel::Once) { 1 } else { points };
        Ok(Box::new(Evaluations { apart: 1, beside }))
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start> {
        let steps = frame.grid.steps();
        if let Some(body) = Start::given(self.name(), spec, steps)? {
            return Start::of(body, spec);
        }
        let PointOptions { points, direction_range, time_range, last_direction_one, .. } = &spec.points;
        let points = positive("points", points.unwrap_or(2))?;
        let ranges = (direction_range.unwrap_or(0.05), time_range.unwrap_or(0.05));
        let mut stream = Stream::labelled(spec.seed.unwrap_or(0), "epd tables");
        let mut tables = Epd::start(steps, points, ranges, || stream.normal());
        tables.last_direction_one = last_direction_one.unwrap_or(false);
        let body = match self.plugin {
            false => MethodParams::Epd(tables),
            true => MethodParams::EpdPlugin(tables.around(History { order: spec.order.unwrap_or(4) })),
        };
        Start::of(body, spec)
    }

    fn teaching(&self, spec: &TrainSpec, frame: &Frame, _: &dyn Learnable) -> Result<Teaching> {
        let halved = has_two_stages(spec);
        let substeps = spec.substeps.unwrap_or(3).saturating_add(1);
        let stride = positive("substeps", substeps.saturating_mul(if halved { 2 } else { 1 }))?;
        let few = !self.plugin && frame.bounded && frame.grid.steps() < FEW;
        let updates = spec.points.updates.unwrap_or(if few { Updates::Last } else { Updates::Each });
        let stepwise = Some(Stepwise { link: Link::Attached, updates });
        Ok(Teaching { supervision: Supervision::Path { stride }, stepwise, near: None, halved })
    }

    fn phases(&self, _: &TrainSpec, common: &Common, learnable: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![common.phase(&learnable.blocks().iter().map(|b| b.name).collect::<Vec<_>>())])
    }
}
