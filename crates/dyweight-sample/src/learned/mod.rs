//! Learned coefficients from whatever holds them: a solver file, a preset, a tensor file.

mod release;

pub use release::released;

use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use dyweight_files::{Fingerprint, Format, SharedBytes, TensorFile, read_file, sniff};
use dyweight_solvers::learned::LearnedSolver;
use dyweight_solvers::solver_file::{Asked, MethodParams, SolverFile};
use dyweight_solvers::{Weights, presets};
use serde_json::Value;
use std::path::Path;

/// Coefficients to sample with, and what their source says about how to use them.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Where they are from, as it was named.
    pub source: String,
    /// The method with its parameters.
    pub body: MethodParams,
    /// The whole solver file, where the source is one.
    pub file: Option<SolverFile>,
}

impl Learned {
    /// Reads `preset:NAME`, the path of a solver file, or the path of a safetensors file: `weights` and `time_scale` of
    /// DyWeight, or the numbers of the method that its metadata name.
    pub fn open(source: &str) -> Result<Self> {
        if let Some(name) = source.strip_prefix("preset:") {
            return Ok(Self::of(source, presets::find(name)?.1));
        }
        let path = Path::new(source);
        if !path.exists() && !source.contains(['/', '.']) {
            return Ok(Self::of(source, presets::find(source)?.1));
        }
        Self::read(path)
    }

    /// Reads a solver file or a safetensors file.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(path, read_file(path, LARGEST)?)
    }

    /// Reads the bytes of a solver file or a safetensors file called `path`.
    pub fn parse(path: &Path, bytes: SharedBytes) -> Result<Self> {
        let named = |problem: Malformed| Error::malformed(path, problem);
        match sniff(&bytes) {
            Format::Safetensors => {
                let file = TensorFile::parse(bytes).map_err(named)?;
                let body = match file.metadata.get("method").map_or("dyweight", String::as_str) {
                    "dyweight" => square(path, &file).map(MethodParams::DyWeight),
                    method => of_tensors(path, method, &file),
                };
                Ok(Self { source: path.display().to_string(), body: body.map_err(|e| naming(path, e))?, file: None })
            }
            Format::SolverFile | Format::Json => {
                let file = SolverFile::parse(&bytes).map_err(|p| Error::malformed(path, p))?;
                Ok(Self::of(&path.display().to_string(), file))
            }
            other => {
                let expected = "a solver file or a safetensors file with a method's numbers";
                Err(named(Malformed::Format { expected, found: other.describe() }))
            }
        }
    }

    /// The solver that is asked for, where the source has one for each of a range; see [`SolverFile::at`].
    pub fn at(self, asked: Asked) -> Result<Self> {
        match (&self.body, &self.file) {
            (_, Some(file)) => Ok(Self::of(&self.source, file.at(&self.source, asked)?)),
            (MethodParams::Any(_), None) => Err(Error::conflict(
                format!("{} holds the numbers of many budgets without their grid", self.source),
                "use the solver file that training wrote",
            )),
            _ => Ok(self),
        }
    }

    /// A solver file from `source`.
    pub fn of(source: &str, file: SolverFile) -> Self {
        Self { source: source.into(), body: file.body.clone(), file: Some(file) }
    }

    /// The whole solver file; a source of bare numbers has none.
    pub fn into_file(self) -> Result<SolverFile> {
        self.file.ok_or_else(|| {
            Error::conflict(
                format!("{} holds bare weights without their grid", self.source),
                "use a solver file, as training and converting write them, or a preset",
            )
        })
    }

    /// Number of steps, where the source says one.
    pub fn steps(&self) -> Option<usize> {
        self.body.learned().steps().or(self.file.as_ref().map(|f| f.steps))
    }

    /// Hash of everything that is learned, and of the options that go with it.
    pub fn fingerprint(&self) -> String {
        let text = serde_json::to_string(&self.body).unwrap_or_default();
        Fingerprint::default().add(text.as_bytes()).text()
    }
}

/// `weights` `[steps, steps]` with the column of a weight being the step of its slope; zeros outside the window.
fn square(path: &Path, file: &TensorFile) -> Result<Weights> {
    let weights = file.tensor("weights").map_err(|p| Error::malformed(path, p))?;
    let [steps, columns] = *weights.shape() else {
        return Err(shape("weights", &[0, 0], weights.shape()));
    };
    if steps != columns || steps == 0 {
        return Err(shape("weights", &[steps.max(1), steps.max(1)], weights.shape()));
    }
    let values = weights.to_f64();
    let rows = values.chunks(steps).enumerate().map(|(i, row)| absolute_row(path, i, row)).collect::<Result<_>>()?;
    let scales = match file.tensors.get("time_scale") {
        Some(scales) if scales.shape().len() == 1 => scales.to_f64(),
        Some(scales) => return Err(shape("time_scale", &[steps], scales.shape())),
        None => Vec::new(),
    };
    let weights = Weights::new(rows, scales);
    weights.check()?;
    Ok(weights)
}

/// The error, with the file in which the parameters are wrong.
fn naming(path: &Path, error: Error) -> Error {
    let named = |what: String| format!("{what} in {}", path.display());
    match error {
        Error::NotFinite { what, index, value } => Error::NotFinite { what: named(what), index, value },
        Error::Shape { what, expected, found } => Error::Shape { what: named(what), expected, found },
        other => other,
    }
}

/// The fields of a method's body: tensors as lists of lists, metadata as parameters, switches and words.
fn of_tensors(path: &Path, method: &str, file: &TensorFile) -> Result<MethodParams> {
    let inconsistent = |problem: String| Error::malformed(path, Malformed::Inconsistent { problem });
    let mut fields = serde_json::Map::new();
    for (key, text) in file.metadata.iter().filter(|(key, _)| !["method", "format"].contains(&key.as_str())) {
        let word = || Value::from(text.as_str());
        let value = serde_json::from_str(text).ok().filter(|v: &Value| v.is_number() || v.is_boolean());
        fields.insert(key.clone(), value.unwrap_or_else(word));
    }
    for (name, tensor) in &file.tensors {
        let values = tensor.to_f64();
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite { what: format!("tensor '{name}'"), index, value: values[index] });
        }
        fields.insert(name.clone(), nested(&values, tensor.shape()));
    }
    // What the authors' programs write is used as they use it.
    if method == "ld3" {
        let exponential = matches!(file.metadata.get("base").map(String::as_str), Some("dpmpp" | "unipc"));
        fields.entry("closing_call").or_insert(Value::from(exponential));
    }
    MethodParams::of(method, fields).map_err(|e| match e {
        Error::BadValue { expected, .. } => inconsistent(expected),
        other => other,
    })
}

/// Numbers of a shape as lists of lists.
fn nested(values: &[f64], shape: &[usize]) -> Value {
    match shape {
        [] | [_] => Value::from(values.to_vec()),
        [_, rest @ ..] => {
            let len = rest.iter().product::<usize>().max(1);
            Value::Array(values.chunks(len).map(|row| nested(row, rest)).collect())
        }
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

fn shape(name: &str, expected: &[usize], found: &[usize]) -> Error {
    let what = format!("tensor '{name}'");
    Error::Shape { what, expected: expected.to_vec(), found: found.to_vec() }
}
