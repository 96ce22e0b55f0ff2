//! AMED (Zhou et al. 2024, "Fast ODE-based Sampling for Diffusion Models in Around 5 Steps"): one more evaluation
//! inside each step, at a place that a small network predicts for each sample.
//!
//! ```text
//! d   = slope(x, a), f = the network's bottleneck there             a = t_i, b = t_{i+1}
//! r, c, s = predictor(f, a, b)                                      see `predictor.rs`
//! m   = b^r·a^{1−r};   x_m = x + (m − a)·d;   d_m = (x_m − D(x_m, s·m))/m
//! amed   x ← x + c(b − a)·d_m
//! euler  x ← x_m + c(b − m)·d_m
//! dpm2   x ← x + c(b − a)·[d_m/(2r) + (1 − 1/(2r))·d]
//! ipndm  a step a → m and a step m → b of iPNDM, all evaluations in its history, the second increment times c
//! dpmpp  the same of DPM-Solver++, with orders as on a grid of twice the steps; c multiplies all but x
//! ```
//!
//! r, c, s and so m are numbers of each sample. At an analytical first step the feature is zero. Flows, and a step to σ
//! = 0, have m = a + r(b − a).
//!
//! AMED's recipe (Zhou et al. 2024): the predictor by Adam at 5·10⁻³, one update per step against a teacher on a
//! refined grid.
//!
//! The next step starts from the teacher's state (amed, and around euler and dpm2), or from the student's, detached
//! (around ipndm and dpmpp). The teacher makes `substeps` + 1 steps in each of the student's, with the base's order and
//! form where it is the same method.

use crate::Base;
use crate::base::BaseOptions;
use crate::epd::{between, time_uniform};
use crate::learnable::Learnable;
use crate::learned::{Block, Built, Frame, LearnedSolver};
use crate::method::{Method, MethodParams, Open, Start};
use crate::predictor::Predictor;
use crate::rate::RateRule;
use crate::recipe::{Link, Stepwise, Supervision, Teaching, Updates};
use crate::spec::ScheduleSpec;
use crate::spec::budget::Evaluations;
use crate::spec::train::{TrainSpec, positive};
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::{Prediction, no_feature};
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Stream;
use dyweight_core::solver::{Carried, DpmPp, Evaluated, Form, Run, Solver, Times, adams_bashforth, check_order};
use dyweight_core::tape::{Query, Tape, Var};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// AMED: by itself, or as a plugin around another solver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Amed<B = Alone> {
    /// What it is around: nothing, or euler, dpm2, ipndm or dpmpp.
    #[serde(flatten)]
    pub base: B,
    /// The predictor.
    #[serde(flatten)]
    pub predictor: Predictor,
}

/// AMED-Plugin.
pub type AmedPlugin = Amed<Base>;

/// Around no other solver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {}

/// What AMED's inner evaluation is put into, as a solver file says it.
pub trait Outer: Send + Sync {
    /// The solver around it, if there is one.
    fn base(&self) -> Option<&Base>;
}

impl Outer for Alone {
    fn base(&self) -> Option<&Base> {
        None
    }
}

impl Outer for Base {
    fn base(&self) -> Option<&Base> {
        Some(self)
    }
}

impl<B: Outer> Amed<B> {
    fn around(&self, bounded: bool) -> Result<Around> {
        self.base.base().map_or(Ok(Around::Amed), |base| Around::of(base, bounded))
    }
}

impl<B: Outer> LearnedSolver for Amed<B> {
    fn steps(&self) -> Option<usize> {
        None
    }

    fn blocks(&self) -> Vec<Block> {
        self.predictor.blocks()
    }

    fn params(&self) -> Vec<f64> {
        self.predictor.params()
    }

    fn replace(&mut self, params: &[f64]) {
        self.predictor.replace(params);
    }

    fn check(&self) -> Result<()> {
        self.around(false)?;
        self.predictor.check()
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        let (predictor, around) = (Arc::new(self.predictor.clone()), self.around(frame.bounded)?);
        let solver = Predicted { predictor, params: params.to_vec(), around };
        Ok(Built { solver: Box::new(solver), times: frame.grid.coeffs() })
    }

    fn base(&self) -> Option<Base> {
        self.base.base().cloned()
    }

    fn summary(&self) -> String {
        let around = self.base.base().map_or_else(String::new, |base| format!(", around {}", base.name));
        self.predictor.summary() + &around
    }
}

/// What the inner evaluation is put into.
enum Around {
    Amed,
    Euler,
    Dpm2,
    Ipndm(usize),
    DpmPp(DpmPp),
}

impl Around {
    fn of(base: &Base, bounded: bool) -> Result<Self> {
        let spec = base.spec()?;
        let form = Form {
            predict: base.predict.unwrap_or_default(),
            threshold: bounded,
            lower_order_final: base.lower_order_final.unwrap_or_default(),
        };
        match spec.method()?.name {
            "euler" => Ok(Self::Euler),
            "dpm2" => Ok(Self::Dpm2),
            // Order 1 has no history to speak of: the published plugin has none.
            "ipndm" => Ok(Self::Ipndm(check_order("ipndm", spec.order.unwrap_or(4), 4)?)),
            "dpmpp" => Ok(Self::DpmPp(DpmPp::new(spec.order.unwrap_or(DpmPp::HIGHEST), form)?)),
            _ => {
                let known = ["euler", "dpm2", "ipndm", "dpmpp"];
                Err(Error::unknown_name("base of amed-plugin", base.name.clone(), known))
            }
        }
    }
}

struct Predicted {
    predictor: Arc<Predictor>,
    params: Vec<Coeff>,
    around: Around,
}

struct PredictedRun<'s> {
    solver: &'s Predicted,
    times: Times<'s>,
    /// Slopes, newest first.
    slopes: Vec<Var>,
    /// Evaluations of DPM-Solver++, newest first.
    history: Vec<Evaluated>,
}

impl Solver for Predicted {
    fn label(&self) -> String {
        match &self.around {
            Around::Amed => "amed".into(),
            Around::Euler => "amed[euler]".into(),
            Around::Dpm2 => "amed[dpm2]".into(),
            Around::Ipndm(order) => format!("amed[ipndm({order})]"),
            Around::DpmPp(dpmpp) => format!("amed[{}]", dpmpp.label()),
        }
    }

    fn begin<'s>(&'s self, times: Times<'s>, prediction: Prediction) -> Result<Box<dyn Run + 's>> {
        self.resume(times, prediction, Carried::default())
    }

    fn resume<'s>(&'s self, times: Times<'s>, p: Prediction, carried: Carried) -> Result<Box<dyn Run + 's>> {
        let (slopes, history) = match &self.around {
            Around::DpmPp(_) => (Vec::new(), Evaluated::from_carried(carried, p)),
            _ => (carried.samples, Vec::new()),
        };
        Ok(Box::new(PredictedRun { solver: self, times, slopes, history }))
    }
}

/// What the predictor says of a step.
struct Said {
    r: Coeff,
    /// c.
    direction: Coeff,
    middle: Coeff,
    /// Where and what the network is asked inside the step.
    query: Query,
}

impl PredictedRun<'_> {
    /// The query at the start of step i.
    fn query(&self, i: usize) -> Query {
        self.times.query(i).with_feature(self.solver.predictor.features())
    }

    fn ask(&self, prediction: Prediction, feature: &[Vec<f64>], i: usize) -> Result<Said> {
        let (a, b) = (&self.times[i], &self.times[i + 1]);
        let Predicted { predictor, params, .. } = self.solver;
        let [r, direction, scale] = predictor.predict(params, feature, (a.value(), b.value()))?;
        let middle = between(prediction, a, b, &r);
        let query = Query::told(&middle, scale * &middle);
        Ok(Said { r, direction, middle, query })
    }

    /// One step of iPNDM with the slopes there are, its increment scaled.
    fn adams(&self, tape: &mut Tape<'_>, x: &Var, length: Coeff) -> Result<Var> {
        let weights = adams_bashforth(self.slopes.len());
        let mut terms = vec![(Coeff::from(1.0), x)];
        terms.extend(weights.iter().map(|w| &length * *w).zip(&self.slopes));
        tape.combine(&terms)
    }

    fn ipndm(&mut self, tape: &mut Tape<'_>, i: usize, x: &Var, order: usize) -> Result<Var> {
        let (a, b) = (self.times[i].clone(), self.times[i + 1].clone());
        let slope = tape.slope(x, &self.query(i))?;
        let said = self.ask(tape.prediction(), slope.feature()?, i)?;
        self.push(slope, order);
        let inner = self.adams(tape, x, &said.middle - &a)?;
        self.push(tape.slope(&inner, &said.query)?, order);
        let next = self.adams(tape, &inner, (b - &said.middle) * &said.direction)?;
        self.slopes.truncate(order - 1);
        Ok(next)
    }

    fn push(&mut self, slope: Var, order: usize) {
        self.slopes.insert(0, slope);
        self.slopes.truncate(order);
    }

    fn dpmpp(&mut self, tape: &mut Tape<'_>, i: usize, x: &Var, dpmpp: &DpmPp) -> Result<Var> {
        let times = self.times;
        let (a, b) = (&times[i], &times[i + 1]);
        let (form, evaluations) = (dpmpp.form(), 2 * (self.times.len() - 1));
        let newest = form.evaluate(tape, x, a, &self.query(i))?;
        let said = self.ask(tape.prediction(), newest.feature()?, i)?;
        self.remember(newest);
        let order = dpmpp.order_at(2 * i, evaluations);
        let inner = dpmpp.advance(tape, x, &self.history, (&said.middle, order), None)?;
        self.remember(form.evaluate(tape, &inner, &said.middle, &said.query)?);
        let order = dpmpp.order_at(2 * i + 1, evaluations);
        dpmpp.advance(tape, &inner, &self.history, (b, order), Some(&said.direction))
    }

    fn remember(&mut self, newest: Evaluated) {
        self.history.insert(0, newest);
        self.history.truncate(DpmPp::HIGHEST);
    }
}

impl Run for PredictedRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let solver = self.solver;
        match &solver.around {
            Around::Ipndm(order) => return self.ipndm(tape, i, &x, *order),
            Around::DpmPp(dpmpp) => return self.dpmpp(tape, i, &x, dpmpp),
            _ => {}
        }
        let (a, b) = (&self.times[i], &self.times[i + 1]);
        let slope = tape.slope(&x, &self.query(i))?;
        let said = self.ask(tape.prediction(), slope.feature()?, i)?;
        let inner = tape.combine(&[(1.0.into(), &x), (&said.middle - a, &slope)])?;
        let inner_slope = tape.slope(&inner, &said.query)?;
        let length = (b - a) * &said.direction;
        match &solver.around {
            Around::Euler => {
                let rest = (b - &said.middle) * &said.direction;
                tape.combine(&[(1.0.into(), &inner), (rest, &inner_slope)])
            }
            Around::Dpm2 => {
                let weight = 0.5 / &said.r;
                let own = &length * (1.0 - &weight);
                tape.combine(&[(1.0.into(), &x), (length * weight, &inner_slope), (own, &slope)])
            }
            _ => tape.combine(&[(1.0.into(), &x), (length, &inner_slope)]),
        }
    }

    fn carried(&self) -> Carried {
        match &self.solver.around {
            Around::DpmPp(_) => Evaluated::carried(&self.history),
            _ => Carried { samples: self.slopes.clone(), coeffs: Vec::new() },
        }
    }
}

/// AMED-Solver, or AMED-Plugin.
pub struct AmedMethod {
    pub plugin: bool,
}

const DEFAULT_BASE: &str = "ipndm";

impl Method for AmedMethod {
    fn options(&self) -> &'static [&'static str] {
        match self.plugin {
            false => &["afs", "substeps", "direction-range", "time-range"],
            true => {
                &["afs", "order", "base", "predict", "lower-order-final", "substeps", "direction-range", "time-range"]
            }
        }
    }

    fn with_defaults(&self, spec: TrainSpec) -> TrainSpec {
        let base = spec.base.base.clone().unwrap_or(DEFAULT_BASE.into());
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

    fn start(&self, spec: &TrainSpec, frame: &Frame, open: &Open) -> Result<Start> {
        if let Some(body) = Start::given(spec, frame.grid.steps(), open)? {
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
            true => MethodParams::AmedPlugin(AmedPlugin { base: BaseOptions::of(spec, DEFAULT_BASE), predictor }),
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
}
