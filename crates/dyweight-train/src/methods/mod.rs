//! The methods that can be learned, a file each: options of their own, where they start, and the recipe of their authors.
//!
//! A method is a [`LearnedSolver`](dyweight_solvers::learned::LearnedSolver) in `dyweight-solvers` (DyWeight: in `dyweight-core`) and a `Method` here; the trainer is the same for all.

mod amed;
pub mod base;
mod dlms;
pub mod dss;
pub mod dyweight;
mod epd;
pub mod gits;
pub mod ld3;
pub mod learned_weights;
pub mod points;
pub mod relaxed;
mod s4s;
pub mod span;

use crate::learnable::{ByParams, Learnable};
use crate::optimiser::Optimiser;
use crate::rate::{Rate, RateRule};
use crate::recipe::{Group, Phase};
use crate::relax::Relaxation;
use crate::spec::TrainSpec;
use crate::stepwise::Stepwise;
use crate::targets::Supervision;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::Solver;
use dyweight_sample::Learned;
use dyweight_solvers::learned::Frame;
use dyweight_solvers::solver_file::{LEARNED, MethodParams};
use dyweight_solvers::spec::ScheduleSpec;
use std::sync::Arc;

/// All of them.
const METHODS: &[&dyn Method] = &[
    &dyweight::DyWeightMethod,
    &ld3::Ld3Method,
    &epd::EpdMethod { plugin: false },
    &epd::EpdMethod { plugin: true },
    &amed::AmedMethod { plugin: false },
    &amed::AmedMethod { plugin: true },
    &gits::GitsMethod,
    &dss::DssMethod,
    &dlms::DlmsMethod,
    &s4s::S4sMethod { alt: false },
    &s4s::S4sMethod { alt: true },
];

/// Options of descent, which a method without gradients does not have.
const DESCENT: &[&str] = &[
    "init",
    "loss",
    "iters",
    "batch",
    "accumulate",
    "pairs",
    "lr",
    "warm-up",
    "rate",
    "optimiser",
    "weight-decay",
    "clip",
];

/// A method that is learned.
pub(crate) trait Method: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Which of the options that not all methods have it takes.
    fn options(&self) -> &'static [&'static str];

    /// The options, with those that its authors' recipe decides filled in where nothing was said.
    fn usual(&self, spec: TrainSpec) -> TrainSpec {
        spec
    }

    /// False for a method that is searched for instead.
    fn learns_by_gradients(&self) -> bool {
        true
    }

    /// The rule of the grid, where nothing was said.
    fn default_schedule(&self, given: &ScheduleSpec, _: Prediction) -> ScheduleSpec {
        given.clone()
    }

    /// Whether the grid of a budget is found with the analytical first step.
    fn grid_afs(&self, afs: bool) -> bool {
        afs
    }

    /// What the student is compared with.
    fn teaching(&self, spec: &TrainSpec, _: &Frame, _: &dyn Learnable) -> Result<Teaching> {
        Ok(Teaching { supervision: spec.supervised()?, stepwise: None, near: None, halved: false })
    }

    /// Whether a budget of network calls is spent with an analytical first step.
    fn default_afs(&self, _: Prediction) -> bool {
        false
    }

    /// The rate for a number of steps.
    fn default_rate(&self, steps: usize) -> f64;

    /// The largest norm of a gradient.
    fn default_clip(&self) -> f64 {
        1.0
    }

    /// A solver that makes as many calls on every grid.
    fn stand_in(&self, spec: &TrainSpec, bounded: bool) -> Result<Box<dyn Solver>>;

    /// Where training starts.
    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start>;

    /// How the noise of pairs moves, where it does; a sample has so many parameters.
    fn relaxed(&self, _spec: &TrainSpec, _frame: &Frame, _numbers: usize) -> Result<Option<Relaxation>> {
        Ok(None)
    }

    /// What is moved, one phase after the other.
    fn phases(&self, spec: &TrainSpec, common: &Common, learnable: &dyn Learnable) -> Result<Vec<Phase>>;
}

/// What a student is compared with, and when.
pub(crate) struct Teaching {
    /// Which states of the teacher.
    pub supervision: Supervision,
    /// Step by step, where it is.
    pub stepwise: Option<Stepwise>,
    /// The weight of the end beside the teacher's nearest states, where those are compared.
    pub near: Option<f64>,
    /// True if each of the teacher's steps is halved on the EDM grid.
    pub halved: bool,
}

/// Slopes that a step weighs where nothing is said.
pub(crate) const USUAL_WINDOW: usize = 3;

/// Where training starts.
pub(crate) struct Start {
    /// What is learned.
    pub learnable: Arc<dyn Learnable>,
    /// Its parameters.
    pub params: Vec<f64>,
    /// The most slopes a step weighs; for a method without such a number, of iPNDM, with which it is compared.
    pub window: usize,
    /// The options, with what was decided filled in.
    pub settled: TrainSpec,
}

impl Start {
    /// The start of a method that learns its body's parameters as they are.
    fn of(body: MethodParams, spec: &TrainSpec) -> Result<Self> {
        body.learned().check()?;
        let params = body.learned().params();
        Ok(Self { learnable: Arc::new(ByParams(body)), params, window: USUAL_WINDOW, settled: spec.clone() })
    }

    /// The body that `--init` names, if it does: one of this method and of as many steps.
    fn given(method: &'static str, spec: &TrainSpec, steps: usize) -> Result<Option<MethodParams>> {
        let Some(source) = spec.init.as_deref() else { return Ok(None) };
        let learned = Learned::open(source)?;
        if learned.body.method() != method {
            return Err(other_method(source, learned.body.method(), method));
        }
        if let Some(found) = learned.steps().filter(|found| *found != steps) {
            let what = format!("steps of {source}, given as the start");
            return Err(Error::Shape { what, expected: vec![steps], found: vec![found] });
        }
        Ok(Some(learned.body))
    }
}

/// What the options say of the optimisation, for whichever groups a method has.
pub(crate) struct Common {
    /// Iterations in all.
    pub iterations: usize,
    /// The highest rate.
    pub lr: f64,
    /// Fraction of them that warm up.
    pub warm_up: f64,
    /// How the rate goes.
    pub rule: RateRule,
    /// The rule.
    pub optimiser: Optimiser,
    /// Weight decay.
    pub decay: f64,
    /// Largest norm of a group's gradient.
    pub clip: f64,
}

impl Common {
    /// All iterations, all blocks moved together.
    pub fn phase(&self, blocks: &[&'static str]) -> Phase {
        Phase { iterations: self.iterations, groups: vec![self.group(blocks, self.iterations)] }
    }

    /// Blocks that are moved together for so many iterations.
    pub fn group(&self, blocks: &[&'static str], iterations: usize) -> Group {
        Group {
            blocks: blocks.to_vec(),
            optimiser: self.optimiser,
            rate: Rate::of(self.rule, self.lr, iterations, self.warm_up),
            decay: self.decay,
            clip: self.clip,
        }
    }
}

/// A method by its name.
pub(crate) fn find(name: &str) -> Result<&'static dyn Method> {
    METHODS.iter().find(|m| m.name() == name).copied().ok_or_else(|| Error::UnknownName {
        kind: "method",
        name: name.into(),
        known: METHODS.iter().map(|m| m.name().to_string()).collect(),
    })
}

/// What can be learned: name, what it learns, and the options that are its own.
pub fn list() -> Vec<(&'static str, &'static str, &'static [&'static str])> {
    let summary = |name: &str| LEARNED.iter().find(|(n, _)| *n == name).map_or("", |(_, what)| what);
    METHODS.iter().map(|m| (m.name(), summary(m.name()), m.options())).collect()
}

/// An option that belongs to another method would be ignored in silence; it is refused instead.
pub(crate) fn refuse_foreign_options(method: &dyn Method, spec: &TrainSpec) -> Result<()> {
    let given = serde_json::to_value(spec).unwrap_or_default();
    let of_some = METHODS.iter().flat_map(|m| m.options());
    let of_descent = DESCENT.iter().filter(|_| !method.learns_by_gradients());
    let foreign = |option: &&&str| !given[**option].is_null() && !method.options().contains(option);
    match of_some.chain(of_descent).find(foreign) {
        Some(option) => Err(Error::Conflict {
            problem: format!("{} has no option {option}", method.name()),
            hint: format!("leave --{option} out, or choose another --method"),
        }),
        None => Ok(()),
    }
}

/// A start of another method.
fn other_method(source: &str, found: &str, wanted: &str) -> Error {
    Error::Conflict {
        problem: format!("{source} holds a solver of the method {found}, not {wanted}"),
        hint: format!("use --method {found}, or another --init"),
    }
}
