//! The central directory of a zip archive.

use super::{DEFLATED, STORED};
use crate::Malformed;
use crate::bytes::{Cursor, to_text};

const CENTRAL: u32 = 0x0201_4b50;
const END: [u8; 4] = *b"PK\x05\x06";
const END_LEN: usize = 22;
const LOCATOR: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_LEN: usize = 20;
const END64: u32 = 0x0606_4b50;
/// The smallest directory record.
const RECORD_LEN: u64 = 46;
/// Id of the field with 64-bit sizes.
const ZIP64_EXTRA: u16 = 1;
/// Flag bit of an encrypted member.
const ENCRYPTED: u16 = 1;

/// A member by its directory record.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) compressed: u64,
    pub(super) size: u64,
    /// Where its local header stands.
    pub(super) header: u64,
    /// Where its data start; known once the local header is read.
    pub(super) start: u64,
}

/// All members, and where the directory starts.
pub(super) fn read(file: &[u8]) -> Result<(Vec<Member>, u64), Malformed> {
    let (count, size, start) = place(file)?;
    let damaged = || Malformed::ZipRecord { what: "directory", offset: start };
    let end = start.checked_add(size).filter(|end| *end <= file.len() as u64).ok_or_else(damaged)?;
    if count > size / RECORD_LEN {
        return Err(damaged());
    }
    let mut cursor = Cursor::new(&file[..end as usize], start as usize);
    let members = (0..count).map(|_| record(&mut cursor)).collect::<Result<Vec<Member>, Malformed>>()?;
    Ok((members, start))
}

/// Count of members, size and start of the directory, from the end record.
fn place(file: &[u8]) -> Result<(u64, u64, u64), Malformed> {
    let at = find_end(file)?;
    let mut cursor = Cursor::new(file, at + 10);
    let (count, size, start) = (cursor.u16()?, cursor.u32()?, cursor.u32()?);
    let is_wide = count == u16::MAX || size == u32::MAX || start == u32::MAX;
    let wide = if is_wide { place64(file, at)? } else { None };
    Ok(wide.unwrap_or((count.into(), size.into(), start.into())))
}

/// The end record is the last thing in the file but for a comment of at most 65535 bytes.
fn find_end(file: &[u8]) -> Result<usize, Malformed> {
    let last = file.len().checked_sub(END_LEN).ok_or(Malformed::NoZipDirectory)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    let is_end = |at: &usize| {
        let comment = usize::from(u16::from_le_bytes([file[at + 20], file[at + 21]]));
        file[*at..].starts_with(&END) && at + END_LEN + comment == file.len()
    };
    (first..=last).rev().find(is_end).ok_or(Malformed::NoZipDirectory)
}

/// The same from the 64-bit records, if there are any.
fn place64(file: &[u8], end: usize) -> Result<Option<(u64, u64, u64)>, Malformed> {
    let Some(at) = end.checked_sub(LOCATOR_LEN) else { return Ok(None) };
    if !file[at..].starts_with(&LOCATOR) {
        return Ok(None);
    }
    let offset = Cursor::new(file, at + 8).u64()?;
    let damaged = || Malformed::ZipRecord { what: "64-bit end record", offset };
    let record = usize::try_from(offset).ok().filter(|r| *r < at).ok_or_else(damaged)?;
    let mut cursor = Cursor::new(file, record);
    if cursor.u32()? != END64 {
        return Err(damaged());
    }
    cursor.take(28)?;
    Ok(Some((cursor.u64()?, cursor.u64()?, cursor.u64()?)))
}

fn record(cursor: &mut Cursor<'_>) -> Result<Member, Malformed> {
    let offset = cursor.position() as u64;
    if cursor.u32()? != CENTRAL {
        return Err(Malformed::ZipRecord { what: "directory record", offset });
    }
    cursor.take(4)?;
    let (flags, method) = (cursor.u16()?, cursor.u16()?);
    cursor.take(4)?;
    let (crc, compressed, size) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let (name, extra, comment) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
    cursor.take(8)?;
    let header = cursor.u32()?;
    let at = cursor.position();
    // The bytes may be those of a mapped file, which can change: what is checked is a copy.
    let name = cursor.take(name.into())?.to_vec();
    let name = to_text("zip member name", &name, at)?.to_string();
    let extra = cursor.take(extra.into())?;
    cursor.take(comment.into())?;
    let mut member =
        Member { name, method, crc, compressed: compressed.into(), size: size.into(), header: header.into(), start: 0 };
    widen(&mut member, extra, offset)?;
    check_method(&member, flags, offset)?;
    Ok(member)
}

/// Takes 64-bit sizes from the extra field, for those that do not fit 32 bits and in this order.
fn widen(member: &mut Member, extra: &[u8], offset: u64) -> Result<(), Malformed> {
    let narrow = u64::from(u32::MAX);
    let mut fields = [&mut member.size, &mut member.compressed, &mut member.header];
    if fields.iter().all(|f| **f != narrow) {
        return Ok(());
    }
    let mut cursor = Cursor::new(extra, 0);
    let damaged = |_| Malformed::ZipRecord { what: "64-bit sizes", offset };
    while cursor.remaining() > 0 {
        let (id, len) = (cursor.u16().map_err(damaged)?, cursor.u16().map_err(damaged)?);
        let mut field = Cursor::new(cursor.take(len.into()).map_err(damaged)?, 0);
        if id != ZIP64_EXTRA {
            continue;
        }
        for value in fields.iter_mut().filter(|f| ***f == narrow) {
            **value = field.u64().map_err(damaged)?;
        }
        return Ok(());
    }
    // Without the field the values mean what they say, and will not fit the file.
    Ok(())
}

fn check_method(member: &Member, flags: u16, offset: u64) -> Result<(), Malformed> {
    let unsupported = |how: String| Err(Malformed::ZipMethod { name: member.name.clone(), how });
    if flags & ENCRYPTED != 0 {
        return unsupported("encryption".into());
    }
    match member.method {
        STORED if member.compressed != member.size => Err(Malformed::ZipRecord { what: "directory record", offset }),
        STORED | DEFLATED => Ok(()),
        other => unsupported(format!("compression method {other}")),
    }
}
