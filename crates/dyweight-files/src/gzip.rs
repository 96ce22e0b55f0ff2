//! Gzip (RFC 1952): one packed file, its length and checksum behind it.
//!
//! ```text
//! 1f 8b 08 flags · time (4) · extra flags · system · [extra] [name] [comment] [checksum (2)] · deflated · CRC-32 ·
//!     length mod 2³²
//! ```

use crate::Malformed;
use crate::bytes::Cursor;

const HEADER_CHECK: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
/// Checksum and length.
const TRAILER: usize = 8;

/// The file inside, if it has at most `limit` bytes.
pub fn gunzip(bytes: &[u8], limit: u64) -> Result<Vec<u8>, Malformed> {
    let broken = |problem: &str| Malformed::Inconsistent { problem: format!("not a sound gzip file: {problem}") };
    let mut cursor = Cursor::new(bytes, 0);
    if cursor.take(3)? != [0x1f, 0x8b, 8] {
        return Err(broken("its first bytes are of another format"));
    }
    let flags = cursor.take(1)?[0];
    cursor.take(6)?;
    if flags & EXTRA != 0 {
        let length = cursor.take(2)?;
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        cursor.take(length)?;
    }
    for _ in 0..u8::from(flags & NAME != 0) + u8::from(flags & COMMENT != 0) {
        while cursor.take(1)?[0] != 0 {}
    }
    if flags & HEADER_CHECK != 0 {
        cursor.take(2)?;
    }
    let start = cursor.position();
    let end = bytes.len().checked_sub(TRAILER).filter(|end| *end >= start);
    let end = end.ok_or(Malformed::Truncated { offset: start, needed: TRAILER })?;
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let size = u64::from(word(end + 4));
    if size > limit {
        return Err(Malformed::TooLarge { what: "unpacked size", size, limit });
    }
    // Memory follows what is packed, not what the trailer claims.
    let unpacked = miniz_oxide::inflate::decompress_to_vec_with_limit(&bytes[start..end], size as usize)
        .map_err(|e| broken(&e.to_string()))?;
    if unpacked.len() as u64 != size || crc32fast::hash(&unpacked) != word(end) {
        return Err(broken("length or checksum differ"));
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(flags: u8, extra: &[u8], data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3];
        bytes.extend(extra);
        bytes.extend(miniz_oxide::deflate::compress_to_vec(data, 6));
        bytes.extend(crc32fast::hash(data).to_le_bytes());
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes
    }

    #[test]
    fn headers_of_all_kinds() {
        let data = b"merge a b\n".repeat(50);
        for (flags, extra) in [(0, &b""[..]), (8, b"name\0"), (4, b"\x02\0xy"), (31, b"\x01\0xn\0c\0hc")] {
            assert_eq!(gunzip(&packed(flags, extra, &data), 1000).unwrap(), data);
        }
        assert!(gunzip(&packed(0, b"", b""), 0).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let data = b"merge a b\n".repeat(50);
        let bytes = packed(8, b"name\0", &data);
        assert!(matches!(gunzip(&bytes, 499), Err(Malformed::TooLarge { size: 500, .. })));
        assert!((0..bytes.len()).all(|len| gunzip(&bytes[..len], 1000).is_err()));
        for bit in (0..bytes.len() * 8).filter(|bit| bit / 8 >= 15) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // Bits that fill up a byte mean nothing.
            assert!(gunzip(&bad, 1000).map_or(true, |found| found == data), "bit {bit}");
        }
    }
}
