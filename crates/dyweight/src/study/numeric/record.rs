//! Results on disk: `records.jsonl`, one line for the settings, then one for each finished cell.
//!
//! Lines are only ever appended and each is forced to disk, so a run can be killed at any moment: on the next start
//! a last line that was not written to its end is cut off and its cell is computed again. Lines hold no times and
//! no paths; the same settings give the same lines on every machine, though in the order of computation.

use super::options::Settings;
use crate::error::{Error, Malformed, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Which cell: ordered by degree, steps, order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// Degree K of the true solution.
    pub degree: usize,
    /// Number of steps S.
    pub steps: usize,
    /// Order of the method.
    pub order: usize,
}

/// Relative errors ‖y(1) − y*(1)‖/‖y*(1)‖ of one cell, problem by problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Which cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// Classical weights.
    pub standard: Vec<f64>,
    /// Weights fitted to the very problem they are run on.
    pub optimised: Vec<f64>,
    /// The weights fitted to problem i, run on fresh problem i.
    pub fresh: Vec<f64>,
    /// Classical weights on the fresh problems.
    pub fresh_standard: Vec<f64>,
    /// The teacher, AB-4 with 100 steps, on the problems of this degree.
    pub teacher: Vec<f64>,
}

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stat {
    /// Mean.
    pub mean: f64,
    /// Standard deviation over √n.
    pub se: f64,
}

impl Stat {
    /// Of at least two values.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
        Self { mean, se: (variance / n).sqrt() }
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    study: String,
    version: u32,
    settings: Settings,
}

/// The file of records.
pub(super) struct Store {
    path: PathBuf,
    file: File,
    records: BTreeMap<Cell, Record>,
}

impl Store {
    /// Opens or begins the file in this directory; refuses one that was made with other settings.
    pub(super) fn open(folder: &Path, settings: &Settings) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
        let path = folder.join("records.jsonl");
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(|e| Error::io("open", &path, e))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|e| Error::io("read", &path, e))?;
        let Records { settings: recorded, cells: records, sound } =
            Records::parse(&text).map_err(|problem| Error::malformed(&path, problem))?;
        if sound < text.len() {
            file.set_len(sound as u64).map_err(|e| Error::io("truncate", &path, e))?;
        }
        let mut store = Self { path, file, records };
        match recorded {
            Some(recorded) => refuse_other(&store.path, &recorded, settings)?,
            None => {
                let header = Header { study: "numeric".into(), version: 1, settings: settings.clone() };
                store.line(&header)?;
            }
        }
        Ok(store)
    }

    /// Finished cells.
    pub(super) fn records(&self) -> &BTreeMap<Cell, Record> {
        &self.records
    }

    /// Adds a finished cell; when this returns, it is on disk.
    pub(super) fn append(&mut self, record: Record) -> Result<()> {
        self.line(&record)?;
        self.records.insert(record.cell, record);
        Ok(())
    }

    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let failed = |e| Error::io("write", &self.path, e);
        let mut line = serde_json::to_vec(value).map_err(|e| failed(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(failed)?;
        self.file.sync_data().map_err(failed)
    }
}

/// What a file of records holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// The settings of its first line.
    pub settings: Option<Settings>,
    /// Finished cells.
    pub cells: BTreeMap<Cell, Record>,
    /// How many bytes are sound lines: what follows was not written to its end.
    pub sound: usize,
}

impl Records {
    /// Reads the bytes of a file. Only the last line may be broken.
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        let mut all = Self::default();
        for (index, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
            let is_last = all.sound + line.len() == text.len();
            match all.line(index, line) {
                Ok(()) => all.sound += line.len(),
                Err(_) if is_last => break,
                Err(reason) => {
                    let reason = format!("line {}: {reason}", index + 1);
                    return Err(Malformed::Json { what: "records", reason });
                }
            }
        }
        Ok(all)
    }

    fn line(&mut self, index: usize, line: &[u8]) -> Result<(), String> {
        if line.last() != Some(&b'\n') {
            return Err("no end of line".into());
        }
        if index == 0 {
            let header: Header = serde_json::from_slice(line).map_err(|e| e.to_string())?;
            self.settings = Some(header.settings);
        } else {
            let record: Record = serde_json::from_slice(line).map_err(|e| e.to_string())?;
            self.cells.insert(record.cell, record);
        }
        Ok(())
    }
}

fn refuse_other(path: &Path, old: &Settings, new: &Settings) -> Result<()> {
    if old == new {
        return Ok(());
    }
    let text = |s: &Settings| serde_json::to_string(s).unwrap_or_default();
    let problem = format!("{} was made with {}, not with {}", path.display(), text(old), text(new));
    Err(Error::Conflict { problem, hint: "choose another output directory, or delete the old one".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(order: usize) -> Record {
        let values = vec![0.1 + order as f64, 1.0 / 3.0];
        Record {
            cell: Cell { degree: 5, steps: 6, order },
            standard: values.clone(),
            optimised: values.clone(),
            fresh: values.clone(),
            fresh_standard: values.clone(),
            teacher: values,
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("dyweight-record-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_cut_at_any_byte_loses_only_the_cut_line() {
        let (folder, settings) = (folder("cut"), Settings::default());
        let mut store = Store::open(&folder, &settings).unwrap();
        (1..=3).for_each(|order| store.append(record(order)).unwrap());
        let path = folder.join("records.jsonl");
        let whole = std::fs::read(&path).unwrap();
        let ends: Vec<usize> = (0..whole.len()).filter(|i| whole[*i] == b'\n').map(|i| i + 1).collect();
        for cut in (0..whole.len()).step_by(7).chain(ends.clone()) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut store = Store::open(&folder, &settings).unwrap();
            let kept = ends.iter().filter(|e| **e <= cut).count().saturating_sub(1);
            assert_eq!(store.records().len(), kept, "cut at {cut}");
            (kept + 1..=3).for_each(|order| store.append(record(order)).unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {cut}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn damage_in_the_middle_and_other_settings_are_refused() {
        let (folder, settings) = (folder("damage"), Settings::default());
        let mut store = Store::open(&folder, &settings).unwrap();
        (1..=3).for_each(|order| store.append(record(order)).unwrap());
        let other = Settings { iterations: 7, ..Settings::default() };
        assert!(matches!(Store::open(&folder, &other), Err(Error::Conflict { .. })));
        let path = folder.join("records.jsonl");
        let text = std::fs::read_to_string(&path).unwrap().replacen("\"order\":1", "\"order\":x", 1);
        std::fs::write(&path, text).unwrap();
        let error = Store::open(&folder, &settings).err().unwrap().to_string();
        assert!(error.contains("line 2"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_standard_error_is_of_the_mean() {
        let stat = Stat::of(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(stat.mean, 2.5);
        assert!((stat.se - (5.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-15);
    }
}
