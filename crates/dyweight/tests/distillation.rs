//! What training achieves: the learned solver against the handcrafted ones on two mixtures, and against its own
//! ablations.
//!
//! A slow campaign: `DYWEIGHT_SLOW=1 cargo test --release --test distillation -- --nocapture`. Its figures are in
//! `docs/training.md`. Without the variable a short run on one budget is checked.

use dyweight::Tensor;
use dyweight::denoiser::Model;
use dyweight::files::TensorFile;
use dyweight::mixture::Mixture;
use dyweight::noise::{Rng, Stream};
use dyweight::sample::{Plan, sample};
use dyweight::solver::{Heun, Method};
use dyweight::spec::budget::Setting;
use dyweight::spec::{Budget, ScheduleSpec, SolverSpec};
use dyweight::train::TrainConfig;
use dyweight::train::TrainSpec;
use std::sync::Arc;

fn train(
    model: Arc<dyn Model>,
    budget: Budget,
    spec: &TrainSpec,
) -> dyweight::Result<dyweight::solver_file::SolverFile> {
    Ok(TrainConfig::of(&model, budget, spec)?.train(&mut |_, _| Ok(()))?.file)
}

fn slow() -> bool {
    std::env::var_os("DYWEIGHT_SLOW").is_some()
}

/// The mixture of the stored reference trajectories: 6 components in 48 dimensions.
fn stored_mixture() -> Mixture {
    let bytes = include_bytes!("data/mixture48.safetensors").to_vec();
    let file = TensorFile::parse(bytes.into()).unwrap();
    let list = |name: &str| file.tensor(name).unwrap().to_f64();
    let (means, stds, weights) = (list("model.mu"), list("model.std"), list("model.weight"));
    let rows = means.chunks(48).zip(stds).zip(weights).map(|((m, s), w)| (m.to_vec(), s, w));
    Mixture::new(rows.collect()).unwrap().shaped([3, 4, 4]).unwrap()
}

/// 20 components in 64 dimensions.
fn wide_mixture() -> Mixture {
    let mut z = Stream::labelled(1, "wide mixture");
    let component = |z: &mut Stream| {
        let mean: Vec<f64> = (0..64).map(|_| 2.0 * z.uniform() - 1.0).collect();
        (mean, 0.05 + 0.2 * z.uniform(), 0.2 + z.uniform())
    };
    Mixture::new((0..20).map(|_| component(&mut z)).collect()).unwrap().shaped([1, 8, 8]).unwrap()
}

fn run(model: &dyn Model, plan: &Plan<'_>, noise: &Tensor) -> Tensor {
    let denoiser = model.bind(&Default::default()).unwrap();
    sample(&*denoiser, plan, noise).unwrap().samples
}

/// Fresh noise and what a 200-step Heun run makes of it.
struct Truth {
    noise: Tensor,
    exact: Tensor,
}

impl Truth {
    fn of(model: &dyn Model, samples: u64) -> Self {
        let seeds: Vec<u64> = (1_000_000..1_000_000 + samples).collect();
        let noise = Rng::Native.latents(&seeds, model.shape()).unwrap();
        let rule = ScheduleSpec::default().build(model.prediction()).unwrap();
        let grid = rule.grid(200, model.sigma_range()).unwrap();
        let exact = run(model, &Plan::new(&Heun, &grid), &noise);
        Self { noise, exact }
    }

    fn error(&self, model: &dyn Model, plan: &Plan<'_>) -> f64 {
        let got = run(model, plan, &self.noise);
        let sum: f64 = got.data().iter().zip(self.exact.data()).map(|(a, b)| (a - b).powi(2)).sum();
        sum / got.data().len() as f64
    }

    fn handcrafted(&self, model: &dyn Model, name: &str, order: usize, afs: bool, nfe: usize) -> f64 {
        let spec = SolverSpec { order: Some(order), ..SolverSpec::named(name) };
        let solver: Box<dyn Method> = spec.build(model.is_bounded()).unwrap();
        let schedule = ScheduleSpec::default().build(model.prediction()).unwrap();
        let setting = Setting {
            solver: &*solver,
            schedule: &schedule,
            range: model.sigma_range(),
            afs,
            denoise_to_zero: false,
            prediction: model.prediction(),
            calls: 1,
        };
        let grid = setting.grid(Budget::Nfe(nfe)).unwrap();
        self.error(model, &Plan::new(&*solver, &grid).afs(afs))
    }
}

fn learned_error(model: &Mixture, truth: &Truth, spec: &TrainSpec, nfe: usize) -> f64 {
    let file = train(Arc::new(model.clone()), Budget::Nfe(nfe), spec).unwrap();
    let solver = file.body.weights().unwrap().solver().unwrap();
    truth.error(model, &Plan::new(&solver, &file.grid().unwrap()).afs(file.afs))
}

#[test]
fn default_training_beats_the_handcrafted_solvers() {
    if !slow() {
        return short_training_beats_them_too();
    }
    for (name, model) in [("48-d", stored_mixture()), ("64-d", wide_mixture())] {
        let truth = Truth::of(&model, 2000);
        for (nfe, factor) in [(3, 8.0), (5, 5.0), (7, 2.5), (9, 4.0)] {
            compare(name, &model, &truth, &TrainSpec::default(), (nfe, factor));
            spread(name, &model, &truth, nfe);
        }
    }
}

/// Seeds of the training pairs that a claim rests on.
const TRAININGS: u64 = 5;

/// How far other training pairs change the result: factors to the best handcrafted solver, each training by itself.
fn spread(name: &str, model: &Mixture, truth: &Truth, nfe: usize) {
    let best = HANDCRAFTED
        .iter()
        .flat_map(|(solver, order)| [true, false].map(|afs| truth.handcrafted(model, solver, *order, afs, nfe)));
    let best = best.fold(f64::INFINITY, f64::min);
    let factor =
        |seed| best / learned_error(model, truth, &TrainSpec { seed: Some(seed), ..TrainSpec::default() }, nfe);
    let factors: Vec<f64> = (0..TRAININGS).map(factor).collect();
    let (n, mean) = (factors.len() as f64, factors.iter().sum::<f64>() / factors.len() as f64);
    let deviation = (factors.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    println!(
        "{name} {nfe} calls: factor {mean:.1} ± {:.1} over {TRAININGS} trainings {factors:.1?}",
        deviation / n.sqrt()
    );
    assert!(factors.iter().all(|f| *f > 2.0), "every training beats every handcrafted solver: {factors:?}");
}

/// Methods and orders that are compared with.
const HANDCRAFTED: [(&str, usize); 6] =
    [("ipndm", 3), ("ipndm", 4), ("dpmpp", 2), ("dpmpp", 3), ("unipc", 2), ("unipc", 3)];

/// Seconds instead of minutes: fewer pairs, fewer seeds, a smaller claim.
fn short_training_beats_them_too() {
    let model = stored_mixture();
    let spec = TrainSpec { iters: Some(400), batch: Some(16), validation: Some(128), ..TrainSpec::default() };
    compare("48-d", &model, &Truth::of(&model, 500), &spec, (3, 3.0));
}

fn compare(name: &str, model: &Mixture, truth: &Truth, spec: &TrainSpec, (nfe, factor): (usize, f64)) {
    let learned = learned_error(model, truth, spec, nfe);
    let mut line = format!("{name} {nfe} calls: dyweight {learned:.3e}");
    for (solver, order) in HANDCRAFTED {
        for afs in [true, false] {
            let error = truth.handcrafted(model, solver, order, afs, nfe);
            line += &format!(" | {solver}{order}{} {:.1}x", if afs { "+afs" } else { "" }, error / learned);
            let case = format!("{name}, {nfe} calls, {solver}({order}), afs {afs}");
            assert!(error > factor * learned, "{case}: {error:.3e} against {learned:.3e}");
        }
    }
    println!("{line}");
}

#[test]
fn the_full_method_beats_its_ablations() {
    if !slow() {
        return dyweight_testing::skipped("DYWEIGHT_SLOW is not set");
    }
    for (name, model) in [("48-d", stored_mixture()), ("64-d", wide_mixture())] {
        let truth = Truth::of(&model, 2000);
        for nfe in [3, 5] {
            let full = learned_error(&model, &truth, &TrainSpec::default(), nfe);
            let (mut no_shift, mut no_scale) = (TrainSpec::default(), TrainSpec::default());
            no_shift.dyweight.no_time_shift = Some(true);
            no_scale.dyweight.no_time_scale = Some(true);
            let no_shift = learned_error(&model, &truth, &no_shift, nfe);
            let no_scale = learned_error(&model, &truth, &no_scale, nfe);
            println!("{name} {nfe} calls: full {full:.3e}, no shift {no_shift:.3e}, no scale {no_scale:.3e}");
            assert!(full < no_shift && full < no_scale);
        }
    }
}
