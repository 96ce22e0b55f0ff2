//! Torch storages: the flat lists of numbers that tensors are views of.
//!
//! ```text
//! external id  ("storage", storage class, key, location, element count[, view info = none])
//! ```

use crate::Malformed;
use crate::bytes::SharedBytes;
use crate::dtype::Dtype;
use crate::pickle::{Graph, Id, Meaning, Node};
use crate::zip::Archive;
use std::collections::HashMap;

/// A flat list of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub(crate) dtype: Dtype,
    pub(crate) bytes: SharedBytes,
}

/// What an external id says about a storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Declared<'a> {
    pub(crate) key: &'a str,
    pub(crate) dtype: Dtype,
    pub(crate) count: usize,
}

impl<'a> Declared<'a> {
    /// Reads an external id.
    pub(crate) fn read(graph: &Graph<'a>, id: Id) -> Result<Self, Malformed> {
        let wrong = || graph.wrong("storage", "(\"storage\", class, key, location, count)", id);
        let (kind, class, key, count, view) = match graph.as_items(id) {
            Some([kind, class, key, _, count]) => (*kind, *class, *key, *count, None),
            Some([kind, class, key, _, count, view]) => (*kind, *class, *key, *count, Some(*view)),
            _ => return Err(wrong()),
        };
        let is_view = view.is_some_and(|v| *graph.node(v) != Node::None);
        let meaning = graph.as_global(class).map(|g| g.meaning);
        match (graph.as_text(kind), meaning, graph.as_text(key), graph.as_count(count)) {
            (Some("storage"), Some(Meaning::Storage(dtype)), Some(key), Some(count)) if !is_view => {
                Ok(Self { key, dtype, count })
            }
            _ => Err(wrong()),
        }
    }

    /// Bytes by declaration.
    pub(crate) fn byte_count(&self) -> Result<usize, Malformed> {
        let overflow = || Malformed::ShapeOverflow { shape: vec![self.count] };
        self.count.checked_mul(self.dtype.size()).ok_or_else(overflow)
    }

    /// The storage of these bytes, if they are as many as declared.
    pub(crate) fn storage(&self, bytes: SharedBytes) -> Result<Storage, Malformed> {
        let (expected, found) = (self.byte_count()? as u64, bytes.len() as u64);
        if expected != found {
            return Err(Malformed::StorageSize { key: self.key.into(), expected, found });
        }
        Ok(Storage { dtype: self.dtype, bytes })
    }
}

/// Where a file keeps what its pickle calls external.
pub(crate) enum Externals {
    /// Nowhere: a plain pickle has its storages inside.
    Inside,
    /// At the end of a legacy stream, by key.
    Listed(HashMap<String, Storage>),
    /// In members `<root>/data/<key>`; those read so far are kept, since many tensors may share one.
    Members { archive: Archive, root: String, read: HashMap<String, Storage> },
}

impl Externals {
    /// The storage of an external id.
    pub(crate) fn find(&mut self, declared: Declared<'_>) -> Result<Storage, Malformed> {
        let missing = || Malformed::MissingStorage { key: declared.key.into() };
        let storage = match self {
            Externals::Inside => return Err(missing()),
            Externals::Listed(known) => known.get(declared.key).ok_or_else(missing)?,
            Externals::Members { archive, root, read } => {
                if !read.contains_key(declared.key) {
                    let bytes = archive.read(&format!("{root}/data/{}", declared.key))?.ok_or_else(missing)?;
                    read.insert(declared.key.into(), declared.storage(bytes)?);
                }
                read.get(declared.key).ok_or_else(missing)?
            }
        };
        if storage.dtype != declared.dtype {
            let problem = format!("storage '{}' is declared with two element types", declared.key);
            return Err(Malformed::Inconsistent { problem });
        }
        declared.storage(storage.bytes.clone())
    }
}
