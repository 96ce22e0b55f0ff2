//! Bytes of a file: shared without copying, and read one field after the other without ever leaving them.

use crate::Malformed;
use crate::map::MappedFile;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A piece of a buffer that many may hold; cloning and slicing copy nothing.
#[derive(Clone, Debug)]
pub struct SharedBytes {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

/// What the bytes are in.
#[derive(Debug)]
enum Buffer {
    Memory(Vec<u8>),
    File(MappedFile),
}

impl SharedBytes {
    /// The bytes at `range` of these bytes; `None` if it leaves them.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let start = self.range.start;
        Some(Self { buffer: Arc::clone(&self.buffer), range: start + range.start..start + range.end })
    }

    /// Has bytes of a mapped file read ahead; nothing to do for those in memory.
    pub fn fetch(&self) {
        if let Buffer::File(file) = &*self.buffer {
            file.fetch(self.range.clone());
        }
    }

    /// Lets go the memory of bytes of a mapped file, which are read again when they are looked at; those in memory
    /// stay.
    pub fn release(&self) {
        if let Buffer::File(file) = &*self.buffer {
            file.release(self.range.clone());
        }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all = match &*self.buffer {
            Buffer::Memory(bytes) => bytes,
            Buffer::File(bytes) => &**bytes,
        };
        &all[self.range.clone()]
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { buffer: Arc::new(Buffer::Memory(bytes)), range }
    }
}

impl From<MappedFile> for SharedBytes {
    fn from(bytes: MappedFile) -> Self {
        let range = 0..bytes.len();
        Self { buffer: Arc::new(Buffer::File(bytes)), range }
    }
}

/// Reads fields in order; every length is checked against what is left before anything is done with it.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        if count > self.remaining() {
            return Err(Malformed::Truncated { offset: self.bytes.len(), needed: count - self.remaining() });
        }
        let start = self.at;
        self.at += count;
        Ok(&self.bytes[start..self.at])
    }

    /// Bytes up to the next newline, which is skipped.
    pub(crate) fn line(&mut self) -> Result<&'a [u8], Malformed> {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let Some(len) = rest.iter().position(|b| *b == b'\n') else {
            return Err(Malformed::Truncated { offset: self.bytes.len(), needed: 1 });
        };
        self.at += len + 1;
        Ok(&rest[..len])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A float with its most significant byte first, as pickles have it.
    pub(crate) fn f64_big_endian(&mut self) -> Result<f64, Malformed> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    /// A `u64` that counts things in memory.
    pub(crate) fn length(&mut self, what: &'static str) -> Result<usize, Malformed> {
        to_usize(what, self.u64()?)
    }
}

/// A number from a file as a count; more than this machine can address is too large.
pub(crate) fn to_usize(what: &'static str, size: u64) -> Result<usize, Malformed> {
    usize::try_from(size).map_err(|_| Malformed::TooLarge { what, size, limit: usize::MAX as u64 })
}

/// Text, or which text it was not.
pub(crate) fn to_text<'a>(what: &'static str, bytes: &'a [u8], offset: usize) -> Result<&'a str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::NotText { what, offset })
}
