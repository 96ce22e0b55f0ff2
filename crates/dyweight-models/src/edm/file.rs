//! A network on disk: its configuration and its tensors, from whatever container holds them.
//!
//! ```text
//! .pkl           NVIDIA's pickles: both from the pickle, which is never executed
//! .safetensors   configuration from the metadata entry `config`, or given apart
//! .pt, .pth      configuration given apart
//! ```

use super::config::Config;
use super::{Edm, TABLE};
use crate::arithmetic::Arithmetic;
use crate::weights::{Layout, Source, TensorSet};
use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use dyweight_files::{
    Dtype, Fingerprint, Format, NetworkFile, SharedBytes, StoredTensor, TensorFile, TorchFile, read_data, read_file,
    sniff,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The metadata entry that holds the configuration.
const CONFIG: &str = "config";
/// A tensor every network has; what stands before it in a file is the prefix of the network.
const LANDMARK: &str = "map_layer0.weight";
/// The prefix in the released files: the network is the wrapper's `model`.
const PREFIX: &str = "model.";
/// No configuration is longer.
const LARGEST_CONFIG: u64 = 1 << 20;

/// A network as its file describes it.
#[derive(Clone, Debug)]
pub struct EdmFile {
    /// Where it came from, for messages.
    pub path: PathBuf,
    /// Options by name, `cls` among them.
    pub config: Map<String, Value>,
    /// Tensors by name.
    pub tensors: BTreeMap<String, StoredTensor>,
}

impl EdmFile {
    /// Reads a file; `config` is a JSON file that takes the place of the configuration inside.
    pub fn read(path: &Path, config: Option<&Path>) -> Result<Self> {
        Self::parse(path, read_data(path)?, config)
    }

    /// Reads the bytes of a file called `path`.
    pub fn parse(path: &Path, bytes: SharedBytes, config: Option<&Path>) -> Result<Self> {
        let named = |problem| Error::malformed(path, problem);
        let (inside, tensors) = match sniff(&bytes) {
            Format::Pickle => {
                let file = NetworkFile::parse(bytes).map_err(named)?;
                (Some(file.config()), file.tensors.into_iter().collect())
            }
            Format::Safetensors => {
                let file = TensorFile::parse(bytes).map_err(named)?;
                let inside = file.metadata.get(CONFIG).map(|text| object(text.as_bytes()));
                (inside.transpose().map_err(named)?, file.tensors)
            }
            Format::TorchZip | Format::TorchLegacy => {
                let file = TorchFile::parse(bytes).map_err(named)?;
                (None, file.tensors.into_iter().collect())
            }
            other => {
                let expected = "a network: a pickle, a safetensors file or a torch file";
                return Err(named(Malformed::Format { expected, found: other.describe() }));
            }
        };
        let given = config.map(read_config).transpose()?;
        let config = given.or(inside).ok_or_else(|| {
            Error::conflict(
                format!("{} holds tensors but not what network they belong to", path.display()),
                "give `model-config`: a JSON file with cls, img_resolution, img_channels, … as the network was made",
            )
        })?;
        Ok(Self { path: path.into(), config, tensors })
    }

    /// The network.
    pub fn build(&self, arithmetic: impl Into<Arithmetic>) -> Result<Edm> {
        let config = Config::from_map(&self.config).map_err(|problem| Error::malformed(&self.path, problem))?;
        let set = TensorSet { path: self.path.clone(), tensors: self.tensors.clone() };
        let (layout, arithmetic) = (self.layout()?, arithmetic.into());
        let (source, _) = Source::checked("network", &set, &layout, |scope| Edm::new(&config, scope, arithmetic))?;
        Edm::new(&config, &source.root(), arithmetic)
    }

    /// The network's tensors are those after its prefix; a table of the wrapper stands beside it.
    fn layout(&self) -> Result<Layout> {
        let before = |name: &'_ String| name.strip_suffix(LANDMARK).map(str::len);
        let prefixes = self.tensors.keys().filter_map(|name| Some(&name[..before(name)?]));
        let prefixes: Vec<&str> = prefixes.filter(|p| p.is_empty() || p.ends_with('.')).collect();
        let named = |problem| Err(Error::malformed(&self.path, problem));
        let prefix = match prefixes.as_slice() {
            [only] => only.to_string(),
            [] => return named(Malformed::Missing { name: format!("{PREFIX}{LANDMARK}") }),
            several if several.contains(&PREFIX) => PREFIX.into(),
            several => {
                let problem = format!("holds {} networks, none of them under '{PREFIX}'", several.len());
                return named(Malformed::Inconsistent { problem });
            }
        };
        let (wrapper, owned) = (prefix.strip_suffix(PREFIX).unwrap_or_default().to_string(), prefix.clone());
        let locate = move |name: &str| match name {
            TABLE => format!("{wrapper}{name}").into(),
            _ => format!("{prefix}{name}").into(),
        };
        let owns =
            move |name: &str| name.strip_prefix(&*owned).is_some_and(|own| !owned.is_empty() || own.contains('.'));
        Ok(Layout::new(locate, owns).ignoring(|name| name.ends_with("map_augment.weight")))
    }

    /// [`fingerprint`] of its tensors.
    pub fn sha256(&self) -> String {
        fingerprint(&self.tensors)
    }

    /// The same network as a safetensors file with its configuration in the metadata.
    pub fn to_safetensors(&self) -> TensorFile {
        let config = Value::Object(self.config.clone()).to_string();
        let metadata = [("format".to_string(), "pt".to_string()), (CONFIG.to_string(), config)];
        TensorFile { metadata: metadata.into_iter().collect(), tensors: self.tensors.clone() }
    }
}

/// Hash of names, shapes and numbers (as f32) in the order of the names: the same whatever the container.
pub fn fingerprint(tensors: &BTreeMap<String, StoredTensor>) -> String {
    let mut hash = Fingerprint::default();
    for (name, tensor) in tensors {
        hash.add(&(name.len() as u64).to_le_bytes());
        hash.add(name.as_bytes());
        hash.add(&(tensor.shape().len() as u64).to_le_bytes());
        for size in tensor.shape() {
            hash.add(&(*size as u64).to_le_bytes());
        }
        match tensor.dtype() {
            Dtype::F32 => hash.add(tensor.bytes()),
            _ => tensor.to_f32().iter().fold(&mut hash, |hash, v| hash.add(&v.to_le_bytes())),
        };
    }
    hash.text()
}

fn read_config(path: &Path) -> Result<Map<String, Value>> {
    object(&read_file(path, LARGEST_CONFIG)?).map_err(|problem| Error::malformed(path, problem))
}

fn object(text: &[u8]) -> Result<Map<String, Value>, Malformed> {
    dyweight_core::json::parse(text).map_err(|reason| Malformed::Json { what: "network configuration", reason })
}
