//! Where a network's tensors come from: a file, or a stream of random numbers.

use super::blueprint::Blueprint;
use super::config::Config;
use super::tensors::TensorPlan;
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Stream;
use dyweight_files::Malformed;
use dyweight_files::StoredTensor;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// Tensors by name.
pub(super) struct Weights<'t> {
    /// For messages.
    path: PathBuf,
    source: Store<'t>,
}

enum Store<'t> {
    Stored { tensors: &'t BTreeMap<String, StoredTensor>, prefix: String },
    Random { seed: u64 },
}

/// A tensor every network has; what stands before it in a file is the prefix of the network.
const LANDMARK: &str = "map_layer0.weight";
/// The prefix in the released files: the network is the wrapper's `model`.
const PREFIX: &str = "model.";

impl<'t> Weights<'t> {
    /// Tensors of a file.
    pub(super) fn stored(path: &Path, tensors: &'t BTreeMap<String, StoredTensor>) -> Result<Self> {
        let ends_here = |name: &str| name.is_empty() || name.ends_with('.');
        let prefixes: Vec<&str> =
            tensors.keys().filter_map(|name| name.strip_suffix(LANDMARK)).filter(|p| ends_here(p)).collect();
        let prefix = match prefixes.as_slice() {
            [only] => only.to_string(),
            [] => return Err(Error::malformed(path, Malformed::Missing { name: format!("{PREFIX}{LANDMARK}") })),
            several if several.contains(&PREFIX) => PREFIX.into(),
            several => {
                let problem = format!("holds {} networks, none of them under '{PREFIX}'", several.len());
                return Err(Error::malformed(path, Malformed::Inconsistent { problem }));
            }
        };
        Ok(Self { path: path.into(), source: Store::Stored { tensors, prefix } })
    }

    /// Random tensors of a scale that keeps activations near unit size.
    pub(super) fn random(name: &str, seed: u64) -> Self {
        Self { path: name.into(), source: Store::Random { seed } }
    }

    /// The numbers of a tensor of the plan.
    pub(super) fn numbers(&self, plan: &TensorPlan) -> Result<Vec<f32>> {
        match &self.source {
            Store::Stored { tensors, prefix } => {
                let name = format!("{prefix}{}", plan.name);
                let missing = || Error::malformed(&self.path, Malformed::Missing { name: name.clone() });
                self.checked(&name, tensors.get(&name).ok_or_else(missing)?, &plan.shape)
            }
            Store::Random { seed } => Ok(random_tensor(*seed, plan)),
        }
    }

    /// A tensor of the wrapper itself, if the file has it.
    pub(super) fn wrapper_numbers(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<f32>>> {
        match &self.source {
            Store::Stored { tensors, prefix } => {
                let name = format!("{}{name}", prefix.strip_suffix(PREFIX).unwrap_or_default());
                tensors.get(&name).map(|t| self.checked(&name, t, shape)).transpose()
            }
            Store::Random { .. } => Ok(None),
        }
    }

    fn checked(&self, name: &str, tensor: &StoredTensor, shape: &[usize]) -> Result<Vec<f32>> {
        if tensor.shape() != shape {
            let what = format!("tensor '{name}' in {}", self.path.display());
            return Err(Error::Shape { what, expected: shape.to_vec(), found: tensor.shape().to_vec() });
        }
        let numbers = tensor.to_f32();
        if let Some(index) = numbers.iter().position(|v| !v.is_finite()) {
            let what = format!("tensor '{name}' in {}", self.path.display());
            return Err(Error::NotFinite { what, index, value: numbers[index].into() });
        }
        Ok(numbers)
    }

    /// Refuses a file whose tensors are not those of the plan: a configuration that merely happens to fit a part of the
    /// weights would give a network nobody trained.
    pub(super) fn check(&self, plan: &Blueprint) -> Result<()> {
        let Store::Stored { tensors, prefix } = &self.source else { return Ok(()) };
        let planned = plan.all_tensors();
        for tensor in &planned {
            let name = format!("{prefix}{}", tensor.name);
            match tensors.get(&name) {
                Some(found) if found.shape() != tensor.shape => {
                    let what = format!("tensor '{name}' in {}", self.path.display());
                    let (expected, found) = (tensor.shape.clone(), found.shape().to_vec());
                    return Err(Error::Shape { what, expected, found });
                }
                None if tensor.needed => return Err(Error::malformed(&self.path, Malformed::Missing { name })),
                _ => {}
            }
        }
        let known: HashSet<&str> = planned.iter().map(|t| t.name.as_str()).collect();
        let foreign = tensors.keys().filter_map(|name| name.strip_prefix(prefix.as_str())).find(|name| {
            let of_network = !prefix.is_empty() || name.contains('.');
            of_network && !known.contains(name) && *name != "map_augment.weight"
        });
        match foreign {
            Some(name) => {
                let problem = format!("tensor '{prefix}{name}' belongs to no layer of the configuration");
                Err(Error::malformed(&self.path, Malformed::Inconsistent { problem }))
            }
            None => Ok(()),
        }
    }

    /// Puts the file's name to what is wrong with it.
    pub(super) fn malformed(&self, problem: Malformed) -> Error {
        Error::malformed(&self.path, problem)
    }

    /// Puts names to an engine error.
    pub(super) fn refused(&self, layer: &str, error: dyweight_nn::Error) -> Error {
        self.malformed(Malformed::Inconsistent { problem: format!("{layer}: {error}") })
    }

    /// The tensors of one layer.
    pub(super) fn layer(&self, config: &Config, name: &str, plans: Vec<TensorPlan>) -> Result<LayerWeights<'_>> {
        let needed = plans.into_iter().filter(|p| p.needed);
        let tensors = needed.map(|p| Ok((p.name.clone(), self.numbers(&p)?))).collect::<Result<_>>()?;
        Ok(LayerWeights { weights: self, name: name.into(), tensors, filter: config.net.filter.clone() })
    }
}

/// The tensors of one layer, ready to be packed.
pub(super) struct LayerWeights<'w> {
    weights: &'w Weights<'w>,
    name: String,
    tensors: BTreeMap<String, Vec<f32>>,
    filter: Vec<f64>,
}

impl LayerWeights<'_> {
    /// The layer's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Weight and bias of a part, if the layer has it.
    pub(super) fn affine(&self, part: &str) -> Option<(&[f32], &[f32])> {
        let at = |what: &str| self.tensors.get(&format!("{part}.{what}")).map(Vec::as_slice);
        Some((at("weight")?, at("bias")?))
    }

    /// Weight and bias of a part the plan lists.
    pub(super) fn needed(&self, part: &str) -> Result<(&[f32], &[f32])> {
        self.affine(part).ok_or_else(|| self.weights.malformed(Malformed::Missing { name: part.into() }))
    }

    /// The resampling filter.
    pub(super) fn filter(&self) -> Result<dyweight_nn::Fir> {
        let taps: Vec<f32> = self.filter.iter().map(|t| *t as f32).collect();
        dyweight_nn::Fir::new(&taps).map_err(|e| self.refused(e))
    }

    /// Puts names to an engine error.
    pub(super) fn refused(&self, error: dyweight_nn::Error) -> Error {
        self.weights.refused(&self.name, error)
    }
}

/// A stream of its own for each tensor, so that the numbers do not depend on the order of building. Uniform numbers: a
/// quarter of a billion weights should take seconds.
fn random_tensor(seed: u64, plan: &TensorPlan) -> Vec<f32> {
    let mut stream = Stream::labelled(seed, &plan.name);
    let len = plan.shape.iter().product();
    let (centre, scale) = match (plan.name.rsplit('.').next(), plan.shape.as_slice()) {
        (Some("freqs"), _) => (0.0, 4.0),
        (Some("weight"), [_]) => (1.0, 0.1),
        (Some("weight"), [_, inputs @ ..]) => (0.0, 1.0 / (inputs.iter().product::<usize>() as f32).sqrt()),
        _ => (0.0, 0.1),
    };
    let spread = scale * 12f32.sqrt();
    (0..len).map(|_| centre + spread * (stream.uniform() as f32 - 0.5)).collect()
}
