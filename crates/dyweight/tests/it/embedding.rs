//! Shifts of the network's time embedding, through a real network and a whole solver.

use dyweight::coeff::Coeff;
use dyweight::denoiser::{Condition, Differentiable, Model};
use dyweight::error::Error;
use dyweight::models::ModelSpec;
use dyweight::noise::Stream;
use dyweight::sample::{Plan, integrate};
use dyweight::solver_file::SolverFile;
use dyweight::spec::{Budget, ScheduleSpec};
use dyweight::tape::{Cotangent, Memory, Tape};
use dyweight::tensor::dot;
use dyweight::train::{Loss, TrainConfig, TrainSpec, plan};
use dyweight::{Result, Tensor};
use std::sync::Arc;

fn train(
    model: Arc<dyn Model>,
    budget: Budget,
    spec: &TrainSpec,
) -> dyweight::Result<dyweight::solver_file::SolverFile> {
    Ok(TrainConfig::of(&model, budget, spec)?.train(&mut |_, _| Ok(()))?.file)
}

fn fashion() -> Arc<dyn Model> {
    ModelSpec::named("fashion").build().unwrap().model
}

/// A few iterations that nobody validates: the last numbers are the result.
fn short(span: Option<&str>) -> TrainSpec {
    let mut spec = TrainSpec { iters: Some(2), batch: Some(2), teacher_nfe: Some(4), ..TrainSpec::default() };
    (spec.plain, spec.seed) = (Some(true), Some(4));
    spec.dyweight.span = span.map(|text| text.parse().unwrap());
    spec
}

fn batch(seed: u64) -> Tensor {
    Tensor::new([2, 1, 28, 28], Stream::new(seed).normals(2 * 784)).unwrap()
}

/// What a solver of these numbers makes of noise, on a tape.
fn run(tape: &mut Tape<'_>, file: &SolverFile, numbers: &[Coeff]) -> Result<dyweight::tape::Var> {
    let built = file.body.learned().build(numbers, &file.frame()?)?;
    let plan = Plan { solver: &*built.solver, times: built.times.clone(), afs: file.afs, denoise_to_zero: false };
    let start = tape.start(batch(5));
    integrate(tape, &plan, &start, &mut |_| Ok(()))
}

fn sampled(model: &dyn Differentiable, file: &SolverFile, numbers: &[f64]) -> Result<Tensor> {
    let constants: Vec<Coeff> = numbers.iter().map(|v| Coeff::from(*v)).collect();
    let mut tape = Tape::sampling(model).analytic_first(file.afs);
    run(&mut tape, file, &constants).map(|x| x.tensor().clone())
}

#[test]
fn shifts_are_learned_on_a_network_from_dyweights_bits() {
    let model = fashion();
    let file = train(model.clone(), Budget::Nfe(2), &short(Some("embedding"))).unwrap();
    let weights = file.body.weights().unwrap();
    let shifts = &weights.span.embedding.as_ref().unwrap().shifts;
    let numbers = model.embedding_len().unwrap();
    assert_eq!((shifts.len(), shifts[0].len()), (2, numbers));
    assert!(shifts.iter().flatten().filter(|v| **v != 0.0).count() > numbers, "almost nothing has moved");
    assert_eq!(SolverFile::parse(&file.to_bytes()).unwrap(), file);
    // At 0 it is the solver without.
    let bound = model.denoiser(&Condition::classes([3, 7])).unwrap();
    let mut zeroed = file.body.learned().params();
    let own = zeroed.len() - 2 * numbers;
    zeroed[own..].fill(0.0);
    let mut plain = file.clone();
    let dyweight::solver_file::MethodParams::DyWeight(narrow) = &mut plain.body else { unreachable!() };
    narrow.span = Default::default();
    assert_eq!(sampled(&*bound, &file, &zeroed).unwrap(), sampled(&*bound, &plain, &zeroed[..own]).unwrap());
    // Elsewhere it is not, and the sweep has the derivative: kept or made anew, in its own direction and in another.
    let mut z = Stream::new(8);
    let at: Vec<f64> = file.body.learned().params().iter().map(|v| v + 0.02 * z.normal()).collect();
    let cotangent = batch(6);
    let gradient = |memory: Memory| {
        let parameters: Vec<Coeff> = at.iter().enumerate().map(|(i, v)| Coeff::parameter(*v, i)).collect();
        let mut tape = Tape::recording(&*bound, memory).analytic_first(file.afs);
        let sample = run(&mut tape, &file, &parameters).unwrap();
        let seeds = vec![Cotangent { sample, cotangent: cotangent.clone() }];
        let found = tape.gradients(seeds, at.len()).unwrap().parameters;
        found.iter().map(|g| g.iter().sum::<f64>()).collect::<Vec<f64>>()
    };
    let found = gradient(Memory::Keep);
    assert_eq!(found, gradient(Memory::Recompute));
    let length = |v: &[f64]| dot(v, v).sqrt();
    let norm = length(&found[own..]);
    for call in 0..2 {
        for direction in [found[own..].to_vec(), z.normals(2 * numbers)] {
            let mut only = vec![0.0; at.len()];
            let part = call * numbers..(call + 1) * numbers;
            only[own..][part.clone()].copy_from_slice(&direction[part]);
            let size = length(&only);
            let loss = |h: f64| {
                let moved: Vec<f64> = at.iter().zip(&only).map(|(at, d)| at + h * d / size).collect();
                dot(sampled(&*bound, &file, &moved).unwrap().data(), cotangent.data())
            };
            let h = 0.02;
            let difference = (8.0 * (loss(h) - loss(-h)) - (loss(2.0 * h) - loss(-2.0 * h))) / (12.0 * h);
            let expected = dot(&found, &only) / size;
            assert!((difference - expected).abs() < 5e-3 * norm, "call {call}: {difference} {expected} of {norm}");
        }
    }
}

#[test]
fn models_without_an_embedding_refuse_before_the_work() {
    let mixture = ModelSpec::named("mixture").build().unwrap().model;
    let refused = train(mixture.clone(), Budget::Nfe(3), &short(Some("state,embedding"))).unwrap_err();
    assert!(matches!(&refused, Error::Conflict { problem, .. } if problem.contains("does not offer")), "{refused}");
    let plan = |model: &dyn Model, span: &str| {
        plan::plan(&short(Some(span)), model, &ScheduleSpec::default(), Budget::Nfe(3), Loss::L2)
    };
    let groups = plan(&*fashion(), "bands,operator:3,embedding").unwrap().recipe.phases.remove(0).groups;
    let blocks: Vec<&str> = groups.iter().flat_map(|group| group.blocks.clone()).collect();
    assert_eq!(blocks, ["weights", "time_scale", "band_weight", "operator", "embedding"]);
    assert_eq!(groups.iter().map(|group| group.rate.base).collect::<Vec<_>>(), [0.03, 0.01, 0.001]);
}
