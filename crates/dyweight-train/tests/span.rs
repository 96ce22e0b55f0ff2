//! Training of a wider span: where its parts start, and that each is learned.

use dyweight_core::denoiser::Model;
use dyweight_core::mixture::Mixture;
use dyweight_solvers::learned::{Block, LearnedSolver};
use dyweight_solvers::solver_file::SolverFile;
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use dyweight_train::{Loss, TrainConfig, TrainSpec, plan};
use std::sync::Arc;

fn train(
    model: Arc<dyn Model>,
    budget: Budget,
    spec: &TrainSpec,
) -> dyweight_core::error::Result<dyweight_solvers::solver_file::SolverFile> {
    Ok(TrainConfig::of(&model, budget, spec)?.train(&mut |_, _| Ok(()))?.file)
}

/// Two pixels side by side, in which every part has something to do.
fn model() -> Arc<dyn Model> {
    Arc::new(Mixture::spiral().shaped([1, 1, 2]).unwrap())
}

fn spec(span: Option<&str>) -> TrainSpec {
    let mut spec = TrainSpec { iters: Some(6), batch: Some(5), teacher_nfe: Some(10), ..TrainSpec::default() };
    (spec.validation, spec.validate_every) = (Some(8), Some(2));
    spec.dyweight.span = span.map(|text| text.parse().unwrap());
    spec
}

const ALL: &str = "state,bands:1,operator:3,sample";

#[test]
fn every_part_starts_as_dyweight_and_is_moved_at_its_own_rate() {
    let plan = |span| {
        let schedule = ScheduleSpec::default();
        plan::plan(&spec(span), &*model(), &schedule, Budget::Nfe(3), Loss::L2).unwrap()
    };
    let rates: Vec<f64> = plan(Some(ALL)).recipe.phases[0].groups.iter().map(|g| g.rate.base).collect();
    assert_eq!(rates, [0.03, 0.01, 0.005]);
    assert_eq!(plan(None).recipe.phases[0].groups.len(), 1);
    // The same start by validation, and another end where nobody validates.
    let trained = |spec: &TrainSpec| train(model(), Budget::Nfe(3), spec).unwrap();
    let plain = trained(&spec(None));
    for span in ["state", "bands:1", "operator:3", "sample", ALL] {
        let start = trained(&spec(Some(span)));
        assert_eq!(start.training["initial_loss"], plain.training["initial_loss"], "{span}");
        let unwatched = TrainSpec { validation: None, validate_every: None, ..spec(Some(span)) };
        let file = trained(&TrainSpec { plain: Some(true), ..unwatched });
        let Some(weights) = file.body.weights() else { unreachable!() };
        assert_eq!(weights.span.parts().join(","), span);
        let moved = |block: &Block, params: &[f64]| block.is_empty() || params.iter().any(|v| *v != 0.0);
        let mut rest = &weights.params()[..];
        for block in weights.blocks() {
            let (own, others) = rest.split_at(block.len());
            assert!(moved(&block, own), "{span}: nothing has moved in {}", block.name);
            rest = others;
        }
        // What was learned is what is read again, to the last bit.
        let read = SolverFile::parse(&file.to_bytes()).unwrap();
        assert_eq!(read, file);
    }
}
