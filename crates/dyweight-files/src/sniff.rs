//! Telling formats by content.

use super::bytes::SharedBytes;
use super::torch::{data_root, legacy};
use super::zip::Archive;
use crate::Malformed;

/// What a file looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Safetensors.
    Safetensors,
    /// Python pickle.
    Pickle,
    /// Torch archive.
    TorchZip,
    /// Torch stream from before the archives.
    TorchLegacy,
    /// Numpy archive.
    Npz,
    /// One numpy array.
    Npy,
    /// Another, or a damaged, zip archive.
    Zip,
    /// Solver file.
    SolverFile,
    /// Other JSON.
    Json,
    /// PNG image.
    Png,
    /// No bytes at all.
    Empty,
    /// None of these.
    Unknown,
}

impl Format {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Format::Safetensors => "a safetensors file",
            Format::Pickle => "a Python pickle",
            Format::TorchZip => "a torch archive",
            Format::TorchLegacy => "a legacy torch file",
            Format::Npz => "a numpy archive",
            Format::Npy => "a numpy array",
            Format::Zip => "a zip archive",
            Format::SolverFile => "a solver file",
            Format::Json => "a JSON file",
            Format::Png => "a PNG image",
            Format::Empty => "an empty file",
            Format::Unknown => "an unknown format",
        }
    }
}

/// How far into a file its format is looked for.
pub(crate) const HEAD: usize = 4096;

/// What the bytes look like.
pub fn sniff(bytes: &SharedBytes) -> Format {
    match sniff_head(bytes) {
        Format::Zip => archive(bytes),
        other => other,
    }
}

/// What a file looks like that begins so; what an archive holds stands at its end.
pub(crate) fn sniff_head(bytes: &[u8]) -> Format {
    if bytes.is_empty() {
        Format::Empty
    } else if legacy::is_legacy(bytes) {
        Format::TorchLegacy
    } else if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        Format::Zip
    } else if bytes.starts_with(b"\x93NUMPY") {
        Format::Npy
    } else if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Format::Png
    } else if is_safetensors(bytes) {
        Format::Safetensors
    } else if bytes.starts_with(&[0x80]) {
        Format::Pickle
    } else {
        text(&bytes[..bytes.len().min(HEAD)])
    }
}

/// Refuses bytes of another format than a reader reads, before it stumbles over them.
pub(crate) fn expect(bytes: &SharedBytes, expected: &'static str, allowed: &[Format]) -> Result<(), Malformed> {
    let found = sniff(bytes);
    if allowed.contains(&found) { Ok(()) } else { Err(Malformed::Format { expected, found: found.describe() }) }
}

/// A length in eight bytes, then an object; the length may be longer than a truncated file.
fn is_safetensors(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, _, _, _, 0, 0, 0, b'{', ..])
}

fn archive(bytes: &SharedBytes) -> Format {
    match Archive::open(bytes.clone()) {
        Ok(archive) if data_root(&archive).is_some() => Format::TorchZip,
        Ok(archive) if archive.names().any(|name| name.ends_with(".npy")) => Format::Npz,
        _ => Format::Zip,
    }
}

fn text(head: &[u8]) -> Format {
    if head.trim_ascii_start().first() != Some(&b'{') {
        return Format::Unknown;
    }
    let name = b"\"dyweight-solver\"";
    if head.windows(name.len()).any(|w| w == name) { Format::SolverFile } else { Format::Json }
}
