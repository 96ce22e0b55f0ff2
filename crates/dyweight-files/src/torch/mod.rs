//! Torch files: zip archives (`.pt`, `.pth`, `.ckpt`) and legacy streams, as named tensors and plain values.
//!
//! ```text
//! zip     <root>/data.pkl · <root>/data/<key> · …       root of any name
//! legacy  see [`legacy`]
//! ```
//!
//! Promises: nothing is executed; shapes, strides and offsets are checked against the storages; tensors share the
//! file's buffer where they are contiguous, and together take no more than a small multiple of the file.

pub(crate) mod legacy;
pub(crate) mod storage;
pub(crate) mod tensor;
pub(crate) mod walk;

use super::bytes::SharedBytes;
use super::pickle::{self, Graph, Node};
use super::sniff::{Format, expect};
use super::stored::StoredTensor;
use super::zip::Archive;
use crate::Malformed;
use dyweight_core::error::{Error, Result};
use serde_json::{Map, Value};
use std::path::Path;
use storage::Externals;
use tensor::TensorReader;

/// How an archive begins.
const ARCHIVE: &[u8] = b"PK\x03\x04";

/// What a torch file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct TorchFile {
    /// Tensors by dot-joined names, in file order. Where the file has a `state_dict`, only its tensors, without that
    /// prefix.
    pub tensors: Vec<(String, StoredTensor)>,
    /// Numbers, texts and lists of the outermost dictionary.
    pub values: Map<String, Value>,
    /// Names the pickle mentions.
    pub globals: Vec<String>,
}

impl TorchFile {
    /// Reads a zip archive or a legacy stream.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = super::read_data(path)?;
        Self::parse(bytes).map_err(|problem| Error::malformed(path, problem))
    }

    /// Reads the bytes of a zip archive or a legacy stream; the tensors share them.
    pub fn parse(file: SharedBytes) -> Result<Self, Malformed> {
        expect(&file, "a torch file", &[Format::TorchZip, Format::TorchLegacy, Format::Zip])?;
        if legacy::is_legacy(&file) {
            let (graph, externals) = legacy::parse(&file)?;
            return Self::collect(&graph, &file, externals, file.len());
        }
        let size = file.len();
        let archive = Archive::open(file)?;
        let root = data_root(&archive).ok_or_else(|| Malformed::Missing { name: "data.pkl".into() })?;
        if archive.read(&format!("{root}/byteorder"))?.is_some_and(|order| *order == *b"big") {
            return Err(Malformed::BigEndian);
        }
        let missing = || Malformed::Missing { name: format!("{root}/data.pkl") };
        let data = archive.read(&format!("{root}/data.pkl"))?.ok_or_else(missing)?;
        // The bytes may be those of a mapped file, which can change: what is relied on is a copy.
        let data = SharedBytes::from(data.to_vec());
        let graph = pickle::parse_all(&data)?;
        let externals = Externals::Members { archive, root, read: Default::default() };
        Self::collect(&graph, &data, externals, size)
    }

    /// Reads a plain pickle that holds a network in one of two ways: a torch archive as one of its bytes, however deep
    /// (the way compiled networks are put into pickles), or tensors of its own. Of several archives the largest counts.
    pub fn parse_pickle(file: SharedBytes) -> Result<Self, Malformed> {
        expect(&file, "a pickle", &[Format::Pickle])?;
        let graph = pickle::parse_all(&file)?;
        let archive = |node: &Node<'_>| match node {
            Node::Bytes(range) => file.slice(range.clone()).filter(|bytes| bytes.starts_with(ARCHIVE)),
            _ => None,
        };
        let inside = graph.nodes().iter().filter_map(archive).max_by_key(|bytes| bytes.len());
        match inside {
            Some(archive) => Self::parse(archive),
            None => Self::collect(&graph, &file, Externals::Inside, file.len()),
        }
    }

    fn collect(graph: &Graph<'_>, buffer: &SharedBytes, externals: Externals, size: usize) -> Result<Self, Malformed> {
        let root = graph.root();
        let inner = graph.get(root, "state_dict").filter(|id| graph.as_dict(*id).is_some()).unwrap_or(root);
        let tensors = walk::collect(TensorReader::new(graph, buffer, externals, size), inner)?;
        let values = match pickle::to_json(graph, root, buffer)? {
            Some(Value::Object(values)) => values,
            _ => Map::new(),
        };
        Ok(Self { tensors, values, globals: graph.global_names() })
    }

    /// A tensor that must be there.
    pub fn tensor(&self, name: &str) -> Result<&StoredTensor, Malformed> {
        let found = self.tensors.iter().find(|(n, _)| n == name).map(|(_, tensor)| tensor);
        found.ok_or_else(|| Malformed::Missing { name: name.into() })
    }
}

/// The directory of an archive that holds the pickle.
pub(crate) fn data_root(archive: &Archive) -> Option<String> {
    archive.names().find_map(|name| name.strip_suffix("/data.pkl")).map(String::from)
}
