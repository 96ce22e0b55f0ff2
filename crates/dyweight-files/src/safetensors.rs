//! Safetensors files: named tensors behind a JSON header.
//!
//! ```text
//! u64 n · n bytes of JSON {"name": {"dtype", "shape", "data_offsets": [start, end]}, "__metadata__": {text: text}} ·
//!     data
//! ```
//!
//! Offsets count from the end of the header; tensors cover the data without gap or overlap. The parser is our own:
//! the format is this one paragraph, and we want a name for each malformation, duplicates refused, and tensors that
//! share the file's buffer, which the public crate does not give.
//!
//! Promise: reading takes memory in proportion to the file; writing is deterministic, and what was written is read
//! back bit by bit.

use super::atomic;
use super::bytes::{Cursor, SharedBytes};
use super::dtype::{Dtype, short};
use super::sniff::{Format, expect};
use super::stored::StoredTensor;
use crate::Malformed;
use dyweight_core::error::{Error, Result};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

/// Larger headers do not occur: fifty thousand tensors need about this much.
const MAX_HEADER: u64 = 8 << 20;
/// No sound tensor has more axes.
const MAX_RANK: usize = 16;
/// The one key that is not a tensor.
const METADATA: &str = "__metadata__";

/// Named tensors and texts, as one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorFile {
    /// Free texts by name.
    pub metadata: BTreeMap<String, String>,
    /// The tensors by name.
    pub tensors: BTreeMap<String, StoredTensor>,
}

impl TensorFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = super::read_data(path)?;
        Self::parse(bytes).map_err(|problem| Error::malformed(path, problem))
    }

    /// Reads bytes; the tensors share them.
    pub fn parse(bytes: SharedBytes) -> Result<Self, Malformed> {
        expect(&bytes, "a safetensors file", &[Format::Safetensors, Format::Unknown])?;
        let mut cursor = Cursor::new(&bytes, 0);
        let size = cursor.u64()?;
        if size > MAX_HEADER {
            return Err(Malformed::TooLarge { what: "safetensors header", size, limit: MAX_HEADER });
        }
        // The bytes may be those of a mapped file, which can change: what is checked is a copy.
        let header = cursor.take(size as usize)?.to_vec();
        let header = super::bytes::to_text("safetensors header", &header, 8)?;
        let header: Header<'_> = serde_json::from_str(header)
            .map_err(|e| Malformed::Json { what: "safetensors header", reason: short(&e.to_string()) })?;
        let start = cursor.position();
        header.check_cover(bytes.len() - start)?;
        let mut tensors = BTreeMap::new();
        for (name, entry) in header.tensors {
            let [from, to] = entry.data_offsets.map(|o| o as usize);
            let data =
                bytes.slice(start + from..start + to).ok_or(Malformed::Truncated { offset: start, needed: to })?;
            let tensor = StoredTensor::new(&name, Dtype::from_name(&entry.dtype)?, entry.shape.0, data)?;
            tensors.insert(name, tensor);
        }
        Ok(Self { metadata: header.metadata, tensors })
    }

    /// A tensor that must be there.
    pub fn tensor(&self, name: &str) -> Result<&StoredTensor, Malformed> {
        self.tensors.get(name).ok_or_else(|| Malformed::Missing { name: name.into() })
    }

    /// Writes a file, all or nothing.
    pub fn write(&self, path: &Path) -> Result<()> {
        atomic::write_with(path, |out| self.write_to(out))
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing to memory cannot fail, and the header holds only texts and numbers.
        let _ = self.write_to(&mut bytes);
        bytes
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        // Wide elements first keeps every tensor aligned to its element size.
        let mut order: Vec<(&String, &StoredTensor)> = self.tensors.iter().collect();
        order.sort_by_key(|(_, t)| std::cmp::Reverse(t.dtype().size()));
        let mut header = serde_json::to_string(&self.header(&order))?;
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        order.iter().try_for_each(|(_, tensor)| out.write_all(tensor.bytes()))
    }

    fn header(&self, order: &[(&String, &StoredTensor)]) -> serde_json::Map<String, serde_json::Value> {
        let mut header = serde_json::Map::new();
        if !self.metadata.is_empty() {
            let texts = self.metadata.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
            header.insert(METADATA.into(), serde_json::Value::Object(texts));
        }
        let mut start = 0;
        for (name, tensor) in order {
            let end = start + tensor.bytes().len();
            let (dtype, shape) = (tensor.dtype().name(), tensor.shape());
            header.insert(
                (*name).clone(),
                serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]}),
            );
            start = end;
        }
        header
    }
}

/// The JSON in front of the data.
struct Header<'a> {
    metadata: BTreeMap<String, String>,
    tensors: Vec<(String, HeaderEntry<'a>)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderEntry<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Shape,
    data_offsets: [u64; 2],
}

impl Header<'_> {
    /// The tensors must lie one after the other and fill the data; and no name may come twice.
    fn check_cover(&self, len: usize) -> Result<(), Malformed> {
        let mut order: Vec<&(String, HeaderEntry<'_>)> = self.tensors.iter().collect();
        order.sort_by_key(|(_, e)| e.data_offsets);
        let mut at = 0;
        for (name, entry) in order {
            let [start, end] = entry.data_offsets;
            if start > end || end > len as u64 {
                return Err(Malformed::Range { name: name.clone(), start, end, len: len as u64 });
            }
            if start < at {
                return Err(Malformed::Overlap { name: name.clone(), start, end: at });
            }
            if start > at {
                return Err(Malformed::Gap { start: at, len: start - at });
            }
            at = end;
        }
        if at < len as u64 {
            return Err(Malformed::Gap { start: at, len: len as u64 - at });
        }
        let mut names: Vec<&String> = self.tensors.iter().map(|(n, _)| n).collect();
        names.sort();
        match names.windows(2).find(|w| w[0] == w[1]) {
            Some(twice) => Err(Malformed::Duplicate { name: twice[0].clone() }),
            None => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Header<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Header<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            // A map type would silently keep the last of two entries of one name.
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header<'de>, A::Error> {
                let mut header = Header { metadata: BTreeMap::new(), tensors: Vec::new() };
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        METADATA => header.metadata = map.next_value()?,
                        _ => header.tensors.push((name, map.next_value()?)),
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Sizes of the axes, at most [`MAX_RANK`] of them, so that a long list in the header costs no memory.
struct Shape(Vec<usize>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sizes;
        impl<'de> Visitor<'de> for Sizes {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX_RANK} sizes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sizes: A) -> Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while let Some(size) = sizes.next_element()? {
                    if shape.len() == MAX_RANK {
                        return Err(serde::de::Error::invalid_length(MAX_RANK + 1, &self));
                    }
                    shape.push(size);
                }
                Ok(Shape(shape))
            }
        }
        deserializer.deserialize_seq(Sizes)
    }
}
