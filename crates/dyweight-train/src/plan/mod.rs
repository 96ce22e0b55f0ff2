//! A training run from its options.

mod few_pairs;
mod teacher;

pub use teacher::{TEACHER_NFE, named_for_the_teacher, teacher};

use crate::newton::MOST_NUMBERS;
use crate::recipe::Recipe;
use crate::{ClassName, Learnable, Loss, Optimiser, Student, Supervision, TrainSpec};
use dyweight_core::denoiser::{Condition, Model};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::FeatureMap;
use dyweight_core::option;
use dyweight_core::tensor::Tensor;
use dyweight_files::TensorFile;
use dyweight_sample::{GridRule, Inputs, Learned, Noise, Prompts, Show};
use dyweight_solvers::learned::Frame;
use dyweight_solvers::method::{Method, Start, refuse_foreign_options};
use dyweight_solvers::recipe::{Common, Teaching};
use dyweight_solvers::solver_file::{Asked, MethodParams};
use dyweight_solvers::spec::effect::refuse_idle;
use dyweight_solvers::spec::train::{finite_above, not_negative, positive};
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use few_pairs::{recipe_of_few, require_squares};
use std::sync::Arc;

/// What the noise of training pairs is for.
pub(crate) const TRAINING: &str = "training";
/// The share of a second-order step that is taken where the rate is highest.
const NEWTON_RATE: f64 = 0.5;

/// Everything about a run but the model and the budget's targets.
pub struct TrainPlan {
    /// What training pairs begin with and show.
    pub inputs: Inputs,
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
    /// True if each of the teacher's steps is halved on the EDM grid.
    pub halved: bool,
    /// The rule of the teacher's grid.
    pub taught_on: GridRule,
    /// The options, with what was decided filled in.
    pub resolved: TrainSpec,
}

impl TrainPlan {
    /// The same inputs on noise for another purpose, which training must not share.
    pub fn inputs_for(&self, purpose: &'static str) -> Inputs {
        let noise = match &self.inputs.noise {
            Noise::Stream { seed, .. } => Noise::Stream { seed: *seed, purpose },
            given => given.clone(),
        };
        Inputs { noise, ..self.inputs.clone() }
    }

    /// Network calls of one evaluation.
    pub fn calls(&self) -> usize {
        self.taught_on.calls
    }
}

/// The student's run for a budget.
pub fn plan(
    spec: &TrainSpec,
    model: &dyn Model,
    schedule: &ScheduleSpec,
    budget: Budget,
    loss: Loss,
) -> Result<TrainPlan> {
    plan_with(spec, inputs(spec, model, None)?, model, schedule, (budget, loss))
}

/// The same, with what its pairs begin with and show.
pub(crate) fn plan_with(
    given: &TrainSpec,
    inputs: Inputs,
    model: &dyn Model,
    schedule: &ScheduleSpec,
    (budget, loss): (Budget, Loss),
) -> Result<TrainPlan> {
    let calls = model.denoiser(&inputs.condition(0..1))?.info().calls;
    let method = given.taught()?;
    refuse_foreign_options(method, given)?;
    refuse_idle(method, given)?;
    let spec = given.with_recipe(method).with_defaults_of(method)?;
    let frame = frame(&spec, method, (model, calls), schedule, budget)?;
    let Start { learnable, params, window, settled } = method.start(&spec, &frame, &open)?;
    require_squares(&spec, &loss)?;
    let relax = match spec.is_gauss_newton() {
        true => None,
        false => method.relaxed(&spec, &frame, model.shape().iter().product())?,
    };
    let moments = loss.joint().map(|_| spec.joint.samples()).transpose()?;
    if let (Some(pairs), Some(samples)) = (spec.pairs, moments) {
        return Err(Error::conflict(
            format!("`pairs = {pairs}`: the loss frechet has {samples} samples instead of pairs"),
            format!("use `moments = {pairs}`, or leave `pairs` out"),
        ));
    }
    let distinct = spec.pairs.filter(|_| relax.is_none());
    let defaults = Defaults::of(model);
    let recipe = match spec.is_gauss_newton() {
        true => recipe_of_few(&spec, &*learnable, &defaults)?,
        false => {
            let recipe = recipe(&spec, method, (&*learnable, &frame), &defaults)?;
            // Moments of few samples say little.
            let validation_pairs = spec.validation.or(moments).unwrap_or(recipe.validation_pairs);
            Recipe { relax, moments, distinct, validation_pairs, ..recipe }
        }
    };
    if let Some(distinct) = recipe.distinct.filter(|distinct| *distinct < recipe.pairs) {
        let expected = format!("an iteration takes {} pairs: at least so many", recipe.pairs);
        return Err(Error::bad_value("pairs", distinct, expected));
    }
    let Teaching { supervision, stepwise, near, halved } =
        spec.taught_whole(method.teaching(&spec, &frame, &*learnable)?)?;
    let taught_on = teacher::taught_on(&spec, method, model, schedule, (&frame, calls))?;
    let student = Student { frame, loss, memory: given.memory.unwrap_or_default(), stepwise, near };
    if recipe.is_second_order() {
        require_second_order(&spec, &student, &params)?;
    }
    let lr = Some(recipe.phases[0].groups[0].rate.base).filter(|_| !spec.is_gauss_newton());
    let afs = Some(student.frame.afs);
    // What is left to choose is none of the options.
    let resolved = match spec.is_open(budget, schedule) {
        true => TrainSpec { afs: given.afs, order: given.order, lr, ..settled },
        false => TrainSpec { afs, lr, ..settled },
    };
    Ok(TrainPlan {
        inputs,
        student,
        learnable,
        start: params,
        window,
        recipe,
        supervision,
        halved,
        taught_on,
        resolved,
    })
}

/// What a start names: the parameters, and for how many steps they are.
fn open(source: &str, asked: Option<Asked>) -> Result<(MethodParams, Option<usize>)> {
    let learned = Learned::open(source)?;
    let learned = asked.map_or(Ok(learned.clone()), |asked| learned.at(asked))?;
    let steps = learned.steps();
    Ok((learned.body, steps))
}

/// An error where second-order descent has nothing to go by.
fn require_second_order(spec: &TrainSpec, student: &Student, params: &[f64]) -> Result<()> {
    let refused = |problem: String, hint: &str| Err(Error::conflict(problem, hint));
    if student.stepwise.is_some() || student.near.is_some() {
        let problem = format!(
            "`optimiser = newton` is for losses at the end of a run, and {} is trained step by step",
            spec.method_name()
        );
        return refused(problem, "leave `optimiser` out");
    }
    if !student.loss.is_curved() {
        let loss = spec.loss.as_deref().unwrap_or("l2");
        let problem = format!("`optimiser = newton` does not know how the loss {loss} bends");
        return refused(problem, "use another `loss`, or another `optimiser`");
    }
    if params.len() > MOST_NUMBERS {
        let problem =
            format!("`optimiser = newton` is for at most {MOST_NUMBERS} numbers, and these are {}", params.len());
        return refused(problem, "learn fewer, or use another `optimiser`");
    }
    let given = [("clip", spec.clip.is_some()), ("weight-decay", spec.weight_decay.is_some())];
    let why = "the steps of `optimiser = newton` are bounded by how far they move the samples";
    option::refuse(&given, |option| Error::no_effect(option, why))
}

/// What of a budget's run is not learned.
fn frame(
    spec: &TrainSpec,
    method: &dyn Method,
    (model, calls): (&dyn Model, usize),
    schedule: &ScheduleSpec,
    budget: Budget,
) -> Result<Frame> {
    let prediction = model.prediction();
    let schedule = &method.default_schedule(schedule, prediction);
    let rule = GridRule::new(schedule, model, calls)?;
    let afs = spec.afs.unwrap_or(matches!(budget, Budget::Nfe(_)) && method.default_afs(prediction));
    let bounded = model.is_bounded();
    // Numbers only exist once the length of the grid is known: a stand-in with the same calls finds it.
    let stand_in = method.stand_in(spec, bounded)?;
    let grid = rule.setting(&*stand_in, method.grid_afs(afs), false).grid(budget)?;
    // What is really called, however the budget was meant.
    let counted = method.stand_in(&TrainSpec { count_parallel: None, ..spec.clone() }, bounded)?;
    let nfe = rule.setting(&*counted, method.grid_afs(afs), false).count(&grid)?;
    let GridRule { schedule, range, .. } = rule;
    let (shape, feature, embedding) = (Some(model.shape()), model.feature_len(), model.embedding_len());
    Ok(Frame { grid, schedule, range, afs, prediction, bounded, shape, feature, embedding, nfe })
}

fn recipe(
    spec: &TrainSpec,
    method: &dyn Method,
    (learnable, frame): (&dyn Learnable, &Frame),
    defaults: &Defaults,
) -> Result<Recipe> {
    let batch = positive("batch", spec.batch.unwrap_or(defaults.batch))?;
    let optimiser = spec.optimiser.unwrap_or_default();
    // An iteration of second order sweeps twice.
    let default_iterations = match optimiser {
        Optimiser::Newton => defaults.iterations.div_ceil(2),
        _ => defaults.iterations,
    };
    let iterations = positive("iters", spec.iters.unwrap_or(default_iterations))?;
    let warm_up = spec.warm_up.unwrap_or(0.1);
    if !(0.0..=1.0).contains(&warm_up) {
        return Err(Error::bad_value("warm-up", warm_up, "must lie between 0 and 1"));
    }
    let default_rate = || match optimiser {
        Optimiser::Newton => NEWTON_RATE,
        _ => method.default_rate(frame.grid.steps()),
    };
    let common = Common {
        iterations,
        lr: finite_above("lr", spec.lr.unwrap_or_else(default_rate), 0.0)?,
        warm_up,
        rule: spec.rate.unwrap_or_default(),
        optimiser,
        decay: not_negative("weight-decay", spec.weight_decay.unwrap_or(0.01))?,
        clip: spec.clip.map_or(Ok(method.default_clip()), |clip| finite_above("clip", clip, 0.0))?,
    };
    let every = positive("validate-every", spec.validate_every.unwrap_or((iterations / 40).max(1)))?;
    Ok(Recipe {
        pairs: batch * positive("accumulate", spec.accumulate.unwrap_or(1))?,
        micro_batch: positive("micro-batch", spec.micro_batch.unwrap_or(batch))?,
        phases: method.phases(spec, &common, learnable)?,
        distinct: None,
        relax: None,
        moments: None,
        seed: spec.seed.unwrap_or(0),
        validate_every: (!spec.is_plain()).then_some(every),
        validation_pairs: positive("validation", spec.validation.unwrap_or(defaults.validation))?,
        patience: spec.patience.map(|p| positive("patience", p)).transpose()?,
        gauss_newton: None,
    })
}

/// The loss; `features` opens a feature network by its name.
pub fn loss(spec: &TrainSpec, features: impl FnOnce(&str) -> Result<Arc<dyn FeatureMap>>) -> Result<Loss> {
    let spec = spec.taught()?.with_defaults(spec.clone());
    let name = spec.loss.as_deref().unwrap_or("l2");
    let given = [
        ("features", "features", spec.features.is_some()),
        ("inception", "inception", spec.inception.is_some()),
        ("resize", "inception", spec.resize.is_some()),
        ("clip-model", "clip", spec.clip_model.is_some()),
        ("reference", "frechet", spec.joint.reference.is_some()),
        ("moments", "frechet", spec.joint.moments.is_some()),
    ];
    if let Some((option, loss, _)) = given.iter().find(|(_, loss, given)| *given && name != *loss) {
        return Err(Error::needs(option, format!("loss = {loss}")));
    }
    match name {
        "l2" => Ok(Loss::L2),
        "l1" => Ok(Loss::L1),
        "huber" => Ok(Loss::Huber(finite_above("huber-delta", spec.huber_delta.unwrap_or(0.1), 0.0)?)),
        "features" => features("fashion").map(Loss::Features),
        "inception" => features("inception").map(Loss::Features),
        "clip" => features("clip").map(Loss::Features),
        "frechet" => Err(Error::conflict(
            "the loss 'frechet' needs statistics of real images",
            "use dyweight_study::training_loss, which has them",
        )),
        other => {
            let known = ["l2", "l1", "huber", "features", "inception", "clip", "frechet"];
            Err(Error::unknown_name("loss", other, known))
        }
    }
}

/// What training pairs begin with and show; texts that are `known` are not encoded again.
pub fn inputs(spec: &TrainSpec, model: &dyn Model, known: Option<&Arc<Prompts>>) -> Result<Inputs> {
    let noise = Noise::Stream { seed: spec.seed.unwrap_or(0), purpose: TRAINING };
    let show = show(spec, model, known)?;
    Ok(Inputs { noise, shape: model.shape(), classes: model.classes(), show, guidance: spec.guidance })
}

/// What samples and training pairs are asked to show; texts that are `known` are not encoded again.
pub fn show(spec: &TrainSpec, model: &dyn Model, known: Option<&Arc<Prompts>>) -> Result<Show> {
    match (&spec.prompts, &spec.class) {
        (None, _) if spec.negative.is_some() => Err(Error::needs("negative", "prompts")),
        (Some(_), Some(_)) => Err(Error::excluded("class", "prompts")),
        (Some(path), None) => {
            Prompts::known_or_new(Prompts::lines(path)?, spec.negative.clone(), model, known).map(Show::Prompts)
        }
        (None, Some(class)) if class.is_none() => Ok(Show::Anything),
        (None, class) => {
            let class = class.as_ref().map(ClassName::number).transpose()?;
            Condition::classes(class).class_of_each(model.classes())?;
            Ok(Show::class(class))
        }
    }
}

/// The noise file as pairs, iteration after iteration.
pub(crate) fn given_noise(spec: &TrainSpec, shape: [usize; 3], recipe: &Recipe) -> Result<Option<Tensor>> {
    let Some(path) = &spec.noise else { return Ok(None) };
    let file = TensorFile::read(path)?;
    let stored = file.tensor("noise").map_err(|p| Error::malformed(path, p))?;
    let batches = recipe.relax.map_or(recipe.pairs_needed() / recipe.pairs, |r| r.visits(recipe.pairs));
    let expected = [&[batches, recipe.pairs][..], &shape].concat();
    let found = stored.shape().to_vec();
    let what = format!("tensor 'noise' in {}", path.display());
    if found.len() != 5 || found[0] < expected[0] || found[1..] != expected[1..] {
        return Err(Error::Shape { what, expected, found });
    }
    let noise = Tensor::new([found[0] * found[1], shape[0], shape[1], shape[2]], stored.to_f64())?;
    noise.require_finite(&what)?;
    Ok(Some(noise))
}

/// How much data a run sees unless told otherwise: the one place that says so. A network's calls are dear, and 10 000
/// pairs are what the paper uses; a closed form's cost nothing, and more pairs give steadier results.
pub struct Defaults {
    /// Iterations.
    pub iterations: usize,
    /// Pairs per iteration.
    pub batch: usize,
    /// Validation pairs.
    pub validation: usize,
    /// Training and validation pairs of Gauss–Newton, which learns from few.
    pub few: (usize, usize),
    /// True if its first iterations take a part of the pairs.
    pub grows: bool,
}

impl Defaults {
    /// The usual amounts for a model.
    pub fn of(model: &dyn Model) -> Self {
        match model.is_light() {
            true => Self { iterations: 1500, batch: 64, validation: 1024, few: (1024, 1024), grows: false },
            false => Self { iterations: 625, batch: 16, validation: 64, few: (48, 16), grows: true },
        }
    }
}
