//! Torch tensors in a pickle: views of storages.
//!
//! ```text
//! parameter  _rebuild_parameter(tensor, …)
//! tensor     _rebuild_tensor_v2(storage, offset, shape, strides, …)      offset and strides in elements
//! storage    _load_from_bytes(stream), or an external id
//! ```

use super::legacy;
use super::storage::{Declared, Externals, Storage};
use crate::Malformed;
use crate::allowance::Allowance;
use crate::bytes::SharedBytes;
use crate::layout::Strided;
use crate::pickle::{Graph, Id, Meaning, Node};
use crate::stored::{StoredTensor, byte_count};
use std::collections::HashMap;

/// No sound tensor has more axes.
const MAX_RANK: usize = 16;

/// Turns tensor descriptions of one pickle into tensors.
pub(crate) struct TensorReader<'g, 'a> {
    pub(crate) graph: &'g Graph<'a>,
    /// The bytes the pickle was read from.
    buffer: &'g SharedBytes,
    externals: Externals,
    /// Storages within the pickle, by where they start: many tensors may share one.
    inside: HashMap<usize, Storage>,
    budget: Allowance,
}

impl<'g, 'a> TensorReader<'g, 'a> {
    /// `file` is the size of the whole file, which bounds what the tensors may take together.
    pub(crate) fn new(graph: &'g Graph<'a>, buffer: &'g SharedBytes, externals: Externals, file: usize) -> Self {
        let budget = Allowance::bytes("bytes in all tensors together", file);
        Self { graph, buffer, externals, inside: HashMap::new(), budget }
    }

    /// The tensor a value describes.
    pub(crate) fn tensor(&mut self, name: &str, id: Id) -> Result<StoredTensor, Malformed> {
        let wrong = |id| self.graph.wrong(name, "a tensor", id);
        // A name is handed out with each tensor.
        self.budget.spend(name.len())?;
        let (meaning, args, _) = self.graph.as_made(id).ok_or_else(|| wrong(id))?;
        let args = self.graph.as_items(args).unwrap_or_default();
        match (meaning, args) {
            (Meaning::Parameter, [inner, ..]) => match self.graph.as_made(*inner) {
                Some((Meaning::Tensor, args, _)) => self.view(name, self.graph.as_items(args).unwrap_or_default()),
                _ => Err(wrong(*inner)),
            },
            (Meaning::Tensor, args) => self.view(name, args),
            _ => Err(wrong(id)),
        }
    }

    fn view(&mut self, name: &str, args: &[Id]) -> Result<StoredTensor, Malformed> {
        let [storage, offset, shape, strides, ..] = args else {
            let (expected, found) = ("a tensor of storage, offset, shape and strides", "incomplete");
            return Err(Malformed::Type { name: name.into(), expected, found });
        };
        let storage = self.storage(name, *storage)?;
        let offset = self.graph.as_count(*offset).ok_or_else(|| self.graph.wrong(name, "an offset", *offset))?;
        let view = Strided { shape: self.counts(name, *shape)?, strides: self.counts(name, *strides)?, offset };
        let size = storage.dtype.size();
        view.check(storage.bytes.len() / size)?;
        let len = byte_count(storage.dtype, &view.shape)?;
        self.budget.spend(len)?;
        let bytes = if view.is_contiguous() {
            let start = offset * size;
            storage.bytes.slice(start..start + len).ok_or(Malformed::Truncated { offset: start, needed: len })?
        } else {
            view.gather(&storage.bytes, size).into()
        };
        StoredTensor::new(name, storage.dtype, view.shape, bytes)
    }

    /// Sizes or strides.
    fn counts(&self, name: &str, id: Id) -> Result<Vec<usize>, Malformed> {
        let wrong = || self.graph.wrong(name, "a tuple of counts", id);
        let items = self.graph.as_items(id).ok_or_else(wrong)?;
        if items.len() > MAX_RANK {
            let (size, limit) = (items.len() as u64, MAX_RANK as u64);
            return Err(Malformed::TooLarge { what: "axes of a tensor", size, limit });
        }
        items.iter().map(|item| self.graph.as_count(*item).ok_or_else(wrong)).collect()
    }

    fn storage(&mut self, name: &str, id: Id) -> Result<Storage, Malformed> {
        let graph = self.graph;
        let wrong = || graph.wrong(name, "a storage", id);
        match graph.node(id) {
            Node::External(external) => self.externals.find(Declared::read(graph, *external)?),
            Node::Made { .. } => match graph.as_made(id) {
                Some((Meaning::StorageFromBytes, args, _)) => match graph.as_items(args) {
                    Some([bytes]) => self.stream(name, *bytes),
                    _ => Err(wrong()),
                },
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }

    /// A storage as a stream within the pickle.
    fn stream(&mut self, name: &str, id: Id) -> Result<Storage, Malformed> {
        let Node::Bytes(range) = self.graph.node(id) else { return Err(self.graph.wrong(name, "bytes", id)) };
        if let Some(known) = self.inside.get(&range.start) {
            return Ok(known.clone());
        }
        let truncated = Malformed::Truncated { offset: range.start, needed: range.len() };
        let storage = legacy::parse_storage(&self.buffer.slice(range.clone()).ok_or(truncated)?)?;
        self.inside.insert(range.start, storage.clone());
        Ok(storage)
    }
}
