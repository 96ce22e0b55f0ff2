//! Numbers of the reference implementation (PyTorch, f64), reproduced through the spec layer: solver trajectories with
//! their counted calls, training traces, and PyTorch's noise bit for bit.
//!
//! `data/subset_golden.py` cut the stored files out of the full reference runs.

use dyweight::denoiser::{Model, Prediction};
use dyweight::files::TensorFile;
use dyweight::learned::Learned;
use dyweight::mixture::Mixture;
use dyweight::noise::{Rng, TorchGenerator};
use dyweight::sample::Noise;
use dyweight::sample::{Plan, sample_observed};
use dyweight::solver::{LowerOrderFinal, Method, Predict, Variant};
use dyweight::spec::budget::Setting;
use dyweight::spec::{Budget, ScheduleSpec, SolverSpec};
use dyweight::train::TrainSpec;
use dyweight::train::{Loss, Targets, Training, TrainingParts};
use dyweight::{Result, Tensor};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

fn stored(bytes: &[u8]) -> TensorFile {
    TensorFile::parse(bytes.to_vec().into()).unwrap()
}

fn list(file: &TensorFile, name: &str) -> Vec<f64> {
    file.tensor(name).unwrap().to_f64()
}

fn facts(file: &TensorFile, name: &str) -> Value {
    serde_json::from_str(&file.metadata[name]).unwrap()
}

/// The 6 components in 48 dimensions that all reference runs use.
fn mixture(file: &TensorFile) -> Mixture {
    let (means, stds, weights) = (list(file, "model.mu"), list(file, "model.std"), list(file, "model.weight"));
    let rows = means.chunks(48).zip(stds).zip(weights).map(|((m, s), w)| (m.to_vec(), s, w));
    Mixture::new(rows.collect()).unwrap().shaped([3, 4, 4]).unwrap()
}

/// Largest difference over the largest reference entry.
fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, |m: f64, v| m.max(v.abs()));
    let difference = largest(&mut found.iter().zip(expected).map(|(a, b)| a - b));
    difference / largest(&mut expected.iter().copied())
}

fn schedule(case: &Value) -> ScheduleSpec {
    let name = match case["schedule_type"].as_str().unwrap() {
        "polynomial" => "karras",
        "time_uniform" => "time-uniform",
        other => other,
    };
    ScheduleSpec { schedule: Some(name.into()), rho: case["schedule_rho"].as_f64(), ..ScheduleSpec::default() }
}

fn steps(points: &Value) -> usize {
    points.as_u64().unwrap() as usize - 1
}

fn handcrafted(case: &Value) -> Result<Box<dyn Method>> {
    let name = if case["solver"] == "dpm" { "dpm2" } else { case["solver"].as_str().unwrap() };
    SolverSpec {
        order: case["max_order"].as_u64().map(|o| o as usize),
        predict: case["predict_x0"].as_bool().map(|x0| if x0 { Predict::Data } else { Predict::Noise }),
        lower_order_final: case["lower_order_final"].as_bool().map(LowerOrderFinal::from),
        variant: case["variant"].as_str().map(|v| if v == "bh1" { Variant::Bh1 } else { Variant::Bh2 }),
        r: case["r"].as_f64(),
        ..SolverSpec::named(name)
    }
    .build(true)
}

/// The coefficients of a case, through a file as a user gives them.
fn learned(file: &TensorFile, id: u64) -> Result<Box<dyn Method>> {
    let mut weights = TensorFile::default();
    for name in ["weights", "time_scale"] {
        if let Some(tensor) = file.tensors.get(&format!("{name}.{id}")) {
            weights.tensors.insert(name.into(), tensor.clone());
        }
    }
    let path = std::env::temp_dir().join(format!("dyweight-golden-{}-{id}.safetensors", std::process::id()));
    weights.write(&path)?;
    let solver = Learned::open(path.to_str().unwrap()).and_then(|l| l.body.weights().unwrap().solver());
    std::fs::remove_file(&path).unwrap();
    Ok(Box::new(solver?))
}

#[test]
fn trajectories_and_calls_of_the_reference() -> Result<()> {
    let file = stored(include_bytes!("../data/golden_trajectories.safetensors"));
    let model = mixture(&file);
    let latents = Tensor::new([2, 3, 4, 4], list(&file, "latents"))?;
    let mut solvers = BTreeSet::new();
    for case in facts(&file, "cases").as_array().unwrap() {
        let id = case["id"].as_u64().unwrap();
        let solver = if case["solver"] == "dyweight" { learned(&file, id)? } else { handcrafted(case)? };
        let rule = schedule(case).build(Prediction::Denoised)?;
        let (afs, denoise) = (case["afs"] == true, case["denoise_to_zero"] == true);
        let setting = Setting {
            solver: &*solver,
            schedule: &rule,
            range: (0.002, 80.0),
            afs,
            denoise_to_zero: denoise,
            prediction: Prediction::Denoised,
            calls: 1,
        };
        let grid = setting.grid(Budget::Steps(steps(&case["num_steps"])))?;
        let plan = Plan::new(&*solver, &grid).afs(afs).denoise_to_zero(denoise);
        let mut states = Vec::new();
        let outcome = sample_observed(&model, &plan, &latents, &mut |state| {
            states.extend_from_slice(state.x.tensor().data());
            Ok(())
        })?;
        let error = relative_error(&states, &list(&file, &format!("traj.{id}")));
        assert!(error < 1e-9, "case {id}: {error:e} in {case}");
        assert_eq!(outcome.nfe as u64, case["nfe_counted"].as_u64().unwrap(), "case {id}");
        assert_eq!(setting.count(&grid)?, outcome.nfe, "case {id}");
        solvers.insert(case["solver"].as_str().unwrap().to_string());
    }
    assert_eq!(solvers.len(), 7, "{solvers:?}");
    Ok(())
}

#[test]
fn training_traces_of_the_reference() -> Result<()> {
    let file = stored(include_bytes!("../data/golden_training.safetensors"));
    let model: Arc<dyn Model> = Arc::new(mixture(&file));
    for (name, run) in facts(&file, "runs").as_object().unwrap() {
        trace(&model, &file, name, run)?;
    }
    Ok(())
}

/// The first iterations of a run; its rate is that of the whole run.
fn trace(model: &Arc<dyn Model>, file: &TensorFile, name: &str, run: &Value) -> Result<()> {
    let number = |key: &str| run[key].as_u64().unwrap() as usize;
    let spec = TrainSpec {
        afs: run["afs"].as_bool(),
        order: Some(number("window")),
        init: run["init"].as_str().map(String::from),
        teacher: run["teacher"].as_str().map(String::from),
        teacher_steps: Some(steps(&run["teacher_steps"])),
        iters: Some(number("iters")),
        batch: Some(number("batch")),
        lr: run["lr"].as_f64(),
        plain: Some(true),
        ..TrainSpec::default()
    };
    let plan =
        dyweight_train::plan::plan(&spec, &**model, &schedule(run), Budget::Steps(steps(&run["num_steps"])), Loss::L2)?;
    let of = |what: &str| list(file, &format!("{name}.{what}"));
    let (noise, losses, rates) = (of("noise"), of("loss"), of("lr"));
    let mut pairs = plan.inputs.clone();
    pairs.noise = Noise::Given(Tensor::new([noise.len() / 48, 3, 4, 4], noise)?);
    let teacher = dyweight_train::plan::teacher(&spec, &**model, &plan)?;
    let targets = Arc::new(Targets::new(model.clone(), pairs, teacher, plan.supervision, plan.recipe.micro_batch));
    let mut training = Training::new(TrainingParts {
        model: model.clone(),
        student: plan.student,
        learnable: plan.learnable,
        start: plan.start,
        training: targets.clone(),
        validation: targets,
        recipe: plan.recipe,
    })?;
    let (mut weights, mut scales) = (Vec::new(), Vec::new());
    let mut note = |training: &Training| {
        let shown = training.learnable().shown(&training.params);
        weights.extend(shown[0].values.clone());
        scales.extend(shown[1].values.clone());
    };
    note(&training);
    for i in 0..losses.len() {
        let iteration = training.advance()?;
        note(&training);
        assert!((iteration.loss - losses[i]).abs() < 1e-6 * losses[i], "{name}, {i}: {} {}", iteration.loss, losses[i]);
        assert!((iteration.rate - rates[i]).abs() < 1e-14, "{name}, {i}");
        if i == 0 {
            let shown = training.learnable().shown_gradient(&iteration.gradient);
            assert!(relative_error(&shown[0].values, &of("grad0.weights")) < 1e-7, "{name}");
            assert!(relative_error(&shown[1].values, &of("grad0.time_scale")) < 1e-7, "{name}");
        }
    }
    assert!(relative_error(&weights, &of("weights")) < 1e-6, "{name}");
    assert!(relative_error(&scales, &of("time_scale")) < 1e-6, "{name}");
    Ok(())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn torch_noise_bit_for_bit() {
    let file = stored(include_bytes!("../data/torch_noise.safetensors"));
    let mut seen = 0;
    for (name, tensor) in &file.tensors {
        let Some((seed, _)) = name.strip_prefix("seed").and_then(|n| n.split_once('.')) else { continue };
        let seed: u64 = seed.parse().unwrap();
        let expected = tensor.to_f32();
        assert_eq!(bits(&TorchGenerator::new(seed).normals(expected.len())), bits(&expected), "{name}");
        let mut shape = [1; 3];
        shape[3 - tensor.shape().len()..].copy_from_slice(tensor.shape());
        let latents = Rng::Torch.latents(&[seed], shape).unwrap();
        assert_eq!(latents.data(), tensor.to_f64(), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 32);
}

/// Noise, labels and noise again from one generator: what a call leaves behind decides the next.
#[test]
fn torch_sequences_bit_for_bit() {
    let file = stored(include_bytes!("../data/torch_noise.safetensors"));
    for seed in [0, 1] {
        let tensor = |part: &str| file.tensor(&format!("seq{seed}.{part}")).unwrap();
        let mut generator = TorchGenerator::new(seed);
        let normals = |generator: &mut TorchGenerator, part: &str| {
            let expected = tensor(part).to_f32();
            assert_eq!(bits(&generator.normals(expected.len())), bits(&expected), "seq{seed}.{part}");
        };
        normals(&mut generator, "a");
        let labels: Vec<f64> = (0..5).map(|_| f64::from(generator.below(10))).collect();
        assert_eq!(labels, tensor("label").to_f64(), "seq{seed}.label");
        normals(&mut generator, "b");
        normals(&mut generator, "c");
        let shape = [3, 8, 8];
        assert_eq!(Rng::Torch.class(seed, shape, 10) as f64, labels[0], "a label is drawn after the noise");
    }
}
