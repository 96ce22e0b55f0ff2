//! BERT's tokenizer of small letters (Devlin et al. 2019): the longest known pieces from the left.
//!
//! ```text
//! specials   [PAD] [UNK] [CLS] [SEP] [MASK] and BLIP's [DEC] [ENC], written just so, are cut out first
//! clean      controls away, white space to a space, spaces around CJK ideographs
//! words      at white space; each in small letters without accents (NFD without Mn); every punctuation mark is a word
//! pieces     the longest beginning in the vocabulary, then ## and the longest next one, …; [UNK] if one fails
//! ids        [CLS], pieces (cut), [SEP]
//! ```

use dyweight_core::error::{Error, Result};
use dyweight_files::{Malformed, read_file};
use std::collections::HashMap;
use std::path::Path;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

const LARGEST: u64 = 16 << 20;
const LONGEST_TEXT: usize = 1 << 20;
/// Longer words are unknown.
const LONGEST_WORD: usize = 100;
const SPECIALS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
/// What BLIP adds behind the vocabulary.
const ADDED: [&str; 2] = ["[DEC]", "[ENC]"];

/// A tokenizer.
#[derive(Debug)]
pub struct WordPiece {
    ids: HashMap<String, u32>,
    specials: Vec<(&'static str, u32)>,
    unknown: u32,
    first: u32,
    last: u32,
    /// Characters of the longest piece: no longer ones are looked up.
    longest: usize,
}

impl WordPiece {
    /// True if there is something to read.
    pub(crate) fn is_in(dir: &Path) -> bool {
        dir.join("vocab.txt").is_file()
    }

    /// Reads a `vocab.txt`, or that in a folder: one piece in a line.
    pub fn read(path: &Path) -> Result<Self> {
        let path = if path.is_dir() { path.join("vocab.txt") } else { path.to_path_buf() };
        let bytes = read_file(&path, LARGEST)?;
        let named = |problem| Error::malformed(&path, problem);
        let text = std::str::from_utf8(&bytes)
            .map_err(|e| named(Malformed::NotText { what: "vocabulary", offset: e.valid_up_to() }))?;
        Self::of_text(text).map_err(named)
    }

    fn of_text(text: &str) -> Result<Self, Malformed> {
        // Only line feeds end a line: pieces may be other separators.
        let lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
        let lines = lines.map(|line| line.strip_suffix('\r').unwrap_or(line));
        let mut ids = HashMap::new();
        let mut count = 0;
        for line in lines {
            ids.insert(line.to_string(), count);
            count += 1;
        }
        let special = |name: &'static str| {
            let id = ids.get(name).copied();
            id.map(|id| (name, id)).ok_or_else(|| Malformed::Missing { name: name.into() })
        };
        let mut specials = SPECIALS.into_iter().map(special).collect::<Result<Vec<_>, _>>()?;
        let [unknown, first, last] = [specials[1].1, specials[2].1, specials[3].1];
        for (name, id) in ADDED.into_iter().zip(count..) {
            specials.push((name, ids.get(name).copied().unwrap_or(id)));
        }
        let longest = ids.keys().map(|piece| piece.chars().count()).max().unwrap_or(0);
        Ok(Self { ids, specials, unknown, first, last, longest })
    }

    /// The tokens of a text, `length` at most with the first and the last, and whether some were cut off.
    pub fn cut(&self, text: &str, length: usize) -> Result<(Vec<u32>, bool)> {
        if text.len() > LONGEST_TEXT {
            let value = format!("{} bytes", text.len());
            return Err(Error::bad_value("prompt", value, "at most 1 MiB"));
        }
        let mut ids = vec![self.first];
        let mut rest = text;
        while let Some((at, (name, id))) = self.next_special(rest) {
            self.encode(&rest[..at], &mut ids);
            ids.push(id);
            rest = &rest[at + name.len()..];
        }
        self.encode(rest, &mut ids);
        let whole = ids.len() < length;
        ids.truncate(length.saturating_sub(1));
        ids.push(self.last);
        Ok((ids, !whole))
    }

    fn next_special(&self, text: &str) -> Option<(usize, (&'static str, u32))> {
        let found = self.specials.iter().filter_map(|special| text.find(special.0).map(|at| (at, *special)));
        found.min_by_key(|(at, _)| *at)
    }

    /// The tokens of a text without specials.
    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        for word in cleaned(text).split_whitespace() {
            // Each character on its own: a sigma at the end of a word stays like others.
            let small = word.chars().flat_map(char::to_lowercase);
            let plain: String = small.nfd().filter(|c| !is_accent(*c)).collect();
            for word in plain.split_whitespace() {
                for part in parts(word) {
                    self.pieces(part, ids);
                }
            }
        }
    }

    fn pieces(&self, word: &str, ids: &mut Vec<u32>) {
        let ends: Vec<usize> = word.char_indices().map(|(at, c)| at + c.len_utf8()).collect();
        if ends.len() > LONGEST_WORD {
            return ids.push(self.unknown);
        }
        let (before, mut start, mut from) = (ids.len(), 0, 0);
        while start < word.len() {
            let candidates = ends[from..].iter().enumerate().take(self.longest);
            let found = candidates.rev().find_map(|(i, end)| {
                let piece = &word[start..*end];
                let id = if start == 0 { self.ids.get(piece) } else { self.ids.get(&format!("##{piece}")) };
                id.map(|id| (*id, i, *end))
            });
            let Some((id, i, end)) = found else {
                ids.truncate(before);
                return ids.push(self.unknown);
            };
            ids.push(id);
            (start, from) = (end, from + i + 1);
        }
    }
}

fn cleaned(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => out.push(' '),
            '\0' | char::REPLACEMENT_CHARACTER => {}
            _ if c.general_category() == GeneralCategory::SpaceSeparator => out.push(' '),
            _ if c.general_category_group() == GeneralCategoryGroup::Other => {}
            _ if is_ideograph(c) => out.extend([' ', c, ' ']),
            _ => out.push(c),
        }
    }
    out
}

fn is_accent(c: char) -> bool {
    c.general_category() == GeneralCategory::NonspacingMark
}

fn is_ideograph(c: char) -> bool {
    matches!(c as u32, 0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b820..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// A word cut around its punctuation marks.
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, c) in word.char_indices().filter(|(_, c)| is_punctuation(*c)) {
        let end = at + c.len_utf8();
        parts.extend([&word[start..at], &word[at..end]]);
        start = end;
    }
    parts.push(&word[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n##s\nun\n##a\n##ff\n!\n,\n東\ncafe\n";

    #[test]
    fn pieces_of_texts() {
        let tokenizer = WordPiece::of_text(PIECES).unwrap();
        let ids = |text: &str| tokenizer.cut(text, 35).unwrap().0;
        assert_eq!(ids("Cats, CAT!"), [2, 5, 6, 11, 5, 10, 3]);
        assert_eq!(ids("unaff unaffx"), [2, 7, 8, 9, 1, 3]);
        assert_eq!(ids("東cat Café\u{0}\u{200b}"), [2, 12, 5, 13, 3]);
        assert_eq!(ids(""), [2, 3]);
        assert_eq!(ids("cat[SEP]cat [ENC][mask]"), [2, 5, 3, 5, 15, 1, 1, 1, 3]);
        assert_eq!(ids(&format!("{} cat", "c".repeat(101))), [2, 1, 5, 3]);
        let (cut, long) = tokenizer.cut(&"cat ".repeat(34), 35).unwrap();
        assert_eq!((cut.len(), cut[34], long), (35, 3, true));
        assert!(!tokenizer.cut(&"cat ".repeat(33), 35).unwrap().1);
    }

    #[test]
    fn a_vocabulary_needs_its_specials() {
        assert!(WordPiece::of_text("cat\n[PAD]\n").is_err());
    }
}
