//! Models by name or file.

use crate::checkpoint::{TensorFile, read_file};
use crate::denoiser::Model;
use crate::error::{Error, Malformed, Result};
use crate::models::mixture::Mixture;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// What a user says about the model.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ModelSpec {
    /// A built-in name or a file.
    pub model: String,
    /// Sample shape of a mixture file.
    pub shape: Option<[usize; 3]>,
    /// Configuration of a bare weights file.
    pub config: Option<PathBuf>,
}

/// A model ready to use.
pub struct LoadedModel {
    /// How it was named.
    pub name: String,
    /// Fingerprint of the weights.
    pub sha256: String,
    /// The model.
    pub model: Box<dyn Model>,
}

/// Built-in models with a line each.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("mixture", "a two-armed spiral of 32 Gaussians in the plane, with its exact denoiser"),
    ("mixture-flow", "the same data as a flow with its exact velocity"),
];

impl ModelSpec {
    /// A model by name.
    pub fn named(name: &str) -> Self {
        Self { model: name.into(), ..Self::default() }
    }

    /// Loads it.
    pub fn build(&self) -> Result<LoadedModel> {
        let built_in = match self.model.as_str() {
            "mixture" => Some(Mixture::spiral()),
            "mixture-flow" => Some(Mixture::spiral().as_flow()),
            _ => None,
        };
        if let Some(mixture) = built_in {
            return self.of_mixture(mixture);
        }
        let path = Path::new(&self.model);
        if !path.exists() {
            let known = BUILT_IN.iter().map(|(name, _)| name.to_string()).collect();
            return Err(Error::UnknownName { kind: "model or file", name: self.model.clone(), known });
        }
        let file = TensorFile::parse(read_file(path, u64::MAX)?).map_err(|p| Error::malformed(path, p))?;
        self.of_mixture(mixture_of(path, &file)?)
    }

    fn of_mixture(&self, mixture: Mixture) -> Result<LoadedModel> {
        let mixture = match self.shape {
            Some(shape) => mixture.shaped(shape)?,
            None => mixture,
        };
        Ok(LoadedModel { name: self.model.clone(), sha256: fingerprint(&mixture), model: Box::new(mixture) })
    }
}

/// A mixture from `model.mu` `[k, d]`, `model.std` `[k]` and `model.weight` `[k]`.
fn mixture_of(path: &Path, file: &TensorFile) -> Result<Mixture> {
    let tensor = |name: &str| file.tensor(name).map_err(|p| Error::malformed(path, p));
    let (means, stds, weights) = (tensor("model.mu")?, tensor("model.std")?, tensor("model.weight")?);
    let [k, d] = *means.shape() else {
        let what = format!("tensor 'model.mu' in {}", path.display());
        return Err(Error::Shape { what, expected: vec![stds.len(), 0], found: means.shape().to_vec() });
    };
    for (name, tensor) in [("model.std", stds), ("model.weight", weights)] {
        if tensor.shape() != [k] {
            let what = format!("tensor '{name}' in {}", path.display());
            return Err(Error::Shape { what, expected: vec![k], found: tensor.shape().to_vec() });
        }
    }
    let (stds, weights, means) = (stds.to_f64(), weights.to_f64(), means.to_f64());
    if d == 0 {
        return Err(Error::malformed(path, Malformed::Inconsistent { problem: "'model.mu' has no columns".into() }));
    }
    let rows = means.chunks(d).zip(stds).zip(weights).map(|((m, s), w)| (m.to_vec(), s, w));
    Mixture::new(rows.collect())
}

/// The hash of a mixture's numbers.
fn fingerprint(mixture: &Mixture) -> String {
    let mut hash = Sha256::new();
    for (mean, std, weight) in mixture.components() {
        mean.iter().chain([&std, &weight]).for_each(|v| hash.update(v.to_le_bytes()));
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}
