//! T5's tokenizer: SentencePiece with a unigram model, from `tokenizer.json` or `spiece.model`.
//!
//! ```text
//! added tokens written in the text are taken out · the rest is normalised · cut into words, each after "▁" · segmented
//! ids = tokens (cut), end, padding
//! ```
//!
//! `spiece.model` says: its own map, white space cut away and runs of it one space. `tokenizer.json` says which steps
//! are made; those of released T5 files are known here, another one is an error.

use super::normaliser::Normaliser;
use super::pieces::Pieces;
use super::proto::{self, Kind};
use crate::weights::read_json;
use dyweight_core::error::{Error, Result, printable};
use dyweight_files::{Malformed, read_file};
use serde_json::{Map, Value};
use std::path::Path;
use unicode_normalization::UnicodeNormalization;

/// No released tokenizer has larger files.
const LARGEST: u64 = 64 << 20;
/// Longer texts are no prompts.
const LONGEST_TEXT: usize = 1 << 20;
const SPACE: char = '▁';
const END: &str = "</s>";
const PADDING: &str = "<pad>";
const UNKNOWN: &str = "<unk>";
/// Tokens of a text, where nothing else is said.
const LENGTH: usize = 512;

/// A step of normalisation.
#[derive(Debug)]
enum Step {
    Map(Normaliser),
    Strip {
        left: bool,
        right: bool,
    },
    /// Two or more spaces become this.
    Runs(String),
    Replace(String, String),
    Nfc,
    Nfkc,
    Lowercase,
}

/// A token that is taken out of a text before anything else is done with it.
#[derive(Debug)]
struct Added {
    text: String,
    id: u32,
    takes_left: bool,
    takes_right: bool,
}

/// A tokenizer.
#[derive(Debug)]
pub struct UnigramTokenizer {
    steps: Vec<Step>,
    /// Whether words end at any white space, or at spaces alone.
    any_space: bool,
    added: Vec<Added>,
    pieces: Pieces,
    end: u32,
    padding: u32,
    length: usize,
}

impl UnigramTokenizer {
    /// Reads the tokenizer in a folder.
    pub fn read(dir: &Path) -> Result<Self> {
        let (whole, model) = (dir.join("tokenizer.json"), dir.join("spiece.model"));
        let mut tokenizer = if whole.is_file() {
            Self::from_json(&read_json(&whole, LARGEST)?).map_err(|p| Error::malformed(&whole, p))?
        } else if model.is_file() {
            Self::from_model(&read_file(&model, LARGEST)?).map_err(|p| Error::malformed(&model, p))?
        } else {
            let problem = "holds no tokenizer for T5: neither tokenizer.json nor spiece.model".into();
            return Err(Error::malformed(dir, Malformed::Inconsistent { problem }));
        };
        let config = dir.join("tokenizer_config.json");
        if config.is_file() {
            tokenizer.configure(&read_json(&config, LARGEST)?);
        }
        Ok(tokenizer)
    }

    fn from_model(bytes: &[u8]) -> Result<Self, Malformed> {
        let (pieces, map) = proto::parse(bytes)?;
        let of_kind = |kind: Kind| pieces.iter().position(|piece| piece.kind == kind);
        let unknown = of_kind(Kind::Unknown).unwrap_or(2) as u32;
        let added = pieces.iter().enumerate().filter(|(_, piece)| piece.kind == Kind::Control || piece.text == UNKNOWN);
        let added = added.map(|(id, piece)| Added::plain(&piece.text, id as u32)).collect();
        let usable = pieces.iter().enumerate().filter(|(_, p)| matches!(p.kind, Kind::Normal | Kind::UserDefined));
        let usable = usable.map(|(id, piece)| (piece.text.clone(), id as u32, piece.score));
        let steps =
            vec![Step::Map(Normaliser::parse(&map)?), Step::Strip { left: true, right: true }, Step::Runs(" ".into())];
        Self::new(steps, true, added, Pieces::new(usable, unknown))
    }

    fn from_json(json: &Map<String, Value>) -> Result<Self, Malformed> {
        let missing = |name: &str| Malformed::Missing { name: name.into() };
        let model = json.get("model").and_then(Value::as_object).ok_or_else(|| missing("model"))?;
        let kind = model.get("type").and_then(Value::as_str).unwrap_or("Unigram");
        if kind != "Unigram" || model.get("byte_fallback").and_then(Value::as_bool) == Some(true) {
            return Err(unsupported("model", if kind == "Unigram" { "byte_fallback" } else { kind }));
        }
        let vocabulary = model.get("vocab").and_then(Value::as_array).ok_or_else(|| missing("model.vocab"))?;
        let unknown = model.get("unk_id").and_then(Value::as_u64).unwrap_or(2) as u32;
        let piece = |(id, entry): (usize, &Value)| match (entry[0].as_str(), entry[1].as_f64()) {
            (Some(text), Some(score)) => Ok((text.to_string(), id as u32, score)),
            _ => {
                Err(Malformed::Inconsistent { problem: format!("entry {id} of model.vocab is no piece with a score") })
            }
        };
        let pieces: Vec<_> = vocabulary.iter().enumerate().map(piece).collect::<Result<_, _>>()?;
        let added = json.get("added_tokens").and_then(Value::as_array).into_iter().flatten();
        let added = added.filter_map(|token| {
            let flag = |name: &str| token[name].as_bool().unwrap_or(false);
            let (text, id) = (token["content"].as_str()?.to_string(), u32::try_from(token["id"].as_u64()?).ok()?);
            Some(Added { text, id, takes_left: flag("lstrip"), takes_right: flag("rstrip") })
        });
        let mut steps = Vec::new();
        normalisation(json.get("normalizer").unwrap_or(&Value::Null), &mut steps)?;
        let any_space = words(json.get("pre_tokenizer").unwrap_or(&Value::Null))?;
        Self::new(steps, any_space, added.collect(), Pieces::new(pieces.into_iter(), unknown))
    }

    fn new(steps: Vec<Step>, any_space: bool, mut added: Vec<Added>, pieces: Pieces) -> Result<Self, Malformed> {
        added.retain(|token| !token.text.is_empty());
        let special = |name: &str| {
            let found = added.iter().find(|token| token.text == name).map(|token| token.id);
            found.or_else(|| pieces.id(name))
        };
        let end = special(END).ok_or_else(|| Malformed::Missing { name: END.into() })?;
        let padding = special(PADDING).unwrap_or(0);
        Ok(Self { steps, any_space, added, pieces, end, padding, length: LENGTH })
    }

    /// Takes padding and length from a tokenizer's configuration.
    fn configure(&mut self, config: &Map<String, Value>) {
        let pad = config.get("pad_token").and_then(|pad| pad.as_str().or_else(|| pad["content"].as_str()));
        let id = pad.and_then(|pad| {
            let added = self.added.iter().find(|token| token.text == pad).map(|token| token.id);
            added.or_else(|| self.pieces.id(pad))
        });
        self.padding = id.unwrap_or(self.padding);
        // Tokenizers without a limit write an astronomic one.
        let length = config.get("model_max_length").and_then(Value::as_f64).filter(|l| (2.0..=4096.0).contains(l));
        self.length = length.map_or(self.length, |length| length as usize);
    }

    /// Tokens of the longest text.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The tokens of a text and its end, cut and padded to `length`.
    pub fn encode(&self, text: &str, length: usize) -> Result<Vec<u32>> {
        let (mut ids, _) = self.cut(text, length)?;
        ids.resize(length.max(1), self.padding);
        Ok(ids)
    }

    /// The tokens of a text and its end, `length` at most, and whether some were cut off.
    pub fn cut(&self, text: &str, length: usize) -> Result<(Vec<u32>, bool)> {
        if text.len() > LONGEST_TEXT {
            let value = format!("{} bytes", text.len());
            return Err(Error::bad_value("prompt", value, "at most 1 MiB"));
        }
        let mut ids = Vec::new();
        let mut rest = text;
        while let Some((at, token)) = self.next_added(rest) {
            let before = &rest[..at];
            self.plain(if token.takes_left { before.trim_end() } else { before }, &mut ids);
            ids.push(token.id);
            rest = &rest[at + token.text.len()..];
            rest = if token.takes_right { rest.trim_start() } else { rest };
        }
        self.plain(rest, &mut ids);
        let whole = ids.len() < length;
        ids.truncate(length.saturating_sub(1));
        ids.push(self.end);
        Ok((ids, !whole))
    }

    /// The first added token in a text: where several begin, the longest.
    fn next_added(&self, text: &str) -> Option<(usize, &Added)> {
        let found = self.added.iter().filter_map(|token| Some((text.find(&token.text)?, token)));
        found.min_by_key(|(at, token)| (*at, std::cmp::Reverse(token.text.len())))
    }

    /// The tokens of a text without added ones.
    fn plain(&self, text: &str, ids: &mut Vec<u32>) {
        let mut text = text.to_string();
        for step in &self.steps {
            text = step.apply(&text);
        }
        let words: Vec<String> = match self.any_space {
            true => text.split_whitespace().map(|word| format!("{SPACE}{word}")).collect(),
            false => spaced(&text),
        };
        words.iter().for_each(|word| self.pieces.segment(word, ids));
    }
}

/// Words that begin with "▁", which stands for a space; the first has one in any case.
fn spaced(text: &str) -> Vec<String> {
    let mut text = text.replace(' ', "▁");
    if !text.is_empty() && !text.starts_with(SPACE) {
        text.insert(0, SPACE);
    }
    let starts: Vec<usize> = text.match_indices(SPACE).map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| text[*start..end].to_string()).collect()
}

impl Added {
    fn plain(text: &str, id: u32) -> Self {
        Self { text: text.into(), id, takes_left: false, takes_right: false }
    }
}

impl Step {
    fn apply(&self, text: &str) -> String {
        match self {
            Step::Map(map) => map.apply(text),
            Step::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                if *right { text.trim_end() } else { text }.to_string()
            }
            Step::Runs(with) => {
                let mut out = String::with_capacity(text.len());
                let mut rest = text;
                while let Some(at) = rest.find("  ") {
                    out.push_str(&rest[..at]);
                    out.push_str(with);
                    rest = rest[at..].trim_start_matches(' ');
                }
                out + rest
            }
            Step::Replace(what, with) => text.replace(what, with),
            Step::Nfc => text.nfc().collect(),
            Step::Nfkc => text.nfkc().collect(),
            Step::Lowercase => text.to_lowercase(),
        }
    }
}

/// The steps a `normalizer` of tokenizer.json describes.
fn normalisation(json: &Value, steps: &mut Vec<Step>) -> Result<(), Malformed> {
    let flag = |name: &str| json[name].as_bool().unwrap_or(true);
    let step = match json["type"].as_str() {
        None if json.is_null() => return Ok(()),
        Some("Sequence") => {
            let inner = json["normalizers"].as_array().into_iter().flatten();
            return inner.into_iter().try_for_each(|inner| match inner["type"].as_str() {
                Some("Sequence") => Err(unsupported("normalizer", "Sequence in a Sequence")),
                _ => normalisation(inner, steps),
            });
        }
        Some("Precompiled") => {
            let text = json["precompiled_charsmap"].as_str().unwrap_or_default();
            Step::Map(Normaliser::parse(
                &base64(text).ok_or_else(|| unsupported("precompiled_charsmap", "not base64"))?,
            )?)
        }
        Some("Strip") => Step::Strip { left: flag("strip_left"), right: flag("strip_right") },
        Some("Replace") => {
            let with = json["content"].as_str().unwrap_or_default().to_string();
            match (json["pattern"]["Regex"].as_str(), json["pattern"]["String"].as_str()) {
                (Some(" {2,}"), _) => Step::Runs(with),
                (None, Some(what)) if !what.is_empty() => Step::Replace(what.into(), with),
                (pattern, _) => return Err(unsupported("Replace", pattern.unwrap_or_default())),
            }
        }
        Some("NFC") => Step::Nfc,
        Some("NFKC") => Step::Nfkc,
        Some("Lowercase") => Step::Lowercase,
        other => return Err(unsupported("normalizer", other.unwrap_or("no type"))),
    };
    steps.push(step);
    Ok(())
}

/// Whether words end at any white space, as a `pre_tokenizer` of tokenizer.json describes.
fn words(json: &Value) -> Result<bool, Malformed> {
    let list = match json["type"].as_str() {
        Some("Sequence") => json["pretokenizers"].as_array().cloned().unwrap_or_default(),
        _ => vec![json.clone()],
    };
    let (mut any_space, mut marked) = (false, false);
    for step in &list {
        match step["type"].as_str() {
            Some("WhitespaceSplit") => any_space = true,
            Some("Metaspace") if step["prepend_scheme"].as_str().is_none_or(|scheme| scheme == "always") => {
                marked = true
            }
            other => return Err(unsupported("pre_tokenizer", other.unwrap_or("none"))),
        }
    }
    if marked { Ok(any_space) } else { Err(unsupported("pre_tokenizer", "one without Metaspace")) }
}

fn unsupported(what: &str, found: &str) -> Malformed {
    let problem = format!("its {what} '{}' is not one of T5's", printable(found));
    Malformed::Inconsistent { problem }
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits = text.trim_end_matches('=').bytes().map(value).collect::<Option<Vec<u8>>>()?;
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let bits = group.iter().enumerate().fold(0u32, |bits, (i, digit)| bits | u32::from(*digit) << (18 - 6 * i));
        bytes.extend(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length() {
        for (text, bytes) in
            [("", &b""[..]), ("TQ==", b"M"), ("TWE=", b"Ma"), ("TWFu", b"Man"), ("/+8A", &[255, 239, 0])]
        {
            assert_eq!(base64(text).unwrap(), bytes);
        }
        assert!(base64("T Q").is_none());
    }

    #[test]
    fn runs_of_spaces() {
        let step = Step::Runs("_".into());
        assert_eq!(step.apply("a b  c    d "), "a b_c_d ");
        assert_eq!(spaced("a  b"), ["▁a", "▁", "▁b"]);
    }
}
