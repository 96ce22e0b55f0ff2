//! Writing zip archives of stored members, for `.npz` files.
//!
//! Bytes depend on names and data only: the time stamp is fixed, so equal contents give equal files.

use super::{LOCAL, STORED};
use std::io::{self, Write};

/// 1 January 1980, the earliest date a zip can say.
const DATE: u16 = 1 << 5 | 1;
/// Version 2.0 of the format.
const VERSION: u16 = 20;

/// Writes members one after the other, then the directory. Archives of 4 GiB or 65535 members are refused.
pub(crate) fn write_stored(out: &mut dyn Write, members: &[(String, Vec<u8>)]) -> io::Result<()> {
    let mut directory = Vec::new();
    let mut at = 0;
    for (name, data) in members {
        let common = common(name, data)?;
        let offset = narrow(at)?;
        directory.extend_from_slice(&0x0201_4b50u32.to_le_bytes());
        directory.extend_from_slice(&VERSION.to_le_bytes());
        directory.extend_from_slice(&common);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
        out.write_all(&LOCAL.to_le_bytes())?;
        out.write_all(&common)?;
        out.write_all(name.as_bytes())?;
        out.write_all(data)?;
        at += 4 + common.len() + name.len() + data.len();
    }
    let count = u16::try_from(members.len()).map_err(io::Error::other)?;
    out.write_all(&directory)?;
    out.write_all(b"PK\x05\x06\0\0\0\0")?;
    out.write_all(&count.to_le_bytes())?;
    out.write_all(&count.to_le_bytes())?;
    out.write_all(&narrow(directory.len())?.to_le_bytes())?;
    out.write_all(&narrow(at)?.to_le_bytes())?;
    out.write_all(&[0; 2])
}

/// The fields that local header and directory record share, from the version needed to the length of the extra field.
fn common(name: &str, data: &[u8]) -> io::Result<Vec<u8>> {
    let mut common = Vec::with_capacity(26);
    // Version, flags (names are ASCII), method, time, date.
    for field in [VERSION, 0, STORED, 0, DATE] {
        common.extend_from_slice(&field.to_le_bytes());
    }
    for field in [crc32fast::hash(data), narrow(data.len())?, narrow(data.len())?] {
        common.extend_from_slice(&field.to_le_bytes());
    }
    let name = u16::try_from(name.len()).map_err(io::Error::other)?;
    for field in [name, 0] {
        common.extend_from_slice(&field.to_le_bytes());
    }
    Ok(common)
}

fn narrow(size: usize) -> io::Result<u32> {
    u32::try_from(size).map_err(io::Error::other)
}
