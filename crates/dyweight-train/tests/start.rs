//! The best start and the best handcrafted solver: what is chosen, what is fixed, and what a search that was
//! interrupted leaves.

use dyweight_core::Result;
use dyweight_core::denoiser::{ClosureModel, Model, Prediction};
use dyweight_core::error::Error;
use dyweight_core::mixture::Mixture;
use dyweight_core::schedule::Schedule;
use dyweight_solvers::solver_file::ModelIdentity;
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use dyweight_train::{Files, TeacherGrid, TrainConfig, TrainRecipe, TrainSpec, Trainer};
use std::sync::Arc;

fn config(spec: TrainSpec, schedule: ScheduleSpec) -> TrainConfig {
    let model: Arc<dyn Model> = Arc::new(Mixture::spiral());
    let loss = dyweight_train::plan::loss(&spec, |_| Err(Error::Cancelled)).unwrap();
    let identity = ModelIdentity { name: "spiral".into(), sha256: Some("00".into()) };
    TrainConfig { schedule, ..TrainConfig::new(model, identity, Budget::Nfe(4), spec, loss) }
}

fn few() -> TrainSpec {
    let (recipe, pairs, validation) = (Some(TrainRecipe::Few), Some(32), Some(64));
    TrainSpec { recipe, pairs, validation, iters: Some(4), ..TrainSpec::default() }
}

/// What it starts at, and the distance it ends at.
fn run(trainer: Trainer) -> Result<(String, f64, usize)> {
    let dataset = trainer.dataset()?;
    let mut tried = 0;
    let settled = trainer.settled(&dataset, &mut |_| tried += 1)?;
    let (trainer, search) = settled.map_or((trainer, None), |(trainer, search)| (trainer, Some(search)));
    assert!(!trainer.is_open());
    let trained = trainer.run(&dataset, &mut |_, _| Ok(()))?;
    let name = search.and_then(|search| search.chosen().map(|start| start.name.clone())).unwrap_or_default();
    Ok((name, trainer.distance_of(&dataset, &trained)?, tried))
}

#[test]
fn the_chosen_start_ends_closer_than_the_usual_one() {
    // So few pairs as elsewhere in this file tell no start of the spiral from another.
    let enough =
        |seed: u64| TrainSpec { pairs: Some(128), validation: Some(512), iters: Some(8), seed: Some(seed), ..few() };
    let karras = ScheduleSpec { schedule: Some("karras".into()), ..ScheduleSpec::default() };
    let (mut chosen, mut usual) = (0.0, 0.0);
    for seed in 0..3 {
        let (name, end, tried) = run(config(enough(seed), ScheduleSpec::default()).prepare().unwrap()).unwrap();
        assert!(!name.is_empty() && tried > 20, "{name} {tried}");
        let given = TrainSpec { afs: Some(true), order: Some(3), ..enough(seed) };
        let (name, fixed, tried) = run(config(given, karras.clone()).prepare().unwrap()).unwrap();
        assert!(name.is_empty() && tried == 0);
        (chosen, usual) = (chosen + end, usual + fixed);
    }
    assert!(chosen < usual, "{chosen} against {usual}");
}

/// Data far from zero: the first slope is not the noise's direction, as the analytical first step has it.
fn far_from_zero() -> Arc<dyn Model> {
    let towards = |x: f64, sigma: f64| {
        let (own, all) = (0.09, 0.09 + sigma * sigma);
        let right = 1.0 / (1.0 + (-4.0 * (x - 20.0) / (2.0 * all)).exp());
        (own * x + sigma * sigma * (19.0 + 2.0 * right)) / all
    };
    let denoised = move |x: &[f64], sigma: f64| x.iter().map(|x| towards(*x, sigma)).collect();
    Arc::new(ClosureModel::of_samples([1, 4, 4], Prediction::Denoised, (0.002, 80.0), denoised))
}

#[test]
fn a_harmful_analytical_first_step_is_not_chosen() {
    let far = |spec: TrainSpec| TrainConfig { model: far_from_zero(), ..config(spec, ScheduleSpec::default()) };
    let trainer = far(few()).prepare().unwrap();
    let (_, search) = trainer.settled(&trainer.dataset().unwrap(), &mut |_| {}).unwrap().unwrap();
    assert!(search.tried.iter().any(|start| start.afs && start.usual), "the usual start has it");
    assert!(!search.chosen().unwrap().afs, "{}", search.chosen().unwrap().name);
    let (_, open, _) = run(trainer).unwrap();
    let (_, decreed, _) = run(far(TrainSpec { afs: Some(true), ..few() }).prepare().unwrap()).unwrap();
    assert!(open < 0.5 * decreed, "{open} against {decreed}");
}

/// What is given is not chosen; all starts have one teacher.
#[test]
fn what_is_given_stays() {
    let given = ScheduleSpec { schedule: Some("logsnr".into()), ..ScheduleSpec::default() };
    let trainer = config(TrainSpec { order: Some(2), ..few() }, given.clone()).prepare().unwrap();
    let dataset = trainer.dataset().unwrap();
    let (trainer, search) = trainer.settled(&dataset, &mut |_| {}).unwrap().unwrap();
    assert_eq!(search.tried.len(), 2, "with the analytical first step and without");
    assert!(search.tried.iter().all(|start| start.order == 2 && start.schedule == given));
    assert_eq!((trainer.plan.resolved.order, &trainer.plan.student.frame.schedule), (Some(2), &Schedule::LogSnr));
    assert_eq!(trainer.plan.resolved.teacher_schedule, Some(TeacherGrid::Model));
    let paper = TrainSpec { recipe: Some(TrainRecipe::Paper), pairs: None, ..few() };
    assert!(!config(paper, ScheduleSpec::default()).prepare().unwrap().is_open());
}

/// What is open stays open in the options that repeat a run from its search on.
#[test]
fn what_is_open_is_none_of_the_resolved_options() {
    let trainer = config(few(), ScheduleSpec::default()).prepare().unwrap();
    assert_eq!((trainer.plan.resolved.order, trainer.plan.resolved.afs), (None, None));
    let closed = TrainSpec { choose_start: Some(false), ..few() };
    let closed = config(closed, ScheduleSpec::default()).prepare().unwrap();
    assert!(!closed.is_open() && closed.plan.resolved.order == Some(3));
}

/// A repeat with the options a run was resolved to ends with the same bits, and searches nothing.
#[test]
fn resolved_options_repeat_a_run() {
    let trainer = config(few(), ScheduleSpec::default()).prepare().unwrap();
    let dataset = trainer.dataset().unwrap();
    let (trainer, _) = trainer.settled(&dataset, &mut |_| {}).unwrap().unwrap();
    let first = trainer.run(&dataset, &mut |_, _| Ok(())).unwrap();
    let again = config(trainer.plan.resolved.clone(), trainer.config().schedule.clone()).prepare().unwrap();
    assert!(!again.is_open());
    let dataset = again.dataset().unwrap();
    let second = again.run(&dataset, &mut |_, _| Ok(())).unwrap();
    assert_eq!(first.params, second.params);
}

#[test]
fn a_search_on_record_is_not_made_again() {
    let folder = std::env::temp_dir().join(format!("dyweight-start-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = Files::beside(&folder.join("solver.json"));
    let with_files = |resume: bool, spec: TrainSpec| {
        TrainConfig { files: Some(files.clone()), resume, ..config(spec, ScheduleSpec::default()) }.prepare().unwrap()
    };
    let (name, distance, _) = run(with_files(false, few())).unwrap();
    let (again, same, tried) = run(with_files(true, few())).unwrap();
    assert_eq!((again, same.to_bits(), tried), (name, distance.to_bits(), 0));
    // Of another seed, and where the record is no record.
    std::fs::remove_file(&files.state).unwrap();
    let (_, _, tried) = run(with_files(true, TrainSpec { seed: Some(7), ..few() })).unwrap();
    assert!(tried > 0);
    std::fs::remove_file(&files.state).unwrap();
    std::fs::write(&files.start, b"{").unwrap();
    let (_, _, tried) = run(with_files(true, few())).unwrap();
    assert!(tried > 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_best_handcrafted_solver_is_searched_for() {
    let trainer = config(few(), ScheduleSpec::default()).prepare().unwrap();
    let dataset = trainer.dataset().unwrap();
    let mut trials = 0;
    let rival = trainer.best_handcrafted(&dataset, 4, &mut |_| trials += 1).unwrap().unwrap();
    assert!(rival.tried > 100 && trials > rival.tried, "{rival:?}");
    let trained = trainer.run(&dataset, &mut |_, _| Ok(())).unwrap();
    assert!(trainer.distance_of(&dataset, &trained).unwrap() < rival.distance);
}
