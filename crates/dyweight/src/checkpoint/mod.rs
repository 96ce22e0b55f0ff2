//! Bytes on disk: weights, statistics and coefficients in the formats the field uses.
//!
//! Nothing in a file is ever executed; memory is bounded by the file's size; every way in which a file can be wrong
//! is a variant of [`Malformed`]. Formats are told by content ([`sniff`]), never by name.

pub mod atomic;
mod budget;
mod bytes;
mod dtype;
mod fingerprint;
mod layout;
mod lock;
mod network;
mod npy;
pub mod official;
mod pickle;
mod presets;
mod release;
mod safetensors;
mod sniff;
pub mod solver_file;
mod stored;
mod torch;
mod zip;

pub use bytes::SharedBytes;
pub use dtype::{Dtype, bf16_to_f32, f16_to_f32, f32_to_f16};
pub use fingerprint::Fingerprint;
pub use lock::Lock;
pub use network::{NetworkFile, Source};
pub use npy::{ArrayFile, parse_npy, read_npy, write_npy};
pub use official::OfficialCoefficients;
pub use presets::{Credit, Preset, Presets};
pub use safetensors::TensorFile;
pub use sniff::{Format, sniff};
pub use solver_file::SolverFile;
pub use stored::StoredTensor;
pub use torch::TorchFile;

use crate::error::{Error, Malformed, Result};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The bytes of a regular file of at most `limit` bytes.
pub fn read_file(path: &Path, limit: u64) -> Result<SharedBytes> {
    let fail = |e| Error::io("read", path, e);
    let metadata = std::fs::metadata(path).map_err(fail)?;
    if !metadata.is_file() {
        return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let size = metadata.len();
    if size > limit {
        return Err(Error::malformed(path, Malformed::TooLarge { what: "file size", size, limit }));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size as usize).map_err(|e| fail(io::Error::new(io::ErrorKind::OutOfMemory, e)))?;
    // A file that grows meanwhile is read as it was.
    File::open(path).and_then(|file| file.take(size).read_to_end(&mut bytes)).map_err(fail)?;
    Ok(bytes.into())
}
