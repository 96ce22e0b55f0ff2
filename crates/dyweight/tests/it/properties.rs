//! What must hold whatever the numbers: grids, splits of work, files, windows, memory policies.

use dyweight::denoiser::{Denoiser, Levels, Model, Prediction};
use dyweight::learned::Frame;
use dyweight::mixture::Mixture;
use dyweight::noise::{Rng, Stream};
use dyweight::sample::{Plan, sample};
use dyweight::schedule::{BetaTable, Grid, Schedule, Shift};
use dyweight::solver::{DyWeight, Initial, Method, Rows, Weights};
use dyweight::solver_file::SolverFile;
use dyweight::solver_file::{MethodParams, ModelIdentity};
use dyweight::spec::{Budget, METHODS, SolverSpec};
use dyweight::tape::Memory;
use dyweight::train::TrainSpec;
use dyweight::train::{Learnable, LearnedWeights, Loss, ScaleMode, TrainConfig};
use dyweight::{Result, Tensor};
use std::sync::Arc;

/// Uniform in a range.
fn between(z: &mut Stream, low: f64, high: f64) -> f64 {
    low + (high - low) * z.uniform()
}

fn below(z: &mut Stream, n: usize) -> usize {
    (z.bits() % n as u64) as usize
}

fn model() -> Mixture {
    let mut z = Stream::new(11);
    Mixture::new((0..4).map(|k| (z.normals(6), 0.25 + 0.1 * k as f64, 1.0 + k as f64)).collect())
        .and_then(|m| m.shaped([1, 2, 3]))
        .unwrap()
}

fn with_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

fn run(model: &dyn Denoiser, plan: &Plan<'_>, noise: &Tensor) -> Tensor {
    sample(model, plan, noise).unwrap().samples
}

/// Rows of random weights whose sums stay near 1, as good solvers' do.
fn random_rows(z: &mut Stream, steps: usize, window: usize) -> Rows {
    let near = |z: &mut Stream, row: &Vec<f64>| row.iter().map(|w| w + 0.03 * z.normal()).collect();
    Initial::Ab.rows(steps, window).iter().map(|row| near(z, row)).collect()
}

#[test]
fn grids_fall_strictly_between_exact_ends() {
    let mut z = Stream::labelled(0, "grids");
    for _ in 0..400 {
        let steps = 1 + below(&mut z, 200);
        let low = 10f64.powf(between(&mut z, -3.0, -0.5));
        let high = low * 10f64.powf(between(&mut z, 0.3, 4.5));
        let rho = between(&mut z, 1.0, 12.0);
        let table = if z.uniform() < 0.5 { BetaTable::stable_diffusion() } else { BetaTable::lsun_ldm() };
        let range = table.range();
        let shift = Shift::fixed(between(&mut z, 0.2, 12.0)).unwrap();
        for (rule, (low, high)) in [
            (Schedule::Karras { rho }, (low, high)),
            (Schedule::LogSnr, (low, high)),
            // The fitted process rises only if its lowest level is small.
            (Schedule::TimeUniform { rho: rho.min(3.0) }, (low.min(0.02), high.max(1.0))),
            (Schedule::Discrete { table, rho: rho.min(3.0) }, range),
            (Schedule::Flow { shift }, (0.0, 1.0)),
        ] {
            let grid = rule.grid(steps, (low, high)).unwrap_or_else(|e| panic!("{rule:?}, {steps} steps: {e}"));
            assert_eq!((grid.steps(), grid.first(), grid.last()), (steps, high, low), "{rule:?}");
            assert!(grid.sigmas().windows(2).all(|w| w[0] > w[1]), "{rule:?}");
        }
    }
}

/// All handcrafted solvers and a learned one.
fn solvers(steps: usize) -> Vec<Box<dyn Method>> {
    let handcrafted = METHODS.iter().filter(|m| m.name != "dyweight");
    let mut all: Vec<_> = handcrafted.map(|m| SolverSpec::named(m.name).build(true).unwrap()).collect();
    let rows = random_rows(&mut Stream::new(1), steps, 3);
    all.push(Box::new(DyWeight::fixed(&rows, &vec![0.95; steps - 1]).unwrap()));
    all
}

#[test]
fn batch_splits_and_threads_change_no_bit_of_the_samples() {
    let model = model();
    let seeds: Vec<u64> = (0..17).collect();
    let noise = Rng::Native.latents(&seeds, Model::shape(&model)).unwrap();
    let grid = Schedule::Karras { rho: 7.0 }.grid(6, (0.01, 40.0)).unwrap();
    for solver in solvers(6) {
        let plan = || Plan::new(&*solver, &grid).afs(true).denoise_to_zero(true);
        let whole = with_threads(1, || run(&model, &plan(), &noise));
        for (threads, batch) in [(1, 1), (2, 17), (2, 5), (3, 4), (3, 16)] {
            let parts: Vec<Tensor> = with_threads(threads, || {
                let starts = (0..17).step_by(batch);
                starts.map(|s| run(&model, &plan(), &noise.slice(s..(s + batch).min(17)))).collect()
            });
            assert_eq!(Tensor::concat(&parts).unwrap(), whole, "{}: {threads} threads, {batch}", solver.label());
        }
    }
}

#[test]
fn noise_of_a_seed_does_not_depend_on_its_company() {
    for rng in [Rng::Native, Rng::Torch] {
        for shape in [[2, 1, 1], [1, 5, 5]] {
            let all = rng.latents(&[7, 3, u64::MAX, 3], shape).unwrap();
            for (i, seed) in [7, 3, u64::MAX, 3].into_iter().enumerate() {
                assert_eq!(all.slice(i..i + 1), rng.latents(&[seed], shape).unwrap());
            }
        }
    }
}

/// Everything a short training leaves behind.
#[derive(Debug, PartialEq)]
struct TrainOutcome {
    iterations: Vec<(f64, Vec<f64>, Option<f64>)>,
    values: Vec<f64>,
    result: Vec<f64>,
}

fn train(model: &Mixture, spec: &TrainSpec) -> Result<TrainOutcome> {
    let (model, name) = (Arc::new(model.clone()), ModelIdentity::default());
    let trainer = TrainConfig::new(model, name, Budget::Nfe(4), spec.clone(), Loss::L2).prepare()?;
    let mut run = trainer.begin(&trainer.dataset()?)?;
    let mut iterations = Vec::new();
    while !run.is_finished() {
        let i = run.advance()?;
        iterations.push((i.loss, i.gradient, i.validation.map(|v| v.loss)));
    }
    Ok(TrainOutcome { iterations, values: run.params.clone(), result: run.result().to_vec() })
}

fn short() -> TrainSpec {
    let (iters, batch, validation) = (Some(12), Some(8), Some(21));
    TrainSpec { iters, batch, validation, accumulate: Some(2), teacher_nfe: Some(12), ..TrainSpec::default() }
}

#[test]
fn micro_batches_threads_and_memory_change_no_bit_of_a_training() {
    let model = model();
    let whole = with_threads(1, || train(&model, &short())).unwrap();
    assert!(whole.iterations.iter().any(|i| i.2.is_some()), "no validation was made");
    assert_ne!(whole.iterations[0].1, whole.iterations[1].1);
    for (threads, micro_batch) in [(1, 1), (1, 3), (2, 16), (2, 5), (3, 3), (3, 1), (3, 16)] {
        for memory in [Memory::Keep, Memory::Recompute] {
            let spec = TrainSpec { micro_batch: Some(micro_batch), memory: Some(memory), ..short() };
            let found = with_threads(threads, || train(&model, &spec)).unwrap();
            assert_eq!(found, whole, "{threads} threads, micro-batch {micro_batch}, {memory:?}");
        }
    }
}

#[test]
fn path_supervision_is_split_without_a_trace_too() {
    let model = model();
    let spec = TrainSpec { supervision: Some("path".into()), teacher_nfe: None, ..short() };
    let whole = with_threads(1, || train(&model, &spec)).unwrap();
    for micro_batch in [1, 5] {
        let spec = TrainSpec { micro_batch: Some(micro_batch), ..spec.clone() };
        assert_eq!(with_threads(2, || train(&model, &spec)).unwrap(), whole, "micro-batch {micro_batch}");
    }
}

#[test]
fn solver_files_come_back_to_the_last_bit() {
    let mut z = Stream::labelled(0, "solver files");
    for round in 0..200 {
        let steps = 1 + below(&mut z, 12);
        let window = 1 + below(&mut z, steps);
        let afs = z.uniform() < 0.5;
        let time_scale = match below(&mut z, 3) {
            0 => Vec::new(),
            1 if steps > 1 => (1..steps).map(|_| between(&mut z, 0.5, 1.5)).collect(),
            _ => (0..steps).map(|_| between(&mut z, 0.5, 1.5)).collect(),
        };
        let low = between(&mut z, 1e-4, 0.1);
        let weights =
            Weights { time_shift: z.uniform() < 0.8, ..Weights::new(random_rows(&mut z, steps, window), time_scale) };
        let schedule = Schedule::Karras { rho: between(&mut z, 1.0, 10.0) };
        let range = (low, low + between(&mut z, 1.0, 100.0));
        let grid = schedule.grid(steps, range).unwrap();
        let nfe = steps - usize::from(afs);
        let frame = Frame {
            grid,
            schedule,
            range,
            afs,
            prediction: Prediction::Denoised,
            bounded: false,
            shape: None,
            feature: None,
            embedding: None,
            nfe,
        };
        let mut file = SolverFile::new(MethodParams::DyWeight(weights), &frame).unwrap();
        file.guidance = (z.uniform() < 0.5).then(|| z.normal());
        file.model = ModelIdentity { name: format!("model \"{round}\" ∑\n"), sha256: Some("ab".repeat(32)) };
        file.training.insert("loss".into(), serde_json::json!(z.normal() * 1e-9));
        let bytes = file.to_bytes();
        let back = SolverFile::parse(&bytes).unwrap();
        assert_eq!(back, file);
        assert_eq!(back.to_bytes(), bytes);
    }
}

/// Algorithm 2 written out: row i weighs the newest slopes, the newest with its last weight.
fn by_hand(model: &Mixture, grid: &Grid, rows: &Rows, scales: &[f64], noise: &Tensor) -> Vec<f64> {
    let sigmas = grid.sigmas();
    let first = rows.len() - scales.len();
    let mut x = noise.map(|v| sigmas[0] * v);
    let mut time = sigmas[0];
    let mut slopes: Vec<Tensor> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let level = if i < first { time } else { scales[i - first] * time };
        let denoised = model.predict(&x, &Levels::One(level.abs())).unwrap();
        let mut slope = x.clone();
        slope.data_mut().iter_mut().zip(denoised.data()).for_each(|(s, d)| *s = (*s - d) / (time + 1e-8));
        slopes.push(slope);
        let length = sigmas[i + 1] - time;
        for (back, weight) in row.iter().rev().enumerate() {
            let slope = &slopes[i - back];
            x.data_mut().iter_mut().zip(slope.data()).for_each(|(x, d)| *x += length * weight * d);
        }
        time += length * row.iter().sum::<f64>();
    }
    x.into_data()
}

#[test]
fn a_window_weighs_the_newest_slopes_newest_last() {
    let model = model();
    let noise = Rng::Native.latents(&[0, 1, 2], Model::shape(&model)).unwrap();
    let mut z = Stream::labelled(0, "windows");
    for _ in 0..40 {
        let steps = 2 + below(&mut z, 6);
        let window = 1 + below(&mut z, steps);
        let grid = Schedule::Karras { rho: 5.0 }.grid(steps, (0.1, 20.0)).unwrap();
        let rows = random_rows(&mut z, steps, window);
        let scales: Vec<f64> = (0..steps - below(&mut z, 2)).map(|_| between(&mut z, 0.8, 1.2)).collect();
        let sampled = |rows: &Rows| {
            let solver = DyWeight::fixed(rows, &scales).unwrap();
            run(&model, &Plan::new(&solver, &grid), &noise)
        };
        let found = sampled(&rows);
        let expected = by_hand(&model, &grid, &rows, &scales, &noise);
        for (a, b) in found.data().iter().zip(&expected) {
            assert!((a - b).abs() < 1e-10 * b.abs().max(1.0), "window {window} of {steps}: {a} is not {b}");
        }
        // A wider window with zeros for the older slopes is the same solver.
        let widened = rows.iter().enumerate().map(|(i, row)| [vec![0.0; i + 1 - row.len()], row.clone()].concat());
        assert_eq!(sampled(&widened.collect()), found);
    }
}

#[test]
fn the_matrix_of_a_window_has_absolute_columns() {
    let mut z = Stream::labelled(0, "matrices");
    for _ in 0..50 {
        let (steps, window) = (1 + below(&mut z, 8), 1 + below(&mut z, 9));
        let rows = random_rows(&mut z, steps, window);
        let (shape, params) = LearnedWeights::new(&rows, &vec![1.0; steps], ScaleMode::Free, true);
        let matrix = &shape.shown(&params)[0].values;
        for (i, columns) in matrix.chunks(steps).enumerate() {
            let first = (i + 1).saturating_sub(window);
            assert_eq!(&columns[first..=i], &rows[i][..], "row {i}");
            assert!(columns[..first].iter().chain(&columns[i + 1..]).all(|w| *w == 0.0), "row {i}");
        }
    }
}
