//! Numerical faults: a model that answers with NaN, infinity or huge numbers at a chosen call, inputs and levels no
//! model was made for. Everything ends in an error that says where, or in finite numbers; nothing panics, no NaN is
//! handed on.

use crate::edm_common;

use dyweight::denoiser::{Condition, Denoiser, Differentiable, Info, Levels, Model, Prediction, Pullback};
use dyweight::mixture::Mixture;
use dyweight::noise::Rng;
use dyweight::sample::{Outcome, Plan, sample, sample_observed};
use dyweight::schedule::Grid;
use dyweight::solver::{DyWeight, Initial, Method};
use dyweight::spec::{Budget, METHODS, ScheduleSpec, SolverSpec};
use dyweight::tape::Memory;
use dyweight::train::{Event, Loss, Targets, Training, TrainingParts};
use dyweight::train::{TrainPlan, TrainSpec};
use dyweight::{Error, Result, Tensor};
use serde_json::json;
use std::sync::Arc;
use std::sync::Mutex;

const NOT_NUMBERS: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
const HUGE: [f64; 4] = [1e30, -1e30, 1e300, -1e300];
/// The entry of a batch that goes wrong: the second of sample 1.
const BAD: usize = 3;
const BAD_SAMPLE: usize = 1;
const STEPS: usize = 5;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    Output,
    Gradient,
}

/// A model with a fault at some calls, which are counted from 0.
struct Faulty {
    inner: Mixture,
    from: usize,
    to: usize,
    what: Where,
    value: f64,
    /// Levels of the calls made so far.
    told: Mutex<Vec<f64>>,
}

impl Faulty {
    fn new(inner: Mixture, call: usize, value: f64) -> Self {
        Self { inner, from: call, to: call + 1, what: Where::Output, value, told: Mutex::new(Vec::new()) }
    }

    fn ever_after(self) -> Self {
        Self { to: usize::MAX, ..self }
    }

    fn in_the(self, what: Where) -> Self {
        Self { what, ..self }
    }

    fn calls_made(&self) -> usize {
        self.told.lock().unwrap().len()
    }

    /// Counts a call; true if it is to go wrong.
    fn call(&self, levels: &Levels) -> bool {
        let mut told = self.told.lock().unwrap();
        told.push(levels.of(0));
        (self.from..self.to).contains(&(told.len() - 1))
    }

    fn spoil(&self, mut tensor: Tensor, spoilt: bool) -> Tensor {
        if spoilt {
            let at = BAD.min(tensor.data().len() - 1);
            tensor.data_mut()[at] = self.value;
        }
        tensor
    }
}

impl Denoiser for Faulty {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        let spoilt = self.call(levels) && self.what == Where::Output;
        Ok(self.spoil(self.inner.predict(x, levels)?, spoilt))
    }

    fn info(&self) -> Info {
        self.inner.info()
    }
}

impl Differentiable for Faulty {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        let spoilt = self.call(levels);
        let (value, pullback) = self.inner.with_pullback(x, levels)?;
        let value = self.spoil(value, spoilt && self.what == Where::Output);
        let spoilt = spoilt && self.what == Where::Gradient;
        let back = move |g: &Tensor| pullback(g).map(|(to_x, to_level)| (self.spoil(to_x, spoilt), to_level));
        Ok((value, Box::new(back)))
    }
}

impl Model for Faulty {
    fn bind<'m>(&'m self, _: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        Ok(Box::new(self))
    }

    fn shape(&self) -> [usize; 3] {
        self.inner.shape()
    }

    fn prediction(&self) -> Prediction {
        Model::prediction(&self.inner)
    }

    fn sigma_range(&self) -> (f64, f64) {
        Model::sigma_range(&self.inner)
    }
}

fn mixture() -> Mixture {
    let component = |x: f64, y: f64, s: f64, w: f64| (vec![x, y], s, w);
    Mixture::new(vec![component(0.8, 0.2, 0.4, 1.0), component(-0.5, -0.7, 0.5, 2.0), component(0.1, 0.9, 0.3, 1.5)])
        .unwrap()
}

fn both_kinds() -> [Mixture; 2] {
    [mixture(), mixture().as_flow()]
}

fn grid(prediction: Prediction) -> Grid {
    let spec = ScheduleSpec::default();
    let range = if prediction == Prediction::Denoised { (0.002, 80.0) } else { (0.0, 1.0) };
    spec.build(prediction).unwrap().grid(STEPS, range).unwrap()
}

/// Every method by name, as a user gets it.
fn solvers(prediction: Prediction, afs: bool) -> Vec<Box<dyn Method>> {
    let make = |name: &str| -> Box<dyn Method> {
        if name == "dyweight" {
            let scales = vec![0.95; STEPS - usize::from(afs)];
            return Box::new(DyWeight::fixed(&Initial::Ab.rows(STEPS, 3), &scales).unwrap());
        }
        SolverSpec::named(name).build(prediction == Prediction::Denoised).unwrap()
    };
    METHODS.iter().map(|m| make(m.name)).collect()
}

fn noise() -> Tensor {
    Rng::Native.latents(&[0, 1, 2], [2, 1, 1]).unwrap()
}

fn run(model: &dyn Denoiser, plan: &Plan<'_>) -> Result<Outcome> {
    sample(model, plan, &noise())
}

/// Runs `check` for every model, method and plan.
fn for_every_plan(mut check: impl FnMut(&Mixture, &Plan<'_>)) {
    for model in both_kinds() {
        let prediction = model.info().prediction;
        let grid = grid(prediction);
        for afs in [false, true] {
            for solver in solvers(prediction, afs) {
                check(&model, &Plan::new(&*solver, &grid).afs(afs).denoise_to_zero(grid.last() > 0.0));
            }
        }
    }
}

/// The step each call belongs to.
fn steps_of_calls(model: &dyn Denoiser, plan: &Plan<'_>) -> Vec<usize> {
    let mut steps = Vec::new();
    let mut note = |state: &dyweight::sample::State<'_>| {
        steps.resize(state.calls, state.index.saturating_sub(1));
        Ok(())
    };
    sample_observed(model, plan, &noise(), &mut note).unwrap();
    steps
}

#[test]
fn an_output_without_numbers_is_reported_where_it_came_from() {
    let mut cases = 0;
    for_every_plan(|model, plan| {
        for (call, step) in steps_of_calls(model, plan).into_iter().enumerate() {
            for value in NOT_NUMBERS {
                let faulty = Faulty::new(model.clone(), call, value);
                let error = run(&faulty, plan).expect_err("no numbers, no samples");
                let text = error.to_string();
                let Error::Diverged { solver, step: found, sigma, tensor, sample, value: seen } = error else {
                    panic!("{text}");
                };
                assert_eq!(solver, plan.solver.label());
                assert_eq!((found, tensor, sample), (step, "the network's output", BAD_SAMPLE), "{text}");
                assert_eq!(sigma, faulty.told.lock().unwrap()[call], "{text}");
                assert!(seen == value || (seen.is_nan() && value.is_nan()), "{text}");
                assert_eq!(faulty.calls_made(), call + 1, "{text}: the run went on");
                assert!(text.contains(&solver) && text.contains(&format!("step {step}")), "{text}");
                cases += 1;
            }
        }
    });
    println!("{cases} faults");
    assert!(cases > 500);
}

#[test]
fn huge_outputs_give_finite_samples_or_an_error() {
    let (mut finite, mut reported) = (0, 0);
    for_every_plan(|model, plan| {
        for call in 0..steps_of_calls(model, plan).len() {
            for value in HUGE {
                match run(&Faulty::new(model.clone(), call, value), plan) {
                    Ok(outcome) => {
                        assert_eq!(outcome.samples.first_not_finite(), None, "{} {call}", plan.solver.label());
                        finite += 1;
                    }
                    Err(Error::Diverged { solver, .. }) => {
                        assert_eq!(solver, plan.solver.label());
                        reported += 1;
                    }
                    Err(other) => panic!("{}: {other}", plan.solver.label()),
                }
            }
        }
    });
    println!("{finite} finite, {reported} reported");
}

/// Batches no model was made for.
fn odd_batches(shape: [usize; 4]) -> Vec<Tensor> {
    let fill = |v: f64| Tensor::new(shape, vec![v; shape.iter().product()]).unwrap();
    let values = [0.0, -0.0, 5e-324, 1e-310, 1e-45, 1e30, -1e30, 3.5e38, 1e160, 1e300, f64::MAX];
    values.into_iter().map(fill).collect()
}

/// Levels no model was trained for.
const LEVELS: [f64; 17] = [
    0.0,
    -0.0,
    5e-324,
    1e-310,
    1e-46,
    1e-45,
    1e-30,
    1e-3,
    1e3,
    1e19,
    3e38,
    1e39,
    1e300,
    f64::MAX,
    -1.0,
    f64::INFINITY,
    f64::NAN,
];

#[test]
fn odd_inputs_and_levels_never_panic() {
    for model in both_kinds() {
        for x in odd_batches([2, 2, 1, 1]) {
            for level in LEVELS {
                let _ = model.predict(&x, &Levels::One(level));
                if let Ok((value, pullback)) = model.with_pullback(&x, &Levels::One(level)) {
                    let _ = pullback(&value);
                }
            }
        }
    }
}

/// Networks of every family and preconditioning, with and without a range of their own.
fn networks() -> Vec<(&'static str, dyweight::models::edm::Edm)> {
    let mut all = edm_common::every_kind();
    all.push(("range", json!({"sigma_min": 0.01, "sigma_max": 5.0})));
    all.push(("VE range", json!({"cls": "VEPrecond", "sigma_min": 0.5, "sigma_max": 0.75})));
    all.into_iter().map(|(name, options)| (name, edm_common::random(options))).collect()
}

#[test]
fn networks_refuse_impossible_levels_by_name() {
    for (name, network) in networks() {
        let bound = network.bind(&Condition::default()).unwrap();
        let [c, h, w] = network.shape();
        let x = edm_common::batch(3, [1, c, h, w]);
        for level in LEVELS {
            let possible = level as f32 > 0.0 && (level as f32).is_finite();
            match bound.predict(&x, &Levels::One(level)) {
                Err(Error::BadValue { name: "sigma", .. }) if !possible => {}
                Ok(_) if possible => {}
                other => panic!("{name} at {level}: {:?}", other.map(|t| t.shape())),
            }
            if let Ok((value, pullback)) = bound.with_pullback(&x, &Levels::One(level)) {
                pullback(&value).unwrap();
            }
        }
    }
}

#[test]
fn networks_on_grids_far_outside_their_range() {
    let (mut finite, mut reported) = (0, 0);
    for (name, network) in networks() {
        let bound = network.bind(&Condition::default()).unwrap();
        let [c, h, w] = network.shape();
        for (high, low) in [(80.0, 0.002), (1e6, 1e-6), (1e20, 1e-20), (1e38, 1e-38), (1e300, 1e-300)] {
            let grid = ScheduleSpec::default().build(Prediction::Denoised).unwrap().grid(3, (low, high)).unwrap();
            for batch in odd_batches([1, c, h, w]) {
                for solver in ["euler", "dpmpp", "unipc", "heun"] {
                    let solver = SolverSpec::named(solver).build(true).unwrap();
                    let plan = Plan::new(&*solver, &grid);
                    match sample(&*bound, &plan, &batch) {
                        Ok(outcome) => {
                            assert_eq!(outcome.samples.first_not_finite(), None, "{name}");
                            finite += 1;
                        }
                        Err(Error::Diverged { .. } | Error::BadValue { name: "sigma", .. }) => reported += 1,
                        Err(other) => panic!("{name}: {other}"),
                    }
                }
            }
        }
    }
    println!("{finite} finite, {reported} reported");
}

fn train_spec(memory: Memory, plain: bool) -> TrainSpec {
    TrainSpec {
        iters: Some(6),
        batch: Some(4),
        micro_batch: Some(4),
        validation: Some(4).filter(|_| !plain),
        validate_every: Some(2).filter(|_| !plain),
        plain: Some(plain),
        memory: Some(memory),
        teacher_nfe: Some(8),
        ..TrainSpec::default()
    }
}

/// Trains `student` towards a teacher on the sound model; every iteration's end is shown.
fn train(student: &Arc<Faulty>, spec: &TrainSpec, show: &mut dyn FnMut(&Training, Option<Event>)) -> Result<Vec<f64>> {
    let model = Arc::new(student.inner.clone());
    let plan: TrainPlan =
        dyweight_train::plan::plan(spec, &**student, &ScheduleSpec::default(), Budget::Nfe(3), Loss::L2)?;
    let targets = |purpose| -> Result<Arc<Targets>> {
        let teacher = dyweight_train::plan::teacher(spec, &*model, &plan)?;
        let pairs = plan.inputs_for(purpose);
        Ok(Arc::new(Targets::new(model.clone(), pairs, teacher, plan.supervision, 4)))
    };
    let (training, validation) = (targets("training")?, targets("validation")?);
    let mut run = Training::new(TrainingParts {
        model: student.clone(),
        student: plan.student,
        learnable: plan.learnable,
        start: plan.start,
        training,
        validation,
        recipe: plan.recipe,
    })?;
    while !run.is_finished() {
        let outcome = run.advance();
        assert!(run.params.iter().all(|v| v.is_finite()), "numbers {:?}", run.params);
        show(&run, outcome?.validation.map(|v| v.event));
    }
    Ok(run.result().to_vec())
}

/// Calls of an undisturbed run.
fn calls_of(spec: &TrainSpec, model: Mixture) -> usize {
    let sound = Arc::new(Faulty::new(model, usize::MAX - 1, 0.0));
    train(&sound, spec, &mut |_, _| {}).unwrap();
    sound.calls_made()
}

#[test]
fn training_turns_back_and_ends_with_finite_parameters() {
    let (mut turned, mut refused) = (0, 0);
    for model in both_kinds() {
        for memory in [Memory::Keep, Memory::Recompute] {
            let spec = train_spec(memory, false);
            for call in 0..calls_of(&spec, model.clone()) {
                for (what, value) in [
                    (Where::Output, f64::NAN),
                    (Where::Output, f64::INFINITY),
                    (Where::Output, 1e300),
                    (Where::Gradient, f64::NAN),
                ] {
                    for forever in [false, true] {
                        let faulty = Faulty::new(model.clone(), call, value).in_the(what);
                        let faulty = Arc::new(if forever { faulty.ever_after() } else { faulty });
                        let mut events = Vec::new();
                        match train(&faulty, &spec, &mut |_, event| events.push(event)) {
                            Ok(values) => {
                                assert!(values.iter().all(|v| v.is_finite()), "{values:?}");
                                assert_eq!(events.len(), 6, "the run is as long as asked for");
                                turned += events.iter().filter(|e| **e == Some(Event::RolledBack)).count();
                            }
                            // The start itself cannot be judged.
                            Err(Error::Diverged { solver, .. }) => {
                                assert!(events.is_empty() && solver.starts_with("dyweight"), "{solver}");
                                refused += 1;
                            }
                            Err(Error::TrainingLost { what, .. }) => {
                                assert!(events.is_empty() && what.contains("validation loss"), "{what}");
                                refused += 1;
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            }
        }
    }
    println!("{turned} times turned back, {refused} starts refused");
    assert!(turned > 100 && refused > 10);
}

#[test]
fn a_plain_run_reports_the_fault() {
    let (mut reported, mut harmless) = (0, 0);
    for model in both_kinds() {
        for memory in [Memory::Keep, Memory::Recompute] {
            let spec = train_spec(memory, true);
            for call in 0..calls_of(&spec, model.clone()) {
                for (what, value) in [(Where::Output, f64::NAN), (Where::Output, 1e300), (Where::Gradient, f64::NAN)] {
                    let faulty = Arc::new(Faulty::new(model.clone(), call, value).in_the(what));
                    match train(&faulty, &spec, &mut |_, _| {}) {
                        // A second run for the gradient's sake gives no output that is used, a first one no gradient.
                        Ok(values) => {
                            assert!(values.iter().all(|v| v.is_finite()));
                            harmless += 1;
                        }
                        Err(error @ (Error::Diverged { .. } | Error::TrainingLost { .. })) => {
                            assert!(!error.is_users(), "{error}");
                            reported += 1;
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    }
    println!("{reported} reported, {harmless} harmless");
    assert!(reported > 50);
}

/// A run that only turns back gets no better: patience ends it like any other that does not.
#[test]
fn patience_ends_a_run_that_only_turns_back() {
    let spec = TrainSpec { iters: Some(200), patience: Some(3), ..train_spec(Memory::Recompute, false) };
    let [model, _] = both_kinds();
    let sound = calls_of(&TrainSpec { iters: Some(1), ..spec.clone() }, model.clone());
    let faulty = Arc::new(Faulty::new(model, sound, f64::NAN).in_the(Where::Output).ever_after());
    let mut events = Vec::new();
    train(&faulty, &spec, &mut |_, event| events.push(event)).unwrap();
    assert!(events.len() < 20, "{} iterations", events.len());
    assert_eq!(events.last(), Some(&Some(Event::RolledBack)));
}
