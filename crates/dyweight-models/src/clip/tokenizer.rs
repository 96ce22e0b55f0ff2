//! CLIP's tokenizer (Radford et al. 2021): byte-pair encoding (Sennrich et al. 2016) on bytes.
//!
//! ```text
//! clean   NFC, runs of white space to one space, lower case
//! split   's 't 're 've 'm 'll 'd · a run of letters · one number character · a run of anything else but space
//! bytes   33–126, 161–172, 174–255 stand for themselves, the 68 others for the code points from 256 on
//! merge   the adjacent pair of lowest rank, until none is ranked; the last symbol of a word carries </w>
//! ids     start, tokens (cut), end, padding
//! ```
//!
//! Vocabulary and ranks come from the files that go with a model, `vocab.json` and `merges.txt` or `tokenizer.json`; the crate
//! `tokenizers` reads them too, with forty others and a C library behind it.

use crate::weights::read_json;
use dyweight_core::error::{Error, Result, printable};
use dyweight_files::{Malformed, read_file};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// No released tokenizer has larger files.
const LARGEST: u64 = 64 << 20;
/// Longer texts are no prompts.
const LONGEST_TEXT: usize = 1 << 20;
const START: &str = "<|startoftext|>";
const END: &str = "<|endoftext|>";
const END_OF_WORD: &str = "</w>";
const SUFFIXES: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
const LENGTH: usize = 77;

/// What fills a text up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Nothing: texts keep their lengths.
    None,
    /// The token that the tokenizer's files name, the end of a text if they name none.
    Own,
    /// This token.
    Token(u32),
}

/// A tokenizer.
#[derive(Debug)]
pub struct Tokenizer {
    ids: HashMap<String, u32>,
    ranks: HashMap<(String, String), u32>,
    start: u32,
    end: u32,
    padding: u32,
    length: usize,
}

impl Tokenizer {
    /// Reads the tokenizer in a folder.
    pub fn read(dir: &Path) -> Result<Self> {
        let (vocabulary, merges, whole) = (dir.join("vocab.json"), dir.join("merges.txt"), dir.join("tokenizer.json"));
        let mut tokenizer = if vocabulary.is_file() && merges.is_file() {
            let ids = ids_of(&vocabulary, &read_json(&vocabulary, LARGEST)?)?;
            let text = read_file(&merges, LARGEST)?;
            let text = std::str::from_utf8(&text).map_err(|e| {
                Error::malformed(&merges, Malformed::NotText { what: "merges", offset: e.valid_up_to() })
            })?;
            // A first line that begins with # is the version.
            let lines = text.lines().enumerate().filter(|(i, line)| !(*i == 0 && line.starts_with('#')));
            let pairs = lines.map(|(_, line)| line).filter(|line| !line.trim().is_empty());
            Self::new(dir, ids, ranks_of(&merges, pairs)?)?
        } else if whole.is_file() {
            Self::from_json(&whole, &read_json(&whole, LARGEST)?)?
        } else {
            let problem = "holds no tokenizer: neither vocab.json with merges.txt nor tokenizer.json".into();
            return Err(Error::malformed(dir, Malformed::Inconsistent { problem }));
        };
        for name in ["special_tokens_map.json", "tokenizer_config.json"] {
            let path = dir.join(name);
            if path.is_file() {
                tokenizer.configure(&read_json(&path, LARGEST)?);
            }
        }
        Ok(tokenizer)
    }

    fn from_json(path: &Path, json: &Map<String, Value>) -> Result<Self> {
        let missing = |name: &str| Error::malformed(path, Malformed::Missing { name: name.into() });
        let model = json.get("model").and_then(Value::as_object).ok_or_else(|| missing("model"))?;
        let vocabulary = model.get("vocab").and_then(Value::as_object).ok_or_else(|| missing("model.vocab"))?;
        let mut ids = ids_of(path, vocabulary)?;
        for token in json.get("added_tokens").and_then(Value::as_array).into_iter().flatten() {
            if let (Some(text), Some(id)) = (token["content"].as_str(), token["id"].as_u64()) {
                ids.insert(text.into(), id as u32);
            }
        }
        let merges = model.get("merges").and_then(Value::as_array).ok_or_else(|| missing("model.merges"))?;
        let pairs: Vec<String> = merges.iter().map(pair_text).collect();
        Self::new(path, ids, ranks_of(path, pairs.iter().map(String::as_str))?)
    }

    fn new(path: &Path, ids: HashMap<String, u32>, ranks: HashMap<(String, String), u32>) -> Result<Self> {
        let special = |name: &str| {
            let found = ids.get(name).copied();
            found.ok_or_else(|| Error::malformed(path, Malformed::Missing { name: name.into() }))
        };
        let (start, end) = (special(START)?, special(END)?);
        Ok(Self { ids, ranks, start, end, padding: end, length: LENGTH })
    }

    /// Takes the padding token and the length from a tokenizer's configuration.
    fn configure(&mut self, config: &Map<String, Value>) {
        let pad = config.get("pad_token").and_then(|pad| pad.as_str().or_else(|| pad["content"].as_str()));
        if let Some(id) = pad.and_then(|pad| self.ids.get(pad)) {
            self.padding = *id;
        }
        // Tokenizers without a limit write an astronomic one.
        let length = config.get("model_max_length").and_then(Value::as_f64).filter(|l| (2.0..=4096.0).contains(l));
        self.length = length.map_or(self.length, |length| length as usize);
    }

    /// Tokens of a padded text.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The tokens of a text between start and end, cut to the length and padded to it.
    pub fn encode(&self, text: &str, padding: Padding) -> Result<Vec<u32>> {
        if text.len() > LONGEST_TEXT {
            let value = format!("{} bytes", text.len());
            return Err(Error::BadValue { name: "prompt", value, expected: "at most 1 MiB".into() });
        }
        let mut ids = vec![self.start];
        for piece in specials(text) {
            match piece {
                START => ids.push(self.start),
                END => ids.push(self.end),
                text => split(&clean(text)).for_each(|word| self.merge(&word, &mut ids)),
            }
        }
        ids.truncate(self.length - 1);
        ids.push(self.end);
        let padding = match padding {
            Padding::None => return Ok(ids),
            Padding::Own => self.padding,
            Padding::Token(id) => id,
        };
        ids.resize(self.length, padding);
        Ok(ids)
    }

    /// The tokens of one word.
    fn merge(&self, word: &str, ids: &mut Vec<u32>) {
        let mut symbols: Vec<String> = word.bytes().map(|byte| symbol(byte).to_string()).collect();
        if let Some(last) = symbols.last_mut() {
            last.push_str(END_OF_WORD);
        }
        while let Some((pair, _)) = self.best(&symbols) {
            let mut merged = Vec::with_capacity(symbols.len());
            let mut rest = symbols.into_iter().peekable();
            while let Some(mut symbol) = rest.next() {
                if symbol == pair.0
                    && let Some(next) = rest.next_if(|next| *next == pair.1)
                {
                    symbol.push_str(&next);
                }
                merged.push(symbol);
            }
            symbols = merged;
        }
        ids.extend(symbols.iter().map(|symbol| self.ids.get(symbol).copied().unwrap_or(self.end)));
    }

    /// The adjacent pair of lowest rank.
    fn best(&self, symbols: &[String]) -> Option<((String, String), u32)> {
        let ranked = symbols.windows(2).filter_map(|w| {
            let pair = (w[0].clone(), w[1].clone());
            self.ranks.get(&pair).copied().map(|rank| (pair, rank))
        });
        ranked.min_by_key(|(_, rank)| *rank)
    }
}

fn ids_of(path: &Path, vocabulary: &Map<String, Value>) -> Result<HashMap<String, u32>> {
    let id = |(token, id): (&String, &Value)| match id.as_u64().and_then(|id| u32::try_from(id).ok()) {
        Some(id) => Ok((token.clone(), id)),
        None => {
            let problem = format!("token '{}' has no number", printable(token));
            Err(Error::malformed(path, Malformed::Inconsistent { problem }))
        }
    };
    vocabulary.iter().map(id).collect()
}

fn ranks_of<'a>(path: &Path, pairs: impl Iterator<Item = &'a str>) -> Result<HashMap<(String, String), u32>> {
    let mut ranks = HashMap::new();
    for (rank, line) in pairs.enumerate() {
        let mut parts = line.split_whitespace();
        let (Some(left), Some(right), None) = (parts.next(), parts.next(), parts.next()) else {
            let problem = format!("merge '{}' is not a pair", printable(line));
            return Err(Error::malformed(path, Malformed::Inconsistent { problem }));
        };
        ranks.entry((left.into(), right.into())).or_insert(rank as u32);
    }
    Ok(ranks)
}

/// A merge is written as one text or as a list of two.
fn pair_text(pair: &Value) -> String {
    match pair {
        Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.as_str().unwrap_or_default().into(),
    }
}

/// The character a byte is written as.
fn symbol(byte: u8) -> char {
    let printable = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|b| !printable(*b)).count() as u32;
    char::from_u32(256 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The text in pieces, start and end tokens written in it apart.
fn specials(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((at, found)) = [START, END].iter().filter_map(|s| rest.find(s).map(|at| (at, *s))).min() {
        pieces.extend([&rest[..at], found]);
        rest = &rest[at + found.len()..];
    }
    pieces.push(rest);
    pieces
}

fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut space = false;
    for c in text.nfc() {
        if c.is_whitespace() {
            space = true;
            continue;
        }
        if std::mem::take(&mut space) {
            cleaned.push(' ');
        }
        cleaned.extend(c.to_lowercase());
    }
    cleaned
}

/// The words of a cleaned text.
fn split(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let suffix = SUFFIXES.iter().find(|s| rest.starts_with(**s)).map(|s| s.len());
        let run = |kind: Kind| rest.find(|c| Kind::of(c) != kind).unwrap_or(rest.len());
        let len = suffix.unwrap_or(match Kind::of(first) {
            Kind::Number => first.len_utf8(),
            kind => run(kind),
        });
        let (word, behind) = rest.split_at(len);
        rest = behind;
        Some(word.to_string())
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Number,
    Space,
    Other,
}

impl Kind {
    fn of(c: char) -> Self {
        match c.general_category_group() {
            GeneralCategoryGroup::Letter => Kind::Letter,
            GeneralCategoryGroup::Number => Kind::Number,
            _ if c.is_whitespace() => Kind::Space,
            _ => Kind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_text() {
        let words = |text: &str| split(&clean(text)).collect::<Vec<_>>();
        assert_eq!(words("  It's  2 Cats!?\n"), ["it", "'s", "2", "cats", "!?"]);
        assert_eq!(words("x12"), ["x", "1", "2"]);
        assert_eq!(words("don't'll"), ["don", "'t", "'ll"]);
        assert_eq!(words("e\u{301}té"), ["été"]);
        assert!(words(" \t").is_empty());
    }

    #[test]
    fn every_byte_has_a_symbol_of_its_own() {
        let symbols: std::collections::HashSet<char> = (0..=255).map(symbol).collect();
        assert_eq!(symbols.len(), 256);
        assert_eq!((symbol(b' '), symbol(b'a'), symbol(173)), ('\u{120}', 'a', '\u{143}'));
    }

    #[test]
    fn specials_stand_apart() {
        assert_eq!(specials("a<|endoftext|>b"), ["a", END, "b"]);
    }
}
