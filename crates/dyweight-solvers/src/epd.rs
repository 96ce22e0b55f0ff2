//! EPD (Zhu et al. 2025, "Distilling Parallel Gradients for Fast ODE Solvers"): learned points inside each step,
//! evaluated side by side.
//!
//! ```text
//! d   = slope(x, a)                                       a = t_i, b = t_{i+1}
//! m_k = b^{r_k}·a^{1−r_k}                                  r = sigmoid(raw r)
//! x_k = x + (m_k − a)·d                                   plugin: d replaced by Adams–Bashforth on d and the steps
//!     before
//! d_k = (x_k − D(x_k, s_k·m_k))/m_k                       s = 1 − δ_t + 2δ_t·sigmoid(½ raw scale_time)
//! x   ← x + (b − a)·Σ_k w_k c_k d_k                       w = softmax(raw weight), c = 1 − δ_d + 2δ_d·sigmoid(½ raw
//!     scale_dir)
//! ```
//!
//! The P points of a step need nothing of each other: they are P network calls in one round. The plugin's history holds
//! the slopes at the steps, not at the points. With `last_direction_one` the last step has c = 1. Flows, and a step to
//! σ = 0, have their points at m = a + r(b − a), because ln σ has no meaning there.
//!
//! EPD's recipe (Zhu et al. 2025): tables drawn from N(0, 1), Adam at 0.2 on a cosine, step by step against a teacher
//! on a refined grid.
//!
//! The teacher makes `substeps` + 1 steps in each of the student's; one with two stages makes twice as many, each
//! halved on the EDM grid, as the released code has it. States are not detached between steps, the plugin's history is.

use crate::Base;
use crate::amed::Alone;
use crate::learnable::Learnable;
use crate::learned::{Block, Built, Frame, LearnedSolver, require_finite, require_len, split};
use crate::method::{Method, MethodParams, Open, Start};
use crate::rate::RateRule;
use crate::recipe::{CountParallel, Link, Stepwise, Supervision, Teaching, Updates};
use crate::spec::budget::Evaluations;
use crate::spec::train::{TrainSpec, positive};
use crate::spec::{ScheduleSpec, SolverSpec};
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Stream;
use dyweight_core::solver::{Carried, Run, Solver, Times, adams_bashforth, check_order};
use dyweight_core::tape::{Query, Tape, Var};
use serde::{Deserialize, Serialize};

/// EPD's tables, a row for each step and a column for each point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epd<H = Alone> {
    /// What is around it.
    #[serde(flatten)]
    pub reach: H,
    /// δ_d: how far directions may be scaled from 1; 0 for not at all.
    pub direction_range: f64,
    /// δ_t: how far the network's times may be scaled from 1.
    pub time_range: f64,
    /// The last step's directions are not scaled.
    #[serde(default)]
    pub last_direction_one: bool,
    /// Logits of the points' places.
    pub r: Vec<Vec<f64>>,
    /// Logits of the directions' scales; may be left out where δ_d is 0.
    #[serde(default)]
    pub scale_dir: Vec<Vec<f64>>,
    /// Logits of the times' scales; may be left out where δ_t is 0.
    #[serde(default)]
    pub scale_time: Vec<Vec<f64>>,
    /// Logits of the weights.
    pub weight: Vec<Vec<f64>>,
}

/// EPD around iPNDM.
pub type EpdPlugin = Epd<History>;

/// The history that iPNDM brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Order of the Adams–Bashforth step to the points.
    #[serde(default = "highest")]
    pub order: usize,
}

fn highest() -> usize {
    4
}

/// How steps reach their points.
pub trait Reach: Send + Sync {
    /// Order of Adams–Bashforth on the slopes before; none is Euler.
    fn order(&self) -> Option<usize>;
}

impl Reach for Alone {
    fn order(&self) -> Option<usize> {
        None
    }
}

impl Reach for History {
    fn order(&self) -> Option<usize> {
        Some(self.order)
    }
}

impl Epd {
    /// Tables of the same numbers everywhere but for `draw`, asked for every logit in the order of the blocks.
    pub fn start(steps: usize, points: usize, ranges: (f64, f64), mut draw: impl FnMut() -> f64) -> Self {
        let mut table = || (0..steps).map(|_| (0..points).map(|_| draw()).collect()).collect();
        let (r, scale_dir, scale_time, weight) = (table(), table(), table(), table());
        let (direction_range, time_range) = ranges;
        let (reach, last_direction_one) = (Alone {}, false);
        Self { reach, direction_range, time_range, last_direction_one, r, scale_dir, scale_time, weight }
    }

    /// The same tables around iPNDM.
    pub fn around(self, reach: History) -> EpdPlugin {
        let Self { direction_range, time_range, last_direction_one, r, scale_dir, scale_time, weight, .. } = self;
        Epd { reach, direction_range, time_range, last_direction_one, r, scale_dir, scale_time, weight }
    }
}

impl<H> Epd<H> {
    /// Points of a step.
    pub fn points(&self) -> usize {
        self.r.first().map_or(0, Vec::len)
    }

    fn tables(&self) -> [(&'static str, &Vec<Vec<f64>>); 4] {
        [("r", &self.r), ("scale_dir", &self.scale_dir), ("scale_time", &self.scale_time), ("weight", &self.weight)]
    }

    /// The points of every step.
    fn rows(&self, params: &[Coeff]) -> Vec<Vec<Point>> {
        let (steps, points) = (self.r.len(), self.points());
        let parts = split(params, self.tables().map(|(_, t)| t.iter().map(Vec::len).sum()));
        let [r, direction, time, weight] = [parts[0], parts[1], parts[2], parts[3]];
        let one = || Coeff::from(1.0);
        let scale = |range: f64, table: &[Coeff], at: usize| match table.get(at) {
            Some(raw) if range > 0.0 => (1.0 - range) + (raw * 0.5).sigmoid() * (2.0 * range),
            _ => one(),
        };
        let row = |i: usize| {
            let weights = Coeff::softmax(&weight[i * points..(i + 1) * points]);
            let plain = self.last_direction_one && i + 1 == steps;
            let point = |(k, weight): (usize, Coeff)| {
                let at = i * points + k;
                let direction = if plain { one() } else { scale(self.direction_range, direction, at) };
                Point { place: r[at].sigmoid(), direction, time: scale(self.time_range, time, at), weight }
            };
            weights.into_iter().enumerate().map(point).collect()
        };
        (0..steps).map(row).collect()
    }
}

impl<H: Reach> LearnedSolver for Epd<H> {
    fn steps(&self) -> Option<usize> {
        Some(self.r.len())
    }

    fn blocks(&self) -> Vec<Block> {
        let shape = [self.r.len(), self.points()];
        self.tables().iter().filter(|(_, t)| !t.is_empty()).map(|(name, _)| Block::new(name, &shape)).collect()
    }

    fn params(&self) -> Vec<f64> {
        self.tables().iter().flat_map(|(_, table)| table.concat()).collect()
    }

    fn replace(&mut self, params: &[f64]) {
        let points = self.points().max(1);
        let mut rest = params;
        for table in [&mut self.r, &mut self.scale_dir, &mut self.scale_time, &mut self.weight] {
            let (own, others) = rest.split_at(table.len() * points);
            *table = own.chunks(points).map(<[f64]>::to_vec).collect();
            rest = others;
        }
    }

    fn check(&self) -> Result<()> {
        if let Some(order) = self.reach.order() {
            check_order("epd-plugin", order, 4)?;
        }
        let points = self.points();
        if points == 0 {
            let what = "r: a row for each step, a column for each point".into();
            return Err(Error::Shape { what, expected: vec![1, 1], found: vec![self.r.len(), points] });
        }
        for ((name, table), range) in self.tables().into_iter().zip([1.0, self.direction_range, self.time_range, 1.0]) {
            if table.is_empty() && range == 0.0 {
                continue;
            }
            require_len(&format!("rows of {name}"), self.r.len(), table.len())?;
            for row in table {
                require_len(&format!("points in a row of {name}"), points, row.len())?;
                require_finite(name, row)?;
            }
        }
        for (name, range) in [("direction-range", self.direction_range), ("time-range", self.time_range)] {
            if !(0.0..1.0).contains(&range) {
                return Err(Error::bad_value(name, range, "must lie between 0 and 1, without 1"));
            }
        }
        Ok(())
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        let solver = Parallel { rows: self.rows(params), order: self.reach.order() };
        Ok(Built { solver: Box::new(solver), times: frame.grid.coeffs() })
    }

    fn base(&self) -> Option<Base> {
        self.reach.order().map(|order| Base { order: Some(order), ..Base::named("ipndm") })
    }

    fn summary(&self) -> String {
        let around = self.reach.order().map_or_else(String::new, |order| format!(", around ipndm({order})"));
        format!("{} points a step{around}", self.points())
    }
}

/// A point of a step.
struct Point {
    /// r: 0 is the start of the step, 1 its end.
    place: Coeff,
    direction: Coeff,
    time: Coeff,
    weight: Coeff,
}

struct Parallel {
    rows: Vec<Vec<Point>>,
    /// Of Adams–Bashforth to the points; none is Euler without history.
    order: Option<usize>,
}

struct ParallelRun<'s> {
    solver: &'s Parallel,
    times: Times<'s>,
    /// Newest first.
    slopes: Vec<Var>,
}

impl Solver for Parallel {
    fn label(&self) -> String {
        let points = self.rows.first().map_or(0, Vec::len);
        match self.order {
            None => format!("epd({points})"),
            Some(order) => format!("epd({points})[ipndm({order})]"),
        }
    }

    fn begin<'s>(&'s self, times: Times<'s>, prediction: Prediction) -> Result<Box<dyn Run + 's>> {
        self.resume(times, prediction, Carried::default())
    }

    fn resume<'s>(&'s self, times: Times<'s>, _: Prediction, carried: Carried) -> Result<Box<dyn Run + 's>> {
        require_len("rows: one for each step of the grid", times.len() - 1, self.rows.len())?;
        Ok(Box::new(ParallelRun { solver: self, times, slopes: carried.samples }))
    }
}

impl Run for ParallelRun<'_> {
    fn step(&mut self, tape: &mut Tape<'_>, i: usize, x: Var) -> Result<Var> {
        let (a, b) = (&self.times[i], &self.times[i + 1]);
        self.slopes.insert(0, tape.slope(&x, &self.times.query(i))?);
        let order = self.solver.order.unwrap_or(1);
        self.slopes.truncate(order);
        let weights = adams_bashforth(self.slopes.len());
        let length = b - a;
        let mut ends = Vec::new();
        for (k, point) in self.solver.rows[i].iter().enumerate() {
            let middle = between(tape.prediction(), a, b, &point.place);
            let reach = &middle - a;
            let mut terms = vec![(Coeff::from(1.0), &x)];
            terms.extend(weights.iter().map(|w| &reach * *w).zip(&self.slopes));
            let inner = tape.combine(&terms)?;
            let query = Query::told(&middle, &point.time * &middle).in_parallel(k > 0);
            ends.push((&length * &point.weight * &point.direction, tape.slope(&inner, &query)?));
        }
        // What the next step needs of the past is one slope less than its order.
        self.slopes.truncate(order - 1);
        let mut terms = vec![(Coeff::from(1.0), &x)];
        terms.extend(ends.iter().map(|(c, d)| (c.clone(), d)));
        tape.combine(&terms)
    }

    fn carried(&self) -> Carried {
        Carried { samples: self.slopes.clone(), coeffs: Vec::new() }
    }
}

/// The time at fraction `place` of a step: geometric, or linear where ln σ has no meaning.
pub(super) fn between(prediction: Prediction, a: &Coeff, b: &Coeff, place: &Coeff) -> Coeff {
    if prediction == Prediction::Velocity || b.value() == 0.0 {
        return a + (b - a) * place;
    }
    (a.ln() * (1.0 - place) + b.ln() * place).exp()
}

/// EPD, or EPD around iPNDM.
pub struct EpdMethod {
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
    fn options(&self) -> &'static [&'static str] {
        const ALL: &[&str] = &[
            "order",
            "afs",
            "count-parallel",
            "substeps",
            "epd-points",
            "direction-range",
            "time-range",
            "epd-last-direction-one",
            "epd-updates",
        ];
        if self.plugin { ALL } else { &ALL[1..] }
    }

    fn with_defaults(&self, spec: TrainSpec) -> TrainSpec {
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
        let points = positive("epd-points", spec.points.points.unwrap_or(2))?;
        let beside = if spec.count_parallel == Some(CountParallel::Once) { 1 } else { points };
        Ok(Box::new(Evaluations { apart: 1, beside }))
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame, open: &Open) -> Result<Start> {
        let steps = frame.grid.steps();
        if let Some(body) = Start::given(spec, steps, open)? {
            return Start::of(body, spec);
        }
        let PointOptions { points, direction_range, time_range, last_direction_one, .. } = &spec.points;
        let points = positive("epd-points", points.unwrap_or(2))?;
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
}

/// Points inside a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct PointOptions {
    /// Points inside each step of epd [2].
    #[serde(rename = "epd-points", alias = "points")]
    #[cfg_attr(feature = "clap", arg(long = "epd-points", alias = "points", help_heading = "EPD and AMED"))]
    pub points: Option<usize>,
    /// How far epd and amed may scale directions from 1 [epd 0.05, amed 0.01].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "EPD and AMED"))]
    pub direction_range: Option<f64>,
    /// How far epd and amed may scale the network's times from 1 [epd 0.05, amed 0, amed-plugin 0.2].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "EPD and AMED"))]
    pub time_range: Option<f64>,
    /// The last step's directions of epd are not scaled.
    #[serde(rename = "epd-last-direction-one", alias = "last-direction-one")]
    #[cfg_attr(feature = "clap", arg(long = "epd-last-direction-one", alias = "last-direction-one", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "EPD and AMED"))]
    pub last_direction_one: Option<bool>,
    /// When epd moves its parameters: after each step, or after the last by its loss alone [last for epd on images in
    /// fewer than 5 steps].
    #[serde(rename = "epd-updates", alias = "updates")]
    #[cfg_attr(feature = "clap", arg(long = "epd-updates", alias = "updates", value_name = "each|last", value_parser = crate::spec::one_of::<Updates>(&["each", "last"]), help_heading = "EPD and AMED"))]
    pub updates: Option<Updates>,
}
