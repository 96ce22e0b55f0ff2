//! Numpy arrays: `.npy`, and `.npz` archives of them.
//!
//! ```text
//! npy  \x93NUMPY · version 1|2|3, 0 · u16|u32 header length · {'descr': '<f8', 'fortran_order': False,
//!      'shape': (2, 3), } · data
//! npz  zip archive of <name>.npy, stored or deflated
//! ```
//!
//! Arrays are written as version 1, little-endian, row-major, stored; column-major ones are read and reordered.

use super::atomic;
use super::bytes::{Cursor, SharedBytes, to_text};
use super::dtype::{Dtype, short};
use super::layout::Strided;
use super::sniff::{Format, expect};
use super::stored::{StoredTensor, byte_count};
use super::zip::{Archive, write_stored};
use crate::Malformed;
use dyweight_core::error::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Headers are under 200 bytes.
const MAX_HEADER: usize = 1 << 16;
/// numpy has at most this many axes.
const MAX_RANK: usize = 32;
/// Data start at a multiple of this.
const ALIGNMENT: usize = 64;

/// Named arrays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArrayFile {
    /// The arrays by name, without `.npy`.
    pub arrays: BTreeMap<String, StoredTensor>,
}

impl ArrayFile {
    /// Reads an `.npz`.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = super::read_file(path, u64::MAX)?;
        Self::parse(bytes).map_err(|problem| Error::malformed(path, problem))
    }

    /// Reads the bytes of an `.npz`.
    pub fn parse(bytes: SharedBytes) -> Result<Self, Malformed> {
        expect(&bytes, "a numpy archive", &[Format::Npz, Format::Zip])?;
        let archive = Archive::open(bytes)?;
        let mut arrays = BTreeMap::new();
        for member in archive.names() {
            let name = member.strip_suffix(".npy").unwrap_or(member);
            let bytes = archive.read(member)?.ok_or_else(|| Malformed::Missing { name: member.into() })?;
            if arrays.insert(name.to_string(), parse_npy(&bytes)?).is_some() {
                return Err(Malformed::Duplicate { name: name.into() });
            }
        }
        Ok(Self { arrays })
    }

    /// An array that must be there.
    pub fn array(&self, name: &str) -> Result<&StoredTensor, Malformed> {
        self.arrays.get(name).ok_or_else(|| Malformed::Missing { name: name.into() })
    }

    /// Writes an `.npz`, all or nothing.
    pub fn write(&self, path: &Path) -> Result<()> {
        let member = |(name, array): (&String, &StoredTensor)| Ok((format!("{name}.npy"), npy_bytes(array)?));
        let members = self.arrays.iter().map(member).collect::<Result<Vec<_>, Malformed>>();
        let members = members.map_err(|problem| Error::malformed(path, problem))?;
        atomic::write_with(path, |out| write_stored(out, &members))
    }
}

/// Reads the bytes of an `.npy`; the array shares them.
pub fn parse_npy(bytes: &SharedBytes) -> Result<StoredTensor, Malformed> {
    expect(bytes, "a numpy array", &[Format::Npy])?;
    let mut cursor = Cursor::new(bytes, MAGIC.len());
    let len = match (cursor.u8()?, cursor.u8()?) {
        (1, 0) => usize::from(cursor.u16()?),
        (2 | 3, 0) => cursor.u32()? as usize,
        (major, minor) => {
            return Err(Malformed::Header { what: "npy version", found: format!("{major}.{minor}") });
        }
    };
    if len > MAX_HEADER {
        return Err(Malformed::TooLarge { what: "npy header", size: len as u64, limit: MAX_HEADER as u64 });
    }
    let at = cursor.position();
    // The bytes may be those of a mapped file, which can change: what is checked is a copy.
    let header = cursor.take(len)?.to_vec();
    let header = Header::parse(to_text("npy header", &header, at)?)?;
    let start = cursor.position();
    let data = bytes.slice(start..bytes.len()).ok_or(Malformed::Truncated { offset: start, needed: 0 })?;
    let array = StoredTensor::new("array", header.dtype, header.shape, data)?;
    Ok(if header.fortran { row_major(&array)? } else { array })
}

/// Reorders a column-major array.
fn row_major(array: &StoredTensor) -> Result<StoredTensor, Malformed> {
    let strides = (0..array.shape().len()).map(|axis| array.shape()[..axis].iter().product()).collect();
    let view = Strided { shape: array.shape().to_vec(), strides, offset: 0 };
    let bytes = view.gather(array.bytes(), array.dtype().size());
    StoredTensor::new("array", array.dtype(), array.shape().to_vec(), bytes.into())
}

/// Types with their names in numpy.
const NAMES: [(Dtype, &str); 9] = [
    (Dtype::F64, "<f8"),
    (Dtype::F32, "<f4"),
    (Dtype::F16, "<f2"),
    (Dtype::I64, "<i8"),
    (Dtype::I32, "<i4"),
    (Dtype::I16, "<i2"),
    (Dtype::I8, "|i1"),
    (Dtype::U8, "|u1"),
    (Dtype::Bool, "|b1"),
];

/// The bytes of an `.npy`.
fn npy_bytes(array: &StoredTensor) -> Result<Vec<u8>, Malformed> {
    let unsupported = || Malformed::Dtype { name: array.dtype().name().into() };
    let (_, descr) = NAMES.iter().find(|(d, _)| *d == array.dtype()).ok_or_else(unsupported)?;
    let sizes: String = array.shape().iter().map(|size| format!("{size},")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(ALIGNMENT) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
    bytes.reserve(byte_count(array.dtype(), array.shape())?);
    bytes.extend_from_slice(array.bytes());
    Ok(bytes)
}

/// What the header says.
struct Header {
    dtype: Dtype,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Reads the header, a Python dictionary of three known keys.
    fn parse(text: &str) -> Result<Self, Malformed> {
        let bad = || Malformed::Header { what: "npy header", found: short(text) };
        let inner = text.trim().strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or_else(bad)?;
        let mut rest = inner.trim();
        let (mut dtype, mut fortran, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, after) = quoted(rest).ok_or_else(bad)?;
            let after = after.trim_start().strip_prefix(':').ok_or_else(bad)?.trim_start();
            rest = match key {
                "descr" if dtype.is_none() => {
                    let (descr, after) = quoted(after).ok_or_else(bad)?;
                    dtype = Some(element_type(descr)?);
                    after
                }
                "fortran_order" if fortran.is_none() => {
                    let value = after.starts_with("True");
                    fortran = Some(value);
                    after.strip_prefix(if value { "True" } else { "False" }).ok_or_else(bad)?
                }
                "shape" if shape.is_none() => {
                    let (sizes, after) = after.strip_prefix('(').and_then(|t| t.split_once(')')).ok_or_else(bad)?;
                    shape = Some(sizes_of(sizes).ok_or_else(bad)?);
                    after
                }
                _ => return Err(bad()),
            };
            rest = rest.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        let (Some(dtype), Some(fortran), Some(shape)) = (dtype, fortran, shape) else { return Err(bad()) };
        Ok(Self { dtype, fortran, shape })
    }
}

/// A quoted text without escapes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote)
}

fn element_type(descr: &str) -> Result<Dtype, Malformed> {
    if descr.starts_with('>') {
        return Err(Malformed::BigEndian);
    }
    let plain = descr.trim_start_matches(['<', '|', '=']);
    let found = NAMES.iter().find(|(_, name)| &name[1..] == plain);
    found.map(|(dtype, _)| *dtype).ok_or_else(|| Malformed::Dtype { name: short(descr) })
}

/// Sizes separated by commas; the last may have one too.
fn sizes_of(text: &str) -> Option<Vec<usize>> {
    let mut parts: Vec<&str> = text.split(',').map(str::trim).take(MAX_RANK + 2).collect();
    if parts.last() == Some(&"") {
        parts.pop();
    }
    // Python 2 wrote long integers with an L.
    let sizes = parts.iter().map(|p| p.trim_end_matches('L').parse().ok()).collect::<Option<Vec<usize>>>()?;
    (sizes.len() <= MAX_RANK).then_some(sizes)
}
