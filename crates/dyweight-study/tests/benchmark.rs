//! Benchmarks: what is recorded does not depend on how the work was cut, and records of other settings are refused by
//! name.

use dyweight_core::denoiser::{Condition, Denoiser, Differentiable, Info, Levels, Model, Prediction, Pullback};
use dyweight_core::mixture::Mixture;
use dyweight_core::noise::Rng;
use dyweight_core::{Result, Tensor};
use dyweight_metrics::frechet::{Reference, Statistics};
use dyweight_metrics::{FeatureReference, Features, reference};
use dyweight_models::{FeatureSpec, LoadedModel, ModelSpec};
use dyweight_sample::comm::{Comm, Solo};
use dyweight_solvers::spec::{ScheduleSpec, Seeds, SolverSpec};
use dyweight_study::benchmark::{Candidate, Entry, Experiment, Judging, Measure, Results, Subject, View, run};
use dyweight_testing::{SampleFeatures, together};
use dyweight_train::{TrainRecipe, TrainSpec};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A mixture that diverges on some samples at some levels, and takes its time.
struct Odd {
    inner: Mixture,
    /// True where a state, by its first number, and a level give no number.
    lost: fn(f64, f64) -> bool,
    pause: Duration,
    light: bool,
}

impl Denoiser for Odd {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        std::thread::sleep(self.pause);
        let mut out = self.inner.predict(x, levels)?;
        let len = x.sample_len();
        for i in (0..x.samples()).filter(|i| (self.lost)(x.sample(*i)[0], levels.of(*i))) {
            out.data_mut()[i * len] = f64::NAN;
        }
        Ok(out)
    }

    fn info(&self) -> Info {
        self.inner.info()
    }
}

impl Differentiable for Odd {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        self.inner.with_pullback(x, levels)
    }
}

impl Model for Odd {
    fn bind<'m>(&'m self, _: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        Ok(Box::new(self))
    }

    fn shape(&self) -> [usize; 3] {
        [2, 1, 1]
    }

    fn prediction(&self) -> Prediction {
        Prediction::Denoised
    }

    fn sigma_range(&self) -> (f64, f64) {
        (0.002, 80.0)
    }

    fn is_light(&self) -> bool {
        self.light
    }
}

fn solo() -> Arc<dyn Comm> {
    Arc::new(Solo)
}

/// A directory of a test's own, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dyweight-benchmark-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn odd(lost: fn(f64, f64) -> bool, pause: Duration, light: bool) -> Arc<LoadedModel> {
    let model = Arc::new(Odd { inner: Mixture::spiral(), lost, pause, light });
    Arc::new(LoadedModel { name: "odd".into(), sha256: "0".repeat(64), settings: Default::default(), model })
}

fn experiment(model: Arc<LoadedModel>, samples: usize, batch: usize) -> Experiment {
    let euler = SolverSpec::named("euler");
    let who = Candidate::Handcrafted { solver: euler, schedule: ScheduleSpec::default(), afs: false };
    let judging = Judging {
        seeds: Seeds::parse(&format!("0-{}", samples - 1)).unwrap(),
        rng: Rng::Native,
        teacher: SolverSpec::named("heun"),
        teacher_nfe: Some(5),
        schedule: ScheduleSpec::default(),
        reference: None,
        judge: None,
        scorers: Vec::new(),
        batch,
        pictures: true,
    };
    let entries = vec![Entry::new("Euler", 6, who)];
    Experiment::new("test", vec![Subject::new(model)], entries, judging).unwrap()
}

/// Runs an experiment in so many processes of so many threads; the results of rank 0.
fn results(make: impl Fn() -> Experiment + Sync, processes: usize, threads: usize) -> Results {
    let place = Place::new(&format!("{processes}-{threads}-{:?}", std::thread::current().id()));
    let mut all = together(processes, threads, |comm| run(&make(), &place.0, comm, &mut ()).unwrap());
    all.swap_remove(0)
}

// A few samples far out lose their numbers in step 2, many others in step 4: who comes first in a batch is not who
// comes first of all. The teacher has no call at these levels.
#[test]
fn where_the_numbers_are_lost_does_not_depend_on_how_samples_are_cut() {
    let lost = |x: f64, level: f64| {
        let at = |wanted: f64| (level / wanted - 1.0).abs() < 1e-3;
        at(9.7232) && x > 14.0 || at(0.46998) && x > 0.2
    };
    let text = |batch: usize, light: bool, processes: usize, threads: usize| {
        let results = results(|| experiment(odd(lost, Duration::ZERO, light), 60, batch), processes, threads);
        let score = results.scores.values().find(|score| score.row == "Euler").unwrap().clone();
        assert!(results.seconds.is_empty(), "a run that was lost has no time");
        score.failed.expect("the numbers are lost")
    };
    let expected = text(60, false, 1, 1);
    assert!(expected.contains("step 2") && !expected.contains("sample 0"), "{expected}");
    for (batch, light, processes, threads) in
        [(1, false, 1, 1), (7, false, 1, 2), (60, true, 1, 3), (9, true, 1, 4), (8, false, 3, 1), (5, true, 2, 2)]
    {
        assert_eq!(text(batch, light, processes, threads), expected, "{batch} {light} {processes} {threads}");
    }
}

#[test]
fn times_are_those_of_network_and_solver_in_one_process() {
    let reference = || -> FeatureReference {
        let rows = (0..40).flat_map(|i| [i as f32 * 0.1, (i * i % 7) as f32]).collect();
        let features = Features::from_rows(2, rows).unwrap();
        let statistics = Statistics::of(&features, Default::default()).unwrap();
        // The samples themselves, slowly.
        let map = |x: &[f64]| {
            std::thread::sleep(Duration::from_millis(15));
            x.to_vec()
        };
        let slow = SampleFeatures { map, ..SampleFeatures::identity([2, 1, 1]) };
        (Arc::new(slow), Arc::new(Reference::new(statistics).unwrap()))
    };
    // Two batches of four samples, six calls of 2 ms each: 3 ms a sample. Features alone take 15.
    let make = || {
        let mut experiment = experiment(odd(|_, _| false, Duration::from_millis(2), false), 8, 4);
        experiment.judging.reference = Some(reference());
        experiment
    };
    for processes in [1, 2] {
        let seconds: Vec<f64> = results(make, processes, 1).seconds.into_values().collect();
        assert_eq!(seconds.len(), 1);
        assert!(seconds[0] > 0.003 && seconds[0] < 0.012, "{processes} processes: {seconds:?}");
    }
}

#[test]
fn records_made_by_other_computations_are_refused_by_name() {
    let with = |spec: ModelSpec| experiment(Arc::new(spec.build().unwrap()), 4, 4);
    let mixture = ModelSpec::named("mixture");
    let fashion = ModelSpec::named("fashion");
    for (first, second, what) in [
        (&fashion, &ModelSpec { conv: Some("direct".into()), ..fashion.clone() }, "subjects[0].computed.conv"),
        (&mixture, &ModelSpec { shape: Some([1, 2, 1]), ..mixture.clone() }, "subjects[0].computed.shape"),
    ] {
        let place = Place::new("refused");
        dyweight_files::journal::Journal::open(&place.0, &with(first.clone()).header()).unwrap();
        let error = run(&with(second.clone()), &place.0, &solo(), &mut ()).err().unwrap().to_string();
        assert!(error.contains(what), "{error}");
    }
    // The way a default is spelled changes nothing.
    let spelled = ModelSpec { conv: Some("winograd4".into()), ..fashion.clone() };
    assert_eq!(with(fashion).header(), with(spelled).header());
}

#[test]
fn a_teachers_calls_are_network_calls_with_guidance_too() {
    let model = Arc::new(ModelSpec::named("fashion").build().unwrap());
    let mut experiment = experiment(model, 2, 2);
    let mut calls = |guidance, teacher_nfe| {
        experiment.subjects[0].guidance = guidance;
        experiment.judging.teacher = SolverSpec::named("ipndm");
        experiment.judging.teacher_nfe = teacher_nfe;
        let teacher = experiment.judging.teacher(&experiment.subjects[0]).ok()?.sampler;
        // One call more than steps: the final denoising.
        Some((teacher.nfe, teacher.steps() + 1))
    };
    assert_eq!(calls(None, Some(20)), Some((20, 20)));
    assert_eq!(calls(Some(2.0), Some(20)), Some((20, 10)));
    assert_eq!(calls(Some(2.0), Some(21)), None);
    assert_eq!(calls(None, None), Some((35, 35)));
    assert_eq!(calls(Some(2.0), None), Some((36, 18)));
}

/// What was trained on features is judged by the other network, too; nothing else pays for that.
#[test]
fn what_was_trained_on_features_is_judged_by_a_second_network() {
    let model = Arc::new(ModelSpec::named("fashion").build().unwrap());
    let on = |features: &str, loss: Option<&str>| {
        let spec = FeatureSpec { features: Some(features.into()), ..FeatureSpec::default() };
        let plain = experiment(model.clone(), 4, 4);
        let train = TrainSpec { loss: loss.map(String::from), ..TrainSpec::default() };
        let who = Candidate::Learned { train: Box::new(train), schedule: ScheduleSpec::default(), on: 0, after: None };
        let entries = [plain.entries.clone(), vec![Entry::new("learned", 3, who)]].concat();
        let judging = Judging { reference: reference(&model, None, &spec).unwrap(), ..plain.judging };
        Experiment::new("test", plain.subjects, entries, judging).unwrap()
    };
    let judge = |features: &str, loss| on(features, loss).judging.judge.map(|(map, _)| map.name().to_string());
    assert_eq!(judge("fashion", None), None);
    assert_eq!(judge("fashion", Some("l2")), None);
    for loss in ["frechet", "features"] {
        assert_eq!(judge("fashion", Some(loss)).as_deref(), Some("fashion-judge"));
        assert_eq!(judge("fashion-judge", Some(loss)).as_deref(), Some("fashion-features"));
    }
    assert_ne!(on("fashion", None).header(), on("fashion", Some("frechet")).header());
    // Both networks have numbers, and each is that of a run in which it is the first.
    let scored = |features: &str| {
        let mut experiment = on(features, Some("frechet"));
        experiment.entries.truncate(1);
        let place = Place::new(&format!("second-{features}"));
        let results = run(&experiment, &place.0, &solo(), &mut ()).unwrap();
        let view = View { experiment: &experiment, results: &results };
        let measures = view.measures();
        assert_eq!(measures[3..], [Measure::JudgedImitation, Measure::JudgedFrechet]);
        measures[1..].iter().map(|measure| view.get(*measure, "Euler", "6 calls").unwrap().value).collect::<Vec<_>>()
    };
    let (first, second) = (scored("fashion"), scored("fashion-judge"));
    assert_eq!(first, [&second[2..], &second[..2]].concat());
}

/// A rate that is left open is looked for; all trainings of the row, and its start, have what was found.
#[test]
fn an_open_rate_is_the_best_of_those_tried() {
    let model = Arc::new(ModelSpec::named("mixture").build().unwrap());
    let plain = experiment(model, 40, 40);
    let train = TrainSpec {
        recipe: Some(TrainRecipe::Paper),
        iters: Some(60),
        validation: Some(64),
        batch: Some(16),
        ..TrainSpec::default()
    };
    let who = |after| {
        let (train, schedule) = (Box::new(train.clone()), ScheduleSpec::default());
        Candidate::Learned { train, schedule, on: 0, after }
    };
    let rates = vec![1e-9, 0.02, 1e-8];
    let open = Entry { rates, ..Entry::new("learned", 3, who(None)) };
    let start = Entry { row: "start".into(), who: who(Some(0)), ..open.clone() };
    // The judge's teacher is the one that is learned from.
    let judging = Judging { teacher: SolverSpec::named("ipndm"), teacher_nfe: Some(35), ..plain.judging };
    let experiment = Experiment::new("test", plain.subjects, vec![open, start], judging).unwrap();
    let experiment = experiment.with_train_seeds(&[0, 1]);
    let place = Place::new("rates");
    let (mut trainings, work) = (0, experiment.search_work().unwrap());
    let found = experiment.searched(&mut |search, folder| {
        let results = run(search, &place.0.join(folder), &solo(), &mut ())?;
        trainings += results.training_records.len();
        Ok(results)
    });
    let found = found.unwrap();
    assert_eq!(trainings, 3);
    assert!(work.gradients > 0 && work.calls > 0);
    for entry in &found.entries {
        let Candidate::Learned { train, .. } = &entry.who else { panic!("{entry:?}") };
        assert_eq!((train.lr, entry.rates.len()), (Some(0.02), 0));
    }
    assert_eq!(found.entries.len(), 4);
}
