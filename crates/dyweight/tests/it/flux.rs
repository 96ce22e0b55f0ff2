//! FLUX in small: released coefficients run as their authors' formula says, and the released way of training makes a
//! solver that beats the handcrafted ones at equal calls.
#![cfg(unix)]

use dyweight::denoiser::{Condition, Levels, Model};
use dyweight::learned::Learned;
use dyweight::models::ModelSpec;
use dyweight::noise::Rng;
use dyweight::sample::{Plan, sample, sample_observed};
use dyweight::schedule::Schedule;
use dyweight::spec::budget::Setting;
use dyweight::spec::{Budget, ScheduleSpec, SolverSpec};
use dyweight::train::{Optimiser, TrainConfig, TrainSpec};
use dyweight::{Result, Tensor};
use std::path::PathBuf;
use std::sync::Arc;

fn train(
    model: Arc<dyn Model>,
    budget: Budget,
    spec: &TrainSpec,
) -> dyweight::Result<dyweight::solver_file::SolverFile> {
    Ok(TrainConfig::of(&model, budget, spec)?.train(&mut |_, _| Ok(()))?.file)
}

/// The tiny networks of `dyweight-models`, together in one folder.
fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("dyweight-tiny-flux-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let data = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../dyweight-models/tests/data"));
    let link = |from: &str, part: &str| std::os::unix::fs::symlink(data.join(from).join(part), dir.join(part)).unwrap();
    ["transformer", "text_encoder_2", "tokenizer_2", "scheduler"].iter().for_each(|part| link("flux", part));
    ["text_encoder", "tokenizer", "vae"].iter().for_each(|part| link("latent", part));
    dir
}

fn open(dir: &std::path::Path, size: usize) -> Result<Arc<dyn Model>> {
    let (height, width, text_tokens) = (Some(size), Some(size), Some(7));
    Ok(ModelSpec { height, width, text_tokens, ..ModelSpec::named(dir.to_str().unwrap()) }.build()?.model)
}

/// x ← x + (σ_{k+1} − σ̃)·Σθ·v,  σ̃ ← σ̃ + (σ_{k+1} − σ̃)·Σθ,  the network told s·σ̃; the grid's shift follows the
/// image size.
#[test]
fn released_coefficients_give_the_states_of_the_official_formula() -> Result<()> {
    let dir = folder("official");
    for (size, tokens) in [(16, 16.0), (24, 36.0)] {
        let model = open(&dir, size)?;
        let condition =
            Condition { contexts: vec![model.context_of("a cat")?], guidance: Some(3.5), ..Condition::default() };
        let denoiser = model.denoiser(&condition)?;
        let noise = Rng::Native.latents(&[7], model.shape())?;
        for (preset, steps) in [("preset:flux-nfe3", 3), ("preset:flux-nfe5", 5), ("preset:flux-nfe7", 7)] {
            let file = Learned::open(preset)?.file.expect("a preset is a file").on(&*model)?;
            let built = file.build()?;
            let plan = Plan { solver: &*built.solver, times: built.times, afs: false, denoise_to_zero: false };
            let mut states: Vec<Tensor> = Vec::new();
            let outcome = sample_observed(&*denoiser, &plan, &noise, &mut |state| {
                states.push(state.x.tensor().clone());
                Ok(())
            })?;
            assert_eq!((outcome.nfe, states.len()), (steps, steps + 1));

            let shift = (0.5 + 0.65 * (tokens - 256.0) / 3840.0f64).exp();
            let level = |k: usize| match steps - k {
                0 => 0.0,
                left => shift / (shift + steps as f64 / left as f64 - 1.0),
            };
            let weights = file.body.weights().expect("DyWeight's");
            let (mut x, mut time, mut slopes) = (noise.clone(), level(0), Vec::new());
            for (k, row) in weights.weights.iter().enumerate() {
                slopes.push(denoiser.predict(&x, &Levels::One(weights.time_scale[k] * time))?);
                let step = level(k + 1) - time;
                for (w, slope) in row.iter().zip(&slopes[slopes.len() - row.len()..]) {
                    x.data_mut().iter_mut().zip(slope.data()).for_each(|(x, v)| *x += step * w * v);
                }
                time += step * row.iter().sum::<f64>();
                let far = x.data().iter().zip(states[k + 1].data()).fold(0f64, |m, (a, b)| m.max((a - b).abs()));
                assert!(far < 1e-6, "{preset} at {size} pixels, step {k}: {far:e}");
            }
        }
    }
    std::fs::remove_dir_all(dir).unwrap();
    Ok(())
}

/// Squared distance to the teacher's samples, of seeds that were not trained on.
struct Truth {
    noise: Tensor,
    exact: Tensor,
    condition: Condition,
}

impl Truth {
    fn of(&self, model: &dyn Model, plan: &Plan<'_>) -> Result<f64> {
        let found = sample(&*model.denoiser(&self.condition)?, plan, &self.noise)?.samples;
        let square: f64 = found.data().iter().zip(self.exact.data()).map(|(a, b)| (a - b).powi(2)).sum();
        Ok(square / found.data().len() as f64)
    }
}

/// Released: a start from Euler, a window of two, bounded scales, AdamW with a decay of 0.05, 28 Euler steps as the
/// teacher. The rate is twenty times the released one: few iterations on a small network; with the released one it does
/// not get past UniPC there.
#[test]
fn the_released_recipe_beats_handcrafted_solvers() -> Result<()> {
    const CALLS: usize = 5;
    let dir = folder("training");
    let model = open(&dir, 16)?;
    let prompts = dir.join("prompts.txt");
    std::fs::write(&prompts, "a photo of the cat\nthe dog\ncats in a photo\n").unwrap();
    let mut spec = TrainSpec {
        order: Some(2),
        init: Some("euler".into()),
        optimiser: Some(Optimiser::AdamW),
        weight_decay: Some(0.05),
        lr: Some(2e-2),
        warm_up: Some(0.0),
        teacher: Some("euler".into()),
        teacher_steps: Some(28),
        iters: Some(200),
        batch: Some(4),
        validation: Some(16),
        prompts: Some(prompts),
        guidance: Some(3.5),
        ..TrainSpec::default()
    };
    spec.dyweight.scale = Some(dyweight::train::ScaleMode::Bounded);
    let file = train(model.clone(), Budget::Nfe(CALLS), &spec)?;
    let Some(Schedule::Flow { shift }) = model.schedule() else { panic!("a flow has a shift") };
    assert_eq!(file.schedule, Schedule::Flow { shift });

    let seeds: Vec<u64> = (7_000_000..7_000_016).collect();
    let noise = Rng::Native.latents(&seeds, model.shape())?;
    let contexts = vec![model.context_of("a dog in the photo")?; seeds.len()];
    let condition = Condition { contexts, guidance: Some(3.5), ..Condition::default() };
    let fine = Schedule::Flow { shift }.grid(28, (0.0, 1.0))?;
    let euler = SolverSpec::named("euler").build(false)?;
    let teacher = sample(&*model.denoiser(&condition)?, &Plan::new(&*euler, &fine), &noise)?;
    let truth = Truth { noise, exact: teacher.samples, condition };
    let built = file.build()?;
    let plan = Plan { solver: &*built.solver, times: built.times, afs: false, denoise_to_zero: false };
    let learned = truth.of(&*model, &plan)?;
    for (name, order) in
        [("euler", None), ("dpmpp", Some(2)), ("dpmpp", Some(3)), ("unipc", Some(2)), ("unipc", Some(3))]
    {
        let solver = SolverSpec { order, ..SolverSpec::named(name) }.build(model.is_bounded())?;
        let schedule = ScheduleSpec::default().on(&*model)?;
        let (prediction, range) = (model.prediction(), model.sigma_range());
        let setting = Setting {
            solver: &*solver,
            schedule: &schedule,
            range,
            afs: false,
            denoise_to_zero: false,
            prediction,
            calls: 1,
        };
        let grid = setting.grid(Budget::Nfe(CALLS))?;
        let error = truth.of(&*model, &Plan::new(&*solver, &grid))?;
        println!("{name} {order:?}: {:.2} times the learned solver's error", error / learned);
        assert!(error > 1.1 * learned, "{name} {order:?}: {error:.3e} against {learned:.3e}");
    }
    std::fs::remove_dir_all(dir).unwrap();
    Ok(())
}
