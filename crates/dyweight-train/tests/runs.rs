//! A run decides each thing once, and is known again by the content of what it was made from.

use dyweight_core::denoiser::{Condition, Context, Differentiable, Model, ModelIdentity, Prediction, TextContext};
use dyweight_core::error::{Error, Result};
use dyweight_core::mixture::Mixture;
use dyweight_core::noise::Rng;
use dyweight_files::{StoredTensor, TensorFile};
use dyweight_solvers::solver_file::SolverFile;
use dyweight_solvers::spec::Budget;
use dyweight_train::{
    Files, Iteration, Loss, Outputs, TrainConfig, TrainRun, TrainSpec, TrainWatch, Trainer, Training, beside, run_each,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A mixture that is asked by texts, and counts how many it has encoded.
struct Prompted {
    inner: Mixture,
    encoded: AtomicUsize,
}

impl Model for Prompted {
    fn bind<'m>(&'m self, _: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        self.inner.bind(&Condition::default())
    }

    fn shape(&self) -> [usize; 3] {
        self.inner.shape()
    }

    fn prediction(&self) -> Prediction {
        Model::prediction(&self.inner)
    }

    fn sigma_range(&self) -> (f64, f64) {
        Model::sigma_range(&self.inner)
    }

    fn is_light(&self) -> bool {
        true
    }

    fn context_of(&self, text: &str) -> Result<Context> {
        self.encoded.fetch_add(1, Ordering::Relaxed);
        let tokens = text.bytes().map(f32::from).collect();
        Ok(Context::Text(Arc::new(TextContext { width: 1, tokens, pooled: Vec::new() })))
    }
}

fn prompted() -> Arc<Prompted> {
    Arc::new(Prompted { inner: Mixture::spiral(), encoded: AtomicUsize::new(0) })
}

/// Removed with all that is in it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dyweight-runs-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn texts(&self, name: &str, lines: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, lines).unwrap();
        path
    }

    fn out(&self) -> PathBuf {
        self.0.join("solver.json")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn spec(prompts: &Path) -> TrainSpec {
    TrainSpec {
        prompts: Some(prompts.into()),
        negative: Some("blurred".into()),
        guidance: Some(2.0),
        iters: Some(4),
        batch: Some(4),
        validation: Some(8),
        teacher_nfe: Some(12),
        ..TrainSpec::default()
    }
}

fn config(model: &Arc<Prompted>, spec: TrainSpec, out: &Path) -> TrainConfig {
    let identity = ModelIdentity { name: "prompted".into(), sha256: Some("weights".into()) };
    let files = Some(Files::beside(out));
    TrainConfig { files, resume: true, ..TrainConfig::new(model.clone(), identity, Budget::Nfe(6), spec, Loss::L2) }
}

fn run_of(trainer: Trainer, out: &Path) -> TrainRun {
    let config = Some((beside(out, "config"), format!("{:?}", trainer.name())));
    TrainRun::new(trainer, Outputs { out: Some(out.into()), config, ..Outputs::default() }).unwrap()
}

/// Breaks after so many iterations.
struct Until(usize);

impl TrainWatch for Until {
    fn iteration(&mut self, iteration: &Iteration, _: &Training) -> Result<()> {
        if iteration.index + 1 >= self.0 { Err(Error::Cancelled) } else { Ok(()) }
    }
}

fn finish(run: &TrainRun) {
    run.run(&run.trainer.dataset().unwrap(), &mut Until(usize::MAX)).unwrap();
    run.finish().unwrap();
}

#[test]
fn each_text_is_encoded_once_however_many_budgets_starts_and_stages_a_run_has() {
    let (place, model) = (Place::new("encoded"), prompted());
    let texts = place.texts("prompts.txt", "a cat\na dog\na house\na cat\n");
    let spec = || TrainSpec { choose_start: Some(true), ..spec(&texts) };
    let first = config(&model, spec(), &place.out()).prepare().unwrap();
    assert!(first.is_open(), "a search for the start prepares many trainings");
    let known = first.config().prompts.clone();
    let second = TrainConfig { prompts: known, budget: Budget::Nfe(8), ..config(&model, spec(), &place.0.join("b")) };
    let runs = [run_of(first, &place.out()), run_of(second.prepare().unwrap(), &place.0.join("b"))];
    run_each(&runs.each_ref(), None, &mut |index, dataset| {
        runs[index].trainer.work()?;
        runs[index].run(dataset.unwrap(), &mut Until(usize::MAX))?;
        runs[index].finish()
    })
    .unwrap();
    assert!(place.out().exists() && place.0.join("b").exists());
    assert_eq!(model.encoded.load(Ordering::Relaxed), 4, "three texts, and what guidance leads away from");
}

#[test]
fn a_solver_says_what_it_was_worth_where_that_was_asked_for() {
    let (place, model) = (Place::new("judged"), prompted());
    let texts = place.texts("prompts.txt", "a cat\n");
    let outcome = |judged: bool, name: &str| {
        let out = place.0.join(name);
        let trainer = config(&model, spec(&texts), &out).prepare().unwrap();
        let run = TrainRun::new(trainer, Outputs { out: Some(out), judged, ..Outputs::default() }).unwrap();
        run.run(&run.trainer.dataset().unwrap(), &mut Until(usize::MAX)).unwrap().1
    };
    let (judged, other) = (outcome(true, "judged"), outcome(false, "other"));
    assert!(other.gain.is_none() && !other.file.training.contains_key("best_handcrafted"));
    let gain = judged.gain.unwrap();
    let written = SolverFile::parse(&std::fs::read(place.0.join("judged")).unwrap()).unwrap();
    assert_eq!(written.training["best_handcrafted"], gain.rival.name);
    assert_eq!(written.training["distance"], gain.distance);
    assert_eq!(written.without_gain().is_some(), gain.distance >= gain.rival.distance);
}

#[test]
fn an_interrupted_run_is_not_gone_on_with_once_its_texts_have_changed() {
    let (place, model) = (Place::new("texts"), prompted());
    let texts = place.texts("prompts.txt", "a cat\na dog\n");
    let prepared = || config(&model, spec(&texts), &place.out()).prepare().unwrap();
    let run = run_of(prepared(), &place.out());
    let stopped = run.run(&run.trainer.dataset().unwrap(), &mut Until(2));
    assert!(matches!(stopped, Err(Error::Cancelled)));
    let state = Files::beside(&place.out()).state;
    prepared().check_state(&state).unwrap();
    for (file, negative) in [("a cat\na bird\n", "blurred"), ("a cat\na dog\n", "dark")] {
        place.texts("prompts.txt", file);
        let other = config(&model, TrainSpec { negative: Some(negative.into()), ..spec(&texts) }, &place.out());
        let refused = other.prepare().unwrap().check_state(&state).unwrap_err().to_string();
        assert!(refused.contains("belongs to another run: its prompts is"), "{file} {negative}: {refused}");
    }
}

#[test]
fn a_finished_run_is_known_by_what_it_was_made_from_and_not_by_where_that_was() {
    let (place, model) = (Place::new("finished"), prompted());
    let texts = place.texts("prompts.txt", "a cat\na dog\n");
    let noise = |seed| {
        let shape = [4, 4, 2, 1, 1];
        let numbers = Rng::Native.latents(&[seed], [32, 1, 1]).unwrap();
        let mut file = TensorFile::default();
        file.tensors.insert("noise".into(), StoredTensor::from_f64(&shape, numbers.data()).unwrap());
        file.write(&place.0.join("noise")).unwrap();
    };
    noise(1);
    let spec = |texts: &Path| TrainSpec { noise: Some(place.0.join("noise")), ..spec(texts) };
    let trainer = |texts: &Path, weights: &str| {
        let mut config = config(&model, spec(texts), &place.out());
        config.identity.sha256 = Some(weights.into());
        run_of(config.prepare().unwrap(), &place.out())
    };
    finish(&trainer(&texts, "weights"));
    assert!(trainer(&texts, "weights").is_finished());
    let moved = place.texts("elsewhere.txt", "a cat\na dog\n");
    assert!(trainer(&moved, "weights").is_finished(), "the same texts in another file");
    assert!(!trainer(&texts, "other weights").is_finished());
    place.texts("prompts.txt", "a cat\na bird\n");
    assert!(!trainer(&texts, "weights").is_finished(), "other texts in the same file");
    place.texts("prompts.txt", "a cat\na dog\n");
    noise(2);
    assert!(!trainer(&texts, "weights").is_finished(), "other noise in the same file");
    noise(1);
    assert!(trainer(&texts, "weights").is_finished());
}

#[test]
fn a_resumed_run_has_the_losses_of_the_run_before() {
    let (place, model) = (Place::new("history"), prompted());
    let texts = place.texts("prompts.txt", "a cat\n");
    let prepared = |out: &Path| config(&model, spec(&texts), out).prepare().unwrap();
    let whole = run_of(prepared(&place.0.join("whole")), &place.0.join("whole"));
    let (_, expected) = whole.run(&whole.trainer.dataset().unwrap(), &mut Until(usize::MAX)).unwrap();
    let run = run_of(prepared(&place.out()), &place.out());
    assert!(run.run(&run.trainer.dataset().unwrap(), &mut Until(3)).is_err());
    let (_, resumed) = run.run(&run.trainer.dataset().unwrap(), &mut Until(usize::MAX)).unwrap();
    assert_eq!(resumed.history, expected.history);
    assert_eq!(resumed.history.losses.len(), 4);
    assert!(!resumed.history.validations.is_empty());
}
