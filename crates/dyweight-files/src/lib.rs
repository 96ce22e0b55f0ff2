//! Bytes on disk: weights, statistics and coefficients in the formats the field uses.
//!
//! Nothing in a file is ever executed; memory is bounded by the file's size; every way in which a file can be wrong
//! is a variant of [`Malformed`]. Formats are told by content ([`sniff`]), never by name.

#![deny(unsafe_code)]

mod allowance;
pub mod atomic;
mod bytes;
mod dtype;
mod fingerprint;
mod guard;
mod gzip;
pub mod image;
pub mod journal;
mod layout;
mod lock;
mod malformed;
#[allow(unsafe_code)]
mod map;
mod network;
mod npy;
pub mod official;
mod pickle;
mod place;
mod prompts;
mod read;
mod safetensors;
mod sniff;
mod stored;
mod torch;
mod zip;

pub use bytes::SharedBytes;
pub use dtype::Dtype;
pub use fingerprint::Fingerprint;
pub use guard::{NamedPath, OutputGuard};
pub use gzip::gunzip;
pub use lock::Lock;
pub use malformed::Malformed;
pub use network::{EmbeddedSource, NetworkFile};
pub use npy::{ArrayFile, parse_npy};
pub use official::OfficialCoefficients;
pub use place::{follow, is_same_file};
pub use prompts::read_prompts;
pub use read::{read_data, read_file};
pub use safetensors::TensorFile;
pub use sniff::{Format, sniff};
pub use stored::StoredTensor;
pub use torch::TorchFile;
