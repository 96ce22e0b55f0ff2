//! Solver files: a learned solver as a small, documented, portable JSON file.
//!
//! ```json
//! { "format": "dyweight-solver", "version": 2, "method": "dyweight", "nfe": 3, "steps": 4, "afs": true,
//!   "schedule": {"kind": "karras", "rho": 7.0}, "sigma_min": 0.002, "sigma_max": 80.0,
//!   "body": {"order": 3, "weights": [[1.08], [-0.72, 1.72], …], "time_scale": [0.87, 1.0, 0.92]}, … }
//! ```
//!
//! One envelope for all methods, and a `body` that is the method's own ([`MethodParams`]). Version 1, which knew
//! DyWeight alone and had its body's fields among the others, is read too; version 3 has a span. Numbers survive
//! writing and reading to the last bit. [`SolverFile::warnings`] says what looks unlike a good solver;
//! `docs/solver-file.md` documents every field.

mod range;
#[cfg(test)]
mod tests;

pub use crate::method::MethodParams;
pub use dyweight_core::denoiser::ModelIdentity;
pub use range::{Asked, other_budget, other_guidance};

use crate::learned::{Built, Frame, require_finite};
use dyweight_core::denoiser::{Model, Prediction};
use dyweight_core::error::{Error, Problem, Result, printable};
use dyweight_core::json;
use dyweight_core::sample::{Plan, Probed, probe};
use dyweight_core::schedule::{Grid, Schedule};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const FORMAT: &str = "dyweight-solver";
/// Fields that version 1 had among the others, and version 2 has in the body.
const FORMERLY_OUTSIDE: [&str; 4] = ["order", "time_shift", "weights", "time_scale"];

/// What is wrong with the text of a solver file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", printable(.0))]
pub struct NotASolver(String);

impl Problem for NotASolver {}

/// A learned solver with everything needed to use it and to know where it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolverFile {
    /// Always `dyweight-solver`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Network calls of one sample.
    pub nfe: usize,
    /// The same with calls that could be made side by side counted once, where that is less.
    #[serde(rename = "rounds", default, skip_serializing_if = "Option::is_none")]
    pub sequential_calls: Option<usize>,
    /// Intervals of the grid.
    pub steps: usize,
    /// Analytical first step.
    pub afs: bool,
    /// What the model predicts.
    pub prediction: Prediction,
    /// The rule of the nominal grid.
    pub schedule: Schedule,
    /// Smallest nominal level.
    pub sigma_min: f64,
    /// Largest nominal level.
    pub sigma_max: f64,
    /// True if data predictions are thresholded where the method's base does so.
    #[serde(default)]
    pub bounded: bool,
    /// The method with its parameters.
    #[serde(flatten)]
    pub body: MethodParams,
    /// Times at which states really are; for information, always recomputed.
    #[serde(default)]
    pub realised_times: Vec<f64>,
    /// Levels the network is told, evaluation by evaluation; none at an analytical one, and where samples have levels
    /// of their own. For information.
    #[serde(default)]
    pub network_levels: Vec<Option<f64>>,
    /// Guidance it was learned under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<f64>,
    /// The model it was learned for.
    #[serde(default)]
    pub model: ModelIdentity,
    /// How it was learned: free-form facts, never needed to sample.
    #[serde(default)]
    pub training: Map<String, Value>,
    /// What wrote the file.
    #[serde(default)]
    pub tool: String,
}

impl SolverFile {
    /// A file of a method in a frame, checked; identity and training are left to be filled in.
    pub fn new(body: MethodParams, frame: &Frame) -> Result<Self> {
        body.learned().check()?;
        let mut file = Self {
            format: FORMAT.into(),
            version: 0,
            nfe: frame.nfe,
            sequential_calls: None,
            steps: frame.grid.steps(),
            afs: frame.afs,
            prediction: frame.prediction,
            schedule: frame.schedule.clone(),
            sigma_min: frame.range.0,
            sigma_max: frame.range.1,
            bounded: frame.bounded,
            body,
            realised_times: Vec::new(),
            network_levels: Vec::new(),
            guidance: None,
            model: ModelIdentity::default(),
            training: Map::new(),
            tool: concat!("dyweight ", env!("CARGO_PKG_VERSION")).into(),
        };
        file.derive()?;
        Ok(file)
    }

    /// Reads the bytes of a file and checks it; what is derived is derived anew.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotASolver> {
        let reason = |e: &dyn std::fmt::Display| e.to_string().chars().take(200).collect::<String>();
        let unreadable = |e: &dyn std::fmt::Display| NotASolver(format!("solver file: {}", reason(e)));
        let inconsistent = |problem: String| NotASolver(problem);
        let mut fields: Map<String, Value> = json::parse(bytes).map_err(|e| unreadable(&e))?;
        let text = |fields: &Map<String, Value>, key: &str| fields.get(key).and_then(Value::as_str).map(String::from);
        match text(&fields, "format") {
            Some(format) if format == FORMAT => {}
            other => {
                let found = reason(&other.unwrap_or_default());
                return Err(inconsistent(format!("format is '{found}', not '{FORMAT}'")));
            }
        }
        match fields.get("version").and_then(Value::as_u64) {
            Some(1) => to_version_2(&mut fields),
            Some(2 | 3) => {}
            other => {
                let found = other.map_or("of no number".into(), |v| v.to_string());
                return Err(inconsistent(format!("version {found} is not 1, 2 or 3, the ones this program knows")));
            }
        }
        let spans = fields.get("version").and_then(Value::as_u64) == Some(3);
        let method = text(&fields, "method").ok_or_else(|| inconsistent("method is missing, or no text".into()))?;
        let own = fields.get("body").and_then(Value::as_object).cloned().unwrap_or_default();
        let body = MethodParams::of(&method, own.clone()).map_err(|e| inconsistent(told(&e)))?;
        if body.version() == 3 && !spans {
            return Err(inconsistent("spans before version 3 had numbers of another scale: train it again".into()));
        }
        if let Some(key) = body.unknown_key(&own) {
            return Err(inconsistent(format!("the body of {method} has no key '{key}'")));
        }
        let mut file: Self = serde_json::from_value(Value::Object(fields)).map_err(|e| unreadable(&e))?;
        if let Some(rows) = file.body.learned().steps().filter(|rows| *rows != file.steps) {
            return Err(inconsistent(format!("the body has {rows} rows for {} steps", file.steps)));
        }
        let (nfe, calls) = (file.nfe, file.derive().map_err(|e| inconsistent(told(&e)))?);
        // Guidance doubles every call.
        if nfe != calls && nfe != 2 * calls {
            return Err(inconsistent(format!("nfe is {nfe}, but the steps make {calls} calls, or twice that")));
        }
        Ok(file)
    }

    /// The bytes of the file: one line per field, one per row of a table.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Ok(Value::Object(fields)) = serde_json::to_value(self) else { return Vec::new() };
        format!("{}\n", object(&fields, 0)).into_bytes()
    }

    /// The rule of the grid on a model. Released coefficients of flows are used at every image size, on the grid that
    /// goes with the size; others on the grid they were learned on.
    pub fn schedule_on(&self, model: &dyn Model) -> Schedule {
        let released = self.training.contains_key("source");
        match (&self.schedule, model.schedule()) {
            (Schedule::Flow { .. }, Some(own @ Schedule::Flow { .. })) if released => own,
            _ => self.schedule.clone(),
        }
    }

    /// The solver on the grid of [`schedule_on`](Self::schedule_on).
    pub fn on(&self, model: &dyn Model) -> Result<Self> {
        let mut file = Self { schedule: self.schedule_on(model), ..self.clone() };
        file.derive()?;
        Ok(file)
    }

    /// The nominal grid.
    pub fn grid(&self) -> Result<Grid> {
        self.schedule.grid(self.steps, (self.sigma_min, self.sigma_max))
    }

    /// What is not learned.
    pub fn frame(&self) -> Result<Frame> {
        let range = (self.sigma_min, self.sigma_max);
        let frame = Frame::new(self.schedule.clone(), self.steps, range, self.prediction)?;
        Ok(Frame { afs: self.afs, bounded: self.bounded, nfe: self.nfe, ..frame })
    }

    /// The solver, on the times it was learned with.
    pub fn build(&self) -> Result<Built> {
        self.body.learned().fixed(&self.frame()?)
    }

    /// Computes what is for information, and returns the calls of a sample.
    fn derive(&mut self) -> Result<usize> {
        let Built { solver, times } = self.build()?;
        let nominal: Vec<f64> = times.iter().map(|t| t.value()).collect();
        let realised = self.body.learned().realised_times(&nominal, self.guidance)?;
        // Finite weights can still add up to no number, which JSON could not hold.
        require_finite("realised_times", &realised)?;
        let plan = Plan { solver: &*solver, times, afs: self.afs, denoise_to_zero: false };
        let Probed { calls, sequential_calls, levels } = probe(&plan, self.prediction)?;
        require_finite("network_levels", &levels.iter().flatten().copied().collect::<Vec<_>>())?;
        (self.version, self.realised_times, self.network_levels) = (self.body.version(), realised, levels);
        self.sequential_calls =
            (sequential_calls < calls).then_some(sequential_calls * (self.nfe / calls.max(1)).max(1));
        Ok(calls)
    }

    /// What is unlike the solvers known to be good. None of it prevents sampling.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = self.body.learned().warnings();
        for (i, pair) in self.realised_times.windows(2).enumerate() {
            if pair[0] <= pair[1] {
                found.push(format!("step {i}: time does not fall, from {:.4} to {:.4}", pair[0], pair[1]));
            }
        }
        found.extend(self.without_gain());
        found
    }

    /// What to use instead, of a solver that was no closer to its teacher than a handcrafted one of as many calls.
    pub fn without_gain(&self) -> Option<String> {
        let number = |key: &str| self.training.get(key).and_then(Value::as_f64);
        let (own, other) = (number("distance")?, number("best_handcrafted_distance")?);
        let name = self.training.get("best_handcrafted")?.as_str()?;
        let gained = own < other;
        (!gained).then(|| {
            format!(
                "nothing was gained: use {name}, which was closer to the teacher ({other:.4} against {own:.4} on the \
                 validation pairs), or train with more pairs"
            )
        })
    }
}

/// An error with its hint, which says what would have been right.
fn told(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

/// Puts the fields of version 1 where version 2 has them.
fn to_version_2(fields: &mut Map<String, Value>) {
    let own: Map<String, Value> =
        FORMERLY_OUTSIDE.iter().filter_map(|key| Some((key.to_string(), fields.remove(*key)?))).collect();
    fields.insert("version".into(), Value::from(2));
    fields.insert("body".into(), Value::Object(own));
}

/// One line per field; objects within are indented, tables have a line per row.
fn object(fields: &Map<String, Value>, depth: usize) -> String {
    let indent = "  ".repeat(depth + 1);
    let line = |(key, value): (&String, &Value)| {
        let is_table = |rows: &Vec<Value>| !rows.is_empty() && rows.iter().all(Value::is_array);
        let text = match value {
            // Nothing but a span has objects within its body's objects.
            Value::Object(inner) if key == "body" || key == "span" || depth > 1 => object(inner, depth + 1),
            Value::Array(rows) if is_table(rows) => {
                let rows: Vec<String> = rows.iter().map(|row| format!("{indent}  {row}")).collect();
                format!("[\n{}\n{indent}]", rows.join(",\n"))
            }
            other => other.to_string(),
        };
        format!("{indent}{}: {text}", Value::from(key.as_str()))
    };
    let lines: Vec<String> = fields.iter().map(line).collect();
    format!("{{\n{}\n{}}}", lines.join(",\n"), "  ".repeat(depth))
}
