//! GITS (Chen et al. 2024): the grid of any solver by dynamic programming over a teacher's trajectories, without gradients.
//!
//! ```text
//! jump_ij = x_i + (t_j − t_i)·d_i           d_i the teacher's slope at its state i (the first stage's of two)
//! dev     dist(jump_ij, line x₀–x_P) − dist(x_j, the line), the latter 0 at the end;   l1, l2: norms of jump_ij − x_j
//! c_ij    mean over samples
//! ```
//!
//! With the analytical first step the teacher makes one too, and a free point is put between the first two of the grid: the one with which the
//! solver ends nearest to the teacher on the last batch. Where the second point is the teacher's second, there is no room for one.

use super::base::BaseOptions;
use super::{Common, Method, Start, USUAL_WINDOW};
use crate::learnable::Learnable;
use crate::recipe::Phase;
use crate::spec::{TrainSpec, finite_above, positive};
use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::{Denoiser, Info, Levels, Model};
use dyweight_core::error::{Error, Result};
use dyweight_core::sample::{Plan, count_calls, sample_observed};
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::Solver;
use dyweight_core::tape::{Query, Tape};
use dyweight_core::tensor::{Tensor, dot};
use dyweight_files::TensorFile;
use dyweight_sample::Stop;
use dyweight_sample::comm::Comm;
use dyweight_sample::in_parts;
use dyweight_solvers::Base;
use dyweight_solvers::learned::{Block, Built, Frame};
use dyweight_solvers::solver_file::{MethodParams, SolverFile};
use dyweight_solvers::spec::SolverSpec;
use dyweight_solvers::spec::budget::check_steps;
use dyweight_solvers::{Cost, Gits, shortest};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// GITS's own options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[allow(rustdoc::broken_intra_doc_links, reason = "help texts have defaults in brackets")]
pub struct GitsOptions {
    /// How gits compares Euler's jumps with the teacher [dev].
    #[cfg_attr(feature = "clap", arg(long, value_name = "dev|l1|l2", value_parser = crate::spec::one_of::<Cost>(&["dev", "l1", "l2"]), help_heading = "Teacher"))]
    pub cost: Option<Cost>,
    /// How much gits weighs each later jump against the one before [1.15].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher"))]
    pub factor: Option<f64>,
    /// Samples on which gits measures costs [256].
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher"))]
    pub samples: Option<usize>,
}

/// The method.
pub(super) struct GitsMethod;

const USUAL_BASE: &str = "ipndm";
const USUAL_TEACHER: &str = "ipndm";

/// The highest order of a solver that has a choice.
fn highest_order(name: &str) -> Option<usize> {
    SolverSpec::named(name).method().ok().and_then(|m| m.highest_order)
}

impl GitsMethod {
    /// The base. An order that was given for both is cut to its highest.
    fn base(spec: &TrainSpec) -> Result<Base> {
        let base = BaseOptions::of(spec, USUAL_BASE);
        Ok(Base { order: base.order.filter(|_| highest_order(&base.name).is_some()), ..base })
    }
}

impl Method for GitsMethod {
    fn name(&self) -> &'static str {
        "gits"
    }

    fn options(&self) -> &'static [&'static str] {
        &["afs", "order", "base", "variant", "predict", "lower-order-final", "cost", "factor", "samples"]
    }

    fn learns_by_gradients(&self) -> bool {
        false
    }

    fn usual(&self, spec: TrainSpec) -> TrainSpec {
        // The authors have one order for teacher and solver; one that has no choice passes over it.
        let highest = |name: &Option<String>, usual| highest_order(name.as_deref().unwrap_or(usual));
        let (of_base, of_teacher) = (highest(&spec.base.base, USUAL_BASE), highest(&spec.teacher, USUAL_TEACHER));
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

    fn start(&self, spec: &TrainSpec, frame: &Frame) -> Result<Start> {
        if spec.init.is_some() {
            let (problem, hint) = ("gits searches, and starts from nothing".into(), "leave --init out".into());
            return Err(Error::Conflict { problem, hint });
        }
        let factor = finite_above("factor", spec.gits.factor.unwrap_or(1.15), 0.0)?;
        let samples = positive("samples", spec.gits.samples.unwrap_or(256))?;
        let base = Self::base(spec)?;
        base.build(frame.bounded)?;
        let steps = spec.teacher_steps.unwrap_or(60);
        check_steps("teacher-steps", steps)?;
        let named = SolverSpec::named(spec.teacher.as_deref().unwrap_or(USUAL_TEACHER));
        // The slopes are what is compared, so that an exponential integrator extrapolates noise predictions.
        let is_exponential = named.method()?.options.contains(&"predict");
        let predict = is_exponential.then_some(dyweight_core::solver::Predict::Noise);
        let teacher = SolverSpec { order: spec.teacher_order, predict, ..named };
        let search = Search {
            base,
            cost: spec.gits.cost.unwrap_or_default(),
            factor,
            samples,
            noise: spec.noise.clone(),
            steps: frame.grid.steps(),
            teacher_grid: frame.schedule.grid(steps, frame.range)?,
            teacher,
        };
        Ok(Start { learnable: Arc::new(search), params: Vec::new(), window: USUAL_WINDOW, settled: spec.clone() })
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
    noise: Option<std::path::PathBuf>,
    steps: usize,
    teacher: SolverSpec,
    teacher_grid: Grid,
}

/// What a search may use.
pub struct Ground<'g> {
    /// The model.
    pub model: &'g dyn Model,
    /// The noise of training.
    pub pairs: &'g dyweight_sample::Inputs,
    /// The processes of the job.
    pub comm: &'g dyn Comm,
    /// What is not learned.
    pub frame: &'g Frame,
    /// Samples per network call.
    pub batch: usize,
    /// Network calls of an evaluation.
    pub calls: usize,
    /// Ends the search once it is so.
    pub stop: Option<&'g Stop>,
}

impl Ground<'_> {
    /// What an observer of steps says: to go on, unless the search is to stop.
    fn onward(&self) -> Result<()> {
        if self.stop.is_some_and(|stop| stop()) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// A teacher's trajectories: states and slopes, `[point]` batches.
struct TrainConfig {
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
    /// Noise and pairs of the last batch: all samples, or the rounds of a given file.
    fn noise(&self, ground: &Ground<'_>) -> Result<(Tensor, Range<usize>)> {
        let Some(path) = &self.noise else {
            return Ok((ground.pairs.latents(0..self.samples)?, 0..self.samples));
        };
        let file = TensorFile::read(path)?;
        let stored = file.tensor("noise").map_err(|p| Error::malformed(path, p))?;
        let [c, h, w] = ground.model.shape();
        let found = stored.shape().to_vec();
        let what = format!("tensor 'noise' in {}", path.display());
        if found.len() != 5 || found[2..] != [c, h, w] || found[0] * found[1] == 0 {
            return Err(Error::Shape { what, expected: vec![1, self.samples, c, h, w], found });
        }
        let noise = Tensor::new([found[0] * found[1], c, h, w], stored.to_f64())?;
        noise.require_finite(&what)?;
        Ok((noise, (found[0] - 1) * found[1]..found[0] * found[1]))
    }

    fn config(&self, ground: &Ground<'_>, noise: &Tensor, pairs: Range<usize>) -> Result<TrainConfig> {
        let model = ground.model.denoiser(&ground.pairs.condition(pairs))?;
        let memo = Memo { inner: &*model, last: Mutex::default() };
        let solver = self.teacher.build(ground.frame.bounded)?;
        let plan = Plan::new(&*solver, &self.teacher_grid).afs(ground.frame.afs);
        let last = self.teacher_grid.steps();
        let (mut states, mut slopes) = (Vec::new(), Vec::new());
        sample_observed(&memo, &plan, noise, &mut |state| {
            states.push(state.x.tensor().clone());
            if state.index == last {
                return Ok(());
            }
            ground.onward()?;
            let mut tape = Tape::sampling(&memo).analytic_first(ground.frame.afs && state.index == 0);
            slopes.push(tape.slope(state.x, &Query::at(&Coeff::from(state.sigma)))?.tensor().clone());
            Ok(())
        })?;
        Ok(TrainConfig { states, slopes })
    }

    /// `cost[i][j]`, averaged over all samples in their order.
    fn costs(&self, ground: &Ground<'_>, noise: &Tensor) -> Result<Vec<Vec<f64>>> {
        let part = |range: Range<usize>| {
            let config = self.config(ground, &noise.slice(range.clone()), range.clone())?;
            Ok((0..range.len()).map(|sample| self.of_sample(&config, sample)).collect::<Vec<_>>())
        };
        let samples = in_parts(ground.model, 0..noise.samples(), ground.batch, part)?.concat();
        let points = self.teacher_grid.sigmas().len();
        let mut cost = vec![vec![0.0; points]; points];
        for own in &samples {
            for (sum, row) in cost.iter_mut().zip(own) {
                sum.iter_mut().zip(row).for_each(|(s, v)| *s += v);
            }
        }
        cost.iter_mut().flatten().for_each(|v| *v /= samples.len() as f64);
        Ok(cost)
    }

    fn of_sample(&self, config: &TrainConfig, sample: usize) -> Vec<Vec<f64>> {
        let (times, last) = (self.teacher_grid.sigmas(), config.states.len() - 1);
        let state = |i: usize| config.states[i].sample(sample);
        let line = Line::through(state(0), state(last));
        let own: Vec<f64> = (0..=last).map(|j| if j == last { 0.0 } else { line.distance(state(j)) }).collect();
        let mut cost = vec![vec![0.0; last + 1]; last + 1];
        for i in 0..last {
            let slope = config.slopes[i].sample(sample);
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
        ground: &Ground<'_>,
        indices: &[usize],
        (noise, pairs): (&Tensor, Range<usize>),
    ) -> Result<Option<usize>> {
        let ends = |k: Option<usize>| -> Result<Tensor> {
            let part = |range: Range<usize>| {
                let own = pairs.start + range.start..pairs.start + range.end;
                let noise = noise.slice(range);
                let Some(k) = k else {
                    return Ok(self.config(ground, &noise, own)?.states.pop().unwrap_or(noise));
                };
                let model = ground.model.denoiser(&ground.pairs.condition(own))?;
                let mut points = indices.to_vec();
                points.insert(1, k);
                let solver = self.base.build(ground.frame.bounded)?;
                let plan = Plan::new(&*solver, &self.grid(&points)?).afs(true);
                Ok(sample_observed(&*model, &plan, &noise, &mut |_| ground.onward())?.samples)
            };
            Tensor::concat(&in_parts(ground.model, 0..noise.samples(), ground.batch, part)?)
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

    fn found(&self, ground: &Ground<'_>) -> Result<Vec<usize>> {
        let (noise, last) = self.noise(ground)?;
        let mut indices = shortest(&self.costs(ground, &noise)?, self.steps, self.factor)?;
        if ground.frame.afs
            && let Some(k) = self.free_point(ground, &indices, (&noise.slice(last.clone()), last))?
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

    fn blocks(&self) -> Vec<Block> {
        Vec::new()
    }

    fn build(&self, _: &[Coeff], frame: &Frame) -> Result<Built> {
        Ok(Built { solver: self.base.build(frame.bounded)?, times: frame.grid.coeffs() })
    }

    fn export(&self, _: &[f64], _: &Frame) -> Result<SolverFile> {
        Err(Error::Conflict { problem: "nothing was searched for yet".into(), hint: "run the search first".into() })
    }

    /// The free point of the analytical first step needs where the teacher ends once more. How many points are tried is not known before.
    fn searched(&self, afs: bool) -> usize {
        if afs { 2 * self.samples } else { self.samples }
    }

    fn search(&self, ground: &Ground<'_>) -> Result<Option<Arc<dyn Learnable>>> {
        let indices: Vec<usize> = ground.comm.broadcast(|| self.found(ground))?;
        let (base, cost, factor) = (self.base.clone(), self.cost, self.factor);
        let sigmas = self.grid(&indices)?.sigmas().to_vec();
        Ok(Some(Arc::new(Found { body: Gits { base, cost, factor, indices, sigmas }, calls: ground.calls })))
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

    fn blocks(&self) -> Vec<Block> {
        Vec::new()
    }

    fn build(&self, params: &[Coeff], frame: &Frame) -> Result<Built> {
        dyweight_solvers::learned::LearnedSolver::build(&self.body, params, frame)
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
