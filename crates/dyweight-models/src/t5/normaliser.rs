//! SentencePiece's normalisation (Kudo & Richardson 2018): a compiled map from sequences of bytes to texts.
//!
//! ```text
//! map    u32 size of the trie in bytes · the trie, units of u32 · texts, each ended by a zero byte; all little-endian
//! trie   a double array: from unit u at place p, byte c leads to the unit at (p ⊕ offset(u)) ⊕ c if that one's label
//!        is c;
//!        where u has a leaf, the unit at p ⊕ offset(u) holds the place of a text
//! ```
//!
//! At each place the longest sequence that is in the map is replaced, and where there is none a character is copied.

use dyweight_files::Malformed;

/// No released map is larger; the texts behind the trie are addressed by 31 bits.
const LARGEST: usize = 16 << 20;

/// A compiled map.
#[derive(Debug, Default)]
pub(super) struct Normaliser {
    trie: Vec<u32>,
    texts: Vec<u8>,
}

impl Normaliser {
    /// From its bytes; none at all change nothing.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let wrong = || Malformed::Inconsistent { problem: "the normalisation map is cut short".into() };
        let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(wrong)?;
        let size = u32::from_le_bytes(*size) as usize;
        if !size.is_multiple_of(4) || size > rest.len() || rest.len() > LARGEST {
            return Err(wrong());
        }
        let (trie, texts) = rest.split_at(size);
        let trie = trie.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        Ok(Self { trie, texts: texts.to_vec() })
    }

    /// A text, normalised.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match self.longest(rest.as_bytes()).filter(|(len, _)| rest.is_char_boundary(*len)) {
                Some((len, replacement)) => {
                    out.push_str(&replacement);
                    rest = &rest[len..];
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }

    /// The longest beginning that is in the map, and what replaces it.
    fn longest(&self, bytes: &[u8]) -> Option<(usize, String)> {
        let unit = |at: usize| self.trie.get(at).copied();
        let mut at = offset(unit(0)?);
        let mut found = None;
        for (i, byte) in bytes.iter().enumerate() {
            at ^= *byte as usize;
            let Some(here) = unit(at).filter(|unit| label(*unit) == u32::from(*byte)) else { break };
            at ^= offset(here);
            if has_leaf(here) {
                found = unit(at).map(|leaf| (i + 1, (leaf & 0x7fff_ffff) as usize));
            }
        }
        let (len, start) = found?;
        let text = self.texts.get(start..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        Some((len, String::from_utf8_lossy(&text[..end]).into_owned()))
    }
}

/// Where a unit's children are, from its own place.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}

/// The byte that leads to a unit; leaves have a bit more than any byte.
fn label(unit: u32) -> u32 {
    unit & ((1 << 31) | 0xff)
}

fn has_leaf(unit: u32) -> bool {
    (unit >> 8) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of "A" to "a" and "AB" to "x", built by hand.
    fn by_hand() -> Normaliser {
        let mut trie = vec![0u32; 512];
        trie[0] = 256 << 10; // the root's children are at 256 ⊕ byte
        let a = 256 ^ b'A' as usize; // 321
        trie[a] = (128 << 10) | (1 << 8) | u32::from(b'A'); // a leaf at 321 ⊕ 128, children beside it
        trie[a ^ 128] = (1 << 31) | 1; // the text at 1
        let b = a ^ 128 ^ b'B' as usize;
        trie[b] = (64 << 10) | (1 << 8) | u32::from(b'B');
        trie[b ^ 64] = (1 << 31) | 3;
        let mut bytes = (4 * trie.len() as u32).to_le_bytes().to_vec();
        bytes.extend(trie.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(b"\0a\0x\0");
        Normaliser::parse(&bytes).unwrap()
    }

    #[test]
    fn the_longest_sequence_is_replaced() {
        assert_eq!(by_hand().apply("AcABA é"), "acxa é");
        assert_eq!(Normaliser::default().apply("ABC"), "ABC");
    }

    #[test]
    fn maps_that_are_no_maps() {
        for bytes in [&b"abc"[..], &[8, 0, 0, 0, 1], &[3, 0, 0, 0, 1, 2, 3]] {
            assert!(Normaliser::parse(bytes).is_err());
        }
        // A trie that leads out of itself finds nothing.
        let hostile = [&[4u8, 0, 0, 0][..], &u32::MAX.to_le_bytes()].concat();
        assert_eq!(Normaliser::parse(&hostile).unwrap().apply("AB"), "AB");
    }
}
