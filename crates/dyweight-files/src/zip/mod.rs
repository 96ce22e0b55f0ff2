//! Zip archives, as far as torch and numpy write them.
//!
//! ```text
//! members: local header PK\3\4 · name · extra · data        sizes in local headers may be 0: they are not used
//! central directory: one PK\1\2 record per member, with sizes, checksum and place of the local header
//! [zip64 end record PK\6\6 · locator PK\6\7]                 where counts or offsets need 64 bits
//! end record PK\5\6 · comment
//! ```
//!
//! Own reader: torch needs members as slices of the file, without copying, and both directions of the format are
//! short. Deflated members are unpacked by `miniz_oxide` into exactly the size the directory declares, and all of
//! them together may not be much larger than the file.
//!
//! Promises: members lie within the file, do not overlap each other or the directory, and have their checksum.

mod directory;
mod write;

pub(crate) use write::write_stored;

use super::bytes::{Cursor, SharedBytes};
use crate::Malformed;
use directory::Member;
use std::collections::HashMap;

const LOCAL: u32 = 0x0403_4b50;
/// Stored as it is.
const STORED: u16 = 0;
/// Packed with deflate.
const DEFLATED: u16 = 8;
/// Unpacked bytes that are allowed whatever the file's size: the statistics of 2048 features take 34 MB, and
/// zeros pack 1000 to 1.
const MIN_INFLATED: u64 = 40 << 20;
/// Unpacked bytes per byte of the file, beyond that.
const MAX_RATIO: u64 = 16;

/// An open archive.
#[derive(Debug)]
pub(crate) struct Archive {
    file: SharedBytes,
    members: Vec<Member>,
    index: HashMap<String, usize>,
}

impl Archive {
    /// Reads the directory and checks that all members lie where they may.
    pub(crate) fn open(file: SharedBytes) -> Result<Self, Malformed> {
        let (mut members, start) = directory::read(&file)?;
        let mut inflated = 0u64;
        for member in &mut members {
            member.start = data_start(&file, member)?;
            inflated = inflated.saturating_add(if member.method == STORED { 0 } else { member.size });
        }
        let limit = MIN_INFLATED.max(MAX_RATIO.saturating_mul(file.len() as u64));
        if inflated > limit {
            return Err(Malformed::TooLarge { what: "unpacked size of the archive", size: inflated, limit });
        }
        check_apart(&members, start)?;
        let mut index = HashMap::new();
        for (at, member) in members.iter().enumerate() {
            if index.insert(member.name.clone(), at).is_some() {
                return Err(Malformed::Duplicate { name: member.name.clone() });
            }
        }
        Ok(Self { file, members, index })
    }

    /// Names of the members, in the order of the directory.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|m| m.name.as_str())
    }

    /// A member's bytes; `None` if there is no such member.
    pub(crate) fn read(&self, name: &str) -> Result<Option<SharedBytes>, Malformed> {
        let Some(member) = self.index.get(name).map(|at| &self.members[*at]) else { return Ok(None) };
        let end = member.start + member.compressed;
        let truncated = Malformed::Truncated { offset: self.file.len(), needed: 1 };
        let packed = self.file.slice(member.start as usize..end as usize).ok_or(truncated)?;
        let bytes = match member.method {
            STORED => packed,
            _ => inflate(member, &packed)?,
        };
        let found = crc32fast::hash(&bytes);
        if found != member.crc {
            return Err(Malformed::Checksum { name: name.into(), expected: member.crc, found });
        }
        Ok(Some(bytes))
    }
}

/// Where a member's data begin, from its local header.
fn data_start(file: &[u8], member: &Member) -> Result<u64, Malformed> {
    let damaged = || Malformed::ZipRecord { what: "local header", offset: member.header };
    let mut cursor = Cursor::new(file, member.header as usize);
    let signature = cursor.u32().map_err(|_| damaged())?;
    if signature != LOCAL {
        return Err(damaged());
    }
    cursor.take(22)?;
    let (name, extra) = (cursor.u16()?, cursor.u16()?);
    if cursor.take(name.into())? != member.name.as_bytes() {
        return Err(damaged());
    }
    cursor.take(extra.into())?;
    let start = cursor.position() as u64;
    match start.checked_add(member.compressed) {
        Some(end) if end <= file.len() as u64 => Ok(start),
        _ => Err(Malformed::Range {
            name: member.name.clone(),
            start,
            end: start.saturating_add(member.compressed),
            len: file.len() as u64,
        }),
    }
}

/// Two members that share bytes can make a small file unpack to a huge one; none may.
fn check_apart(members: &[Member], directory: u64) -> Result<(), Malformed> {
    let mut order: Vec<&Member> = members.iter().collect();
    order.sort_by_key(|m| m.header);
    let mut end = 0;
    for member in order {
        if member.header < end {
            return Err(Malformed::Overlap { name: member.name.clone(), start: member.header, end });
        }
        end = member.start + member.compressed;
        if end > directory {
            return Err(Malformed::Overlap { name: member.name.clone(), start: directory, end });
        }
    }
    Ok(())
}

/// Unpacks a member into exactly the size its directory entry declares.
fn inflate(member: &Member, packed: &[u8]) -> Result<SharedBytes, Malformed> {
    let failed = || Malformed::Inflate { name: member.name.clone(), size: member.size };
    let mut out = vec![0; member.size as usize];
    let written = miniz_oxide::inflate::decompress_slice_iter_to_slice(&mut out, [packed].into_iter(), false, true);
    match written {
        Ok(count) if count == out.len() => Ok(out.into()),
        _ => Err(failed()),
    }
}
