//! Working through an experiment: what is on record is not done again.
//!
//! ```text
//! OUT/records.jsonl       settings, training records, scores: the results
//! OUT/times.jsonl         how long things took, apart from the results because they differ from run to run
//! OUT/solvers/*.json      what was learned, ready for `dyweight sample --weights`
//! OUT/pictures/*.png      first samples of each entry, and their ways
//! OUT/search/*         how handcrafted rows were searched for
//! OUT/lessons, teacher logs, states of interrupted training, targets
//! ```

use super::candidate::Candidate;
use super::evaluator::Evaluator;
use super::experiment::{Entry, Experiment};
use super::forecast::Forecast;
use super::pictures::Pictures;
use super::record::{Line, TrainingRecord};
use super::results::{Results, run_seconds, sort};
use super::samplers::{learned, sampler_of};
use super::training_job::TrainingJob;
use dyweight_core::error::{Error, Result, counted};
use dyweight_files::journal::Journal;
use dyweight_files::{Lock, atomic};
use dyweight_metrics::frechet::Paired;
use dyweight_sample::comm::Comm;
use dyweight_sample::{Sampler, Stop};
use dyweight_solvers::solver_file::SolverFile;
use dyweight_train::{Supervision, Targets, Work};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Instant;

/// A piece of work.
pub struct Piece<'p> {
    /// Its name.
    pub what: &'p str,
    /// How many steps it has.
    pub steps: usize,
    /// Entries that are finished, and all of them.
    pub entries: (usize, usize),
    /// What it costs, in network calls.
    pub cost: f64,
    /// What was done before it in this run.
    pub before: f64,
    /// What there was to do in this run.
    pub all: f64,
}

/// Sees the work go on.
pub trait Watch: Send {
    /// A piece of work begins.
    fn begin(&mut self, _piece: &Piece<'_>) {}

    /// Asked where there is no step to stop at.
    fn stop(&self) -> Option<Stop> {
        None
    }

    /// So many steps of the piece were made by an earlier run.
    fn skip(&mut self, _steps: usize) {}

    /// So many steps more; an error asks to stop.
    fn advance(&mut self, _steps: usize) -> Result<()> {
        Ok(())
    }
}

/// Nobody watches.
impl Watch for () {}

/// Does all work that is not on record yet.
///
/// Stops with [`Error::Cancelled`] when `watch` breaks in any process; finished work stays on record. All processes
/// have the results; rank 0 alone writes.
pub fn run(experiment: &Experiment, directory: &Path, comm: &Arc<dyn Comm>, watch: &mut dyn Watch) -> Result<Results> {
    let ready = prepare(experiment, directory, comm)?;
    let _lock = if comm.is_root() { Some(hold(directory)?) } else { None };
    let mut journal = None;
    let lines = comm.broadcast(|| {
        let (opened, lines) = Journal::open(directory, &experiment.header())?;
        journal = Some(opened);
        Ok(lines.iter().map(Value::to_string).collect::<Vec<_>>())
    })?;
    let lines = lines.iter().map(|line| serde_json::from_str(line).unwrap_or_default()).collect();
    let results = sort(directory, lines)?;
    let forecast = experiment.forecast(&results, directory, comm)?;
    let all = forecast.all().in_calls();
    let (done, before) = (0, 0.0);
    let imitated = BTreeMap::new();
    let mut work =
        Working { experiment, directory, comm, journal, results, imitated, watch, done, forecast, before, all };
    if comm.is_root() {
        work.remove_left_overs()?;
    }
    let began = Instant::now();
    for (entry, ready) in experiment.entries.iter().zip(&ready) {
        work.entry(entry, ready.as_ref())?;
        work.done += 1;
    }
    if comm.is_root() && all > 0.0 {
        work.note(&json!({ "run": began.elapsed().as_secs_f64() }))?;
        work.results.run_seconds = run_seconds(directory);
    }
    Ok(work.results)
}

fn hold(directory: &Path) -> Result<Lock> {
    std::fs::create_dir_all(directory).map_err(|e| Error::io("create", directory, e))?;
    Lock::directory(directory)
}

/// Builds whatever can be built, so that what is wrong is refused before the long work.
fn prepare(experiment: &Experiment, directory: &Path, comm: &Arc<dyn Comm>) -> Result<Vec<Option<Sampler>>> {
    let one = |entry: &Entry| {
        let subject = &experiment.subjects[entry.subject];
        experiment.judging.teacher(subject)?;
        if let Candidate::Learned { on, .. } = &entry.who {
            TrainingJob::of("", entry, &experiment.subjects[*on], directory, comm, None)?;
        }
        sampler_of(entry, subject)
    };
    experiment.entries.iter().map(one).collect()
}

struct Working<'w> {
    experiment: &'w Experiment,
    directory: &'w Path,
    comm: &'w Arc<dyn Comm>,
    /// None but at rank 0.
    journal: Option<Journal>,
    results: Results,
    /// The teacher's samples on each subject by their features, where these are looked at; none but at rank 0.
    imitated: BTreeMap<usize, Arc<Vec<Paired>>>,
    watch: &'w mut dyn Watch,
    done: usize,
    forecast: Forecast,
    /// Done in this run, in network calls.
    before: f64,
    /// To be done in this run.
    all: f64,
}

impl Working<'_> {
    /// A run killed between recording a training record and removing its state leaves the state.
    fn remove_left_overs(&self) -> Result<()> {
        for entry in &self.experiment.entries {
            let (Candidate::Learned { on, .. }, Some(key)) = (&entry.who, self.experiment.record_key(entry)) else {
                continue;
            };
            if !self.results.training_records.contains_key(&key) {
                continue;
            }
            let config = TrainingJob::of(&key, entry, &self.experiment.subjects[*on], self.directory, self.comm, None)?;
            if let Some(files) = config.map(|c| c.files()).filter(|f| f.state.exists()) {
                dyweight_train::remove_state(&files)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, ready: Option<&Sampler>) -> Result<()> {
        let key = self.experiment.key(entry);
        if self.results.scores.contains_key(&key) {
            return Ok(());
        }
        match ready {
            Some(ready) => self.judge(&key, entry, ready),
            None => {
                let file = self.learned(entry)?;
                let ready = learned(&file, entry, &self.experiment.subjects[entry.subject])?;
                self.judge(&key, entry, &ready)
            }
        }
    }

    /// The solver of an entry that is learned here, learning it first if need be.
    fn learned(&mut self, entry: &Entry) -> Result<SolverFile> {
        let (Candidate::Learned { after, .. }, Some(key)) = (&entry.who, self.experiment.record_key(entry)) else {
            return Err(Error::Cancelled);
        };
        let stages = self.stages(&key);
        let complete = |l: &TrainingRecord| stages.iter().all(|s| l.stages.iter().any(|(made, _)| made == s));
        if !self.results.training_records.get(&key).is_some_and(complete) {
            self.learn(&key, entry, &stages)?;
        }
        let training_record = &self.results.training_records[&key];
        let stage = after.and_then(|after| training_record.stages.iter().find(|(made, _)| *made == after));
        Ok(stage.map_or(&training_record.file, |(_, file)| file).as_ref().clone())
    }

    /// After which iterations the solvers of a training record are wanted.
    fn stages(&self, key: &str) -> Vec<usize> {
        let of_record = |entry: &&Entry| self.experiment.record_key(entry).as_deref() == Some(key);
        let after = |entry: &Entry| match &entry.who {
            Candidate::Learned { after, .. } => *after,
            _ => None,
        };
        let mut stages: Vec<usize> = self.experiment.entries.iter().filter(of_record).filter_map(after).collect();
        stages.sort_unstable();
        stages.dedup();
        stages
    }

    fn learn(&mut self, key: &str, entry: &Entry, stages: &[usize]) -> Result<()> {
        let Candidate::Learned { on, .. } = &entry.who else { return Ok(()) };
        let subject = &self.experiment.subjects[*on];
        let job = TrainingJob::of(key, entry, subject, self.directory, self.comm, self.watch.stop())?;
        let Some(job) = job else { return Ok(()) };
        let cost = self.forecast.training_records.get(key).map_or(0.0, Work::in_calls);
        self.begin(
            &format!("training {}, {}", entry.row, counted(entry.nfe, "call")),
            job.trainer().iterations(),
            cost,
        );
        let watch = &mut self.watch;
        let (begun, is_new) = (Instant::now(), !job.files().state.exists());
        let mut is_root = true;
        let training_record = job.take(stages, &mut |iteration| {
            if std::mem::take(&mut is_root) && iteration.index > 0 {
                watch.skip(iteration.index);
            }
            watch.advance(1)
        })?;
        if self.comm.is_root() && is_new {
            let (key, seconds) = (format!("training-{key}"), begun.elapsed().as_secs_f64());
            self.note_time(&key, "seconds", seconds)?;
            self.results.seconds.insert(key, seconds);
        }
        if let Some(training_record) = &training_record {
            let path = self.directory.join(solver_file(entry));
            let solvers = self.directory.join("solvers");
            std::fs::create_dir_all(&solvers).map_err(|e| Error::io("create", &solvers, e))?;
            atomic::write(&path, &training_record.file.to_bytes())?;
        }
        self.record(training_record.map(|training_record| Line::TrainingRecord(Box::new(training_record))))?;
        job.finish()
    }

    /// Tells the watcher what comes now.
    fn begin(&mut self, what: &str, steps: usize, cost: f64) {
        let (entries, all) = ((self.done, self.experiment.entries.len()), self.all);
        self.watch.begin(&Piece { what, steps, entries, cost, before: self.before, all });
        self.before += cost;
    }

    /// Writes down what rank 0 has found and tells the others.
    fn record(&mut self, line: Option<Line>) -> Result<()> {
        if let (Some(journal), Some(line)) = (&mut self.journal, &line) {
            journal.append(line)?;
        }
        let text = self.comm.broadcast(|| Ok(serde_json::to_string(&line).unwrap_or_default()))?;
        let line = match line {
            Some(line) => Some(line),
            None => serde_json::from_str(&text).unwrap_or_default(),
        };
        match line {
            Some(Line::Score(score)) => drop(self.results.scores.insert(score.key.clone(), *score)),
            Some(Line::TrainingRecord(training_record)) => {
                drop(self.results.training_records.insert(training_record.training_record.clone(), *training_record))
            }
            None => {}
        }
        Ok(())
    }

    fn judge(&mut self, key: &str, entry: &Entry, ready: &Sampler) -> Result<()> {
        let (experiment, samples) = (self.experiment, self.experiment.judging.seeds.len());
        let subject = &experiment.subjects[entry.subject];
        let judging = &experiment.judging;
        let targets = Targets::new(
            subject.model.model.clone(),
            judging.pairs(subject),
            judging.teacher(subject)?,
            Supervision::Endpoint,
            judging.batch,
        )
        .shared_by(self.comm.clone())
        .stopped_by(self.watch.stop())
        .cached_in(self.directory.join("teacher"), &format!("{} {}", subject.model.sha256, subject.model.settings))?;
        self.teach(&targets, samples, entry.subject)?;
        self.show_teacher(&targets, entry.subject)?;
        let still = Evaluator { judging, subject, targets: &targets, imitated: &[], tick: &|_| Ok(()) };
        let (share, teacher) = (still.share().len(), experiment.teacher_key(entry.subject));
        if !self.imitated.contains_key(&entry.subject) {
            let features = still.teacher_features()?;
            if !self.results.scores.contains_key(&teacher) {
                let found = still.teacher(&teacher, &features)?;
                self.record(found.map(|score| Line::Score(Box::new(score))))?;
            }
            let imitated = features.into_iter().map(Paired::new).collect::<Result<Vec<_>>>()?;
            self.imitated.insert(entry.subject, Arc::new(imitated));
        }
        let imitated = self.imitated.get(&entry.subject).cloned().unwrap_or_default();
        self.begin(&format!("{}, {}", entry.row, counted(entry.nfe, "call")), share, (samples * entry.nfe) as f64);
        let watch = Mutex::new(&mut self.watch);
        let tick = |steps: usize| {
            let mut watch = watch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            watch.advance(steps)
        };
        let judge = Evaluator { judging, subject, targets: &targets, imitated: &imitated, tick: &tick };
        let found = judge.score(key, entry, ready)?;
        if let Some(found) = found.as_ref().filter(|_| judging.pictures) {
            found.pictures.write(self.directory, key, &subject.model)?;
        }
        if let Some(seconds) = found.as_ref().and_then(|found| found.seconds_per_sample) {
            self.note_time(key, "seconds_per_sample", seconds)?;
            self.results.seconds.insert(key.into(), seconds);
        }
        self.record(found.map(|found| Line::Score(Box::new(found.score))))
    }

    /// Draws the teacher's first samples, once.
    fn show_teacher(&self, targets: &Targets, subject: usize) -> Result<()> {
        let (key, model) = (self.experiment.teacher_key(subject), &self.experiment.subjects[subject].model);
        if !self.comm.is_root()
            || !self.experiment.judging.pictures
            || super::pictures::files(self.directory, &key).0.exists()
        {
            return Ok(());
        }
        let first = Pictures::many(&*model.model).min(self.experiment.judging.seeds.len());
        let states = if first > 0 { targets.of(0..first)? } else { Vec::new() };
        let Some(last) = states.last() else { return Ok(()) };
        Pictures::of(last, &*model.model).write(self.directory, &key, model)
    }

    /// Has the teacher's endpoints computed, or read from disk.
    fn teach(&mut self, targets: &Targets, samples: usize, subject: usize) -> Result<()> {
        // Read, not computed, but for the first time.
        let cost = self.forecast.teachers.remove(&subject).map_or(0.0, |work| work.in_calls());
        self.begin(&format!("teacher on {}", self.experiment.subjects[subject].name), samples, cost);
        let batch = self.experiment.judging.batch.max(16);
        for first in (0..samples).step_by(batch) {
            let last = (first + batch).min(samples);
            targets.prepare(first..last)?;
            let stop = self.watch.advance(last - first).is_err();
            if self.comm.any(stop)? {
                return Err(Error::Cancelled);
            }
        }
        Ok(())
    }

    fn note_time(&self, key: &str, what: &str, seconds: f64) -> Result<()> {
        self.note(&json!({ "key": key, what: seconds }))
    }

    fn note(&self, line: &Value) -> Result<()> {
        let path = self.directory.join("times.jsonl");
        let line = format!("{line}\n");
        let open = OpenOptions::new().append(true).create(true).open(&path);
        open.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|e| Error::io("write", &path, e))
    }
}

/// Where the solver of an entry that is learned lies, from the experiment's directory.
pub(super) fn solver_file(entry: &Entry) -> String {
    let seed = entry.train_seed().map_or(String::new(), |seed| format!("-seed{seed}"));
    format!("solvers/{}-nfe{}{seed}.json", slug(&entry.row), entry.nfe)
}

/// A name for a file.
fn slug(text: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = text.chars().map(letter).collect();
    words.split('-').filter(|w| !w.is_empty()).collect::<Vec<_>>().join("-")
}
