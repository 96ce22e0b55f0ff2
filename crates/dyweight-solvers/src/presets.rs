//! Coefficients that authors released with their papers, built in as solver files: DyWeight's (Zhao et al., CVPR 2026)
//! and EPD's (Zhu et al., ICCV 2025).
//!
//! Numbers and credit: `crates/dyweight-solvers/assets`.

use crate::solver_file::SolverFile;
use dyweight_core::error::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::LazyLock;

/// The collection, as text.
pub const TEXT: &str = include_str!("../assets/presets.json");

/// Whom to thank.
#[derive(Debug, Deserialize)]
pub struct Credit {
    /// Title of the paper.
    pub title: String,
    /// Its authors.
    pub authors: String,
    /// Where it appeared.
    pub venue: String,
}

#[derive(Default, Deserialize)]
struct Collection {
    credit: Vec<Credit>,
    presets: Map<String, Value>,
}

static COLLECTION: LazyLock<Collection> = LazyLock::new(|| serde_json::from_str(TEXT).unwrap_or_default());

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

/// The papers they are from.
pub fn credit() -> &'static [Credit] {
    &COLLECTION.credit
}

/// All names, in the order of the releases.
pub fn names() -> impl Iterator<Item = &'static str> {
    COLLECTION.presets.keys().map(String::as_str)
}

/// The model that a preset was learned for, where it has a name here, and the rest of the preset's name.
fn model_and_rest(preset: &str) -> Option<(&'static str, &str)> {
    MODELS.iter().find_map(|(data, model)| Some((*model, preset.strip_prefix(data)?.strip_prefix('-')?)))
}

/// The model that a preset was learned for: `sd15`.
pub fn model(preset: &str) -> Option<&'static str> {
    model_and_rest(preset).map(|(model, _)| model)
}

/// The preset of a name: the release's, or that of the model (`sd15-nfe8` is `ms-coco-nfe8`).
pub fn find(name: &str) -> Result<(&'static str, SolverFile)> {
    let lower = name.to_lowercase();
    let by_model = |own| model_and_rest(own).map(|(model, rest)| format!("{model}-{rest}"));
    if let Some(own) = names().find(|own| **own == lower || by_model(own).as_ref() == Some(&lower)) {
        let text = COLLECTION.presets[own].to_string();
        let file = SolverFile::parse(text.as_bytes());
        return Ok((own, file.map_err(|problem| Error::malformed(Path::new(own), problem))?));
    }
    // Of a model that is known, its budgets alone.
    let start = format!("{}-nfe", lower.split("-nfe").next().unwrap_or_default());
    let alike = names().map(String::from).chain(names().filter_map(by_model));
    let alike: Vec<String> = alike.filter(|known| known.starts_with(&start)).collect();
    let known = if alike.is_empty() { names().map(String::from).collect() } else { alike };
    Err(Error::unknown_name("preset", lower, known))
}
