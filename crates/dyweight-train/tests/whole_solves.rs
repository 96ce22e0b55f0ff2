//! Learning without gradients: for models that have none, by every method of few parameters, and what is refused.

use dyweight_core::denoiser::{ClosureModel, Levels, Model, Prediction};
use dyweight_core::error::Error;
use dyweight_core::mixture::Mixture;
use dyweight_core::tensor::Tensor;
use dyweight_solvers::spec::Budget;
use dyweight_train::{Optimiser, TrainConfig, TrainSpec};
use std::sync::Arc;

fn train(
    model: Arc<dyn Model>,
    budget: Budget,
    spec: &TrainSpec,
) -> dyweight_core::error::Result<dyweight_solvers::solver_file::SolverFile> {
    Ok(TrainConfig::of(&model, budget, spec)?.train(&mut |_, _| Ok(()))?.file)
}

fn spec(method: &str) -> TrainSpec {
    let (method, optimiser) = (Some(method.into()), Some(Optimiser::GaussNewton));
    TrainSpec { method, optimiser, iters: Some(4), pairs: Some(96), validation: Some(96), ..TrainSpec::default() }
}

/// The spiral as a function of state and level, and nothing else.
fn black_box() -> Arc<dyn Model> {
    let spiral = Mixture::spiral();
    let (shape, range) = (spiral.shape(), spiral.sigma_range());
    let answer = move |x: &Tensor, levels: &Levels| spiral.bind(&Default::default())?.predict(x, levels);
    Arc::new(ClosureModel::new(shape, Prediction::Denoised, range, answer))
}

/// Validation loss of the start and of the result.
fn losses(model: Arc<dyn Model>, nfe: usize, spec: &TrainSpec) -> (f64, f64) {
    let file = train(model, Budget::Nfe(nfe), spec).unwrap();
    let of = |key: &str| file.training[key].as_f64().unwrap();
    (of("initial_loss"), of("validation_loss"))
}

#[test]
fn a_model_without_gradients_is_learned_for() {
    let (start, end) = losses(black_box(), 4, &spec("dyweight"));
    assert!(end < 0.5 * start, "{start} {end}");
    let refused = train(
        black_box(),
        Budget::Nfe(4),
        &TrainSpec { optimiser: Some(Optimiser::Adam), pairs: None, ..spec("dyweight") },
    );
    let Err(Error::Conflict { hint, .. }) = refused else { panic!("{refused:?}") };
    assert!(hint.contains("`optimiser = gauss-newton`"), "{hint}");
}

/// 192 pairs do what thousands do with gradients.
#[test]
fn few_pairs_learn_nearly_as_much_as_many_with_gradients() {
    let few = TrainSpec { iters: Some(8), pairs: Some(192), validation: Some(256), ..spec("dyweight") };
    let many = TrainSpec {
        optimiser: Some(Optimiser::Newton),
        iters: Some(60),
        batch: Some(64),
        validation: Some(256),
        ..TrainSpec::default()
    };
    let end = |spec: &TrainSpec| losses(Arc::new(Mixture::spiral()), 4, spec).1;
    let (few, many) = (end(&few), end(&many));
    assert!(few < 1.1 * many, "{few} {many}");
}

#[test]
fn every_method_of_few_parameters_learns_from_whole_solves() {
    for (method, most) in
        [("ld3", 0.9), ("epd", 0.5), ("epd-plugin", 0.5), ("dss", 0.5), ("s4s", 0.7), ("s4s-alt", 0.7)]
    {
        let (start, end) = losses(Arc::new(Mixture::spiral()), 5, &spec(method));
        assert!(end < most * start, "{method}: {end} from {start}");
    }
}

#[test]
fn what_whole_solves_do_not_have_is_refused() {
    let refused = |spec: TrainSpec| match train(Arc::new(Mixture::spiral()), Budget::Nfe(5), &spec) {
        Err(Error::Conflict { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    let own = || spec("dyweight");
    for (option, spec) in [
        ("`lr`", TrainSpec { lr: Some(0.1), ..own() }),
        ("`batch`", TrainSpec { batch: Some(4), ..own() }),
        ("`clip-gradient`", TrainSpec { clip: Some(1.0), ..own() }),
        ("l1", TrainSpec { loss: Some("l1".into()), ..own() }),
        ("at most 256 parameters", TrainSpec { method: Some("amed".into()), ..own() }),
    ] {
        let problem = refused(spec);
        assert!(problem.contains(option) && problem.contains("gauss-newton"), "{option}: {problem}");
    }
}
