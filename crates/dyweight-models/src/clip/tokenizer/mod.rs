//! CLIP's tokenizer (Radford et al. 2021): byte-pair encoding (Sennrich et al. 2016) on bytes.
//!
//! ```text
//! words   see `words`: publishers clean and cut texts a little differently
//! bytes   33–126, 161–172, 174–255 stand for themselves, the 68 others for the code points from 256 on
//! merge   the adjacent pair of lowest rank, until none is ranked; the last symbol of a word carries </w>
//! ids     start, tokens (cut), end, padding
//! ```
//!
//! Vocabulary and ranks come from the files that go with a model: `vocab.json` and `merges.txt`, or `tokenizer.json`,
//! or OpenAI's `bpe_simple_vocab_16e6.txt.gz`, whose merges give the vocabulary. The crate `tokenizers` reads the first
//! two, with forty others and a C library behind it.

mod entities;
mod merge;
mod repair;
mod words;

use crate::weights::read_json;
use dyweight_core::error::{Error, Result, printable};
use dyweight_files::{Malformed, gunzip, read_file};
use merge::{Ranks, merged};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;
use words::{Word, words};

/// No released tokenizer has larger files.
const LARGEST: u64 = 64 << 20;
/// Longer texts are no prompts.
const LONGEST_TEXT: usize = 1 << 20;
const START: &str = "<|startoftext|>";
const END: &str = "<|endoftext|>";
const END_OF_WORD: &str = "</w>";
const LENGTH: usize = 77;
/// OpenAI's file of merges has more than are used.
const MOST_MERGES: usize = 49152 - 256 - 2;
const MERGES: &str = "bpe_simple_vocab_16e6.txt.gz";

/// Whose cleaning of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The fast tokenizer of transformers.
    Transformers,
    /// OpenAI's package.
    OpenAi,
    /// OpenCLIP, and HPS, which has a copy of it.
    OpenClip,
}

impl Dialect {
    /// How the start and end of a text are written in a text.
    fn specials(self) -> [&'static str; 2] {
        match self {
            Dialect::Transformers | Dialect::OpenAi => [START, END],
            Dialect::OpenClip => ["<start_of_text>", "<end_of_text>"],
        }
    }
}

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
    ranks: Ranks,
    dialect: Dialect,
    start: u32,
    end: u32,
    padding: u32,
    length: usize,
}

impl Tokenizer {
    /// True if there is something to read.
    pub(crate) fn is_in(dir: &Path) -> bool {
        let has = |name: &str| dir.join(name).is_file();
        has("vocab.json") && has("merges.txt") || has("tokenizer.json") || has(MERGES)
    }

    /// Reads the tokenizer in a folder, or a file of merges or a `tokenizer.json`.
    pub fn read(dir: &Path) -> Result<Self> {
        if dir.is_file() {
            return Self::read_file(dir);
        }
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
        } else if dir.join(MERGES).is_file() {
            Self::read_file(&dir.join(MERGES))?
        } else {
            let problem =
                format!("holds no tokenizer: neither vocab.json with merges.txt nor tokenizer.json nor {MERGES}");
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

    /// A file of merges, packed or not, or all in one.
    fn read_file(path: &Path) -> Result<Self> {
        let bytes = read_file(path, LARGEST)?;
        if bytes.starts_with(b"{") {
            return Self::from_json(path, &read_json(path, LARGEST)?);
        }
        let named = |problem| Error::malformed(path, problem);
        let unpacked =
            if bytes.starts_with(&[0x1f, 0x8b]) { gunzip(&bytes, LARGEST).map_err(named)? } else { bytes.to_vec() };
        let text = std::str::from_utf8(&unpacked)
            .map_err(|e| named(Malformed::NotText { what: "merges", offset: e.valid_up_to() }))?;
        Self::of_merges(path, text)
    }

    /// The tokenizer whose vocabulary follows from its merges: bytes, bytes at the end of a word, merges, start and
    /// end. The first line is a header.
    fn of_merges(path: &Path, text: &str) -> Result<Self> {
        let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty()).take(MOST_MERGES);
        let lines: Vec<&str> = lines.collect();
        let ranks = ranks_of(path, lines.iter().copied())?;
        let printable = |byte: &u8| symbol(*byte) as u32 == u32::from(*byte);
        let bytes = (0..=255u8).filter(printable).chain((0..=255u8).filter(|b| !printable(b)));
        let bytes: Vec<String> = bytes.map(|byte| symbol(byte).to_string()).collect();
        let ends = bytes.iter().map(|symbol| format!("{symbol}{END_OF_WORD}"));
        let merges = lines.iter().map(|line| line.split_whitespace().collect::<String>());
        let all = bytes.iter().cloned().chain(ends).chain(merges).chain([START.into(), END.into()]);
        let ids = all.zip(0..).collect();
        Self::new(path, ids, ranks)
    }

    /// The same tokens with another cleaning of texts.
    pub fn speaking(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
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

    fn new(path: &Path, ids: HashMap<String, u32>, ranks: Ranks) -> Result<Self> {
        let special = |name: &str| {
            let found = ids.get(name).copied();
            found.ok_or_else(|| Error::malformed(path, Malformed::Missing { name: name.into() }))
        };
        let (start, end) = (special(START)?, special(END)?);
        Ok(Self { ids, ranks, dialect: Dialect::Transformers, start, end, padding: end, length: LENGTH })
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
        let (mut ids, _) = self.cut(text, self.length)?;
        let padding = match padding {
            Padding::None => return Ok(ids),
            Padding::Own => self.padding,
            Padding::Token(id) => id,
        };
        ids.resize(self.length, padding);
        Ok(ids)
    }

    /// The tokens of a text between start and end, `length` at most, and whether some were cut off.
    pub fn cut(&self, text: &str, length: usize) -> Result<(Vec<u32>, bool)> {
        if text.len() > LONGEST_TEXT {
            let value = format!("{} bytes", text.len());
            return Err(Error::bad_value("prompt", value, "at most 1 MiB"));
        }
        let mut ids = vec![self.start];
        for word in words(self.dialect, text) {
            match word {
                Word::Start => ids.push(self.start),
                Word::End => ids.push(self.end),
                Word::Text(word) => self.merge(&word, &mut ids),
            }
            // What follows would be cut off.
            if ids.len() >= length {
                break;
            }
        }
        let whole = ids.len() < length;
        ids.truncate(length.saturating_sub(1));
        ids.push(self.end);
        Ok((ids, !whole))
    }

    /// The tokens of one word.
    fn merge(&self, word: &str, ids: &mut Vec<u32>) {
        let mut symbols: Vec<String> = word.bytes().map(|byte| symbol(byte).to_string()).collect();
        if let Some(last) = symbols.last_mut() {
            last.push_str(END_OF_WORD);
        }
        let symbols = merged(symbols, &self.ranks);
        ids.extend(symbols.iter().map(|symbol| self.ids.get(symbol).copied().unwrap_or(self.end)));
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

fn ranks_of<'a>(path: &Path, pairs: impl Iterator<Item = &'a str>) -> Result<Ranks> {
    let mut ranks = Ranks::new();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_symbol_of_its_own() {
        let symbols: std::collections::HashSet<char> = (0..=255).map(symbol).collect();
        assert_eq!(symbols.len(), 256);
        assert_eq!((symbol(b' '), symbol(b'a'), symbol(173)), ('\u{120}', 'a', '\u{143}'));
    }

    #[test]
    fn merges_alone_make_a_vocabulary() -> Result<()> {
        let text = "#version: 0.2\na b\nab c</w>\n";
        let tokenizer = Tokenizer::of_merges(Path::new("merges"), text)?;
        // 512 symbols, two merges, start and end.
        assert_eq!(tokenizer.encode("abc!", Padding::None)?, [514, 513, 256, 515]);
        assert_eq!(tokenizer.encode("!", Padding::None)?, [514, 256, 515]);
        assert!(Tokenizer::of_merges(Path::new("merges"), "#version\na b c\n").is_err());
        Ok(())
    }

    #[test]
    fn a_long_word_takes_no_long_time() -> Result<()> {
        let tokenizer = Tokenizer::of_merges(Path::new("merges"), "#\na a\naa aa\naaaa aaaa\n")?;
        let (ids, cut) = tokenizer.cut(&"a".repeat(LONGEST_TEXT), 77)?;
        assert_eq!((ids.len(), cut), (77, true));
        assert!(tokenizer.cut(&"a".repeat(LONGEST_TEXT + 1), 77).is_err());
        assert!(!tokenizer.cut(&"! ".repeat(75), 77)?.1);
        assert!(tokenizer.cut(&"! ".repeat(76), 77)?.1);
        Ok(())
    }
}
