//! What names a run: the content of everything that decides its result. Two runs of the same name leave the same bits,
//! wherever their files are.
//!
//! A state, a record of a search and a finished solver are gone on with under this name alone; what the teacher has
//! made is kept under a part of it (`Targets::key`).

use crate::TrainPlan;
use crate::trainer::TrainConfig;
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_files::Fingerprint;
use serde_json::{Map, Value, json};

/// Options that change memory or speed but no bit of the result, or that name what is compared by its content: start,
/// noise, prompts, networks.
const NO_MATTER: [&str; 7] = ["memory", "micro-batch", "init", "noise", "inception", "clip-model", "negative"];

/// The name, as the JSON of what it stands for.
pub(crate) fn of(config: &TrainConfig, plan: &TrainPlan, noise: Option<&Tensor>) -> Result<String> {
    let mut facts = given(&plan.resolved)?;
    facts.retain(|key, _| !NO_MATTER.contains(&key.as_str()));
    facts.extend(given(&config.schedule)?);
    let mut start = Fingerprint::default();
    start.add_numbers(&plan.start);
    if let Some(noise) = noise {
        start.add_numbers(noise.data());
    }
    let loss = &plan.student.loss;
    let network = loss.network().map(|(name, sha256)| [name, sha256]);
    let prompts = plan.inputs.show.prompts().map(|_| digest(&plan.inputs.show.identity()));
    facts.extend([
        ("model".to_string(), json!(config.identity.sha256)),
        ("arithmetic".to_string(), json!(config.arithmetic)),
        ("method".to_string(), json!(plan.learnable.method())),
        ("grid".to_string(), json!(plan.student.frame.grid.sigmas())),
        ("start".to_string(), json!(start.text())),
        ("features".to_string(), json!(network)),
    ]);
    facts.extend(prompts.map(|prompts| ("prompts".to_string(), json!(prompts))));
    facts.extend(loss.joint().map(|joint| ("reference".to_string(), json!(joint.identity()))));
    serde_json::to_string(&facts).map_err(|e| unwritable(&e))
}

/// A short name for a name.
pub(crate) fn digest(identity: &str) -> String {
    Fingerprint::default().add(identity.as_bytes()).text()
}

/// The options that were given, as JSON. A path that is no text cannot be written down.
fn given(options: &impl serde::Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(options) {
        Ok(Value::Object(map)) => Ok(map.into_iter().filter(|(_, v)| !v.is_null()).collect()),
        Ok(_) => Ok(Map::new()),
        Err(e) => Err(unwritable(&e)),
    }
}

fn unwritable(reason: &serde_json::Error) -> Error {
    Error::bad_value("train", "options", reason.to_string())
}
