//! Character references of HTML, read as Python's `html.unescape` does.
//!
//! ```text
//! &#38; &#x26;   numbers, with or without the semicolon; some stand for other characters or for none
//! &amp; &amp     names; without a semicolon the longest known beginning of up to 32 characters counts
//! ```

use std::collections::HashMap;
use std::sync::LazyLock;

static TABLE: &str = include_str!("../../../assets/html_entities.txt");

/// Characters by name; names end with their semicolon where they need one.
static NAMES: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
    let entry = |line: &'static str| {
        let (name, codes) = line.split_once(' ').unwrap_or((line, ""));
        (
            name,
            codes.split(' ').filter_map(|code| u32::from_str_radix(code, 16).ok().and_then(char::from_u32)).collect(),
        )
    };
    TABLE.lines().map(entry).collect()
});

/// No name is longer.
const LONGEST: usize = 32;

/// Characters of Windows-1252 at 0x80 to 0x9f; those it lacks stand for themselves.
const WINDOWS: [u32; 32] = [
    0x20ac, 0x81, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8d, 0x017d,
    0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,
    0x017e, 0x0178,
];

/// A control character at 0x80 to 0x9f as what Windows-1252 has there; others as they are.
pub(super) fn windows(c: char) -> char {
    let place = (c as u32).checked_sub(0x80).map(|place| place as usize);
    place.and_then(|place| WINDOWS.get(place)).and_then(|code| char::from_u32(*code)).unwrap_or(c)
}

/// All references replaced.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let (found, len) = number(behind).or_else(|| name(behind)).unwrap_or_else(|| ("&".into(), 0));
        out.push_str(&found);
        rest = &behind[len..];
    }
    out + rest
}

/// The references that end with a semicolon and are known entirely, also names in capitals: what text repair dares to
/// replace.
pub(super) fn unescape_sure(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits = &rest[if rest.starts_with("&#") { 2 } else { 1 }..];
        let len = digits.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let whole = (1..=24).contains(&len) && digits[len..].starts_with(';');
        let end = if whole { rest.len() - digits.len() + len + 1 } else { 1 };
        let found = if whole { sure(&rest[1..end]) } else { None };
        match found {
            Some(found) => out.push_str(&found),
            None => out.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    out + rest
}

fn sure(reference: &str) -> Option<String> {
    if reference.starts_with('#') {
        let whole = number(reference).filter(|(found, len)| *len == reference.len() && !found.contains(';'));
        return whole.map(|(found, _)| found);
    }
    if let Some(found) = NAMES.get(reference) {
        return Some(found.clone());
    }
    let small = reference.to_ascii_lowercase();
    let shouted = small.to_ascii_uppercase() == reference && name(reference).is_none();
    NAMES.get(small.as_str()).filter(|_| shouted).map(|found| found.to_uppercase())
}

/// What a number stands for, and how long it is; nothing if there is none.
fn number(text: &str) -> Option<(String, usize)> {
    let digits = text.strip_prefix('#')?;
    let (radix, digits) = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => (16, digits),
        None => (10, digits),
    };
    let count = digits.bytes().take_while(|b| char::from(*b).is_digit(radix)).count();
    if count == 0 {
        return None;
    }
    // Numbers too long for u32 are beyond all characters anyway.
    let code = u32::from_str_radix(&digits[..count], radix).unwrap_or(u32::MAX);
    let semicolon = usize::from(digits[count..].starts_with(';'));
    Some((character(code), text.len() - digits.len() + count + semicolon))
}

fn character(code: u32) -> String {
    match code {
        0 => char::REPLACEMENT_CHARACTER.into(),
        0x0d => "\r".into(),
        0x80..=0x9f => char::from_u32(code).map(windows).into_iter().collect(),
        // Controls and places that never hold a character.
        0x01..=0x08 | 0x0b | 0x0e..=0x1f | 0x7f | 0xfdd0..=0xfdef => String::new(),
        _ if code & 0xfffe == 0xfffe && code <= 0x10_ffff => String::new(),
        _ => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER).into(),
    }
}

/// What the name at the beginning stands for, with what was taken for part of it, and how long that is.
fn name(text: &str) -> Option<(String, usize)> {
    let stops = |c: char| matches!(c, '\t' | '\n' | '\x0c' | ' ' | '<' | '&' | '#' | ';');
    let len: usize = text.chars().take(LONGEST).take_while(|c| !stops(*c)).map(char::len_utf8).sum();
    let whole = if len > 0 && text[len..].starts_with(';') { len + 1 } else { len };
    if let Some(found) = NAMES.get(&text[..whole]) {
        return Some((found.clone(), whole));
    }
    let ends: Vec<usize> = text[..whole].char_indices().map(|(at, _)| at).skip(2).collect();
    ends.into_iter().rev().find_map(|end| NAMES.get(&text[..end]).map(|found| (found.clone(), end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_as_python_reads_them() {
        let cases = [
            ("a &amp; b &lt;x&gt; &quot;", "a & b <x> \""),
            ("&ampx &notit; &notin; &eacute &nosuch; &", "&x ¬it; ∉ é &nosuch; &"),
            ("&#38; &#x26 &#X2019; &#128; &#0; &#xD800; &#1; &#99999999999;", "& & ’ € \u{fffd} \u{fffd}  \u{fffd}"),
            ("&#; &#x; &&amp;amp;", "&#; &#x; &&amp;"),
            ("&NotEqualTilde;", "≂\u{338}"),
        ];
        for (text, expected) in cases {
            assert_eq!(unescape(text), expected, "{text}");
        }
    }

    #[test]
    fn only_sure_ones() {
        assert_eq!(unescape_sure("P&EACUTE;REZ &amp; this&not that &AMP; &#39;"), "PÉREZ & this&not that & '");
        assert_eq!(unescape_sure("&nosuch; &#x; & &&gt;"), "&nosuch; &#x; & &>");
        assert_eq!(windows('\u{85}'), '…');
        assert_eq!((windows('\u{81}'), windows('a')), ('\u{81}', 'a'));
    }
}
