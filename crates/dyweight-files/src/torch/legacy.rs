//! The save stream of torch before version 1.6, which newer pickles still use for their storages.
//!
//! ```text
//! five pickles  magic number · 1001 · {little_endian, …} · root value · [storage keys]
//! then          for each key: i64 element count · the elements
//! ```

use super::storage::{Declared, Externals, Storage};
use crate::Malformed;
use crate::bytes::{Cursor, SharedBytes};
use crate::pickle::{self, Graph, Node};
use std::collections::HashMap;

/// 0x1950A86A20F9469CFC6C, least significant byte first.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
/// How a stream begins: protocol 2, a ten-byte integer.
const START: [u8; 4] = [0x80, 0x02, 0x8a, 0x0a];
const PROTOCOL: i64 = 1001;

/// True if the bytes begin like a legacy stream.
pub(crate) fn is_legacy(bytes: &[u8]) -> bool {
    bytes.strip_prefix(&START).is_some_and(|rest| rest.starts_with(&MAGIC))
}

/// Reads a stream: the root value and its storages.
pub(crate) fn parse(bytes: &SharedBytes) -> Result<(Graph<'_>, Externals), Malformed> {
    let (magic, end) = pickle::parse(bytes, 0)?;
    if !matches!(magic.node(magic.root()), Node::Long(found) if **found == MAGIC) {
        return Err(Malformed::Header { what: "torch stream magic", found: magic.kind(magic.root()).into() });
    }
    let (version, end) = pickle::parse(bytes, end)?;
    if *version.node(version.root()) != Node::Int(PROTOCOL) {
        return Err(Malformed::Header { what: "torch stream version", found: version.kind(version.root()).into() });
    }
    let (system, end) = pickle::parse(bytes, end)?;
    let little = system.need(system.root(), "little_endian")?;
    if system.as_bool(little) != Some(true) {
        return Err(Malformed::BigEndian);
    }
    let (graph, end) = pickle::parse(bytes, end)?;
    let (keys, end) = pickle::parse(bytes, end)?;
    let storages = storages(bytes, &graph, &keys, end)?;
    Ok((graph, Externals::Listed(storages)))
}

/// A stream that is one storage and nothing else.
pub(crate) fn parse_storage(bytes: &SharedBytes) -> Result<Storage, Malformed> {
    let (graph, mut externals) = parse(bytes)?;
    let Node::External(id) = graph.node(graph.root()) else {
        return Err(graph.wrong("root of a storage stream", "a storage", graph.root()));
    };
    externals.find(Declared::read(&graph, *id)?)
}

/// The storages at the end of a stream, by key.
fn storages(
    bytes: &SharedBytes,
    graph: &Graph<'_>,
    keys: &Graph<'_>,
    start: usize,
) -> Result<HashMap<String, Storage>, Malformed> {
    let declared = declared(graph)?;
    let Some(items) = keys.as_items(keys.root()) else {
        return Err(keys.wrong("storage keys", "a list", keys.root()));
    };
    let mut cursor = Cursor::new(bytes, start);
    let mut storages = HashMap::new();
    for item in items {
        let key = keys.as_text(*item).ok_or_else(|| keys.wrong("storage key", "a text", *item))?;
        let declared = declared.get(key).ok_or_else(|| Malformed::MissingStorage { key: key.into() })?;
        let count = cursor.u64()?;
        if count != declared.count as u64 {
            let (key, expected) = (key.into(), declared.byte_count()? as u64);
            let found = count.saturating_mul(declared.dtype.size() as u64);
            return Err(Malformed::StorageSize { key, expected, found });
        }
        let (at, len) = (cursor.position(), declared.byte_count()?);
        cursor.take(len)?;
        let data = bytes.slice(at..at + len).ok_or(Malformed::Truncated { offset: at, needed: len })?;
        if storages.insert(key.to_string(), declared.storage(data)?).is_some() {
            return Err(Malformed::Duplicate { name: key.into() });
        }
    }
    match cursor.remaining() {
        0 => Ok(storages),
        count => Err(Malformed::Trailing { what: "torch stream", count }),
    }
}

/// All storages the root value mentions, by key.
fn declared<'a>(graph: &Graph<'a>) -> Result<HashMap<&'a str, Declared<'a>>, Malformed> {
    let mut all = HashMap::new();
    for node in graph.nodes() {
        let Node::External(id) = node else { continue };
        let declared = Declared::read(graph, *id)?;
        if *all.entry(declared.key).or_insert(declared) != declared {
            let problem = format!("storage '{}' is declared in two ways", declared.key);
            return Err(Malformed::Inconsistent { problem });
        }
    }
    Ok(all)
}
