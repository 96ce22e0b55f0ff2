//! What one cell of the study found, and the journal of all cells.

use super::options::Settings;
use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use dyweight_files::journal::{FILE, Journal};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// Which cell: ordered by degree, steps, order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StudyCell {
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
    pub cell: StudyCell,
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

/// The cells on record.
pub(super) struct Store {
    journal: Journal,
    records: BTreeMap<StudyCell, Record>,
}

impl Store {
    /// Opens or begins the journal in this directory; refuses one that was made with other settings.
    pub(super) fn open(folder: &Path, settings: &Settings) -> Result<Self> {
        let header = json!({ "study": "numeric", "version": 1, "settings": settings });
        let (journal, lines) = Journal::open(folder, &header)?;
        let cell = |line: serde_json::Value| -> Result<(StudyCell, Record)> {
            let record: Record = serde_json::from_value(line).map_err(|e| {
                let problem = Malformed::Json { what: "record of a cell", reason: e.to_string() };
                Error::malformed(&folder.join(FILE), problem)
            })?;
            Ok((record.cell, record))
        };
        Ok(Self { journal, records: lines.into_iter().map(cell).collect::<Result<_>>()? })
    }

    /// Finished cells.
    pub(super) fn records(&self) -> &BTreeMap<StudyCell, Record> {
        &self.records
    }

    /// Adds a finished cell; when this returns, it is on disk.
    pub(super) fn append(&mut self, record: Record) -> Result<()> {
        self.journal.append(&record)?;
        self.records.insert(record.cell, record);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_error_is_of_the_mean() {
        let stat = Stat::of(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(stat.mean, 2.5);
        assert!((stat.se - (5.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-15);
    }
}
