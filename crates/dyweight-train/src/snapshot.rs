//! A run's state on disk: everything [`Training`] needs to go on as if it had never stopped.

use super::gauss_newton::{GaussNewton, Options};
use super::guard::Guard;
use super::newton::Curvature;
use super::optimiser::Moments;
use super::relax::Moved;
use super::training::Training;
use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use dyweight_files::{Fingerprint, SharedBytes, StoredTensor, TensorFile, read_file};
use dyweight_sample::comm::{Reader, Wire};
use dyweight_solvers::learned::Block;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The state between two iterations, with the identity of the run it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// A text that names the run: its resolved configuration.
    pub identity: String,
    /// Iterations made.
    pub iteration: usize,
    /// The parameters.
    pub params: Vec<f64>,
    /// What the optimiser remembers of each block.
    pub moments: Vec<Moments>,
    /// Noise that has moved: of training, of validation, and the step. Empty where none moves.
    pub moved: Vec<Vec<f64>>,
    /// What second-order descent knows.
    pub curvature: Option<Curvature>,
    /// What Gauss–Newton without gradients knows; its options are the recipe's.
    pub gauss_newton: Option<GaussNewton>,
    /// Validation's memory.
    pub guard: Option<Guard>,
}

const FORMAT: &str = "dyweight-training-state 5";
/// Where moved noise is kept.
const MOVED: [&str; 3] = ["training_noise", "validation_noise", "noise_step"];
/// How states of every version begin.
const FORMATS: &str = "dyweight-training-state ";

impl Snapshot {
    /// The state of a run.
    pub fn of(run: &Training, identity: &str) -> Self {
        Self {
            identity: identity.into(),
            iteration: run.iteration,
            params: run.params.clone(),
            moments: run.moments.clone(),
            moved: run.moved.iter().flat_map(Moved::params).collect(),
            curvature: run.curvature.clone(),
            gauss_newton: run.gauss_newton.clone(),
            guard: run.guard.clone(),
        }
    }

    /// Puts the state into a run of the same identity.
    pub(crate) fn restore(self, run: &mut Training) {
        run.iteration = self.iteration;
        run.params = self.params;
        run.moments = self.moments;
        if let Some(moved) = &mut run.moved {
            moved.restore(&self.moved);
        }
        run.curvature = self.curvature.or(run.curvature.take());
        if let Some(state) = self.gauss_newton {
            let options = run.gauss_newton.as_ref().map_or(state.options, |begun| begun.options);
            run.gauss_newton = Some(state.with(options));
        }
        run.guard = self.guard;
    }

    /// Writes it, all or nothing.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut file = TensorFile::default();
        file.metadata.insert("format".into(), FORMAT.into());
        file.metadata.insert("identity".into(), self.identity.clone());
        let mut put = |name: &str, values: &[f64]| -> Result<()> {
            let stored = StoredTensor::from_f64(&[values.len()], values).map_err(|p| Error::malformed(path, p))?;
            file.tensors.insert(name.into(), stored);
            Ok(())
        };
        put("numbers", &self.params)?;
        put("first", &self.moments.iter().flat_map(|m| m.first.clone()).collect::<Vec<_>>())?;
        put("second", &self.moments.iter().flat_map(|m| m.second.clone()).collect::<Vec<_>>())?;
        // Counts stay far below 2⁵³, so f64 holds them exactly.
        put("iteration", &[self.iteration as f64])?;
        put("updates", &self.moments.iter().map(|m| m.updates as f64).collect::<Vec<_>>())?;
        for (name, values) in MOVED.iter().zip(&self.moved) {
            put(name, values)?;
        }
        if let Some(known) = &self.curvature {
            put("curvature", &known.matrix)?;
            put("batches", &[known.batches as f64])?;
        }
        if let Some(state) = &self.gauss_newton {
            put("gauss_newton", &state.to_list())?;
        }
        if let Some(g) = &self.guard {
            put("best", &g.best)?;
            let counts = [g.flat, g.adrift, g.rollbacks].map(|n| n as f64);
            put("guard", &[&[g.best_loss, g.initial_loss, g.rate_scale], &counts[..]].concat())?;
        }
        let sha256 = fingerprint(&file);
        file.metadata.insert("sha256".into(), sha256);
        file.write(path)
    }

    /// Reads a state; one of another run, of other blocks or with impossible counts is refused.
    pub fn read(path: &Path, identity: &str, blocks: &[Block]) -> Result<Self> {
        let bytes = read_file(path, u64::MAX)?;
        Self::parse(bytes, identity, blocks).map_err(|problem| Error::malformed(path, problem))
    }

    /// Reads the bytes of a state.
    pub fn parse(bytes: SharedBytes, identity: &str, blocks: &[Block]) -> Result<Self, Malformed> {
        let inconsistent = |problem: &str| Malformed::Inconsistent { problem: problem.into() };
        let file = TensorFile::parse(bytes)?;
        match file.metadata.get("format").map(String::as_str) {
            Some(FORMAT) => {}
            Some(other) if other.starts_with(FORMATS) => {
                return Err(inconsistent(
                    "the state was left by another version of dyweight: start anew, or finish with that one",
                ));
            }
            _ => return Err(inconsistent("this is not a training state")),
        }
        if file.metadata.get("sha256") != Some(&fingerprint(&file)) {
            return Err(inconsistent("the state is damaged: its numbers are not those that were written"));
        }
        let theirs = file.metadata.get("identity").map_or("", String::as_str);
        if theirs != identity {
            return Err(inconsistent(&format!("the state belongs to another run: {}", difference(theirs, identity))));
        }
        let list = |name: &str, len: usize| {
            let values = file.tensor(name)?.to_f64();
            if values.len() == len {
                Ok(values)
            } else {
                Err(inconsistent(&format!("'{name}' has {} numbers, not {len}", values.len())))
            }
        };
        let count = |value: f64| {
            let sound = (0.0..1e15).contains(&value) && value.fract() == 0.0;
            if sound { Ok(value as usize) } else { Err(inconsistent("a count is not a count")) }
        };
        let parameters = blocks.iter().map(Block::len).sum();
        let guard = match file.tensors.contains_key("guard") {
            true => {
                let g = list("guard", 6)?;
                Some(Guard {
                    best: list("best", parameters)?,
                    best_loss: g[0],
                    initial_loss: g[1],
                    rate_scale: g[2],
                    flat: count(g[3])?,
                    adrift: count(g[4])?,
                    rollbacks: count(g[5])?,
                })
            }
            false => None,
        };
        let curvature = match file.tensors.contains_key("curvature") {
            true => {
                let matrix = list("curvature", parameters * parameters)?;
                Some(Curvature { matrix, batches: count(list("batches", 1)?[0])? as u64 })
            }
            false => None,
        };
        let gauss_newton = match file.tensors.contains_key("gauss_newton") {
            true => {
                let list = file.tensor("gauss_newton")?.to_f64();
                let state = GaussNewton::from_list(&list, parameters, Options::default());
                Some(state.ok_or_else(|| inconsistent("'gauss_newton' is not a state of so many numbers"))?)
            }
            false => None,
        };
        let moved = match file.tensors.contains_key(MOVED[0]) {
            true => MOVED.iter().map(|name| Ok(file.tensor(name)?.to_f64())).collect::<Result<_, Malformed>>()?,
            false => Vec::new(),
        };
        let (first, second) = (list("first", parameters)?, list("second", parameters)?);
        let mut at = 0;
        let mut moments = Vec::new();
        for (block, updates) in blocks.iter().zip(list("updates", blocks.len())?) {
            let len = block.len();
            let (first, second) = (first[at..at + len].to_vec(), second[at..at + len].to_vec());
            moments.push(Moments { first, second, updates: count(updates)? as u64 });
            at += len;
        }
        let (iteration, params) = (count(list("iteration", 1)?[0])?, list("numbers", parameters)?);
        Ok(Self { identity: identity.into(), iteration, params, moments, moved, curvature, gauss_newton, guard })
    }
}

/// The first option in which two runs differ, with both values.
fn difference(theirs: &str, ours: &str) -> String {
    let fields = |text: &str| serde_json::from_str::<BTreeMap<String, Value>>(text).unwrap_or_default();
    let (theirs, ours) = (fields(theirs), fields(ours));
    let said = |side: &BTreeMap<String, Value>, key: &str| side.get(key).map_or("nothing".into(), Value::to_string);
    let all: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let differing = all.into_iter().filter(|key| theirs.get(*key) != ours.get(*key));
    let texts: Vec<String> =
        differing.map(|k| format!("its {k} is {}, not {}", said(&theirs, k), said(&ours, k))).collect();
    texts.join("; ")
}

/// To the other processes of the run, which never see the file.
impl Wire for Snapshot {
    fn put(&self, out: &mut Vec<u8>) {
        self.identity.put(out);
        (self.iteration, self.params.clone()).put(out);
        let each = |m: &Moments| (m.updates, (m.first.clone(), m.second.clone()));
        self.moments.iter().map(each).collect::<Vec<_>>().put(out);
        self.moved.put(out);
        let known = self.curvature.as_ref();
        known.map_or((0u64, Vec::new()), |known| (known.batches + 1, known.matrix.clone())).put(out);
        self.gauss_newton.as_ref().map(GaussNewton::to_list).put(out);
        self.guard.is_some().put(out);
        if let Some(g) = &self.guard {
            (g.best.clone(), vec![g.best_loss, g.initial_loss, g.rate_scale]).put(out);
            vec![g.flat, g.adrift, g.rollbacks].put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let identity = String::take(from)?;
        let (iteration, params) = Wire::take(from)?;
        let each = |(updates, (first, second))| Moments { first, second, updates };
        let moments = <Vec<(u64, (Vec<f64>, Vec<f64>))>>::take(from)?.into_iter().map(each).collect();
        let moved = Wire::take(from)?;
        let (known, matrix) = <(u64, Vec<f64>)>::take(from)?;
        let curvature = known.checked_sub(1).map(|batches| Curvature { matrix, batches });
        let gauss_newton = match <Option<Vec<f64>> as Wire>::take(from)? {
            Some(list) => Some(GaussNewton::from_list(&list, Vec::len(&params), Options::default())?),
            None => None,
        };
        let guard = match bool::take(from)? {
            true => {
                let (best, rates): (_, Vec<f64>) = Wire::take(from)?;
                let [best_loss, initial_loss, rate_scale] = rates.try_into().ok()?;
                let [flat, adrift, rollbacks] = Vec::take(from)?.try_into().ok()?;
                Some(Guard { best, best_loss, initial_loss, rate_scale, flat, adrift, rollbacks })
            }
            false => None,
        };
        Some(Self { identity, iteration, params, moments, moved, curvature, gauss_newton, guard })
    }
}

/// The hash of all parameters: every bit pattern is a number, so nothing else would tell a damaged one.
fn fingerprint(file: &TensorFile) -> String {
    file.tensors.values().fold(Fingerprint::default(), |mut hash, t| hash.add(t.bytes()).clone()).text()
}
