//! Models by name or file.
//!
//! A file is told by its content: a safetensors file with `model.mu` is a mixture, everything else a network.

use crate::checkpoint::{Fingerprint, Format, SharedBytes, TensorFile, read_file, sniff};
use crate::denoiser::{Denoiser, Model};
use crate::error::{Error, Malformed, Result};
use crate::models::edm::{Edm, EdmFile, conv_algo, published};
use crate::models::embedded;
use crate::models::mixture::Mixture;
use dyweight_nn::ConvAlgo;
use std::path::{Path, PathBuf};

/// What a user says about the model.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ModelSpec {
    /// A built-in name, `random:ARCHITECTURE`, or a file.
    pub model: String,
    /// Sample shape of a mixture file.
    pub shape: Option<[usize; 3]>,
    /// Configuration of a bare weights file.
    pub config: Option<PathBuf>,
    /// How 3×3 convolutions are computed: `winograd4`, `winograd2` or `direct`.
    pub conv: Option<String>,
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

/// A model by its kind, for those who need more of it than every model has.
pub enum AnyModel {
    /// A closed form.
    Mixture(Mixture),
    /// An EDM network.
    Network(Box<Edm>),
}

/// Built-in models with a line each.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("fashion", "28x28 grey images of clothes in 10 classes, a network of 2.0 million weights"),
    ("mixture", "a two-armed spiral of 32 Gaussians in the plane, with its exact denoiser"),
    ("mixture-flow", "the same data as a flow with its exact velocity"),
];

/// What stands before the name of a published architecture.
const RANDOM: &str = "random:";

impl ModelSpec {
    /// A model by name.
    pub fn named(name: &str) -> Self {
        Self { model: name.into(), ..Self::default() }
    }

    /// Loads it.
    pub fn build(&self) -> Result<LoadedModel> {
        let (model, sha256) = self.open()?;
        let model: Box<dyn Model> = match model {
            AnyModel::Mixture(mixture) => Box::new(mixture),
            AnyModel::Network(network) => network,
        };
        Ok(LoadedModel { name: self.model.clone(), sha256, model })
    }

    /// Loads it by its kind, with the fingerprint of its weights.
    pub fn open(&self) -> Result<(AnyModel, String)> {
        // A wrong name is wrong even where nothing is convolved.
        self.conv()?;
        match self.model.as_str() {
            "mixture" => return self.of_mixture(Mixture::spiral()),
            "mixture-flow" => return self.of_mixture(Mixture::spiral().as_flow()),
            "fashion" => return self.of_network(embedded::fashion()?),
            _ => {}
        }
        if let Some(name) = self.model.strip_prefix(RANDOM) {
            let network = Edm::random(published(name)?, 0, self.conv()?)?;
            return Ok((
                AnyModel::Network(Box::new(network)),
                Fingerprint::default().add(self.model.as_bytes()).text(),
            ));
        }
        self.open_file(Path::new(&self.model))
    }

    fn open_file(&self, path: &Path) -> Result<(AnyModel, String)> {
        if !path.exists() {
            let known = BUILT_IN.iter().map(|(name, _)| name.to_string()).collect();
            return Err(Error::UnknownName { kind: "model or file", name: self.model.clone(), known });
        }
        self.parse(path, read_file(path, u64::MAX)?)
    }

    /// Loads the bytes of a model file called `path`.
    pub fn parse(&self, path: &Path, bytes: SharedBytes) -> Result<(AnyModel, String)> {
        match mixture_file(path, &bytes)? {
            Some(file) => self.of_mixture(mixture_of(path, &file)?),
            None => self.of_network(EdmFile::parse(path, bytes, self.config.as_deref())?),
        }
    }

    fn of_mixture(&self, mixture: Mixture) -> Result<(AnyModel, String)> {
        let mixture = match self.shape {
            Some(shape) => mixture.shaped(shape)?,
            None => mixture,
        };
        let sha256 = fingerprint(&mixture);
        Ok((AnyModel::Mixture(mixture), sha256))
    }

    fn of_network(&self, file: EdmFile) -> Result<(AnyModel, String)> {
        let network = file.build(self.conv()?)?;
        let found = network.shape();
        match self.shape {
            Some(expected) if expected != found => {
                let what = format!("sample shape of {}", self.model);
                Err(Error::Shape { what, expected: expected.to_vec(), found: found.to_vec() })
            }
            _ => Ok((AnyModel::Network(Box::new(network)), file.sha256())),
        }
    }

    fn conv(&self) -> Result<ConvAlgo> {
        self.conv.as_deref().map_or(Ok(ConvAlgo::default()), conv_algo)
    }
}

/// The tensors of a file that holds a mixture.
fn mixture_file(path: &Path, bytes: &SharedBytes) -> Result<Option<TensorFile>> {
    if sniff(bytes) != Format::Safetensors {
        return Ok(None);
    }
    let file = TensorFile::parse(bytes.clone()).map_err(|p| Error::malformed(path, p))?;
    Ok(Some(file).filter(|f| f.tensors.contains_key("model.mu")))
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
    let mut hash = Fingerprint::default();
    hash.add(format!("{:?}", Denoiser::prediction(mixture)).as_bytes());
    for (mean, std, weight) in mixture.components() {
        hash.add_numbers(mean).add_numbers(&[std, weight]);
    }
    hash.text()
}
