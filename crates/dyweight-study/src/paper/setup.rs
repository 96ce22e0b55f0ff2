//! The size of a study: which model, which budgets, how much training, how many samples.

use super::super::benchmark::{Candidate, Entry, Judging, Subject};
use super::lineup;
use dyweight_core::denoiser::Prediction;
use dyweight_core::error::Result;
use dyweight_core::noise::Rng;
use dyweight_core::tape::Memory;
use dyweight_metrics::FeatureReference;
use dyweight_models::{LoadedModel, Scorer};
use dyweight_sample::Show;
use dyweight_solvers::spec::handcrafted::Fixed;
use dyweight_solvers::spec::{ScheduleSpec, Seeds, SolverSpec};
use dyweight_train::{Defaults, SpanSpec, TrainRecipe, TrainSpec};
use std::sync::Arc;

/// How the row of the full method is called.
pub(super) const FULL: &str = "DyWeight";
/// How the row of the best handcrafted setting is called.
pub(super) const BEST: &str = "best handcrafted";
/// How the row of its handcrafted relative is called.
pub(super) const IPNDM: &str = "iPNDM";

/// What the study of learned rivals is told besides.
#[derive(Clone, Default)]
pub struct RivalSetup {
    /// The methods; all if empty.
    pub methods: Vec<String>,
    /// Each method with its authors' teacher instead of the same for all.
    pub paper: bool,
    /// Each method at its authors' rate instead of the best of three.
    pub authors_rates: bool,
    /// Calls that could be made side by side are counted once.
    pub once: bool,
    /// Solver files that take part too.
    pub files: Vec<String>,
}

/// Everything a study is told.
#[derive(Clone)]
pub struct StudySetup {
    /// The model.
    pub model: Arc<LoadedModel>,
    /// Network calls.
    pub budgets: Vec<usize>,
    /// Training, but for what the study varies.
    pub train: TrainSpec,
    /// A look instead of a result.
    pub quick: bool,
    /// Seeds judged on.
    pub seeds: Seeds,
    /// The judging teacher's calls.
    pub teacher_nfe: usize,
    /// Features and reference of a Fréchet distance.
    pub reference: Option<FeatureReference>,
    /// Scores of images and their prompts.
    pub scorers: Vec<Arc<Scorer>>,
    /// What the model is asked for; training as `train` says it.
    pub show: Show,
    /// Classifier-free guidance.
    pub guidance: Option<f64>,
    /// Samples per network call.
    pub batch: usize,
    /// Seeds of the training pairs, one training each; the one of `train` if none.
    pub train_seeds: Vec<u64>,
    /// For the study of learned rivals.
    pub rivals: RivalSetup,
    /// For the study of wider spans; all of its own if empty.
    pub spans: Vec<SpanSpec>,
}

impl StudySetup {
    /// Sizes for a look (`quick`, minutes) or for a result.
    pub fn new(model: Arc<LoadedModel>, quick: bool) -> Result<Self> {
        let (budgets, seeds, teacher_nfe) = match (quick, model.model.is_light()) {
            (true, true) => (vec![3, 5], "0-999", 35),
            (true, false) => (vec![3, 5], "0-127", 20),
            (false, _) => (vec![3, 5, 7, 9], "0-1999", 35),
        };
        let (train, seeds) = (training(&model, quick), Seeds::parse(seeds)?);
        Ok(Self {
            model,
            budgets,
            train,
            quick,
            seeds,
            teacher_nfe,
            reference: None,
            scorers: Vec::new(),
            show: Show::Drawn,
            guidance: None,
            batch: 64,
            train_seeds: Vec::new(),
            rivals: RivalSetup::default(),
            spans: Vec::new(),
        })
    }

    /// The usual training of another model in the same study.
    pub(super) fn training_of(&self, other: &LoadedModel) -> TrainSpec {
        match other.sha256 == self.model.sha256 {
            true => self.train.clone(),
            false => {
                let usual = training(other, self.quick);
                // Never longer than the model of the study was asked to be trained.
                let iters = usual.iters.into_iter().chain(self.train.iters).min();
                TrainSpec { seed: self.train.seed, iters, ..usual }
            }
        }
    }

    /// The model with all its classes.
    pub fn subject(&self) -> Subject {
        let show = self.show.clone();
        Subject { show, guidance: self.guidance, ..Subject::new(self.model.clone()) }
    }

    /// Iterations of a training run.
    pub(super) fn iterations(&self) -> usize {
        self.train.iters.unwrap_or(Defaults::of(&*self.model.model).iterations)
    }

    /// Pairs seen in one iteration.
    pub(super) fn pairs_per_iteration(&self) -> usize {
        let batch = self.train.batch.unwrap_or(Defaults::of(&*self.model.model).batch);
        batch * self.train.accumulate.unwrap_or(1)
    }

    pub(super) fn judging(&self) -> Result<Judging> {
        Ok(Judging {
            seeds: self.seeds.clone(),
            rng: Rng::Native,
            teacher: SolverSpec::named("ipndm"),
            teacher_nfe: Some(self.teacher_nfe),
            schedule: ScheduleSpec::default(),
            reference: self.reference.clone(),
            judge: None,
            scorers: self.scorers.clone(),
            batch: self.batch,
            pictures: true,
        })
    }

    /// A learned candidate that differs from the common training by `change`.
    pub(super) fn learned(&self, change: impl FnOnce(&mut TrainSpec)) -> Candidate {
        let mut train = self.train.clone();
        change(&mut train);
        Candidate::Learned { train: Box::new(train), schedule: ScheduleSpec::default(), on: 0, after: None }
    }

    /// One row over all budgets.
    pub(super) fn row(&self, name: &str, who: &Candidate) -> Vec<Entry> {
        self.budgets.iter().map(|nfe| Entry::new(name, *nfe, who.clone())).collect()
    }

    /// iPNDM over all budgets, for scale.
    pub(super) fn ipndm(&self) -> Vec<Entry> {
        let subject = self.subject();
        let find = |nfe: &usize| lineup(&subject, *nfe).into_iter().find(|entry| entry.row == IPNDM);
        self.budgets.iter().filter_map(find).collect()
    }

    /// The best of all handcrafted settings over all budgets.
    pub(super) fn best_handcrafted(&self) -> Vec<Entry> {
        let fixed = Fixed { solver: None, schedule: ScheduleSpec::default(), afs: None };
        self.row(BEST, &Candidate::Open { fixed })
    }

    /// True if the first step can be answered analytically.
    pub(super) fn has_afs(&self) -> bool {
        self.model.model.prediction() == Prediction::Denoised
    }
}

fn training(model: &LoadedModel, quick: bool) -> TrainSpec {
    let (recipe, memory) = (Some(TrainRecipe::Paper), Some(Memory::Keep));
    let mut train = TrainSpec { recipe, memory, ..TrainSpec::default() };
    match (quick, model.model.is_light()) {
        (true, true) => (train.iters, train.batch, train.validation) = (Some(300), Some(64), Some(256)),
        (true, false) => {
            (train.iters, train.batch, train.validation) = (Some(32), Some(8), Some(16));
            (train.validate_every, train.teacher_nfe) = (Some(8), Some(20));
        }
        (false, _) => {}
    }
    train
}
