//! Solver files: a learned solver as a small, documented, portable JSON file.
//!
//! ```json
//! { "format": "dyweight-solver", "version": 1, "method": "dyweight", "nfe": 3, "steps": 4, "order": 3, "afs": true,
//!   "schedule": {"kind": "karras", "rho": 7.0}, "sigma_min": 0.002, "sigma_max": 80.0,
//!   "weights": [[1.08], [-0.72, 1.72], …], "time_scale": [0.87, 1.0, 0.92], … }
//! ```
//!
//! Row i of `weights` belongs to step i, newest slope **last**. Numbers survive writing and reading to the last bit.
//! [`SolverFile::warnings`] says what looks unlike a good solver; `docs/solver-file.md` documents every field.

use crate::denoiser::{Model, Prediction};
use crate::error::{Error, Problem, Result, printable};
use crate::schedule::{Grid, Schedule};
use crate::solver::{DyWeight, Rows, Scales, realised_times};
use serde::{Deserialize, Serialize};

const FORMAT: &str = "dyweight-solver";
const VERSION: u32 = 1;

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
    /// The method; only `dyweight` so far.
    pub method: String,
    /// Network calls of one sample.
    pub nfe: usize,
    /// Intervals of the grid.
    pub steps: usize,
    /// Window: the most slopes a step weighs.
    pub order: usize,
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
    /// Whether time is shifted by the weights' sums.
    #[serde(default = "yes")]
    pub time_shift: bool,
    /// Weights, newest last.
    pub weights: Rows,
    /// Scales of the levels told to the network; empty for none.
    pub time_scale: Scales,
    /// Times at which states really are; for information, always recomputed.
    #[serde(default)]
    pub realised_times: Vec<f64>,
    /// Levels the network is told, none at an analytical first step; for information.
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
    pub training: serde_json::Map<String, serde_json::Value>,
    /// What wrote the file.
    #[serde(default)]
    pub tool: String,
}

fn yes() -> bool {
    true
}

/// Which model a solver belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelIdentity {
    /// Its name.
    pub name: String,
    /// Fingerprint of its weights, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The parts a new solver file is made of.
pub struct Parts {
    /// Weights, newest last.
    pub weights: Rows,
    /// Scales.
    pub time_scale: Scales,
    /// Analytical first step.
    pub afs: bool,
    /// Time shifting.
    pub time_shift: bool,
    /// What the model predicts.
    pub prediction: Prediction,
    /// The rule of the grid.
    pub schedule: Schedule,
    /// Smallest and largest level.
    pub range: (f64, f64),
    /// Network calls of one sample.
    pub nfe: usize,
}

impl SolverFile {
    /// A file from its parts, checked; identity and training are left to be filled in.
    pub fn new(parts: Parts) -> Result<Self> {
        let mut file = Self {
            format: FORMAT.into(),
            version: VERSION,
            method: "dyweight".into(),
            nfe: parts.nfe,
            steps: parts.weights.len(),
            order: parts.weights.iter().map(Vec::len).max().unwrap_or(0),
            afs: parts.afs,
            prediction: parts.prediction,
            schedule: parts.schedule,
            sigma_min: parts.range.0,
            sigma_max: parts.range.1,
            time_shift: parts.time_shift,
            weights: parts.weights,
            time_scale: parts.time_scale,
            realised_times: Vec::new(),
            network_levels: Vec::new(),
            guidance: None,
            model: ModelIdentity::default(),
            training: serde_json::Map::new(),
            tool: concat!("dyweight ", env!("CARGO_PKG_VERSION")).into(),
        };
        DyWeight::fixed(&file.weights, &file.time_scale)?;
        (file.realised_times, file.network_levels) = file.times()?;
        Ok(file)
    }

    /// Reads the bytes of a file and checks it; what is derived is derived anew.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotASolver> {
        let reason = |e: &dyn std::fmt::Display| e.to_string().chars().take(200).collect::<String>();
        let mut file: Self =
            serde_json::from_slice(bytes).map_err(|e| NotASolver(format!("solver file: {}", reason(&e))))?;
        let inconsistent = |problem: String| Err(NotASolver(problem));
        if file.format != FORMAT {
            return inconsistent(format!("format is '{}', not '{FORMAT}'", reason(&file.format)));
        }
        if file.version != VERSION {
            return inconsistent(format!("version {} is not {VERSION}, the one this program knows", file.version));
        }
        if file.method != "dyweight" {
            return inconsistent(format!("method '{}' is not known", reason(&file.method)));
        }
        if file.weights.len() != file.steps {
            return inconsistent(format!("{} rows of weights for {} steps", file.weights.len(), file.steps));
        }
        let window = file.weights.iter().map(Vec::len).max().unwrap_or(0);
        if file.order != window {
            return inconsistent(format!("order is {}, but the longest row has {window} weights", file.order));
        }
        // One call per step, less an analytical first one; guidance doubles them.
        let calls = file.steps - usize::from(file.afs && file.steps > 0);
        if file.nfe != calls && file.nfe != 2 * calls {
            return inconsistent(format!("nfe is {}, but the steps make {calls} calls, or twice that", file.nfe));
        }
        let check = DyWeight::fixed(&file.weights, &file.time_scale).map(drop).and_then(|()| file.times());
        match check {
            Ok((realised, levels)) => (file.realised_times, file.network_levels) = (realised, levels),
            Err(error) => return inconsistent(error.to_string()),
        }
        Ok(file)
    }

    /// The bytes of the file: one line per field, one per row of weights.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else { return Vec::new() };
        let line = |(key, value): (&String, &serde_json::Value)| match value.as_array() {
            Some(rows) if key == "weights" => {
                let rows: Vec<String> = rows.iter().map(|row| format!("    {row}")).collect();
                format!("  \"{key}\": [\n{}\n  ]", rows.join(",\n"))
            }
            _ => format!("  \"{key}\": {value}"),
        };
        let lines: Vec<String> = fields.iter().map(line).collect();
        format!("{{\n{}\n}}\n", lines.join(",\n")).into_bytes()
    }

    /// The rule of the grid on a model. Released coefficients of flows are used at every image size, on the grid that goes with
    /// the size; others on the grid they were learned on.
    pub fn schedule_on(&self, model: &dyn Model) -> Schedule {
        let released = self.training.contains_key("source");
        match (&self.schedule, model.schedule()) {
            (Schedule::Flow { .. }, Some(own @ Schedule::Flow { .. })) if released => own,
            _ => self.schedule.clone(),
        }
    }

    /// The grid on a model.
    pub fn grid_on(&self, model: &dyn Model) -> Result<Grid> {
        self.schedule_on(model).grid(self.steps, (self.sigma_min, self.sigma_max))
    }

    /// The nominal grid.
    pub fn grid(&self) -> Result<Grid> {
        self.schedule.grid(self.steps, (self.sigma_min, self.sigma_max))
    }

    fn times(&self) -> Result<(Vec<f64>, Vec<Option<f64>>)> {
        let grid = self.grid()?;
        let times = if self.time_shift { realised_times(grid.sigmas(), &self.weights) } else { grid.sigmas().to_vec() };
        let first = self.steps - self.time_scale.len();
        let level = |i: usize| {
            let scale = i.checked_sub(first).map_or(1.0, |k| self.time_scale[k]);
            (!(self.afs && i == 0)).then(|| (scale * times[i]).abs())
        };
        let levels: Vec<Option<f64>> = (0..self.steps).map(level).collect();
        // Finite weights can still add up to no number, which JSON could not hold.
        let known = |list: &[f64], what: &str| match list.iter().position(|v| !v.is_finite()) {
            Some(index) => Err(Error::NotFinite { what: what.into(), index, value: list[index] }),
            None => Ok(()),
        };
        known(&times, "realised_times")?;
        known(&levels.iter().flatten().copied().collect::<Vec<_>>(), "network_levels")?;
        Ok((times, levels))
    }

    /// What is unlike the solvers known to be good. None of it prevents sampling.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (i, row) in self.weights.iter().enumerate() {
            let sum: f64 = row.iter().sum();
            if let Some(w) = row.iter().find(|w| w.abs() > 2.5) {
                found.push(format!("step {i}: weight {w:.4} is larger than 2.5"));
            }
            if !(0.5..=1.4).contains(&sum) {
                found.push(format!("step {i}: the weights sum to {sum:.4}, outside 0.5 to 1.4"));
            }
        }
        for (i, pair) in self.realised_times.windows(2).enumerate() {
            if pair[0] <= pair[1] {
                found.push(format!("step {i}: time does not fall, from {:.4} to {:.4}", pair[0], pair[1]));
            }
        }
        for (i, s) in self.time_scale.iter().enumerate().filter(|(_, s)| !(0.5..=1.5).contains(*s)) {
            found.push(format!("time scale {i} is {s:.4}, outside 0.5 to 1.5"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> SolverFile {
        SolverFile::new(Parts {
            weights: vec![vec![1.0 / 3.0 + 0.6], vec![-0.1, 1.0]],
            time_scale: vec![0.9],
            afs: true,
            time_shift: true,
            prediction: Prediction::Denoised,
            schedule: Schedule::Karras { rho: 7.0 },
            range: (0.002, 80.0),
            nfe: 1,
        })
        .unwrap()
    }

    #[test]
    fn writing_and_reading_is_the_identity() {
        let file = example();
        assert_eq!(SolverFile::parse(&file.to_bytes()).unwrap(), file);
        assert!(file.to_bytes().len() < 4096);
        assert!(file.warnings().is_empty(), "{:?}", file.warnings());
    }

    #[test]
    fn wrong_files_say_what_is_wrong() {
        let text = String::from_utf8(example().to_bytes()).unwrap();
        for (from, to, says) in [
            ("dyweight-solver", "other", "format"),
            ("\"version\": 1", "\"version\": 2", "version"),
            ("\"steps\": 2", "\"steps\": 3", "rows"),
            ("\"method\": \"dyweight\"", "\"method\": \"x\"", "method"),
            ("\"kind\":\"karras\"", "\"kind\":\"cubic\"", "cubic"),
            ("\"order\": 2", "\"order\": 1", "order"),
            ("\"nfe\": 1", "\"nfe\": 0", "nfe"),
            ("\"sigma_min\": 0.002", "\"sigma_min\": 90.0", "sigma"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = SolverFile::parse(text.replace(from, to).as_bytes()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        for cut in 0..text.len() - 2 {
            assert!(SolverFile::parse(&text.as_bytes()[..cut]).is_err());
        }
    }

    #[test]
    fn odd_solvers_are_named_row_by_row() {
        let mut file = example();
        file.weights = vec![vec![3.0], vec![0.0, 0.1]];
        let file = SolverFile::parse(&file.to_bytes()).unwrap();
        let all = file.warnings().join("\n");
        assert!(all.contains("step 0: weight 3.0000") && all.contains("step 1: the weights sum to 0.1000"), "{all}");
        assert!(all.contains("time does not fall"), "{all}");
    }
}
