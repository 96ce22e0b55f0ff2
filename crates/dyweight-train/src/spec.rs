//! A training run from its options.

use crate::dyweight::{LearnedWeights, ScaleMode, perturb};
use crate::learnable::{Frame, Learnable};
use crate::learned::Learned;
use crate::recipe::{Group, Phase, Recipe};
use crate::{Loss, Noise, Optimiser, Pairs, Prompts, Rate, Student, Supervision, Teacher};
use dyweight_core::denoiser::{Condition, Model, Prediction};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::FeatureMap;
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::{Initial, LowerOrderFinal, Rows, Scales};
use dyweight_core::spec::budget::{Setting, check_steps};
use dyweight_core::spec::{Budget, ScheduleSpec, SolverSpec};
use dyweight_core::tensor::Tensor;
use dyweight_core::trail::Memory;
use dyweight_files::TensorFile;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// What a user says about training: the one list of options, for the command line, a TOML file and other programs. What is left out is
/// decided here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct TrainSpec {
    /// Analytical first step.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver", help = "Analytical first step [true with --nfe on a denoising model]"))]
    pub afs: Option<bool>,
    /// Window: slopes a step may weigh.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Solver", help = "Window: slopes a step may weigh [3]"))]
    pub order: Option<usize>,
    /// Start: ab, euler, uniform, perturbed, or a solver file.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "NAME|FILE",
            help_heading = "Solver",
            help = "Start: ab, euler, uniform, perturbed, or a solver file [ab]"
        )
    )]
    pub init: Option<String>,
    /// Time scales: free or bounded to (0.5, 1.5).
    #[cfg_attr(feature = "clap", arg(long, value_name = "free|bounded", value_parser = one_of::<ScaleMode>(&["free", "bounded"]), help_heading = "Solver", help = "Time scales: free or bounded to (0.5, 1.5) [free]"))]
    pub scale: Option<ScaleMode>,
    /// Ablation: time is not shifted.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver", help = "Ablation: time is not shifted"))]
    pub no_time_shift: Option<bool>,
    /// Ablation: no time scales.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver", help = "Ablation: no time scales"))]
    pub no_time_scale: Option<bool>,
    /// Teacher's solver.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "NAME", help_heading = "Teacher", help = "Teacher's solver [ipndm]")
    )]
    pub teacher: Option<String>,
    /// Teacher's order.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher", help = "Teacher's order [the method's highest]"))]
    pub teacher_order: Option<usize>,
    /// Teacher's network calls.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Teacher", help = "Teacher's network calls [35]"))]
    pub teacher_nfe: Option<usize>,
    /// Teacher's intervals instead of network calls.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Teacher", help = "Teacher's intervals instead of network calls")
    )]
    pub teacher_steps: Option<usize>,
    /// What is compared: endpoint or path.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "endpoint|path",
            help_heading = "Teacher",
            help = "What is compared: endpoint or path [endpoint]"
        )
    )]
    pub supervision: Option<String>,
    /// Teacher steps per student step under path supervision.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Teacher", help = "Teacher steps per student step under path supervision [5]")
    )]
    pub substeps: Option<usize>,
    /// l2, l1, huber, features (of the embedded network) or inception.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "NAME",
            help_heading = "Optimisation",
            help = "l2, l1, huber, features (of the embedded network) or inception [l2]"
        )
    )]
    pub loss: Option<String>,
    /// Weights of Inception-v3 for the loss inception.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "FILE",
            help_heading = "Optimisation",
            help = "Weights of Inception-v3 for the loss inception"
        )
    )]
    pub inception: Option<PathBuf>,
    /// How Inception sees an image: edm or pytorch-fid.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "RULE",
            help_heading = "Optimisation",
            help = "How Inception sees an image: edm or pytorch-fid [edm]"
        )
    )]
    pub resize: Option<String>,
    /// Where the Huber loss turns linear.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Where the Huber loss turns linear [0.1]")
    )]
    pub huber_delta: Option<f64>,
    /// Iterations.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Iterations [625; 1500 for a closed form]")
    )]
    pub iters: Option<usize>,
    /// Pairs per iteration and accumulation round.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            help_heading = "Optimisation",
            help = "Pairs per iteration and accumulation round [16; 64 for a closed form]"
        )
    )]
    pub batch: Option<usize>,
    /// Accumulation rounds per iteration.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Accumulation rounds per iteration [1]")
    )]
    pub accumulate: Option<usize>,
    /// Samples per network call; changes memory, not results.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            help_heading = "Optimisation",
            help = "Samples per network call; changes memory, not results [the batch]"
        )
    )]
    pub micro_batch: Option<usize>,
    /// Learning rate.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Learning rate [0.03 for 3 calls, less for more]")
    )]
    pub lr: Option<f64>,
    /// Fraction of the iterations that warm up.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Fraction of the iterations that warm up [0.1]")
    )]
    pub warm_up: Option<f64>,
    /// adam, adamw, rmsprop, sgd or lion.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = one_of::<Optimiser>(&["adam", "adamw", "rmsprop", "sgd", "lion"]), help_heading = "Optimisation", help = "adam, adamw, rmsprop, sgd or lion [adam]"))]
    pub optimiser: Option<Optimiser>,
    /// Weight decay of adamw and lion.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Optimisation", help = "Weight decay of adamw and lion [0.01]")
    )]
    pub weight_decay: Option<f64>,
    /// Largest gradient norm.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation", help = "Largest gradient norm [1]"))]
    pub clip: Option<f64>,
    /// Seed of the training pairs.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Optimisation", help = "Seed of the training pairs [0]"))]
    pub seed: Option<u64>,
    /// What is kept for the gradient: keep or recompute.
    #[cfg_attr(feature = "clap", arg(long, value_name = "keep|recompute", value_parser = one_of::<Memory>(&["keep", "recompute"]), help_heading = "Optimisation", help = "What is kept for the gradient: keep or recompute [recompute]"))]
    pub memory: Option<Memory>,
    /// Validation pairs, of other seeds.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Validation", help = "Validation pairs, of other seeds [64; 1024 for a closed form]")
    )]
    pub validation: Option<usize>,
    /// Iterations between validations.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Validation", help = "Iterations between validations [a fortieth of the run]")
    )]
    pub validate_every: Option<usize>,
    /// Stop after this many validations without improvement.
    #[cfg_attr(
        feature = "clap",
        arg(long, help_heading = "Validation", help = "Stop after this many validations without improvement")
    )]
    pub patience: Option<usize>,
    /// The reference algorithm and nothing else: no validation, roll-back or early stop.
    #[cfg_attr(feature = "clap", arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Validation", help = "The reference algorithm and nothing else: no validation, roll-back or early stop"))]
    pub plain: Option<bool>,
    /// Class to train for.
    #[cfg_attr(feature = "clap", arg(long, help = "Class to train for [drawn anew for every pair]"))]
    pub class: Option<usize>,
    /// File of prompts.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "FILE", help = "File of prompts, one per line; every pair draws one")
    )]
    pub prompts: Option<PathBuf>,
    /// What guidance leads away from.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TEXT", help = "What guidance leads away from [the empty text]")
    )]
    pub negative: Option<String>,
    /// Classifier-free guidance.
    #[cfg_attr(feature = "clap", arg(long, help = "Classifier-free guidance"))]
    pub guidance: Option<f64>,
    /// Unit noise from the tensor 'noise'.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "FILE",
            help = "Unit noise from the tensor 'noise' [iters,batch,c,h,w] of a safetensors file"
        )
    )]
    pub noise: Option<PathBuf>,
}

/// An enumeration by the names it has in files.
#[cfg(feature = "clap")]
fn one_of<T: serde::de::DeserializeOwned + Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
) -> impl clap::builder::TypedValueParser<Value = T> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    let read = |name: String| serde_json::from_value::<T>(serde_json::Value::String(name));
    PossibleValuesParser::new(names).try_map(read)
}

/// Where a DyWeight solver starts.
struct Start {
    rows: Rows,
    scales: Scales,
    time_shift: bool,
    perturbed: bool,
}

/// Nobody learns more weights; guards against a window that would fill the memory.
const MOST_WEIGHTS: usize = 1 << 20;

/// Everything about a run but the model and the budget's targets.
pub struct TrainPlan {
    /// The student.
    pub student: Student,
    /// What is learned.
    pub learnable: Arc<dyn Learnable>,
    /// Where it starts.
    pub start: Vec<f64>,
    /// The most slopes a step weighs.
    pub window: usize,
    /// The numbers of the run.
    pub recipe: Recipe,
    /// Which teacher states are supervised.
    pub supervision: Supervision,
    /// The options, with what was decided filled in.
    pub resolved: TrainSpec,
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
        let calls = self.calls(model)?;
        // Any one-call-per-step method finds the grid of a budget; weights only exist once its length is known.
        let stand_in = SolverSpec::named("euler").build(false)?;
        let setting =
            Setting { solver: &*stand_in, schedule: &rule, range, afs, denoise_to_zero: false, prediction, calls };
        let grid = setting.grid(budget)?;
        let nfe = setting.count(&grid)?;
        let start = self.start(grid.steps(), afs)?;
        let recipe = self.recipe(grid.steps(), &Defaults::of(model))?;
        let memory = self.memory.unwrap_or_default();
        let supervision = self.supervised()?;
        let window = start.rows.iter().map(Vec::len).max().unwrap_or(1);
        let mode = if Self::flag(self.no_time_scale) { ScaleMode::None } else { self.scale.unwrap_or_default() };
        let (learnable, mut numbers) = LearnedWeights::new(&start.rows, &start.scales, mode, start.time_shift);
        if start.perturbed {
            perturb(&mut numbers, 0.05, self.seed.unwrap_or(0));
        }
        let resolved = TrainSpec {
            afs: Some(afs),
            lr: Some(recipe.phases[0].groups[0].rate.base),
            order: Some(window),
            no_time_shift: (!start.time_shift).then_some(true),
            ..self.clone()
        };
        let frame = Frame { grid, schedule: rule, range, afs, prediction, nfe };
        Ok(TrainPlan {
            student: Student { frame, loss, memory },
            learnable: Arc::new(learnable),
            start: numbers,
            window,
            recipe,
            supervision,
            resolved,
        })
    }

    /// Network calls of one evaluation.
    pub fn calls(&self, model: &dyn Model) -> Result<usize> {
        let pairs = self.pairs(model, "training")?;
        Ok(model.denoiser(&pairs.condition(0..1))?.calls())
    }

    /// The teacher for a student.
    pub fn teacher(&self, model: &dyn Model, plan: &TrainPlan) -> Result<Teacher> {
        let prediction = model.prediction();
        let name = self.teacher.as_deref().unwrap_or("ipndm");
        // Published traces have a DPM-Solver++ teacher that lowers its last orders on any number of steps.
        let lower_order_final = (name == "dpmpp").then_some(LowerOrderFinal::Always);
        let spec = SolverSpec { order: self.teacher_order, lower_order_final, ..SolverSpec::named(name) };
        let solver = spec.build(model.is_bounded())?;
        // A grid that ends at 0 has nothing left to denoise.
        let frame = &plan.student.frame;
        let denoise_to_zero = frame.grid.last() > 0.0;
        let setting = Setting {
            solver: &*solver,
            schedule: &frame.schedule,
            range: frame.range,
            afs: false,
            denoise_to_zero,
            prediction,
            calls: self.calls(model)?,
        };
        let grid = match (plan.supervision, self.teacher_steps, self.teacher_nfe) {
            (Supervision::Path { stride }, None, None) => refined(&frame.schedule, &frame.grid, frame.range, stride),
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

    /// Weights, scales and time shifting to begin with.
    fn start(&self, steps: usize, afs: bool) -> Result<Start> {
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
        let time_shift = !Self::flag(self.no_time_shift);
        let start = |rows: Initial| Start { rows: rows.rows(steps, window), scales, time_shift, perturbed: false };
        Ok(match self.init.as_deref().unwrap_or("ab") {
            "ab" | "ipndm" => start(Initial::Ab),
            "euler" => start(Initial::Euler),
            "uniform" => start(Initial::Uniform),
            "perturbed" => Start { perturbed: true, ..start(Initial::Ab) },
            file => self.start_from(file, steps, afs)?,
        })
    }

    /// The start from a solver file of the same length. What the options leave open the file decides.
    fn start_from(&self, file: &str, steps: usize, afs: bool) -> Result<Start> {
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
        // A window of another width loses the oldest weights, or gains some that are 0.
        let fitted = |(i, row): (usize, &Vec<f64>)| {
            let width = self.order.map_or(row.len(), |window| window.min(i + 1));
            let kept = &row[row.len().saturating_sub(width)..];
            [vec![0.0; width - kept.len()], kept.to_vec()].concat()
        };
        let rows = learned.rows.iter().enumerate().map(fitted).collect();
        let time_shift = self.no_time_shift.map_or(learned.time_shift, |off| !off);
        Ok(Start { rows, scales, time_shift, perturbed: false })
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
        let group = Group {
            blocks: vec!["weights", "time_scale"],
            optimiser: self.optimiser.unwrap_or_default(),
            rate: Rate { warm_up, ..Rate::new(lr, iterations) },
            decay,
            clip: finite_above("clip", self.clip.unwrap_or(1.0), 0.0)?,
        };
        Ok(Recipe {
            pairs: batch * positive("accumulate", self.accumulate.unwrap_or(1))?,
            micro_batch: positive("micro-batch", self.micro_batch.unwrap_or(batch))?,
            phases: vec![Phase { iterations, groups: vec![group] }],
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

    /// The loss; `features` opens a feature network by its name.
    pub fn loss(&self, features: impl FnOnce(&str) -> Result<Arc<dyn FeatureMap>>) -> Result<Loss> {
        let name = self.loss.as_deref().unwrap_or("l2");
        let given = [("inception", self.inception.is_some()), ("resize", self.resize.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given && name != "inception") {
            return Err(Error::Conflict {
                problem: format!("--{option} is for the loss 'inception', not '{name}'"),
                hint: format!("add --loss inception, or leave --{option} out"),
            });
        }
        match name {
            "l2" => Ok(Loss::L2),
            "l1" => Ok(Loss::L1),
            "huber" => Ok(Loss::Huber(finite_above("huber-delta", self.huber_delta.unwrap_or(0.1), 0.0)?)),
            "features" => features("fashion").map(Loss::Features),
            "inception" => features("inception").map(Loss::Features),
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
        let prompts = match &self.prompts {
            Some(path) => Some(Arc::new(Prompts::new(Prompts::lines(path)?, self.negative.clone(), model)?)),
            None => None,
        };
        let pairs = Pairs { noise, shape: model.shape(), classes, class, prompts, guidance: self.guidance };
        Condition::classes(class).class_of_each(classes)?;
        Ok(pairs)
    }

    /// The noise file as pairs, iteration after iteration.
    pub fn given_noise(&self, shape: [usize; 3], recipe: &Recipe) -> Result<Option<Tensor>> {
        let Some(path) = &self.noise else { return Ok(None) };
        let file = TensorFile::read(path)?;
        let stored = file.tensor("noise").map_err(|p| Error::malformed(path, p))?;
        let expected = [&[recipe.iterations(), recipe.pairs][..], &shape].concat();
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

/// How much data a run sees unless told otherwise: the one place that says so. A network's calls are dear, and 10 000 pairs are what the paper uses; a
/// closed form's cost nothing, and more pairs give steadier results.
pub struct Defaults {
    /// Iterations.
    pub iterations: usize,
    /// Pairs per iteration.
    pub batch: usize,
    /// Validation pairs.
    pub validation: usize,
}

impl Defaults {
    /// The usual amounts for a model.
    pub fn of(model: &dyn Model) -> Self {
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
