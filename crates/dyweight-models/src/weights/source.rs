//! Where the layers of a network take their tensors from.

use super::check::Mismatch;
use super::layout::{Layout, Location};
use super::pages::Pages;
use super::set::TensorSet;
use dyweight_core::error::{Error, Result};
use dyweight_files::{Dtype as FileDtype, Fingerprint, Malformed, SharedBytes, StoredTensor};
use dyweight_nn as nn;
use dyweight_nn::{
    Activation, Attention, Conv2d, ConvSpec, Embedding, GroupNorm, LayerNorm, Linear, Precision, RmsNorm, Weights,
};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// No network has more tensors.
const MOST_TENSORS: usize = 50_000;
/// Or larger ones: the token table of a large text encoder has a sixteenth of it.
const MOST_ENTRIES: usize = 1 << 31;
/// Numbers that are taken out of their file to be rearranged are fewer.
const MOST_NUMBERS: usize = 1 << 26;

/// A tensor of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlan {
    /// The network's name of it.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// True if a file may leave it out: what follows from the configuration, or serves training alone.
    pub optional: bool,
}

/// How much a network's tensors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Weighed {
    /// How many tensors.
    pub tensors: usize,
    /// Numbers in them.
    pub numbers: u64,
    /// Bytes these take in their file.
    pub bytes: u64,
}

/// Where tensors come from.
pub(crate) enum Source<'s> {
    /// Nowhere: what is asked for is noted.
    Plan(Mutex<Vec<TensorPlan>>),
    /// A file.
    Stored { set: &'s TensorSet, layout: &'s Layout, taken: Mutex<Vec<SharedBytes>> },
    /// Random numbers of a scale that keeps activations near unit size, kept as this type.
    Random { seed: u64, dtype: nn::Dtype },
}

impl<'s> Source<'s> {
    /// The tensors that `build` asks for.
    pub(crate) fn plan<T>(build: impl FnOnce(&Scope<'_>) -> Result<T>) -> Result<Vec<TensorPlan>> {
        let source = Source::Plan(Mutex::default());
        build(&source.root())?;
        match source {
            Source::Plan(plan) => Ok(plan.into_inner().unwrap_or_else(PoisonError::into_inner)),
            _ => Ok(Vec::new()),
        }
    }

    /// Builds a network from a set whose tensors are exactly those it asks for, with the fingerprint of what it is made
    /// of.
    pub(crate) fn build<T>(
        what: &'static str,
        set: &TensorSet,
        layout: &Layout,
        build: impl Fn(&Scope<'_>) -> Result<T>,
    ) -> Result<(T, String)> {
        let (source, plan) = Source::checked(what, set, layout, &build)?;
        let hash = source.fingerprint(&plan)?;
        Ok((build(&source.root())?, hash))
    }

    /// The tensors of a set, which are exactly those that `build` asks for, and their list.
    pub(crate) fn checked<T>(
        what: &'static str,
        set: &'s TensorSet,
        layout: &'s Layout,
        build: impl Fn(&Scope<'_>) -> Result<T>,
    ) -> Result<(Self, Vec<TensorPlan>)> {
        let plan = Source::plan(build)?;
        Mismatch::check(what, &plan, set, layout)?;
        Ok((Source::Stored { set, layout, taken: Mutex::default() }, plan))
    }

    /// How much of a set a plan's tensors are; they must all be there.
    pub(crate) fn weigh(what: &'static str, plan: &[TensorPlan], set: &TensorSet, layout: &Layout) -> Result<Weighed> {
        Mismatch::check(what, plan, set, layout)?;
        let mut weighed = Weighed { tensors: plan.len(), ..Weighed::default() };
        for tensor in plan {
            let numbers = tensor.shape.iter().product::<usize>() as u64;
            let dtype = set.tensors.get(&layout.locate(&tensor.name).name).map(StoredTensor::dtype);
            weighed.numbers += numbers;
            weighed.bytes += numbers * dtype.map_or(0, |dtype| dtype.size() as u64);
        }
        Ok(weighed)
    }

    /// All of it.
    pub(crate) fn root(&self) -> Scope<'_> {
        Scope { source: self, prefix: String::new(), keep: Keep::Stored, precision: Precision::default() }
    }

    /// Hash of names, shapes and the first and last numbers of every tensor: the same whatever the container and
    /// layout, without reading all of a file that may be larger than memory.
    fn fingerprint(&self, plan: &[TensorPlan]) -> Result<String> {
        const NUMBERS: usize = 512;
        let mut hash = Fingerprint::default();
        for TensorPlan { name, shape, .. } in plan.iter().filter(|tensor| !tensor.optional) {
            let matrix = self.matrix(name, shape)?;
            hash.add(name.as_bytes()).add(&[0]);
            shape.iter().fold(&mut hash, |hash, size| hash.add(&(*size as u64).to_le_bytes()));
            let rows = matrix.rows();
            let some = (NUMBERS / matrix.columns().max(1)).clamp(1, rows.max(1));
            for range in [0..some.min(rows), rows.saturating_sub(some)..rows] {
                let numbers = matrix.row_range(range).map_err(|e| refused(self.path(), name, &e))?.to_f32();
                numbers.iter().fold(&mut hash, |hash, v| hash.add(&v.to_le_bytes()));
            }
        }
        Ok(hash.text())
    }

    fn path(&self) -> &Path {
        match self {
            Source::Stored { set, .. } => &set.path,
            Source::Plan(_) => Path::new("the configuration"),
            Source::Random { .. } => Path::new("random network"),
        }
    }

    /// A tensor as a matrix: its first size by all others.
    fn matrix(&self, name: &str, shape: &[usize]) -> Result<Weights> {
        let rows = shape.first().copied().unwrap_or(1);
        let columns = shape.iter().skip(1).product();
        let refused = |e| refused(self.path(), name, &e);
        match self {
            Source::Plan(_) => unreachable!("a plan has no numbers"),
            Source::Random { seed, dtype } => {
                let bytes = super::random::tensor(*seed, *dtype, name, shape);
                Weights::new(*dtype, [rows, columns], Arc::new(bytes), 0).map_err(refused)
            }
            Source::Stored { set, layout, taken } => {
                let place = layout.locate(name);
                let missing = || Error::malformed(&set.path, Malformed::Missing { name: place.name.clone() });
                let tensor = set.tensors.get(&place.name).ok_or_else(missing)?;
                let expected = stored_shape(shape, &place);
                if !same_but_ones(tensor.shape(), &expected) {
                    let what = format!("tensor '{}' in {}", place.name, set.path.display());
                    return Err(Error::Shape { what, expected, found: tensor.shape().to_vec() });
                }
                if place.transposed {
                    let numbers = transposed(&tensor.to_f32(), columns, rows);
                    return Weights::from_f32([rows, columns], &numbers).map_err(refused);
                }
                let total = place.part.map_or(rows, |part| part.total(rows));
                let first = place.part.map_or(0, |part| part.first(rows));
                let all = stored(tensor, [total, columns]).map_err(refused)?;
                taken.lock().unwrap_or_else(PoisonError::into_inner).push(tensor.shared_bytes());
                all.row_range(first..first + rows).map_err(refused)
            }
        }
    }

    /// True if the file has a tensor.
    fn has(&self, name: &str) -> bool {
        matches!(self, Source::Stored { set, layout, .. } if set.has(&layout.locate(name).name))
    }

    /// The numbers of a tensor, or of a layer's weights, none of which may be NaN or infinite.
    fn finite(&self, name: &str, weights: &Weights) -> Result<Vec<f32>> {
        let numbers = weights.to_f32();
        match numbers.iter().position(|v| !v.is_finite()) {
            None => Ok(numbers),
            Some(index) => {
                let what = format!("tensor '{name}' in {}", self.path().display());
                Err(Error::NotFinite { what, index, value: numbers[index].into() })
            }
        }
    }

    /// Notes a tensor; true if nothing else is wanted. A configuration that asks for more than any network has is
    /// refused before memory is taken for it.
    fn notes(&self, name: &str, shape: &[usize], optional: bool) -> Result<bool> {
        let Source::Plan(plan) = self else { return Ok(false) };
        let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
        plan.push(TensorPlan { name: name.into(), shape: shape.to_vec(), optional });
        let entries = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
        let problem = match entries {
            _ if plan.len() > MOST_TENSORS => format!("describes more than {MOST_TENSORS} tensors"),
            Some(entries) if entries <= MOST_ENTRIES => return Ok(true),
            _ => format!("describes a tensor '{name}' of shape {shape:?}, more than {MOST_ENTRIES} numbers"),
        };
        Err(Error::malformed(self.path(), Malformed::Inconsistent { problem }))
    }
}

/// What layers keep of their weights.
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    /// The numbers in the file.
    Stored,
    /// Of linear layers also a packed copy for the forward pass.
    Forward,
    /// Packed copies alone.
    Packed,
}

/// The tensors below a name.
pub(crate) struct Scope<'s> {
    source: &'s Source<'s>,
    prefix: String,
    keep: Keep,
    precision: Precision,
}

impl Scope<'_> {
    /// The tensors below `name` of these.
    pub(crate) fn at(&self, name: impl std::fmt::Display) -> Self {
        Self { prefix: self.name(&name.to_string()), ..self.same() }
    }

    /// The same, with linear layers that keep a copy of their weights for speed ([`Linear::packed`]).
    pub(crate) fn packed(&self) -> Self {
        Self { keep: Keep::Forward, ..self.same() }
    }

    /// The same, with layers that pack their weights once and let go of the file: fastest for small networks.
    pub(crate) fn packed_alone(&self) -> Self {
        Self { keep: Keep::Packed, ..self.same() }
    }

    /// The same, with convolutions, linear layers and attention of this precision.
    pub(crate) fn in_precision(&self, precision: Precision) -> Self {
        Self { precision, ..self.same() }
    }

    /// The same, with layers of f32: those at the ends of a network and those of one vector for a whole sample,
    /// which take little time and whose errors reach every token.
    pub(crate) fn exact(&self) -> Self {
        self.in_precision(Precision::F32)
    }

    fn same(&self) -> Self {
        Self { source: self.source, prefix: self.prefix.clone(), keep: self.keep, precision: self.precision }
    }

    fn name(&self, part: &str) -> String {
        if self.prefix.is_empty() { part.into() } else { format!("{}.{part}", self.prefix) }
    }

    /// Small tensors, as numbers.
    pub(crate) fn numbers(&self, part: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let name = self.name(part);
        let entries = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
        let Some(entries) = entries.filter(|entries| *entries <= MOST_NUMBERS) else {
            let problem = format!("describes '{name}' of shape {shape:?}, more than {MOST_NUMBERS} numbers");
            return Err(Error::malformed(self.source.path(), Malformed::Inconsistent { problem }));
        };
        if self.source.notes(&name, shape, false)? {
            return Ok(vec![0.0; entries]);
        }
        self.source.finite(&name, &self.source.matrix(&name, shape)?)
    }

    /// The numbers of a tensor that a file may leave out.
    pub(crate) fn optional(&self, part: &str, shape: &[usize]) -> Result<Option<Vec<f32>>> {
        let name = self.name(part);
        if self.source.notes(&name, shape, true)? || !self.source.has(&name) {
            return Ok(None);
        }
        self.numbers(part, shape).map(Some)
    }

    /// A tensor as a matrix, where it is stored; while planning, of one entry.
    pub(crate) fn matrix(&self, part: &str, shape: &[usize]) -> Result<Weights> {
        let name = self.name(part);
        if self.source.notes(&name, shape, false)? {
            return Weights::from_f32([1, 1], &[0.0]).map_err(|e| refused(self.source.path(), &name, &e));
        }
        self.source.matrix(&name, shape)
    }

    /// Where the tensors lie that were asked for since this was last called, of any scope.
    pub(crate) fn pages(&self) -> Pages {
        match self.source {
            Source::Stored { taken, .. } => {
                Pages::of(std::mem::take(&mut *taken.lock().unwrap_or_else(PoisonError::into_inner)))
            }
            _ => Pages::default(),
        }
    }

    /// True if nothing is wanted but a list of tensors.
    pub(crate) fn planning(&self) -> bool {
        matches!(self.source, Source::Plan(_))
    }

    fn bias(&self, part: &str, outputs: usize) -> Result<Vec<f32>> {
        self.numbers(&format!("{part}.bias"), &[outputs])
    }

    /// A linear layer with a bias.
    pub(crate) fn linear(&self, part: &str, inputs: usize, outputs: usize) -> Result<Linear> {
        let weights = self.matrix(&format!("{part}.weight"), &[outputs, inputs])?;
        let bias = self.bias(part, outputs)?;
        self.linear_of(part, weights, Some(&bias[..]).filter(|_| !self.planning()))
    }

    /// A linear layer without a bias.
    pub(crate) fn linear_without_bias(&self, part: &str, inputs: usize, outputs: usize) -> Result<Linear> {
        let weights = self.matrix(&format!("{part}.weight"), &[outputs, inputs])?;
        self.linear_of(part, weights, None)
    }

    fn linear_of(&self, part: &str, weights: Weights, bias: Option<&[f32]>) -> Result<Linear> {
        let linear = match self.keep {
            Keep::Packed => {
                let numbers = self.source.finite(&self.name(part), &weights)?;
                Linear::new(weights.columns(), weights.rows(), &numbers, bias)
            }
            _ => Linear::in_precision(self.precision.of_products(), weights, bias),
        };
        let linear = linear.map_err(|e| self.refused(part, e))?;
        Ok(if self.keep == Keep::Forward && !self.planning() { linear.packed() } else { linear })
    }

    /// A linear layer with a bias that packs its rows in another order than they are stored in.
    pub(crate) fn linear_reordered(
        &self,
        part: &str,
        [inputs, outputs]: [usize; 2],
        reordered: impl Fn(&[f32]) -> Vec<f32>,
    ) -> Result<Linear> {
        let weights = self.matrix(&format!("{part}.weight"), &[outputs, inputs])?;
        let bias = self.bias(part, outputs)?;
        let built = match self.planning() {
            true => Linear::new(1, 1, &[0.0], None),
            false => {
                let numbers = self.source.finite(&self.name(part), &weights)?;
                Linear::new(inputs, outputs, &reordered(&numbers), Some(&reordered(&bias)))
            }
        };
        built.map_err(|e| self.refused(part, e))
    }

    /// Attention over tokens.
    pub(crate) fn attention(&self, part: &str, channels: usize, heads: usize) -> Result<Attention> {
        let precision = self.precision.of_products();
        let attention = Attention::new(channels, heads).and_then(|attention| attention.in_precision(precision));
        attention.map_err(|e| self.refused(part, e))
    }

    /// A convolution with a bias.
    pub(crate) fn conv(&self, part: &str, spec: ConvSpec) -> Result<Conv2d> {
        let [kh, kw] = spec.kernel;
        let shape = [spec.out_channels, spec.in_channels, kh, kw];
        let weights = self.matrix(&format!("{part}.weight"), &shape)?;
        let bias = self.bias(part, spec.out_channels)?;
        let built = match self.planning() {
            true => Conv2d::new(ConvSpec::same(1, 1, 1, spec.algo), &[0.0], None),
            false => {
                let conv = match self.keep {
                    Keep::Packed => Conv2d::new(spec, &self.source.finite(&self.name(part), &weights)?, Some(&bias)),
                    _ => Conv2d::from_weights(spec, weights, Some(&bias)),
                };
                conv.and_then(|conv| conv.in_precision(self.precision))
            }
        };
        built.map_err(|e| self.refused(part, e))
    }

    /// A group normalisation.
    pub(crate) fn group_norm(
        &self,
        part: &str,
        channels: usize,
        (groups, eps): (usize, f32),
        activation: Activation,
    ) -> Result<GroupNorm> {
        let weight = self.numbers(&format!("{part}.weight"), &[channels])?;
        let bias = self.bias(part, channels)?;
        let norm = GroupNorm::new(groups, eps, &weight, &bias, activation);
        // A plan keeps nothing: a configuration of a few bytes may ask for thousands.
        let norm = match self.planning() {
            true => norm.and_then(|_| GroupNorm::new(1, eps, &[0.0], &[0.0], activation)),
            false => norm,
        };
        norm.map_err(|e| self.refused(part, e))
    }

    /// A layer normalisation.
    pub(crate) fn layer_norm(&self, part: &str, width: usize, eps: f32) -> Result<LayerNorm> {
        let weight = self.numbers(&format!("{part}.weight"), &[width])?;
        LayerNorm::new(eps, &weight, &self.bias(part, width)?).map_err(|e| self.refused(part, e))
    }

    /// A root-mean-square normalisation.
    pub(crate) fn rms_norm(&self, part: &str, width: usize, eps: f32) -> Result<RmsNorm> {
        let weight = self.numbers(&format!("{part}.weight"), &[width])?;
        RmsNorm::new(eps, &weight).map_err(|e| self.refused(part, e))
    }

    /// A table of vectors.
    pub(crate) fn embedding(&self, part: &str, rows: usize, width: usize) -> Result<Embedding> {
        let table = self.matrix(&format!("{part}.weight"), &[rows, width])?;
        Embedding::from_weights(table).map_err(|e| self.refused(part, e))
    }

    /// Puts the name of the file to what is wrong with it, or its configuration.
    pub(crate) fn malformed(&self, problem: Malformed) -> Error {
        Error::malformed(self.source.path(), problem)
    }

    /// Puts names to an engine error.
    pub(crate) fn refused(&self, part: &str, error: nn::Error) -> Error {
        refused(self.source.path(), &self.name(part), &error)
    }
}

fn refused(path: &Path, name: &str, error: &nn::Error) -> Error {
    Error::malformed(path, Malformed::Inconsistent { problem: format!("{name}: {error}") })
}

/// A stored tensor as the engine's weights: halves and f32 where they lie, anything else as f32.
fn stored(tensor: &StoredTensor, shape: [usize; 2]) -> nn::Result<Weights> {
    let dtype = match tensor.dtype() {
        FileDtype::F32 => nn::Dtype::F32,
        FileDtype::F16 => nn::Dtype::F16,
        FileDtype::Bf16 => nn::Dtype::Bf16,
        _ => return Weights::from_f32(shape, &tensor.to_f32()),
    };
    Weights::new(dtype, shape, Arc::new(tensor.shared_bytes()), 0)
}

fn transposed(numbers: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|j| (0..rows).map(move |i| numbers[i * columns + j])).collect()
}

/// The shape of the stored tensor of which a tensor of `shape` is a part.
pub(super) fn stored_shape(shape: &[usize], place: &Location) -> Vec<usize> {
    let mut shape = shape.to_vec();
    if let (Some(rows), Some(part)) = (shape.first_mut(), place.part) {
        *rows = part.total(*rows);
    }
    if place.transposed {
        shape.reverse();
    }
    shape
}

/// True if shapes agree but for trailing ones: a 1×1 convolution is a linear layer.
pub(super) fn same_but_ones(a: &[usize], b: &[usize]) -> bool {
    let trim = |shape: &'_ [usize]| shape.iter().rposition(|size| *size != 1).map_or(0, |last| last + 1);
    a[..trim(a)] == b[..trim(b)]
}
