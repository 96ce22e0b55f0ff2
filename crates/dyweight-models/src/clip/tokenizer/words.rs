//! The words of a text, as the tokenizers of CLIP's publishers cut them.
//!
//! ```text
//! clean   transformers      NFC, runs of white space to one space, lower case character by character
//!         OpenAI, OpenCLIP  repair and references (`repair`), white space, lower case of the whole text
//! split   's 't 're 've 'm 'll 'd · a run of letters · one number character · a run of anything else but space
//! ```
//!
//! The tokens at the beginning and end of a text may be written in it. transformers cuts them out before anything else;
//! the others find them, in any case, where a word could begin.

use super::Dialect;
use super::repair::repaired;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

const SUFFIXES: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

/// A word, or one of the two tokens that are not words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Start,
    End,
    Text(String),
}

/// The words of a text.
pub(super) fn words(dialect: Dialect, text: &str) -> Vec<Word> {
    let [start, end] = dialect.specials();
    if dialect != Dialect::Transformers {
        return split(&spaced(&repaired(text)).to_lowercase(), Some([start, end]));
    }
    let mut words = Vec::new();
    let mut rest = text;
    while let Some((at, found)) = [start, end].iter().filter_map(|s| rest.find(s).map(|at| (at, *s))).min() {
        words.extend(split(&lowered(&rest[..at]), None));
        words.push(if found == start { Word::Start } else { Word::End });
        rest = &rest[at + found.len()..];
    }
    words.extend(split(&lowered(rest), None));
    words
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each character on its own: a sigma at the end of a word stays like others.
fn lowered(text: &str) -> String {
    text.nfc().flat_map(char::to_lowercase).collect()
}

/// The words of a cleaned text; `specials` may stand among them.
fn split(text: &str, specials: Option<[&str; 2]>) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let special = specials.and_then(|specials| specials.iter().position(|s| rest.starts_with(s)));
        if let (Some(index), Some(specials)) = (special, specials) {
            words.push(if index == 0 { Word::Start } else { Word::End });
            rest = rest[specials[index].len()..].trim_start();
            continue;
        }
        let run = |kind: Kind| rest.find(|c| Kind::of(c) != kind).unwrap_or(rest.len());
        let len = suffix(rest, specials.is_some()).unwrap_or_else(|| match Kind::of(first) {
            Kind::Number => first.len_utf8(),
            kind => run(kind),
        });
        let (word, behind) = rest.split_at(len);
        rest = behind.trim_start();
        words.push(Word::Text(word.into()));
    }
    words
}

/// The length of an ending at the beginning of a text. Where case does not count, a long s is an s.
fn suffix(text: &str, any_case: bool) -> Option<usize> {
    let long = "'ſ";
    let found = SUFFIXES.iter().find(|s| text.starts_with(**s)).map(|s| s.len());
    found.or((any_case && text.starts_with(long)).then_some(long.len()))
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

    fn texts(dialect: Dialect, text: &str) -> Vec<String> {
        let shown = |word| match word {
            Word::Start => "START".into(),
            Word::End => "END".into(),
            Word::Text(text) => text,
        };
        words(dialect, text).into_iter().map(shown).collect()
    }

    #[test]
    fn words_of_a_text() {
        for dialect in [Dialect::Transformers, Dialect::OpenAi, Dialect::OpenClip] {
            let of = |text| texts(dialect, text);
            assert_eq!(of("  It's  2 Cats!?\n"), ["it", "'s", "2", "cats", "!?"]);
            assert_eq!(of("x12"), ["x", "1", "2"]);
            assert_eq!(of("don't'll ''s"), ["don", "'t", "'ll", "''", "s"]);
            assert_eq!(of("e\u{301}té"), ["été"]);
            assert!(of(" \t").is_empty());
        }
    }

    #[test]
    fn publishers_differ() {
        let text = "a<|endoftext|>b !<|ENDOFTEXT|> <|ENDOFTEXT|> ΟΔΟΣ &amp; it’s";
        let tail = ["|>", "οδος", "&", "it", "'s"];
        assert_eq!(texts(Dialect::Transformers, text)[..4], ["a", "END", "b", "!<|"]);
        assert_eq!(texts(Dialect::Transformers, "ΟΔΟΣ &amp;"), ["οδοσ", "&", "amp", ";"]);
        let found = texts(Dialect::OpenAi, text);
        assert_eq!(found[..3], ["a", "END", "b"]);
        assert_eq!(found[3..7], ["!<|", "endoftext", "|>", "END"]);
        assert_eq!(found[7..], tail[1..]);
        assert_eq!(texts(Dialect::OpenClip, "<End_of_Text>a<|endoftext|>")[..2], ["END", "a"]);
        assert_eq!(texts(Dialect::OpenClip, "<Start_of_Text>"), ["START"]);
    }
}
