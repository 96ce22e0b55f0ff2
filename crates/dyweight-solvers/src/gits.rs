//! GITS (Chen et al. 2024, "On the Trajectory Regularity of ODE-based Diffusion Sampling"): a grid for any solver,
//! picked from a teacher's by dynamic programming.
//!
//! ```text
//! c_ij = how far an Euler jump from the teacher's state i lands from its state j > i
//! V_{i,1} = c_{i,P−1};   V_{i,k} = min_j c_ij + γ·V_{j,k−1},  i < j < P−1;   the first j that attains the minimum
//! ```
//!
//! The search is [`shortest`]; the costs are measured where there are samples, in the trainer. What is learned is a
//! list of levels.
//!
//! GITS (Chen et al. 2024): the grid of any solver by dynamic programming over a teacher's trajectories, without
//! gradients.
//!
//! ```text
//! jump_ij = x_i + (t_j − t_i)·d_i           d_i the teacher's slope at its state i (the first stage's of two)
//! dev     dist(jump_ij, line x₀–x_P) − dist(x_j, the line), the latter 0 at the end;   l1, l2: norms of jump_ij − x_j
//! c_ij    mean over samples
//! ```
//!
//! With the analytical first step the teacher makes one too, and a free point is put between the first two of the grid:
//! the one with which the solver ends nearest to the teacher on the last batch. Where the second point is the teacher's
//! second, there is no room for one.

use crate::Base;
use crate::base::BaseOptions;
use crate::learnable::{Ground, Learnable};
use crate::learned::{Built, Frame, LearnedSolver};
use crate::method::{DEFAULT_WINDOW, Method, MethodParams, Open, Start};
use crate::recipe::{Common, Phase};
use crate::solver_file::SolverFile;
use crate::spec::SolverSpec;
use crate::spec::budget::check_steps;
use crate::spec::train::{TrainSpec, finite_above, positive};
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::{Denoiser, Info, Levels};
use dyweight_core::error::{Error, Result};
use dyweight_core::sample::{Plan, count_calls, sample_observed};
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::Solver;
use dyweight_core::tape::{Query, Tape};
use dyweight_core::tensor::{Tensor, dot};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// How an Euler jump is compared with the teacher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Distance from the line between first and last state, less the teacher's own.
    #[default]
    Dev,
    /// Sum of absolute differences.
    L1,
    /// Euclidean distance.
    L2,
}

/// A grid found, and the solver it is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gits {
    /// The solver.
    #[serde(flatten)]
    pub base: Base,
    /// The cost it was found by.
    #[serde(default)]
    pub cost: Cost,
    /// γ.
    #[serde(default = "default_factor")]
    pub factor: f64,
    /// Which points of the teacher's grid were picked.
    #[serde(default)]
    pub indices: Vec<usize>,
    /// The levels.
    pub sigmas: Vec<f64>,
}

fn default_factor() -> f64 {
    1.15
}

impl LearnedSolver for Gits {
    fn steps(&self) -> Option<usize> {
        Some(self.sigmas.len().saturating_sub(1))
    }

    fn check(&self) -> Result<()> {
        Grid::new(self.sigmas.clone())?;
        self.base.build(false).map(drop)
    }

    fn build(&self, _: &[Coeff], frame: &Frame) -> Result<Built> {
        let times = self.sigmas.iter().map(|s| Coeff::from(*s)).collect();
        Ok(Built { solver: self.base.build(frame.bounded)?, times })
    }

    fn base(&self) -> Option<Base> {
        Some(self.base.clone())
    }

    fn summary(&self) -> String {
        format!("a grid for {}, points {:?}", self.base.name, self.indices)
    }

    fn facts(&self) -> serde_json::Map<String, serde_json::Value> {
        [("indices".to_string(), serde_json::json!(self.indices))].into_iter().collect()
    }
}

/// The cheapest way from the first point to the last in `steps` jumps; `cost[i][j]` is the cost of the jump from i to j
/// > i.
pub fn shortest(cost: &[Vec<f64>], steps: usize, factor: f64) -> Result<Vec<usize>> {
    let last = cost.len().saturating_sub(1);
    if steps == 0 || steps > last {
        let expected = format!("a grid of {} points is left in 1 to {last} steps", cost.len());
        return Err(Error::bad_value("steps", steps, expected));
    }
    // value[k][i]: from point i to the last in k + 1 jumps; none where there is no such way.
    let mut value: Vec<Vec<Option<f64>>> = vec![(0..last).map(|i| Some(cost[i][last])).collect()];
    let mut next: Vec<Vec<usize>> = vec![vec![last; last]];
    for k in 1..steps {
        let best = |i: usize| {
            let mut found: Option<(f64, usize)> = None;
            for j in i + 1..last {
                let Some(rest) = value[k - 1][j] else { continue };
                let all = cost[i][j] + factor * rest;
                if found.is_none_or(|(least, _)| all < least) {
                    found = Some((all, j));
                }
            }
            found
        };
        let found: Vec<Option<(f64, usize)>> = (0..last).map(best).collect();
        value.push(found.iter().map(|f| f.map(|(v, _)| v)).collect());
        next.push(found.iter().map(|f| f.map_or(last, |(_, j)| j)).collect());
    }
    let mut way = vec![0];
    for k in (0..steps).rev() {
        way.push(next[k][way[way.len() - 1]]);
    }
    Ok(way)
}

/// GITS's own options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct GitsOptions {
    /// How gits compares Euler's jumps with the teacher [dev].
    #[serde(rename = "gits-cost", alias = "cost")]
    #[cfg_attr(feature = "clap", arg(long = "gits-cost", alias = "cost", value_name = "dev|l1|l2", value_parser = crate::spec::one_of::<Cost>(&["dev", "l1", "l2"]), help_heading = "GITS"))]
    pub cost: Option<Cost>,
    /// How much gits weighs each later jump against the one before [1.15].
    #[serde(rename = "gits-factor", alias = "factor")]
    #[cfg_attr(feature = "clap", arg(long = "gits-factor", alias = "factor", help_heading = "GITS"))]
    pub factor: Option<f64>,
    /// Samples on which gits measures costs [256].
    #[serde(rename = "gits-samples", alias = "samples")]
    #[cfg_attr(feature = "clap", arg(long = "gits-samples", alias = "samples", help_heading = "GITS"))]
    pub samples: Option<usize>,
}

/// The method.
pub struct GitsMethod;

const DEFAULT_BASE: &str = "ipndm";
const DEFAULT_TEACHER: &str = "ipndm";

/// The highest order of a solver that has a choice.
fn highest_order(name: &str) -> Option<usize> {
    SolverSpec::named(name).method().ok().and_then(|m| m.highest_order)
}

impl GitsMethod {
    /// The base. An order that was given for both is cut to its highest.
    fn base(spec: &TrainSpec) -> Result<Base> {
        let base = BaseOptions::of(spec, DEFAULT_BASE);
        Ok(Base { order: base.order.filter(|_| highest_order(&base.name).is_some()), ..base })
    }
}

impl Method for GitsMethod {
    fn options(&self) -> &'static [&'static str] {
        &["afs", "order", "base", "variant", "predict", "lower-order-final", "gits-cost", "gits-factor", "gits-samples"]
    }

    fn learns_by_gradients(&self) -> bool {
        false
    }

    fn with_defaults(&self, spec: TrainSpec) -> TrainSpec {
        // The authors have one order for teacher and solver; one that has no choice passes over it.
        let highest = |name: &Option<String>, usual| highest_order(name.as_deref().unwrap_or(usual));
        let (of_base, of_teacher) = (highest(&spec.base.base, DEFAULT_BASE), highest(&spec.teacher, DEFAULT_TEACHER));
        let inherited = of_base.zip(spec.teacher_order).map(|(highest, order)| order.min(highest));
        TrainSpec {
            order: spec.order.or(inherited),
            teacher_order: spec.teacher_order.filter(|_| of_teacher.is_some()),
            teacher_steps: spec.teacher_steps.or(spec.teacher_nfe.is_none().then_some(60)),
            teacher_denoise: spec.teacher_denoise.or(Some(false)),
            ..spec
        }
    }

    fn default_rate(&self, _: usize) -> f64 {
        1.0
    }

    /// The free point is put in afterwards.
    fn grid_afs(&self, _: bool) -> bool {
        false
    }

    fn stand_in(&self, spec: &TrainSpec, bounded: bool) -> Result<Box<dyn Solver>> {
        Self::base(spec)?.build(bounded)
    }

    fn start(&self, spec: &TrainSpec, frame: &Frame, _: &Open) -> Result<Start> {
        if spec.init.is_some() {
            return Err(Error::no_effect("init", "gits searches, and starts from nothing"));
        }
        let factor = finite_above("gits-factor", spec.gits.factor.unwrap_or(1.15), 0.0)?;
        let samples = positive("gits-samples", spec.gits.samples.unwrap_or(256))?;
        let base = Self::base(spec)?;
        base.build(frame.bounded)?;
        let steps = spec.teacher_steps.unwrap_or(60);
        check_steps("teacher-steps", steps)?;
        let named = SolverSpec::named(spec.teacher.as_deref().unwrap_or(DEFAULT_TEACHER));
        // The slopes are what is compared, so that an exponential integrator extrapolates noise predictions.
        let is_exponential = named.method()?.options.contains(&"predict");
        let predict = is_exponential.then_some(dyweight_core::solver::Predict::Noise);
        let teacher = SolverSpec { order: spec.teacher_order, predict, ..named };
        let search = Search {
            base,
            cost: spec.gits.cost.unwrap_or_default(),
            factor,
            samples,
            steps: frame.grid.steps(),
            teacher_grid: frame.schedule.grid(steps, frame.range)?,
            teacher,
        };
        Ok(Start { learnable: Arc::new(search), params: Vec::new(), window: DEFAULT_WINDOW, settled: spec.clone() })
    }

    fn phases(&self, _: &TrainSpec, common: &Common, _: &dyn Learnable) -> Result<Vec<Phase>> {
        Ok(vec![Phase { iterations: 0, groups: vec![common.group(&[], 1)] }])
    }
}

/// What is searched for.
struct Search {
    base: Base,
    cost: Cost,
    factor: f64,
    samples: usize,
    steps: usize,
    teacher: SolverSpec,
    teacher_grid: Grid,
}

/// A teacher's trajectories: states and slopes, `[point]` batches.
struct Trajectories {
    states: Vec<Tensor>,
    slopes: Vec<Tensor>,
}

/// Answers again what it was asked last: a slope looked at is a slope the solver then has for nothing.
struct Memo<'m> {
    inner: &'m dyn Denoiser,
    last: Mutex<Option<(Tensor, Levels, Tensor)>>,
}

impl Denoiser for Memo<'_> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, _, answer)) = last.as_ref().filter(|(asked, at, _)| asked == x && at == levels) {
            return Ok(answer.clone());
        }
        let answer = self.inner.predict(x, levels)?;
        *last = Some((x.clone(), levels.clone(), answer.clone()));
        Ok(answer)
    }

    fn info(&self) -> Info {
        self.inner.info()
    }
}

impl Search {
    fn trajectories(&self, ground: &dyn Ground, model: &dyn Denoiser, noise: &Tensor) -> Result<Trajectories> {
        let memo = Memo { inner: model, last: Mutex::default() };
        let solver = self.teacher.build(ground.frame().bounded)?;
        let plan = Plan::new(&*solver, &self.teacher_grid).afs(ground.frame().afs);
        let last = self.teacher_grid.steps();
        let (mut states, mut slopes) = (Vec::new(), Vec::new());
        sample_observed(&memo, &plan, noise, &mut |state| {
            states.push(state.x.tensor().clone());
            if state.index == last {
                return Ok(());
            }
            ground.onward()?;
            let mut tape = Tape::sampling(&memo).analytic_first(ground.frame().afs && state.index == 0);
            slopes.push(tape.slope(state.x, &Query::at(&Coeff::from(state.sigma)))?.tensor().clone());
            Ok(())
        })?;
        Ok(Trajectories { states, slopes })
    }

    /// `cost[i][j]`, averaged over all samples in their order.
    fn costs(&self, ground: &dyn Ground, noise: &Tensor) -> Result<Vec<Vec<f64>>> {
        let points = self.teacher_grid.sigmas().len();
        let own = ground.in_parts(noise, 0, &|model, noise| {
            let trajectories = self.trajectories(ground, model, noise)?;
            let costs = (0..noise.samples()).flat_map(|sample| self.of_sample(&trajectories, sample).concat());
            Tensor::new([noise.samples(), 1, points, points], costs.collect())
        })?;
        let mut cost = vec![0.0; points * points];
        for sample in 0..own.samples() {
            cost.iter_mut().zip(own.sample(sample)).for_each(|(sum, v)| *sum += v);
        }
        cost.iter_mut().for_each(|v| *v /= own.samples() as f64);
        Ok(cost.chunks(points).map(<[f64]>::to_vec).collect())
    }

    fn of_sample(&self, of: &Trajectories, sample: usize) -> Vec<Vec<f64>> {
        let (times, last) = (self.teacher_grid.sigmas(), of.states.len() - 1);
        let state = |i: usize| of.states[i].sample(sample);
        let line = Line::through(state(0), state(last));
        let own: Vec<f64> = (0..=last).map(|j| if j == last { 0.0 } else { line.distance(state(j)) }).collect();
        let mut cost = vec![vec![0.0; last + 1]; last + 1];
        for i in 0..last {
            let slope = of.slopes[i].sample(sample);
            for j in i + 1..=last {
                let length = times[j] - times[i];
                let jump: Vec<f64> = state(i).iter().zip(slope).map(|(x, d)| x + length * d).collect();
                let differences = || jump.iter().zip(state(j)).map(|(a, b)| a - b);
                cost[i][j] = match self.cost {
                    Cost::Dev => line.distance(&jump) - own[j],
                    Cost::L1 => differences().map(f64::abs).sum(),
                    Cost::L2 => differences().map(|d| d * d).sum::<f64>().sqrt(),
                };
            }
        }
        cost
    }

    /// The free point between the first two, by where the solver ends.
    fn free_point(
        &self,
        ground: &dyn Ground,
        indices: &[usize],
        (noise, first): (&Tensor, usize),
    ) -> Result<Option<usize>> {
        let ends = |k: Option<usize>| {
            ground.in_parts(noise, first, &|model, noise| {
                let Some(k) = k else {
                    return Ok(self.trajectories(ground, model, noise)?.states.pop().unwrap_or(noise.clone()));
                };
                let mut points = indices.to_vec();
                points.insert(1, k);
                let solver = self.base.build(ground.frame().bounded)?;
                let plan = Plan::new(&*solver, &self.grid(&points)?).afs(true);
                Ok(sample_observed(model, &plan, noise, &mut |_| ground.onward())?.samples)
            })
        };
        let target = ends(None)?;
        let mut best: Option<(f64, usize)> = None;
        for k in 1..indices[1] {
            let end = ends(Some(k))?;
            let distance = |i: usize| {
                let squares = end.sample(i).iter().zip(target.sample(i)).map(|(a, b)| (a - b) * (a - b));
                squares.sum::<f64>().sqrt()
            };
            let mean = (0..end.samples()).map(distance).sum::<f64>() / end.samples() as f64;
            if best.is_none_or(|(least, _)| mean < least) {
                best = Some((mean, k));
            }
        }
        Ok(best.map(|(_, k)| k))
    }

    fn grid(&self, indices: &[usize]) -> Result<Grid> {
        let sigmas = self.teacher_grid.sigmas();
        Grid::new(indices.iter().map(|i| sigmas[*i]).collect())
    }

    fn found(&self, ground: &dyn Ground) -> Result<Vec<usize>> {
        let (noise, last) = ground.noise(self.samples)?;
        let mut indices = shortest(&self.costs(ground, &noise)?, self.steps, self.factor)?;
        if ground.frame().afs
            && let Some(k) = self.free_point(ground, &indices, (&noise.slice(last.clone()), last.start))?
        {
            indices.insert(1, k);
        }
        Ok(indices)
    }
}

impl Learnable for Search {
    fn method(&self) -> &'static str {
        "gits"
    }

    fn build(&self, _: &[Coeff], frame: &Frame) -> Result<Built> {
        Ok(Built { solver: self.base.build(frame.bounded)?, times: frame.grid.coeffs() })
    }

    fn export(&self, _: &[f64], _: &Frame) -> Result<SolverFile> {
        Err(Error::conflict("nothing was searched for yet", "run the search first"))
    }

    /// The free point of the analytical first step needs where the teacher ends once more. How many points are tried is
    /// not known before.
    fn searched(&self, afs: bool) -> usize {
        if afs { 2 * self.samples } else { self.samples }
    }

    fn search(&self, ground: &dyn Ground) -> Result<Option<Arc<dyn Learnable>>> {
        let indices: Vec<usize> = ground.agreed(&mut || self.found(ground))?;
        let (base, cost, factor) = (self.base.clone(), self.cost, self.factor);
        let sigmas = self.grid(&indices)?.sigmas().to_vec();
        Ok(Some(Arc::new(Found { body: Gits { base, cost, factor, indices, sigmas }, calls: ground.calls() })))
    }
}

/// The grid that was found.
struct Found {
    body: Gits,
    /// Network calls of an evaluation.
    calls: usize,
}

impl Learnable for Found {
    fn method(&self) -> &'static str {
        "gits"
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        LearnedSolver::build(&self.body, params, frame)
    }

    fn export(&self, _: &[f64], frame: &Frame) -> Result<SolverFile> {
        let Built { solver, times } = self.build(&[], frame)?;
        let plan = Plan { solver: &*solver, times, afs: frame.afs, denoise_to_zero: false };
        let nfe = self.calls * count_calls(&plan, frame.prediction)?;
        let sigmas = self.body.sigmas.clone();
        let (grid, schedule) = (Grid::new(sigmas.clone())?, Schedule::Explicit { sigmas });
        SolverFile::new(MethodParams::Gits(self.body.clone()), &Frame { grid, schedule, nfe, ..frame.clone() })
    }
}

/// A line through two states.
struct Line {
    from: Vec<f64>,
    direction: Vec<f64>,
}

impl Line {
    fn through(a: &[f64], b: &[f64]) -> Self {
        let mut direction: Vec<f64> = b.iter().zip(a).map(|(b, a)| b - a).collect();
        let length = dot(&direction, &direction).sqrt();
        direction.iter_mut().for_each(|v| *v /= length);
        Self { from: a.to_vec(), direction }
    }

    fn distance(&self, x: &[f64]) -> f64 {
        let offset: Vec<f64> = x.iter().zip(&self.from).map(|(x, a)| x - a).collect();
        let along = dot(&offset, &self.direction);
        let apart = offset.iter().zip(&self.direction).map(|(o, d)| (o - along * d).powi(2));
        apart.sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four points: straight to the end costs 9, over 1 it costs 1 + 4γ, over 2 it costs 3 + 1γ.
    #[test]
    fn the_cheapest_way_by_hand() {
        let cost = vec![vec![0.0, 1.0, 3.0, 9.0], vec![0.0, 0.0, 2.0, 4.0], vec![0.0, 0.0, 0.0, 1.0], vec![0.0; 4]];
        assert_eq!(shortest(&cost, 1, 1.0).unwrap(), [0, 3]);
        assert_eq!(shortest(&cost, 2, 1.0).unwrap(), [0, 2, 3]);
        assert_eq!(shortest(&cost, 2, 0.1).unwrap(), [0, 1, 3]);
        assert_eq!(shortest(&cost, 3, 1.0).unwrap(), [0, 1, 2, 3]);
        assert!(shortest(&cost, 4, 1.0).is_err() && shortest(&cost, 0, 1.0).is_err());
    }
}
