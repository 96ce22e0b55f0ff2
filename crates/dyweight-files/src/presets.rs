//! The coefficients released with the DyWeight paper (Zhao et al., CVPR 2026), built in.
//!
//! Numbers and credit: `crates/dyweight-files/assets/presets`.

use super::official::OfficialCoefficients;
use crate::Malformed;
use dyweight_core::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::OnceLock;

/// The collection, as text.
const TEXT: &str = include_str!("../assets/presets/official.json");

/// One released set of coefficients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Data set and number of network evaluations: `cifar10-nfe3`.
    pub name: String,
    /// Path of the file in the release.
    pub source: String,
    /// The coefficients.
    pub coefficients: OfficialCoefficients,
    /// Nominal times, from the first to the last.
    pub grid: Vec<f64>,
    /// Times reached when the weights do not add up to one: one more than steps.
    pub realised_times: Vec<f64>,
    /// Times told to the network, one per step; none where the step calls no network.
    pub network_times: Vec<Option<f64>>,
    /// Whether the file is a training output or was packed again.
    pub provenance: String,
}

/// How a release calls its data, and the model that was trained on them.
const MODELS: &[(&str, &str)] = &[
    ("cifar10", "edm-cifar10"),
    ("ffhq", "edm-ffhq"),
    ("afhqv2", "edm-afhqv2"),
    ("imagenet64", "edm-imagenet64"),
    ("lsun-bedroom", "lsun-ldm"),
    ("ms-coco", "sd15"),
    ("flux", "flux-dev"),
];

impl Preset {
    /// The model it was learned for, and the rest of its name.
    fn model_and_rest(&self) -> Option<(&'static str, &str)> {
        MODELS.iter().find_map(|(data, model)| Some((*model, self.name.strip_prefix(data)?.strip_prefix('-')?)))
    }

    /// The model it was learned for: `sd15`.
    pub fn model(&self) -> Option<&'static str> {
        self.model_and_rest().map(|(model, _)| model)
    }

    /// Its name by the model: `sd15-nfe8`.
    pub fn model_name(&self) -> Option<String> {
        self.model_and_rest().map(|(model, rest)| format!("{model}-{rest}"))
    }
}

/// Whom to thank for the presets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credit {
    /// Title of the paper.
    pub title: String,
    /// Its authors.
    pub authors: String,
    /// Where it appeared.
    pub venue: String,
    /// The authors' code.
    pub code: String,
    /// What was taken.
    pub note: String,
}

/// All presets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presets {
    /// Whom to thank.
    pub credit: Credit,
    /// The presets, in the order of the release.
    pub presets: Vec<Preset>,
}

impl Presets {
    /// The built-in collection; read once.
    pub fn official() -> Result<&'static Presets> {
        static PRESETS: OnceLock<Result<Presets, String>> = OnceLock::new();
        let read = || serde_json::from_str(TEXT).map_err(|e| e.to_string());
        PRESETS.get_or_init(read).as_ref().map_err(|reason| {
            let problem = Malformed::Json { what: "built-in presets", reason: reason.clone() };
            Error::malformed(Path::new("assets/presets/official.json"), problem)
        })
    }

    /// The preset of a name: the release's, or that of the model (`sd15-nfe8` is `ms-coco-nfe8`).
    pub fn find(&self, name: &str) -> Result<&Preset> {
        let name = name.to_lowercase();
        let is_meant = |p: &&Preset| p.name == name || p.model_name().is_some_and(|by_model| by_model == name);
        self.presets.iter().find(is_meant).ok_or_else(|| Error::UnknownName {
            kind: "preset",
            name: name.clone(),
            known: self.presets.iter().map(|p| p.name.clone()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_released_sets_are_there_by_name() -> Result<()> {
        let presets = Presets::official()?;
        assert_eq!(presets.presets.len(), 43);
        for name in [
            "cifar10-nfe3",
            "cifar10-nfe4",
            "cifar10-nfe4-piecewise",
            "ffhq-nfe5",
            "afhqv2-nfe9",
            "imagenet64-nfe4",
            "lsun-bedroom-nfe3",
            "ms-coco-nfe16",
            "flux-nfe7",
        ] {
            assert_eq!(presets.find(name)?.name, name);
        }
        let names: std::collections::HashSet<&str> = presets.presets.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names.len(), 43);
        assert!(presets.credit.authors.contains("Tong Zhao"));
        Ok(())
    }

    #[test]
    fn presets_are_found_by_their_model_too() -> Result<()> {
        let presets = Presets::official()?;
        for (by_model, name) in
            [("sd15-nfe8", "ms-coco-nfe8"), ("edm-cifar10-nfe3", "cifar10-nfe3"), ("FLUX-dev-nfe5", "flux-nfe5")]
        {
            assert_eq!(presets.find(by_model)?.name, name);
        }
        assert!(presets.presets.iter().all(|p| p.model().is_some()));
        Ok(())
    }

    #[test]
    fn an_unknown_name_is_answered_with_a_near_one() -> Result<()> {
        let Err(error) = Presets::official()?.find("cifar-nfe3") else { panic!("there is no such preset") };
        assert!(error.hint().is_some_and(|h| h.contains("cifar10-nfe3")));
        Ok(())
    }

    #[test]
    fn shapes_and_counts_go_together() -> Result<()> {
        for Preset { name, coefficients: c, grid, realised_times, network_times, .. } in &Presets::official()?.presets {
            assert_eq!(c.weights.len(), c.steps, "{name}");
            assert!(c.weights.iter().all(|row| row.len() == c.steps), "{name}");
            assert_eq!(c.calls, c.steps - usize::from(c.afs), "{name}");
            assert_eq!(c.time_scale.len(), c.calls, "{name}");
            assert_eq!(grid.len(), c.steps + 1, "{name}");
            assert_eq!(realised_times.len(), c.steps + 1, "{name}");
            assert_eq!(network_times.iter().flatten().count(), c.calls, "{name}");
            for (i, row) in c.weights.iter().enumerate() {
                let outside = row.iter().enumerate().filter(|(j, _)| *j > i || j + c.window <= i);
                assert!(outside.map(|(_, w)| *w).all(|w| w == 0.0), "{name} row {i}");
            }
        }
        Ok(())
    }

    #[test]
    fn realised_times_follow_from_the_weights() -> Result<()> {
        for Preset { name, coefficients, grid, realised_times, .. } in &Presets::official()?.presets {
            let mut time = grid[0];
            for (i, row) in coefficients.weights.iter().enumerate() {
                time += (grid[i + 1] - time) * row.iter().sum::<f64>();
                let expected = realised_times[i + 1];
                assert!((time - expected).abs() <= 1e-9 * grid[0], "{name} step {i}: {time} {expected}");
            }
        }
        Ok(())
    }
}
