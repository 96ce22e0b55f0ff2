//! What is compared with what, and by which measures.

use super::candidate::Candidate;
use super::search::Chosen;
use dyweight_core::error::{Error, Result, counted};
use dyweight_core::noise::Rng;
use dyweight_files::Fingerprint;
use dyweight_metrics::{FeatureReference, second_network};
use dyweight_models::{LoadedModel, Scorer};
use dyweight_sample::{GridRule, Inputs, Noise, OnModel, Sampler, Show};
use dyweight_solvers::learned::Built;
use dyweight_solvers::spec::{Budget, ScheduleSpec, Seeds, SolverSpec};
use dyweight_train::plan::{TEACHER_NFE, named_for_the_teacher};
use dyweight_train::{Teacher, TrainSpec};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// A model, and what it is asked for.
#[derive(Clone)]
pub struct Subject {
    /// How it is called in tables.
    pub name: String,
    /// The model.
    pub model: Arc<LoadedModel>,
    /// What its samples show.
    pub show: Show,
    /// Classifier-free guidance.
    pub guidance: Option<f64>,
}

/// One cell: who, where, with how many calls.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Row of the table.
    pub row: String,
    /// Column of the table.
    pub column: String,
    /// Where the column stands on the axis of a chart.
    pub x: f64,
    /// Network calls.
    pub nfe: usize,
    /// The solver.
    pub who: Candidate,
    /// The subject it is judged on, by its number.
    pub subject: usize,
    /// `nfe` counts calls that could be made side by side once.
    pub once: bool,
    /// Rates of which the best is looked for before anything is judged; none where the training has one.
    pub rates: Vec<f64>,
    /// The setting a search has found, where there was one.
    pub chosen: Option<Chosen>,
}

/// How entries are judged.
#[derive(Clone)]
pub struct Judging {
    /// One sample for each seed.
    pub seeds: Seeds,
    /// Which noise a seed stands for.
    pub rng: Rng,
    /// The teacher whose endpoints are the truth.
    pub teacher: SolverSpec,
    /// Its network calls, of which one evaluation with guidance is two; the usual number if none is given.
    pub teacher_nfe: Option<usize>,
    /// Its grid.
    pub schedule: ScheduleSpec,
    /// Features and reference statistics of a Fréchet distance, where there are any.
    pub reference: Option<FeatureReference>,
    /// The same of the other embedded network, where something that takes part was trained on features.
    pub judge: Option<FeatureReference>,
    /// Scores of images and their prompts.
    pub scorers: Vec<Arc<Scorer>>,
    /// Samples per network call; changes nothing but memory and speed.
    pub batch: usize,
    /// Whether first samples are drawn.
    pub pictures: bool,
}

/// Bytes that are found of a sample: errors and distances, as found and as joined,
const FOUND: usize = 180;
/// and slopes at each call.
const SLOPES: usize = 32;

/// A list of entries on some subjects.
pub struct Experiment {
    /// Its name: `compare`, or the study's.
    pub name: String,
    /// The models.
    pub subjects: Vec<Subject>,
    /// The cells, in the order in which they are worked on.
    pub entries: Vec<Entry>,
    /// The measures.
    pub judging: Judging,
    /// Seeds on which open rows are given their best setting.
    pub search: Seeds,
}

impl Entry {
    /// The seed of its training, unless it is the usual one or nothing is learned.
    pub(crate) fn train_seed(&self) -> Option<u64> {
        let Candidate::Learned { train, .. } = &self.who else { return None };
        train.seed.filter(|seed| *seed != 0)
    }

    /// A cell of a table whose columns are budgets.
    pub fn new(row: impl Into<String>, nfe: usize, who: Candidate) -> Self {
        Self {
            row: row.into(),
            column: counted(nfe, "call"),
            x: nfe as f64,
            nfe,
            who,
            subject: 0,
            once: false,
            rates: Vec::new(),
            chosen: None,
        }
    }
}

impl Subject {
    /// A model asked for whatever it makes.
    pub fn new(model: Arc<LoadedModel>) -> Self {
        Self { name: model.name.clone(), model, show: Show::Drawn, guidance: None }
    }

    /// An error unless the model can be asked for the class and guidance.
    pub fn check(&self) -> Result<()> {
        self.calls().map(drop)
    }

    /// What tells it from every other.
    pub fn identity(&self) -> Value {
        let class = if let Show::Class(class) = self.show { Some(class) } else { None };
        let mut identity = json!({
            "name": self.name, "weights": self.model.sha256, "computed": self.model.settings,
            "class": class, "guidance": self.guidance,
        });
        if let Some(prompts) = self.show.prompts() {
            identity["prompts"] = json!(prompts.texts());
            identity["negative"] = json!(prompts.negative());
        }
        identity
    }

    /// Noise and conditions of samples.
    pub(super) fn inputs(&self, noise: Noise) -> Inputs {
        let (shape, classes) = (self.model.model.shape(), self.model.model.classes());
        Inputs { noise, shape, classes, show: self.show.clone(), guidance: self.guidance }
    }

    /// Network calls of one evaluation.
    pub fn calls(&self) -> Result<usize> {
        let inputs = self.inputs(Noise::Seeds { seeds: vec![0], rng: Rng::Native });
        Ok(self.model.model.denoiser(&inputs.condition(0..1))?.info().calls)
    }

    /// What solvers run on.
    pub fn on(&self) -> Result<OnModel<'_>> {
        Ok(OnModel { model: &*self.model.model, identity: self.model.identity(), calls: self.calls()? })
    }
}

impl Judging {
    /// The noise of a subject's samples.
    pub fn pairs(&self, subject: &Subject) -> Inputs {
        subject.inputs(Noise::Seeds { seeds: self.seeds.iter().collect(), rng: self.rng })
    }

    /// The teacher on a subject. Its errors call its options by their own names.
    pub fn teacher(&self, subject: &Subject) -> Result<Teacher> {
        self.described(subject).map_err(named_for_the_teacher)
    }

    fn described(&self, subject: &Subject) -> Result<Teacher> {
        let on = subject.on()?;
        let solver = self.teacher.at_highest_order().build(on.model.is_bounded())?;
        let rule = GridRule::new(&self.schedule, on.model, on.calls)?;
        // A grid that ends at 0 has nothing left to denoise.
        let denoise_to_zero = rule.schedule.grid(2, rule.range).map_or(rule.range.0, |grid| grid.last()) > 0.0;
        let setting = rule.setting(&*solver, false, denoise_to_zero);
        let grid = match self.teacher_nfe {
            Some(nfe) => setting.grid(Budget::Nfe(nfe)),
            None => setting.grid_of_at_least(TEACHER_NFE),
        };
        let grid = grid.map_err(|error| match error {
            Error::NoSuchBudget { solver, nfe, near, .. } => {
                let near = near.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ");
                Error::bad_value("teacher-nfe", nfe, format!("{solver} can make {near} calls"))
            }
            other => other,
        })?;
        let identity = serde_json::to_string(&self.teacher).unwrap_or_default();
        let times = grid.coeffs();
        let sampler = Sampler::new(Built { solver, times }, grid, (false, denoise_to_zero), on.model, on.calls)?;
        Ok(Teacher { sampler, identity })
    }

    /// By the second embedded network, too, where the first judges.
    pub(crate) fn by_both_networks(self) -> Result<Self> {
        let judge = self.reference.as_ref().map(second_network).transpose()?.flatten();
        Ok(Self { judge, ..self })
    }

    /// What tells one way of judging from another.
    fn identity(&self) -> Value {
        let of = |(map, statistics): &FeatureReference| json!({ "features": map.name(), "network": map.sha256(), "statistics": statistics.statistics().fingerprint() });
        let reference = self.reference.as_ref().map(of);
        let mut identity = json!({
            "seeds": self.seeds.to_string(), "rng": self.rng, "teacher": tidy(&self.teacher),
            "teacher-nfe": self.teacher_nfe.unwrap_or(TEACHER_NFE), "schedule": tidy(&self.schedule), "reference": reference,
        });
        if let Some(judge) = &self.judge {
            identity["judge"] = of(judge);
        }
        for scorer in &self.scorers {
            let how = scorer.preprocess().resampling.name();
            identity[scorer.kind().name()] = json!({ "network": scorer.sha256(), "preprocess": how });
        }
        identity
    }
}

impl Experiment {
    /// Bytes held beside the calls, at most: the teacher's samples, and what is found of those of an entry. Calibrated
    /// by `benches/memory.py`.
    pub fn held(&self) -> u64 {
        let (samples, calls) = (self.judging.seeds.len(), self.entries.iter().map(|e| e.nfe).max().unwrap_or(0));
        let of = |subject: &Subject| {
            let numbers: usize = subject.model.model.shape().iter().product();
            let features = self.judging.reference.as_ref().map_or(0, |(map, _)| map.dims());
            samples * (8 * numbers + FOUND + SLOPES * calls + 24 * features)
        };
        self.subjects.iter().map(of).max().unwrap_or(0) as u64
    }

    /// Entries on some subjects. Open ones choose their settings on seeds that are not judged on.
    pub fn new(name: &str, subjects: Vec<Subject>, entries: Vec<Entry>, judging: Judging) -> Result<Self> {
        let search = judging.search_seeds()?;
        let by_features = entries.iter().any(|entry| entry.who.learned_features());
        let judging = if by_features { judging.by_both_networks()? } else { judging };
        Ok(Self { name: name.into(), subjects, entries, judging, search })
    }

    /// Has everything that is learned here learned once for each of these seeds; their spread is then shown beside that
    /// over samples.
    pub fn with_train_seeds(mut self, seeds: &[u64]) -> Self {
        let mut entries = Vec::new();
        for entry in self.entries {
            let Candidate::Learned { train, schedule, on, after } = &entry.who else {
                entries.push(entry);
                continue;
            };
            for seed in seeds {
                // A seed that is the usual one is not said, so that what is on record without seeds counts.
                let said = if train.seed.unwrap_or(0) == *seed { train.seed } else { Some(*seed) };
                let train = Box::new(TrainSpec { seed: said, ..(**train).clone() });
                let who = Candidate::Learned { train, schedule: schedule.clone(), on: *on, after: *after };
                entries.push(Entry { who, ..entry.clone() });
            }
        }
        self.entries = entries;
        self
    }

    /// The first line of the journal: everything all entries share.
    pub fn header(&self) -> Value {
        let subjects: Vec<Value> = self.subjects.iter().map(Subject::identity).collect();
        json!({ "experiment": self.name, "version": 2, "subjects": subjects, "judging": self.judging.identity() })
    }

    /// The name of an entry's result.
    pub fn key(&self, entry: &Entry) -> String {
        // Not the row: under whichever name, the same solver has the same result.
        let facts = json!({ "who": tidy(&entry.who), "nfe": entry.nfe, "subject": entry.subject });
        short_hash(&facts)
    }

    /// The name of what the teacher itself does on a subject.
    pub(crate) fn teacher_key(&self, subject: usize) -> String {
        format!("teacher-{subject}")
    }

    /// The name of the training record an entry needs, if it is learned here.
    pub(crate) fn record_key(&self, entry: &Entry) -> Option<String> {
        let Candidate::Learned { train, schedule, on, .. } = &entry.who else { return None };
        let facts = json!({ "train": tidy(train), "schedule": tidy(schedule), "on": on, "nfe": entry.nfe });
        Some(short_hash(&facts))
    }
}

fn short_hash(facts: &Value) -> String {
    let mut text = Fingerprint::default().add(facts.to_string().as_bytes()).text();
    text.truncate(16);
    text
}

/// A description without what it leaves open: a later option that is left out changes no key.
fn tidy(value: &impl Serialize) -> Value {
    fn strip(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                Value::Object(map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, strip(v))).collect())
            }
            other => other,
        }
    }
    strip(serde_json::to_value(value).unwrap_or_default())
}
