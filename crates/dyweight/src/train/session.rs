//! A run with its files: snapshots that survive `kill -9`, a log, an optional trace.
//!
//! Nothing written depends on the clock, and a resumed run first cuts the log back to the snapshot it starts from: log and
//! result are the same bytes as those of a run that was never interrupted. Of several processes rank 0 alone has files.

use super::snapshot::Snapshot;
use super::training::{Event, Iteration, Training};
use crate::checkpoint::{StoredTensor, TensorFile};
use crate::error::{Error, Result};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, Write};
use std::ops::ControlFlow;
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
}

impl Files {
    /// The files of a run whose solver goes to `out`: `solver.json` has `solver.state` and `solver.stats.jsonl`.
    pub fn beside(out: &Path) -> Self {
        Self { state: out.with_extension("state"), log: out.with_extension("stats.jsonl") }
    }
}

/// A run that is writing.
pub struct Session<'s, 't> {
    run: &'s mut Training<'t>,
    files: Files,
    identity: String,
    /// None but at rank 0.
    log: Option<File>,
    saved: Instant,
    between: Duration,
}

impl<'s, 't> Session<'s, 't> {
    /// Opens the files, restoring the state if `resume` and there is one. True if it was resumed.
    pub fn open(run: &'s mut Training<'t>, files: Files, identity: &str, resume: bool) -> Result<(Self, bool)> {
        let comm = run.comm();
        let parameters = run.parameters.values.len();
        let stored = comm.from_first(|| match resume && files.state.exists() {
            true => Snapshot::read(&files.state, identity, parameters).map(Some),
            false => Ok(None),
        })?;
        let resumed = stored.is_some();
        stored.into_iter().for_each(|snapshot| snapshot.restore(run));
        let logged = if resumed { run.iteration } else { 0 };
        let log = if comm.is_first() { Some(open_log(&files.log, logged)?) } else { None };
        let (identity, saved, between) = (identity.into(), Instant::now(), BETWEEN_SNAPSHOTS);
        let session = Self { run, files, identity, log, saved, between };
        session.save()?;
        Ok((session, resumed))
    }

    /// Takes snapshots this far apart.
    pub fn snapshots_every(mut self, between: Duration) -> Self {
        self.between = between;
        self
    }

    /// Iterations made so far.
    pub fn iteration(&self) -> usize {
        self.run.iteration
    }

    /// Runs to the end, showing every iteration; `Break` in any process stops all at that iteration with the state saved.
    pub fn run(mut self, show: &mut dyn FnMut(&Iteration, &Training<'t>) -> ControlFlow<()>) -> Result<()> {
        while !self.run.is_finished() {
            let iteration = self.run.advance()?;
            let failed = |e| Error::io("write", &self.files.log, e);
            if let Some(log) = &mut self.log {
                writeln!(log, "{}", line(&iteration)).map_err(failed)?;
            }
            if self.saved.elapsed() > self.between {
                self.save()?;
                self.saved = Instant::now();
            }
            let stop = show(&iteration, self.run).is_break();
            if self.run.comm().any(stop) {
                self.save()?;
                return Err(Error::Cancelled);
            }
        }
        self.save()
    }

    /// The log reaches the disk before the state that says it is there.
    fn save(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        log.sync_data().map_err(|e| Error::io("write", &self.files.log, e))?;
        Snapshot::of(self.run, &self.identity).write(&self.files.state)
    }
}

/// Opens the log cut back to the lines of the first `iterations` iterations.
fn open_log(path: &Path, iterations: usize) -> Result<File> {
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
    }
    log.set_len(keep).map_err(failed)?;
    log.seek(std::io::SeekFrom::End(0)).map_err(failed)?;
    Ok(log)
}

fn line(iteration: &Iteration) -> String {
    let mut facts = json!({
        "iteration": iteration.index, "loss": iteration.loss, "rate": iteration.rate, "gradient_norm": iteration.norm,
    });
    if let Some(validation) = iteration.validation {
        facts["validation"] = json!(validation.loss);
        if validation.event == Event::RolledBack {
            facts["rolled_back"] = json!(true);
        }
    }
    facts.to_string()
}

/// All parameters, losses and gradients of a run, for comparison with other implementations.
#[derive(Default)]
pub struct Trace {
    weights: Vec<f64>,
    scales: Vec<f64>,
    losses: Vec<f64>,
    rates: Vec<f64>,
    weight_gradients: Vec<f64>,
    scale_gradients: Vec<f64>,
}

impl Trace {
    /// Notes the parameters before the first iteration.
    pub fn start(run: &Training<'_>) -> Self {
        let mut trace = Self::default();
        trace.parameters(run);
        trace
    }

    fn parameters(&mut self, run: &Training<'_>) {
        let p = &run.parameters;
        self.weights.extend(p.matrix(&p.values));
        self.scales.extend(p.scales());
    }

    /// Notes an iteration and the parameters after it.
    pub fn add(&mut self, iteration: &Iteration, run: &Training<'_>) {
        let p = &run.parameters;
        self.losses.push(iteration.loss);
        self.rates.push(iteration.rate);
        self.weight_gradients.extend(p.matrix(&iteration.gradient));
        self.scale_gradients.extend(p.split(&iteration.gradient).1);
        self.parameters(run);
    }

    /// Writes it as safetensors.
    pub fn write(&self, path: &Path, run: &Training<'_>) -> Result<()> {
        let (steps, scales) = (run.parameters.steps(), run.parameters.scales().len());
        let iterations = self.losses.len();
        let mut file = TensorFile::default();
        let mut put = |name: &str, shape: &[usize], values: &[f64]| -> Result<()> {
            let stored = StoredTensor::from_f64(shape, values).map_err(|p| Error::malformed(path, p))?;
            file.tensors.insert(name.into(), stored);
            Ok(())
        };
        put("weights", &[iterations + 1, steps, steps], &self.weights)?;
        put("time_scale", &[iterations + 1, scales], &self.scales)?;
        put("loss", &[iterations], &self.losses)?;
        put("lr", &[iterations], &self.rates)?;
        put("grad_weights", &[iterations, steps, steps], &self.weight_gradients)?;
        put("grad_time_scale", &[iterations, scales], &self.scale_gradients)?;
        file.write(path)
    }
}

/// Removes the state of a finished run.
pub fn remove_state(files: &Files) -> Result<()> {
    std::fs::remove_file(&files.state).map_err(|e| Error::io("remove", &files.state, e))
}
