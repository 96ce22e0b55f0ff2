//! Weights of Inception-v3 from whatever holds them, under one set of names.
//!
//! ```text
//! pytorch-fid (.pth, .safetensors)       <module>.conv.weight · <module>.bn.{weight, bias, running_mean, running_var}
//! TorchScript (.pt; inside a .pkl)       <…layers>.<unit>.{weight, beta, mean, var}, without a gain: it is 1
//! ```
//!
//! Names may have a prefix. Nothing is executed: of a TorchScript archive only the tensors are read.
//!
//! The network of torchvision has the same layers and names but other weights, trained on other labels. Its features
//! are not those of the FID, so it is refused.

use super::plan::{self, Unit};
use crate::edm::fingerprint;
use dyweight_core::error::{Error, Result};
use dyweight_files::Malformed;
use dyweight_files::{Format, SharedBytes, StoredTensor, TensorFile, TorchFile, read_data, sniff};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A tensor by which each kind of file is told, and its prefix found.
const PYTORCH_FID: &str = "Mixed_7c.branch_pool.conv.weight";
const SCRIPT: &str = "mixed_10.tower_2_conv.weight";
/// Classes of the network of 2015-12-05; torchvision's has 1000.
const CLASSES: usize = 1008;

/// The parts of a unit: name here, name in a TorchScript file.
const PARTS: [(&str, Option<&str>); 5] = [
    ("conv.weight", Some("weight")),
    ("bn.weight", None),
    ("bn.bias", Some("beta")),
    ("bn.running_mean", Some("mean")),
    ("bn.running_var", Some("var")),
];

/// The weights of the network, under the names of pytorch-fid.
#[derive(Clone, Debug)]
pub struct InceptionFile {
    /// Where they came from, for messages.
    pub path: PathBuf,
    /// Tensors by name; those that features do not need are left out.
    pub tensors: BTreeMap<String, StoredTensor>,
    /// What kind of file it was, in words.
    pub kind: &'static str,
}

impl InceptionFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(path, read_data(path)?)
    }

    /// Reads the bytes of a file called `path`.
    pub fn parse(path: &Path, bytes: SharedBytes) -> Result<Self> {
        let named = |problem| Error::malformed(path, problem);
        let tensors: BTreeMap<String, StoredTensor> = match sniff(&bytes) {
            Format::Safetensors => TensorFile::parse(bytes).map_err(named)?.tensors,
            Format::TorchZip | Format::TorchLegacy | Format::Zip => {
                TorchFile::parse(bytes).map_err(named)?.tensors.into_iter().collect()
            }
            Format::Pickle => TorchFile::parse_pickle(bytes).map_err(named)?.tensors.into_iter().collect(),
            other => {
                let expected = "weights of Inception-v3: a torch file, a pickle or a safetensors file";
                return Err(named(Malformed::Format { expected, found: other.describe() }));
            }
        };
        Self::from_tensors(path, &tensors)
    }

    /// Picks the network out of named tensors.
    pub fn from_tensors(path: &Path, tensors: &BTreeMap<String, StoredTensor>) -> Result<Self> {
        let named = |problem| Error::malformed(path, problem);
        let Some(names) = Names::of(tensors) else {
            let problem = format!("holds no Inception-v3: neither '{PYTORCH_FID}' nor '{SCRIPT}' is there");
            return Err(named(Malformed::Inconsistent { problem }));
        };
        refuse_torchvision(&names, tensors).map_err(named)?;
        let mut picked = BTreeMap::new();
        for unit in plan::units() {
            for (part, script) in PARTS {
                let name = format!("{}.{part}", unit.name);
                let tensor = match names.of_part(&unit, part, script).map(|found| (tensors.get(&found), found)) {
                    Some((Some(tensor), _)) => tensor.clone(),
                    Some((None, found)) => return Err(named(Malformed::Missing { name: found })),
                    None => StoredTensor::from_f32(&[unit.outputs], &vec![1.0; unit.outputs]).map_err(named)?,
                };
                check(path, &name, &tensor, &expected_shape(&unit, part))?;
                picked.insert(name, tensor);
            }
        }
        Ok(Self { path: path.into(), tensors: picked, kind: names.kind() })
    }

    /// Names and shapes of all tensors, in the order of the layers.
    pub fn shapes() -> Vec<(String, Vec<usize>)> {
        let of = |unit: Unit| PARTS.map(|(part, _)| (format!("{}.{part}", unit.name), expected_shape(&unit, part)));
        plan::units().into_iter().flat_map(of).collect()
    }

    /// Names here and in a TorchScript file, below its prefix, of all tensors such a file has.
    pub fn script_names() -> Vec<(String, String)> {
        let of = |unit: Unit| {
            let pair = |(part, script): (&str, Option<&str>)| {
                script.map(|script| (format!("{}.{part}", unit.name), format!("{}.{script}", unit.script_name)))
            };
            PARTS.into_iter().filter_map(pair).collect::<Vec<_>>()
        };
        plan::units().into_iter().flat_map(of).collect()
    }

    /// True if the names are those of the network, whatever is in the tensors.
    pub fn recognises<'n>(mut names: impl Iterator<Item = &'n str>) -> bool {
        names.any(|name| prefix(name, PYTORCH_FID).is_some() || prefix(name, SCRIPT).is_some())
    }

    /// Fingerprint of the weights: the same for the same numbers in files of different kinds.
    pub fn sha256(&self) -> String {
        fingerprint(&self.tensors)
    }

    /// The same weights as a safetensors file.
    pub fn to_safetensors(&self) -> TensorFile {
        let metadata = [("format", "pt"), ("network", "inception-v3")].map(|(k, v)| (k.to_string(), v.to_string()));
        TensorFile { metadata: metadata.into_iter().collect(), tensors: self.tensors.clone() }
    }
}

/// How a file names its tensors.
enum Names {
    PytorchFid { prefix: String },
    Script { prefix: String },
}

impl Names {
    fn of(tensors: &BTreeMap<String, StoredTensor>) -> Option<Self> {
        tensors.keys().find_map(|name| {
            let prefix_of = |suffix| prefix(name, suffix).map(String::from);
            let plain = prefix_of(PYTORCH_FID).map(|prefix| Self::PytorchFid { prefix });
            plain.or_else(|| prefix_of(SCRIPT).map(|prefix| Self::Script { prefix }))
        })
    }

    /// The file's name of a part; none if such files do without.
    fn of_part(&self, unit: &Unit, part: &str, script: Option<&str>) -> Option<String> {
        match self {
            Self::PytorchFid { prefix } => Some(format!("{prefix}{}.{part}", unit.name)),
            Self::Script { prefix } => script.map(|part| format!("{prefix}{}.{part}", unit.script_name)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::PytorchFid { .. } => "Inception-v3 with the names of pytorch-fid",
            Self::Script { .. } => "Inception-v3 with the names of a TorchScript file",
        }
    }
}

/// What stands before a suffix: nothing, or something that ends in a dot.
fn prefix<'n>(name: &'n str, suffix: &str) -> Option<&'n str> {
    name.strip_suffix(suffix).filter(|prefix| prefix.is_empty() || prefix.ends_with('.'))
}

fn refuse_torchvision(names: &Names, tensors: &BTreeMap<String, StoredTensor>) -> Result<(), Malformed> {
    let Names::PytorchFid { prefix } = names else { return Ok(()) };
    let classes = tensors.get(&format!("{prefix}fc.weight")).and_then(|t| t.shape().first().copied());
    let auxiliary = tensors.keys().any(|name| name.starts_with(&format!("{prefix}AuxLogits.")));
    if auxiliary || classes.is_some_and(|count| count != CLASSES) {
        let problem = format!(
            "is a classifier of {} classes, as torchvision has; the network of the FID has {CLASSES}",
            classes.map_or("other".into(), |c| c.to_string())
        );
        return Err(Malformed::Inconsistent { problem });
    }
    Ok(())
}

fn expected_shape(unit: &Unit, part: &str) -> Vec<usize> {
    match part {
        "conv.weight" => vec![unit.outputs, unit.inputs, unit.kernel[0], unit.kernel[1]],
        _ => vec![unit.outputs],
    }
}

fn check(path: &Path, name: &str, tensor: &StoredTensor, expected: &[usize]) -> Result<()> {
    let what = || format!("tensor '{name}' in {}", path.display());
    if tensor.shape() != expected {
        return Err(Error::Shape { what: what(), expected: expected.to_vec(), found: tensor.shape().to_vec() });
    }
    if let Some((index, value)) = tensor.to_f32().iter().enumerate().find(|(_, v)| !v.is_finite()) {
        return Err(Error::NotFinite { what: what(), index, value: f64::from(*value) });
    }
    Ok(())
}
