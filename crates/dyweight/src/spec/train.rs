//! A training run from its options.

use super::budget::{Budget, Setting, check_steps};
use super::features::FeatureSpec;
use super::learned::Learned;
use super::schedule::ScheduleSpec;
use super::solver::SolverSpec;
use crate::checkpoint::TensorFile;
use crate::denoiser::{Model, Prediction};
use crate::error::{Error, Result};
use crate::path::Memory;
use crate::schedule::{Grid, Schedule};
use crate::solver::{Initial, adams_bashforth_rows};
use crate::tensor::Tensor;
use crate::train::{Loss, Noise, Optimiser, Pairs, Parameters, Rate, Recipe, ScaleMode, Student, Supervision, Teacher};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a user says about training, the same keys on the command line and in a TOML file. What is left out is decided here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TrainSpec {
    /// Analytical first step; on where the budget is in calls and the model predicts denoised samples.
    pub afs: Option<bool>,
    /// Window: slopes a step may weigh (3).
    pub order: Option<usize>,
    /// Start: ab, euler, uniform, perturbed, or a solver file (ab).
    pub init: Option<String>,
    /// Scales: free or bounded (free).
    pub scale: Option<ScaleMode>,
    /// Ablation: no time shifting.
    pub no_time_shift: Option<bool>,
    /// Ablation: no time scaling.
    pub no_time_scale: Option<bool>,
    /// Teacher's solver (ipndm).
    pub teacher: Option<String>,
    /// Teacher's order (the method's highest).
    pub teacher_order: Option<usize>,
    /// Teacher's network calls (35).
    pub teacher_nfe: Option<usize>,
    /// Teacher's intervals.
    pub teacher_steps: Option<usize>,
    /// endpoint or path (endpoint).
    pub supervision: Option<String>,
    /// Teacher steps per student step under path supervision (5).
    pub substeps: Option<usize>,
    /// l2, l1, huber, features or inception (l2).
    pub loss: Option<String>,
    /// Weights of Inception-v3, for the loss of that name.
    pub inception: Option<PathBuf>,
    /// How Inception sees an image: edm or pytorch-fid (edm).
    pub resize: Option<String>,
    /// δ of the Huber loss (0.1).
    pub huber_delta: Option<f64>,
    /// Iterations (625; 1500 for a closed form).
    pub iters: Option<usize>,
    /// Pairs per iteration and accumulation round (16; 64 for a closed form).
    pub batch: Option<usize>,
    /// Accumulation rounds per iteration (1).
    pub accumulate: Option<usize>,
    /// Samples per network call (the batch).
    pub micro_batch: Option<usize>,
    /// Learning rate (by budget).
    pub lr: Option<f64>,
    /// Fraction of the iterations that warm up (0.1).
    pub warm_up: Option<f64>,
    /// adam or adamw (adam).
    pub optimiser: Option<Optimiser>,
    /// Weight decay of AdamW (0.01).
    pub weight_decay: Option<f64>,
    /// Largest gradient norm (1).
    pub clip: Option<f64>,
    /// Validation pairs (64; 1024 for a closed form).
    pub validation: Option<usize>,
    /// Iterations between validations (one fortieth of the run).
    pub validate_every: Option<usize>,
    /// Validations without improvement after which to stop.
    pub patience: Option<usize>,
    /// The reference algorithm and nothing else: no validation, roll-back or early stop.
    pub plain: Option<bool>,
    /// Seed of the pairs (0).
    pub seed: Option<u64>,
    /// keep or recompute (recompute).
    pub memory: Option<Memory>,
    /// Safetensors file whose tensor `noise` `[iters, batch, c, h, w]` replaces the random stream.
    pub noise: Option<PathBuf>,
    /// A class to train for (all).
    pub class: Option<usize>,
    /// Classifier-free guidance.
    pub guidance: Option<f64>,
}

/// Nobody learns more weights; guards against a window that would fill the memory.
const MOST_WEIGHTS: usize = 1 << 20;

/// Everything about a run but the model and the budget's targets.
pub struct TrainPlan {
    /// The student.
    pub student: Student,
    /// Where it starts.
    pub parameters: Parameters,
    /// The numbers of the run.
    pub recipe: Recipe,
    /// Which teacher states are supervised.
    pub supervision: Supervision,
    /// The rule of the student's grid.
    pub schedule: Schedule,
    /// Its range.
    pub range: (f64, f64),
    /// Network calls of the student.
    pub nfe: usize,
}

impl TrainSpec {
    fn flag(value: Option<bool>) -> bool {
        value.unwrap_or(false)
    }

    /// True if nothing but the reference algorithm is wanted.
    pub fn is_plain(&self) -> bool {
        Self::flag(self.plain)
    }

    /// The student's run for a budget.
    pub fn plan(&self, model: &dyn Model, schedule: &ScheduleSpec, budget: Budget, loss: Loss) -> Result<TrainPlan> {
        let prediction = model.prediction();
        let rule = schedule.build(prediction)?;
        let range = schedule.range(&rule, model.sigma_range());
        let counts_calls = matches!(budget, Budget::Nfe(_));
        let afs = self.afs.unwrap_or(counts_calls && prediction == Prediction::Denoised);
        let calls = if self.guidance.is_some() { 2 } else { 1 };
        // Any one-call-per-step method finds the grid of a budget; weights only exist once its length is known.
        let stand_in = SolverSpec::named("euler").build(prediction)?;
        let setting =
            Setting { solver: &*stand_in, schedule: &rule, range, afs, denoise_to_zero: false, prediction, calls };
        let grid = setting.grid(budget)?;
        let nfe = setting.count(&grid)?;
        let parameters = self.parameters(grid.steps(), afs)?;
        let recipe = self.recipe(grid.steps(), &Defaults::of(model))?;
        let memory = self.memory.unwrap_or_default();
        let supervision = self.supervised()?;
        Ok(TrainPlan {
            student: Student { grid, afs, loss, memory },
            parameters,
            recipe,
            supervision,
            schedule: rule,
            range,
            nfe,
        })
    }

    /// The teacher for a student.
    pub fn teacher(&self, model: &dyn Model, plan: &TrainPlan) -> Result<Teacher> {
        let prediction = model.prediction();
        let spec =
            SolverSpec { order: self.teacher_order, ..SolverSpec::named(self.teacher.as_deref().unwrap_or("ipndm")) };
        let solver = spec.build(prediction)?;
        // A grid that ends at 0 has nothing left to denoise.
        let denoise_to_zero = plan.student.grid.last() > 0.0;
        let setting = Setting {
            solver: &*solver,
            schedule: &plan.schedule,
            range: plan.range,
            afs: false,
            denoise_to_zero,
            prediction,
            calls: if self.guidance.is_some() { 2 } else { 1 },
        };
        let grid = match (plan.supervision, self.teacher_steps, self.teacher_nfe) {
            (Supervision::Path { stride }, None, None) => {
                refined(&plan.schedule, &plan.student.grid, plan.range, stride)
            }
            (Supervision::Path { .. }, ..) => {
                return Err(Error::Conflict {
                    problem: "under path supervision the teacher's steps follow from the student's".into(),
                    hint: "leave --teacher-steps and --teacher-nfe out, or change --substeps".into(),
                });
            }
            (_, Some(_), Some(_)) => {
                return Err(Error::Conflict {
                    problem: "teacher-steps and teacher-nfe both decide the teacher's length".into(),
                    hint: "give one of them".into(),
                });
            }
            (_, Some(steps), None) => setting.grid(Budget::Steps(steps)),
            (_, None, nfe) => self.teacher_grid(&setting, nfe),
        }?;
        let identity = serde_json::to_string(&spec).unwrap_or_default();
        Ok(Teacher { solver, grid, denoise_to_zero, identity })
    }

    /// The default budget is 35 calls; a method that cannot make exactly that many makes the next possible number.
    fn teacher_grid(&self, setting: &Setting<'_>, nfe: Option<usize>) -> Result<Grid> {
        match (setting.grid(Budget::Nfe(nfe.unwrap_or(35))), nfe) {
            (Err(Error::NoSuchBudget { near, .. }), None) if !near.is_empty() => {
                setting.grid(Budget::Nfe(near[near.len() - 1]))
            }
            (grid, _) => grid,
        }
    }

    fn parameters(&self, steps: usize, afs: bool) -> Result<Parameters> {
        let window = self.order.unwrap_or(3);
        if window == 0 {
            let expected = "a window has at least the current slope: 1 or more".into();
            return Err(Error::BadValue { name: "order", value: "0".into(), expected });
        }
        if steps.saturating_mul(window.min(steps)) > MOST_WEIGHTS {
            let expected = format!("{steps} steps of so many weights are more than {MOST_WEIGHTS}");
            return Err(Error::BadValue { name: "order", value: window.to_string(), expected });
        }
        let scales = vec![1.0; steps - usize::from(afs)];
        let mode = if Self::flag(self.no_time_scale) { ScaleMode::None } else { self.scale.unwrap_or_default() };
        let shift = !Self::flag(self.no_time_shift);
        let start = |rows| Parameters::new(&rows, &scales, mode, shift);
        Ok(match self.init.as_deref().unwrap_or("ab") {
            "ab" | "ipndm" => start(adams_bashforth_rows(steps, window)),
            "euler" => start(Initial::Euler.rows(steps, window)),
            "uniform" => start(Initial::Uniform.rows(steps, window)),
            "perturbed" => {
                let mut parameters = start(adams_bashforth_rows(steps, window));
                parameters.perturb(0.05, self.seed.unwrap_or(0));
                parameters
            }
            file => self.start_from(file, steps, afs, mode)?,
        })
    }

    /// The start from a solver file of the same length.
    fn start_from(&self, file: &str, steps: usize, afs: bool, mode: ScaleMode) -> Result<Parameters> {
        let learned = match Learned::open(file) {
            Err(Error::UnknownName { .. }) | Err(Error::Io { .. }) if !file.contains(['.', '/', ':']) => {
                let known = ["ab", "euler", "uniform", "perturbed", "a solver file"].map(String::from).to_vec();
                return Err(Error::UnknownName { kind: "initialisation", name: file.into(), known });
            }
            other => other?,
        };
        if learned.steps() != steps {
            let what = format!("steps of {file}, given as the start");
            return Err(Error::Shape { what, expected: vec![steps], found: vec![learned.steps()] });
        }
        // Scales belong to the last steps: what is missing or too many is so at the front.
        let wanted = steps - usize::from(afs);
        let missing = wanted.saturating_sub(learned.scales.len());
        let first = learned.scales.len().saturating_sub(wanted);
        let scales = [vec![1.0; missing], learned.scales[first..].to_vec()].concat();
        Ok(Parameters::new(&learned.rows, &scales, mode, !Self::flag(self.no_time_shift)))
    }

    fn recipe(&self, steps: usize, defaults: &Defaults) -> Result<Recipe> {
        let batch = positive("batch", self.batch.unwrap_or(defaults.batch))?;
        let iterations = positive("iters", self.iters.unwrap_or(defaults.iterations))?;
        let lr = finite_above("lr", self.lr.unwrap_or_else(|| default_rate(steps)), 0.0)?;
        let warm_up = self.warm_up.unwrap_or(0.1);
        if !(0.0..=1.0).contains(&warm_up) {
            let expected = "must lie between 0 and 1".into();
            return Err(Error::BadValue { name: "warm-up", value: warm_up.to_string(), expected });
        }
        let decay = not_negative("weight-decay", self.weight_decay.unwrap_or(0.01))?;
        let every = positive("validate-every", self.validate_every.unwrap_or((iterations / 40).max(1)))?;
        Ok(Recipe {
            pairs: batch * positive("accumulate", self.accumulate.unwrap_or(1))?,
            micro_batch: positive("micro-batch", self.micro_batch.unwrap_or(batch))?,
            rate: Rate { warm_up, ..Rate::new(lr, iterations) },
            optimiser: self.optimiser.unwrap_or_default(),
            weight_decay: decay,
            clip: finite_above("clip", self.clip.unwrap_or(1.0), 0.0)?,
            validate_every: (!self.is_plain()).then_some(every),
            validation_pairs: positive("validation", self.validation.unwrap_or(defaults.validation))?,
            patience: self.patience.map(|p| positive("patience", p)).transpose()?,
        })
    }

    fn supervised(&self) -> Result<Supervision> {
        match self.supervision.as_deref().unwrap_or("endpoint") {
            "endpoint" => Ok(Supervision::Endpoint),
            "path" => Ok(Supervision::Path { stride: positive("substeps", self.substeps.unwrap_or(5))? }),
            other => {
                let known = ["endpoint", "path"].map(String::from).to_vec();
                Err(Error::UnknownName { kind: "supervision", name: other.into(), known })
            }
        }
    }

    /// The loss on samples of a shape.
    pub fn loss(&self, shape: [usize; 3]) -> Result<Loss> {
        let name = self.loss.as_deref().unwrap_or("l2");
        let given = [("inception", self.inception.is_some()), ("resize", self.resize.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given && name != "inception") {
            return Err(Error::Conflict {
                problem: format!("--{option} is for the loss 'inception', not '{name}'"),
                hint: format!("add --loss inception, or leave --{option} out"),
            });
        }
        let features = |features: &str| FeatureSpec {
            features: Some(features.into()),
            inception: self.inception.clone(),
            resize: self.resize.clone(),
        };
        match name {
            "l2" => Ok(Loss::L2),
            "l1" => Ok(Loss::L1),
            "huber" => Ok(Loss::Huber(finite_above("huber-delta", self.huber_delta.unwrap_or(0.1), 0.0)?)),
            "features" => features("fashion").loss(shape),
            "inception" => features("inception").loss(shape),
            other => {
                let known = ["l2", "l1", "huber", "features", "inception"].map(String::from).to_vec();
                Err(Error::UnknownName { kind: "loss", name: other.into(), known })
            }
        }
    }

    /// Pairs for training; `purpose` keeps validation apart.
    pub fn pairs(&self, model: &dyn Model, purpose: &'static str) -> Result<Pairs> {
        let noise = Noise::Stream { seed: self.seed.unwrap_or(0), purpose };
        let (classes, class) = (model.classes(), self.class);
        let pairs = Pairs { noise, shape: model.shape(), classes, class, guidance: self.guidance };
        if class.is_some() || self.guidance.is_some() {
            let labels = class.map(|c| vec![c]).or((classes > 0).then(|| vec![0]));
            crate::denoiser::Condition { labels, guidance: self.guidance }.check(classes)?;
        }
        Ok(pairs)
    }

    /// The noise file as pairs, iteration after iteration.
    pub fn given_noise(&self, shape: [usize; 3], recipe: &Recipe) -> Result<Option<Tensor>> {
        let Some(path) = &self.noise else { return Ok(None) };
        let file = TensorFile::read(path)?;
        let stored = file.tensor("noise").map_err(|p| Error::malformed(path, p))?;
        let expected = [&[recipe.rate.iterations, recipe.pairs][..], &shape].concat();
        let found = stored.shape().to_vec();
        let what = format!("tensor 'noise' in {}", path.display());
        if found.len() != 5 || found[0] < expected[0] || found[1..] != expected[1..] {
            return Err(Error::Shape { what, expected, found });
        }
        let noise = Tensor::new([found[0] * found[1], shape[0], shape[1], shape[2]], stored.to_f64())?;
        noise.require_finite(&what)?;
        Ok(Some(noise))
    }
}

/// The student's grid with every interval divided, so that each student time is a teacher time.
fn refined(schedule: &Schedule, student: &Grid, range: (f64, f64), stride: usize) -> Result<Grid> {
    check_steps("substeps", student.steps().saturating_mul(stride))?;
    if schedule.fixed_steps().is_none() {
        // Every rule but a list is uniform in some variable: a grid of stride times the steps contains the student's.
        return schedule.grid(student.steps() * stride, range);
    }
    let divide = |pair: &[f64]| {
        let (a, b) = (pair[0], pair[1]);
        (0..stride).map(move |k| a + (b - a) * k as f64 / stride as f64).collect::<Vec<_>>()
    };
    let mut sigmas: Vec<f64> = student.sigmas().windows(2).flat_map(divide).collect();
    sigmas.push(student.last());
    Grid::new(sigmas)
}

/// How much data a run sees unless told otherwise. A network's calls are dear, and 10 000 pairs are what the paper uses; a
/// closed form's cost nothing, and more pairs give steadier results.
struct Defaults {
    iterations: usize,
    batch: usize,
    validation: usize,
}

impl Defaults {
    fn of(model: &dyn Model) -> Self {
        match model.is_light() {
            true => Self { iterations: 1500, batch: 64, validation: 1024 },
            false => Self { iterations: 625, batch: 16, validation: 64 },
        }
    }
}

/// Rates that work: lower for more steps, as the paper has it (1e-3 … 5e-2).
fn default_rate(steps: usize) -> f64 {
    match steps {
        0..=4 => 3e-2,
        5 | 6 => 2e-2,
        _ => 1e-2,
    }
}

fn positive(name: &'static str, value: usize) -> Result<usize> {
    if (1..=100_000_000).contains(&value) {
        return Ok(value);
    }
    Err(Error::BadValue { name, value: value.to_string(), expected: "must lie between 1 and 100000000".into() })
}

fn not_negative(name: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(Error::BadValue { name, value: value.to_string(), expected: "must be a finite number, 0 or above".into() })
}

fn finite_above(name: &'static str, value: f64, bound: f64) -> Result<f64> {
    if value.is_finite() && value > bound {
        return Ok(value);
    }
    Err(Error::BadValue { name, value: value.to_string(), expected: format!("must be a finite number above {bound}") })
}
