//! The named tensors of a network, from one file or several.

use super::layout::Layout;
use dyweight_core::error::{Error, Result};
use dyweight_files::{Format, Malformed, SharedBytes, StoredTensor, TensorFile, TorchFile, read_data, sniff};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A network that is not built yet: what it is, and where its tensors are.
pub struct Found<C> {
    pub(crate) config: C,
    pub(crate) set: Arc<TensorSet>,
    pub(crate) layout: Layout,
}

/// Tensors by name; they share the bytes of the files they came from.
#[derive(Clone, Debug, Default)]
pub struct TensorSet {
    /// Where they came from, for messages.
    pub path: PathBuf,
    /// The tensors.
    pub tensors: BTreeMap<String, StoredTensor>,
}

impl TensorSet {
    /// Opens a safetensors file or a torch file (`.ckpt`, `.pt`, `.bin`), told by content. Large ones are mapped:
    /// numbers are read when they are used.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(path, read_data(path)?)
    }

    /// Reads the bytes of a file called `path`.
    pub fn parse(path: &Path, bytes: SharedBytes) -> Result<Self> {
        let named = |problem| Error::malformed(path, problem);
        let tensors = match sniff(&bytes) {
            Format::Safetensors => TensorFile::parse(bytes).map_err(named)?.tensors,
            Format::TorchZip | Format::TorchLegacy => {
                TorchFile::parse(bytes).map_err(named)?.tensors.into_iter().collect()
            }
            other => {
                let expected = "tensors: a safetensors file or a torch file";
                return Err(named(Malformed::Format { expected, found: other.describe() }));
            }
        };
        Ok(Self { path: path.into(), tensors })
    }

    /// True if there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor, if it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(StoredTensor::shape)
    }

    /// What stands before `landmark` in the first name that ends with it, after a dot or alone.
    pub(crate) fn prefix_of(&self, landmark: &str) -> Option<&str> {
        let prefix = |name: &'_ String| -> Option<usize> {
            let rest = name.strip_suffix(landmark)?;
            (rest.is_empty() || rest.ends_with('.')).then_some(rest.len())
        };
        self.tensors.keys().find_map(|name| prefix(name).map(|len| &name[..len]))
    }
}
