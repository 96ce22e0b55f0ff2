//! Learned coefficients from whatever holds them: a solver file, a preset, a tensor file.

mod release;

pub use release::{preset, released};

use dyweight_core::error::{Error, Result};
use dyweight_core::solver::{DyWeight, Rows, Scales};
use dyweight_core::solver_file::SolverFile;
use dyweight_files::Malformed;
use dyweight_files::{Format, Presets, SharedBytes, TensorFile, read_file, sniff};
use std::path::Path;

/// Coefficients to sample with, and what their source says about how to use them.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Weights.
    pub rows: Rows,
    /// Time scales.
    pub scales: Scales,
    /// Time shifting.
    pub time_shift: bool,
    /// The whole solver file, where the source is one.
    pub file: Option<SolverFile>,
}

impl Learned {
    /// Reads `preset:NAME`, the path of a solver file, or the path of a safetensors file with `weights` and `time_scale`.
    pub fn open(source: &str) -> Result<Self> {
        if let Some(name) = source.strip_prefix("preset:") {
            return Ok(Self::of_file(preset(Presets::official()?.find(name)?)?));
        }
        let path = Path::new(source);
        if !path.exists() && !source.contains(['/', '.']) {
            return Ok(Self::of_file(preset(Presets::official()?.find(source)?)?));
        }
        Self::parse(path, read_file(path, LARGEST)?)
    }

    /// Reads the bytes of a solver file or a safetensors file called `path`.
    pub fn parse(path: &Path, bytes: SharedBytes) -> Result<Self> {
        let named = |problem: Malformed| Error::malformed(path, problem);
        match sniff(&bytes) {
            Format::Safetensors => Self::of_tensors(path, &TensorFile::parse(bytes).map_err(named)?),
            Format::SolverFile | Format::Json => {
                Ok(Self::of_file(SolverFile::parse(&bytes).map_err(|p| Error::malformed(path, p))?))
            }
            other => {
                let expected = "a solver file or a safetensors file with 'weights'";
                Err(named(Malformed::Format { expected, found: other.describe() }))
            }
        }
    }

    fn of_file(file: SolverFile) -> Self {
        let (rows, scales) = (file.weights.clone(), file.time_scale.clone());
        Self { rows, scales, time_shift: file.time_shift, file: Some(file) }
    }

    /// `weights` `[steps, steps]` with the column of a weight being the step of its slope; zeros outside the window.
    fn of_tensors(path: &Path, file: &TensorFile) -> Result<Self> {
        let weights = file.tensor("weights").map_err(|p| Error::malformed(path, p))?;
        let [steps, columns] = *weights.shape() else {
            return Err(shape(path, "weights", &[0, 0], weights.shape()));
        };
        if steps != columns || steps == 0 {
            return Err(shape(path, "weights", &[steps.max(1), steps.max(1)], weights.shape()));
        }
        let values = weights.to_f64();
        let rows =
            values.chunks(steps).enumerate().map(|(i, row)| absolute_row(path, i, row)).collect::<Result<_>>()?;
        let scales = match file.tensors.get("time_scale") {
            Some(scales) if scales.shape().len() == 1 => scales.to_f64(),
            Some(scales) => return Err(shape(path, "time_scale", &[steps], scales.shape())),
            None => Vec::new(),
        };
        Ok(Self { rows, scales, time_shift: true, file: None })
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.rows.len()
    }

    /// The solver.
    pub fn solver(&self) -> Result<DyWeight> {
        Ok(DyWeight::fixed(&self.rows, &self.scales)?.time_shift(self.time_shift))
    }
}

/// Larger files hold no coefficients.
const LARGEST: u64 = 64 << 20;

/// Row i of a square matrix as a ragged row: a slope that does not exist yet can have no weight.
fn absolute_row(path: &Path, i: usize, row: &[f64]) -> Result<Vec<f64>> {
    if let Some(j) = (i + 1..row.len()).find(|j| row[*j] != 0.0) {
        let problem = format!("weights[{i}][{j}] = {} weighs a slope of the future", row[j]);
        return Err(Error::malformed(path, Malformed::Inconsistent { problem }));
    }
    let first = row[..=i].iter().position(|w| *w != 0.0).unwrap_or(i);
    Ok(row[first..=i].to_vec())
}

fn shape(path: &Path, name: &str, expected: &[usize], found: &[usize]) -> Error {
    let what = format!("tensor '{name}' in {}", path.display());
    Error::Shape { what, expected: expected.to_vec(), found: found.to_vec() }
}
