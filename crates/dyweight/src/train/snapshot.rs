//! A run's state on disk: everything [`Training`] needs to go on as if it had never stopped.

use super::guard::Guard;
use super::optimiser::Adam;
use super::training::Training;
use crate::checkpoint::{Fingerprint, SharedBytes, StoredTensor, TensorFile, read_file};
use crate::comm::{Parcel, Reader};
use crate::error::{Error, Malformed, Result};
use std::path::Path;

/// The state between two iterations, with the identity of the run it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// A text that names the run: its resolved configuration.
    pub identity: String,
    /// Iterations made.
    pub iteration: usize,
    /// Parameters.
    pub values: Vec<f64>,
    /// Moments.
    pub adam: Adam,
    /// Validation's memory.
    pub guard: Option<Guard>,
}

const FORMAT: &str = "dyweight-training-state 2";

impl Snapshot {
    /// The state of a run.
    pub fn of(run: &Training<'_>, identity: &str) -> Self {
        Self {
            identity: identity.into(),
            iteration: run.iteration,
            values: run.parameters.values.clone(),
            adam: run.adam.clone(),
            guard: run.guard.clone(),
        }
    }

    /// Puts the state into a run of the same identity.
    pub fn restore(self, run: &mut Training<'_>) {
        run.iteration = self.iteration;
        run.parameters.values = self.values;
        run.adam = self.adam;
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
        put("values", &self.values)?;
        put("first", &self.adam.first)?;
        put("second", &self.adam.second)?;
        // Counts stay far below 2⁵³, so f64 holds them exactly.
        put("counts", &[self.iteration as f64, self.adam.updates as f64])?;
        if let Some(g) = &self.guard {
            put("best", &g.best)?;
            let counts = [g.flat, g.adrift, g.rollbacks].map(|n| n as f64);
            put("guard", &[&[g.best_loss, g.initial_loss, g.rate_scale], &counts[..]].concat())?;
        }
        let sha256 = fingerprint(&file);
        file.metadata.insert("sha256".into(), sha256);
        file.write(path)
    }

    /// Reads a state; one of another run, another length or with impossible counts is refused.
    pub fn read(path: &Path, identity: &str, parameters: usize) -> Result<Self> {
        let bytes = read_file(path, u64::MAX)?;
        Self::parse(bytes, identity, parameters).map_err(|problem| Error::malformed(path, problem))
    }

    /// Reads the bytes of a state.
    pub fn parse(bytes: SharedBytes, identity: &str, parameters: usize) -> Result<Self, Malformed> {
        let inconsistent = |problem: &str| Malformed::Inconsistent { problem: problem.into() };
        let file = TensorFile::parse(bytes)?;
        if file.metadata.get("format").map(String::as_str) != Some(FORMAT) {
            return Err(inconsistent("this is not a training state"));
        }
        if file.metadata.get("sha256") != Some(&fingerprint(&file)) {
            return Err(inconsistent("the state is damaged: its numbers are not those that were written"));
        }
        if file.metadata.get("identity").map(String::as_str) != Some(identity) {
            return Err(inconsistent("the state belongs to a run with another configuration"));
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
        let counts = list("counts", 2)?;
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
        let adam = Adam {
            first: list("first", parameters)?,
            second: list("second", parameters)?,
            updates: count(counts[1])? as u64,
        };
        Ok(Self {
            identity: identity.into(),
            iteration: count(counts[0])?,
            values: list("values", parameters)?,
            adam,
            guard,
        })
    }
}

/// To the other processes of the run, which never see the file.
impl Parcel for Snapshot {
    fn put(&self, out: &mut Vec<u8>) {
        self.identity.put(out);
        (self.iteration, self.values.clone()).put(out);
        (self.adam.updates, (self.adam.first.clone(), self.adam.second.clone())).put(out);
        self.guard.is_some().put(out);
        if let Some(g) = &self.guard {
            (g.best.clone(), vec![g.best_loss, g.initial_loss, g.rate_scale]).put(out);
            vec![g.flat, g.adrift, g.rollbacks].put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let identity = String::take(from)?;
        let (iteration, values) = Parcel::take(from)?;
        let (updates, (first, second)) = Parcel::take(from)?;
        let guard = match bool::take(from)? {
            true => {
                let (best, rates): (_, Vec<f64>) = Parcel::take(from)?;
                let [best_loss, initial_loss, rate_scale] = rates.try_into().ok()?;
                let [flat, adrift, rollbacks] = Vec::take(from)?.try_into().ok()?;
                Some(Guard { best, best_loss, initial_loss, rate_scale, flat, adrift, rollbacks })
            }
            false => None,
        };
        Some(Self { identity, iteration, values, adam: Adam { first, second, updates }, guard })
    }
}

/// The hash of all numbers: every bit pattern is a number, so nothing else would tell a damaged one.
fn fingerprint(file: &TensorFile) -> String {
    file.tensors.values().fold(Fingerprint::default(), |mut hash, t| hash.add(t.bytes()).clone()).text()
}
