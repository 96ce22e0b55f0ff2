//! A run with its files: snapshots that survive `kill -9`, and a log.
//!
//! Nothing written depends on the clock, and a resumed run first cuts the log back to the snapshot it starts from: log
//! and result are the same bytes as those of a run that was never interrupted. Of several processes rank 0 alone has
//! files.

use super::snapshot::Snapshot;
use super::training::{Event, Iteration, Training};
use dyweight_core::error::{Error, Result};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Snapshots are this far apart unless told otherwise; when exactly they are taken changes nothing.
const BETWEEN_SNAPSHOTS: Duration = Duration::from_secs(2);

/// Where a run keeps its files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The state to resume from; removed when the run is finished.
    pub state: PathBuf,
    /// One line of JSON per iteration.
    pub log: PathBuf,
    /// The starts that were tried, where one was chosen.
    pub start: PathBuf,
}

impl Files {
    /// The files of a run whose solver goes to `out`: `solver.json` has `solver.state`, `solver.stats.jsonl` and
    /// `solver.start.json`.
    pub fn beside(out: &Path) -> Self {
        Self { state: beside(out, "state"), log: beside(out, "stats.jsonl"), start: beside(out, "start.json") }
    }
}

/// A file that belongs to `out`. The ending `.json` gives way to its own; any other stays in the name, so that two
/// solvers never share it.
pub fn beside(out: &Path, ending: &str) -> PathBuf {
    if out.extension().is_some_and(|e| e == "json") {
        return out.with_extension(ending);
    }
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    out.with_file_name(name)
}

/// Sees every iteration; an error stops the run, and is the run's.
pub type Watcher<'w> = dyn FnMut(&Iteration, &Training) -> Result<()> + 'w;

/// The losses of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Of each iteration; none where it was no number.
    pub losses: Vec<Option<f64>>,
    /// Of validations, each with the iteration after which it was, from 0.
    pub validations: Vec<(usize, f64)>,
}

impl History {
    fn add(&mut self, loss: Option<f64>, validation: Option<f64>) {
        let index = self.losses.len();
        self.losses.push(loss.filter(|loss| loss.is_finite()));
        self.validations.extend(validation.filter(|loss| loss.is_finite()).map(|loss| (index, loss)));
    }

    /// What the log has of the iterations before this run.
    fn add_line(&mut self, line: &[u8]) {
        let facts: Value = serde_json::from_slice(line).unwrap_or_default();
        self.add(facts["loss"].as_f64(), facts["validation"].as_f64());
    }
}

/// A run under way, with its files where it has any.
pub struct Session {
    run: Training,
    history: History,
    files: Option<Files>,
    identity: String,
    /// None but at rank 0.
    log: Option<File>,
    saved: Instant,
    between: Duration,
}

impl Session {
    /// Opens the files, restoring the state if `resume` and there is one.
    pub fn open(mut run: Training, files: Option<Files>, identity: &str, resume: bool) -> Result<Self> {
        let (comm, blocks, mut history) = (run.comm().clone(), run.learnable().blocks(), History::default());
        let mut log = None;
        if let Some(files) = &files {
            let stored = comm.broadcast(|| match resume && files.state.exists() {
                true => Snapshot::read(&files.state, identity, &blocks).map(Some),
                false => Ok(None),
            })?;
            let logged = stored.as_ref().map_or(0, |snapshot| snapshot.iteration);
            stored.into_iter().for_each(|snapshot| snapshot.restore(&mut run));
            log = if comm.is_root() { Some(open_log(&files.log, logged, &mut history)?) } else { None };
        }
        let (identity, saved, between) = (identity.into(), Instant::now(), BETWEEN_SNAPSHOTS);
        let session = Self { run, history, files, identity, log, saved, between };
        session.save()?;
        Ok(session)
    }

    /// Takes snapshots this far apart, if that is said.
    pub(crate) fn snapshots_every(mut self, between: Option<Duration>) -> Self {
        self.between = between.unwrap_or(self.between);
        self
    }

    /// Runs to the end, showing every iteration. An error in any process stops all at that iteration with the state
    /// saved, and is the error where it was given.
    pub fn run(mut self, show: &mut Watcher<'_>) -> Result<(Training, History)> {
        while !self.run.is_finished() {
            let made = self.run.iteration;
            let iteration = match self.run.advance() {
                Ok(iteration) => iteration,
                Err(error) => {
                    // An iteration may take an hour: who is asked to stop in the midst of one ends before it.
                    if matches!(error, Error::Cancelled) && self.run.iteration == made {
                        self.save()?;
                    }
                    return Err(error);
                }
            };
            self.note(&iteration)?;
            let reason = show(&iteration, &self.run).err();
            if self.run.comm().any(reason.is_some())? {
                self.save()?;
                return Err(reason.unwrap_or(Error::Cancelled));
            }
        }
        self.save()?;
        Ok((self.run, self.history))
    }

    /// Writes an iteration down, and now and then the state.
    fn note(&mut self, iteration: &Iteration) -> Result<()> {
        self.history.add(Some(iteration.loss), iteration.validation.map(|validation| validation.loss));
        if let (Some(log), Some(files)) = (&mut self.log, &self.files) {
            let line = line(iteration, self.run.recipe().step_is());
            writeln!(log, "{line}").map_err(|e| Error::io("write", &files.log, e))?;
        }
        if self.saved.elapsed() > self.between {
            self.save()?;
            self.saved = Instant::now();
        }
        Ok(())
    }

    /// The log reaches the disk before the state that says it is there.
    fn save(&self) -> Result<()> {
        let (Some(log), Some(files)) = (&self.log, &self.files) else { return Ok(()) };
        log.sync_data().map_err(|e| Error::io("write", &files.log, e))?;
        Snapshot::of(&self.run, &self.identity).write(&files.state)
    }
}

/// Opens the log cut back to the lines of the first `iterations` iterations, which are added to the history.
fn open_log(path: &Path, iterations: usize, history: &mut History) -> Result<File> {
    let failed = |e| Error::io("write", path, e);
    let mut log = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    let mut keep = 0;
    let mut reader = BufReader::new(&log);
    let mut text = Vec::new();
    for i in 0..iterations {
        text.clear();
        let read = reader.read_until(b'\n', &mut text).map_err(failed)?;
        if read == 0 || text.last() != Some(&b'\n') {
            return Err(failed(std::io::Error::other(format!(
                "the log ends at iteration {i}, before the state's {iterations}"
            ))));
        }
        keep += read as u64;
        history.add_line(&text);
    }
    log.set_len(keep).map_err(failed)?;
    log.seek(std::io::SeekFrom::End(0)).map_err(failed)?;
    Ok(log)
}

fn line(iteration: &Iteration, step_is: &str) -> String {
    let mut facts = json!({
        "iteration": iteration.index, "loss": iteration.loss, step_is: iteration.rate, "gradient_norm": iteration.norm,
    });
    if let Some(validation) = iteration.validation {
        facts["validation"] = json!(validation.loss);
        if validation.event == Event::RolledBack {
            facts["rolled_back"] = json!(true);
        }
    }
    facts.to_string()
}

/// Removes the state of a finished run.
pub fn remove_state(files: &Files) -> Result<()> {
    std::fs::remove_file(&files.state).map_err(|e| Error::io("remove", &files.state, e))
}
