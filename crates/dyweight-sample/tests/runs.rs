//! What a run is decided from: fit of learned solvers, noise and conditions, samples in batches.

use dyweight_core::denoiser::{ClosureModel, Context, Levels, Model, ModelIdentity, Prediction};
use dyweight_core::error::Error;
use dyweight_core::mixture::Mixture;
use dyweight_core::noise::Rng;
use dyweight_core::tensor::Tensor;
use dyweight_sample::comm::Solo;
use dyweight_sample::{Drawing, Inputs, Learned, Noise, OnModel, SampleSpec, Sampler, Show, Who, misfits};
use dyweight_solvers::presets;
use dyweight_solvers::solver_file::SolverFile;
use dyweight_solvers::spec::{Budget, ScheduleSpec, SolverSpec};
use std::sync::Mutex;

fn file() -> SolverFile {
    let mut file = presets::find("cifar10-nfe5").unwrap().1;
    file.model = ModelIdentity { name: "spiral".into(), sha256: Some("a".into()) };
    file
}

fn on<'m>(model: &'m dyn Model, name: &str, sha256: &str) -> OnModel<'m> {
    let identity = ModelIdentity { name: name.into(), sha256: Some(sha256.into()) };
    OnModel { model, identity, calls: 1 }
}

fn sampler(spec: &SampleSpec, on: &OnModel<'_>) -> Sampler {
    spec.sampler(Who::Learned(&Learned::of("a.json", file())), on).unwrap()
}

#[test]
fn a_solver_used_on_another_run_says_in_what() {
    let model = Mixture::spiral();
    let found = |on: &OnModel<'_>, spec: &SampleSpec, guidance| {
        let sampler = sampler(spec, on);
        misfits(&file(), (on.model, &on.identity), guidance, (sampler.afs, &sampler.grid)).join("; ")
    };
    let (same, usual) = (on(&model, "spiral", "a"), SampleSpec::default());
    assert_eq!(found(&same, &usual, None), "");
    // The same weights under another name are the same model.
    assert_eq!(found(&on(&model, "else", "a"), &usual, None), "");
    assert!(found(&on(&model, "spiral", "b"), &usual, None).contains("weights of 'spiral'"));
    let unknown = OnModel { identity: ModelIdentity { name: "other".into(), sha256: None }, ..same.clone() };
    assert!(found(&unknown, &usual, None).contains("learned for 'spiral', not for 'other'"));
    assert!(found(&same, &usual, Some(2.0)).contains("under guidance none, not 2"));
    let schedule = ScheduleSpec { sigma_max: Some(10.0), ..ScheduleSpec::default() };
    assert!(found(&same, &SampleSpec { schedule, ..usual }, None).contains("the grid or first step"));
}

#[test]
fn coefficients_of_another_prediction_and_other_budgets_are_refused() {
    let flow = |x: &Tensor, _: &Levels| Ok::<_, std::io::Error>(x.clone());
    let flow = ClosureModel::new([2, 1, 1], Prediction::Velocity, (0.0, 1.0), flow);
    let (learned, usual) = (Learned::of("a.json", file()), SampleSpec::default());
    let refused = usual.sampler(Who::Learned(&learned), &on(&flow, "flow", "a")).err().unwrap();
    assert!(refused.to_string().contains("predicts another quantity than 'flow'"), "{refused}");
    let model = Mixture::spiral();
    let asked = SampleSpec { budget: Some(Budget::Nfe(7)), ..usual.clone() };
    let refused = asked.sampler(Who::Learned(&learned), &on(&model, "spiral", "a")).err().unwrap();
    assert!(refused.to_string().contains("'a.json' is for 5 calls, not 7"), "{refused}");
    let nobody = usual.sampler(Who::Handcrafted(&SolverSpec::named("ipndm")), &on(&model, "spiral", "a"));
    assert!(matches!(nobody.err(), Some(Error::Conflict { .. })));
}

#[test]
fn a_sample_is_the_same_in_any_batch_and_with_given_noise() {
    let model = Mixture::spiral();
    let seeds = Noise::Seeds { seeds: vec![3, 4, 5, 6, 7], rng: Rng::Native };
    let all = Rng::Native.latents(&[3, 4, 5, 6, 7], [2, 1, 1]).unwrap();
    let sampler = sampler(&SampleSpec::default(), &on(&model, "spiral", "a"));
    let drawn = |noise: Noise, wanted: &[usize], batch: usize| {
        let inputs = Inputs { noise, shape: [2, 1, 1], classes: 0, show: Show::Drawn, guidance: None };
        let drawing = Drawing { model: &model, inputs: &inputs, sampler: &sampler, batch, comm: &Solo };
        let (mut found, seen) = (Vec::new(), Mutex::new(0));
        let watch = |indices: &[usize], _: &dyweight_core::sample::State<'_>| {
            *seen.lock().unwrap() += indices.len();
            Ok(())
        };
        drawing
            .draw(wanted, true, &watch, &mut |indices, states| {
                // Every state is kept, and the samples behind them.
                assert_eq!(states.len(), sampler.states() + 1);
                assert_eq!(states[states.len() - 1], states[states.len() - 2]);
                found.extend(
                    indices.iter().copied().zip(states[states.len() - 1].data().chunks(2).map(<[f64]>::to_vec)),
                );
                Ok(())
            })
            .unwrap();
        assert_eq!(seen.into_inner().unwrap(), wanted.len() * sampler.states());
        found
    };
    let whole = drawn(seeds.clone(), &[0, 1, 2, 3, 4], 5);
    assert_eq!(drawn(seeds.clone(), &[0, 1, 2, 3, 4], 2), whole);
    assert_eq!(drawn(Noise::Latents(all), &[0, 1, 2, 3, 4], 3), whole);
    assert_eq!(drawn(seeds, &[4, 1], 8), [whole[4].clone(), whole[1].clone()]);
}

#[test]
fn conditions_follow_the_seed_and_not_the_place() {
    let inputs = |seeds: &[u64], show| {
        let noise = Noise::Seeds { seeds: seeds.to_vec(), rng: Rng::Native };
        Inputs { noise, shape: [1, 4, 4], classes: 10, show, guidance: Some(2.0) }
    };
    let (a, b) = (inputs(&[1, 2, 3], Show::Drawn), inputs(&[3, 1], Show::Drawn));
    assert_eq!(a.condition([2, 0]).contexts, b.condition(0..2).contexts);
    assert_eq!(a.condition(0..3).guidance, Some(2.0));
    assert!(a.condition(0..3).contexts.iter().all(|c| matches!(c, Context::Class(class) if *class < 10)));
    assert!(inputs(&[1], Show::Anything).condition(0..1).contexts.is_empty());
    let each = inputs(&[1, 2], Show::Each(vec![Some(4), None])).condition(0..2).contexts;
    assert_eq!(each, [Context::Class(4), Context::Unconditional]);
    assert_eq!(inputs(&[1, 2], Show::class(Some(7))).condition(0..1).contexts, [Context::Class(7)]);
}
