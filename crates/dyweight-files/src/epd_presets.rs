//! The tables released with EPD (Zhu et al., ICCV 2025), built in.
//!
//! Numbers and credit: `crates/dyweight-files/assets/presets`.

use crate::Malformed;
use crate::presets::Credit;
use dyweight_core::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::OnceLock;

/// The collection, as text.
const TEXT: &str = include_str!("../assets/presets/epd.json");

/// One released predictor: its effective tables, a row for each step and a column for each point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpdPreset {
    /// Method, data set and calls as the authors count them: `epd-cifar10-nfe5`.
    pub name: String,
    /// Path of the file in the release.
    pub source: String,
    /// Data set.
    pub dataset: String,
    /// Network calls, those of a step's points counted once.
    pub nfe: usize,
    /// Analytical first step.
    pub afs: bool,
    /// Rule of the grid, as the release calls it.
    pub schedule: String,
    /// Its exponent.
    pub rho: f64,
    /// The teacher, as the release calls it.
    pub teacher: String,
    /// Points of the teacher inside each step.
    pub substeps: usize,
    /// How far directions may be scaled from 1.
    pub direction_range: f64,
    /// How far times may be scaled from 1.
    pub time_range: f64,
    /// The last step's directions are not scaled.
    pub last_direction_one: bool,
    /// Order of the plugin; none without.
    pub order: Option<usize>,
    /// Places of the points.
    pub r: Vec<Vec<f64>>,
    /// Weights.
    pub weight: Vec<Vec<f64>>,
    /// Scales of directions.
    pub scale_dir: Vec<Vec<f64>>,
    /// Scales of times.
    pub scale_time: Vec<Vec<f64>>,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpdPresets {
    /// Whom to thank.
    pub credit: Credit,
    /// The presets, in the order of the release.
    pub presets: Vec<EpdPreset>,
}

impl EpdPresets {
    /// The built-in collection; read once.
    pub fn official() -> Result<&'static EpdPresets> {
        static PRESETS: OnceLock<Result<EpdPresets, String>> = OnceLock::new();
        let read = || serde_json::from_str(TEXT).map_err(|e| e.to_string());
        PRESETS.get_or_init(read).as_ref().map_err(|reason| {
            let problem = Malformed::Json { what: "built-in presets", reason: reason.clone() };
            Error::malformed(Path::new("assets/presets/epd.json"), problem)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_released_tables_are_there() {
        let presets = &EpdPresets::official().unwrap().presets;
        assert_eq!(presets.len(), 32);
        let names: std::collections::HashSet<&str> = presets.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names.len(), 32);
        for p in presets {
            assert_eq!(p.nfe, 2 * p.r.len() - usize::from(p.afs), "{}", p.name);
            for row in &p.weight {
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{}", p.name);
            }
        }
    }
}
