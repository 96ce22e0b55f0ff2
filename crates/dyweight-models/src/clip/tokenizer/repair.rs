//! What OpenAI's and OpenCLIP's tokenizers do to a text first: repair, as the library ftfy does it, and character
//! references of HTML.
//!
//! ```text
//! for each line, repeated until nothing changes
//!   references of HTML, the sure ones, unless the line or one before it has a <
//!   U+80–9F as Windows-1252 has them · Latin ligatures taken apart · U+FF01–FFEF to usual width · straight quotes
//!   line breaks to LF · terminal escapes and control characters away · NFC
//! then references of HTML, twice, all of them
//! ```
//!
//! Left out: guessing whether a text is UTF-8 that was read as another encoding (mojibake), and reading it again.

use super::entities::{unescape, unescape_sure, windows};
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// A text repaired and unescaped.
pub(super) fn repaired(text: &str) -> String {
    let mut has_tags = false;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        has_tags |= line.contains('<');
        out.push_str(&repaired_line(line, has_tags));
    }
    unescape(&unescape(&out))
}

fn repaired_line(line: &str, has_tags: bool) -> String {
    let mut line = line.to_string();
    loop {
        let next = if has_tags { repaired_once(&line) } else { repaired_once(&unescape_sure(&line)) };
        if next == line {
            return line;
        }
        line = next;
    }
}

fn repaired_once(text: &str) -> String {
    let mut apart = String::with_capacity(text.len());
    for c in text.chars().map(windows) {
        match ligature(c) {
            Some(letters) => apart.push_str(letters),
            None => apart.push(c),
        }
    }
    let mut usual = String::with_capacity(apart.len());
    for c in apart.chars() {
        match c {
            '\u{3000}' => usual.push(' '),
            '\u{ff01}'..='\u{ffef}' => usual.extend(std::iter::once(c).nfkc()),
            '\u{201c}'..='\u{201f}' => usual.push('"'),
            '\u{2bc}' | '\u{2018}'..='\u{201b}' => usual.push('\''),
            c => usual.push(c),
        }
    }
    let lines = usual.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}', '\u{85}'], "\n");
    let kept = without_escapes(&lines);
    kept.chars().filter(|c| !is_control(*c)).nfc().collect()
}

/// ESC [ digits and semicolons letter.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let code = &rest[at + 2..];
        let letter = code.find(|c: char| !(is_digit(c) || c == ';'));
        let end = letter.filter(|end| code[*end..].starts_with(|c: char| c.is_ascii_alphabetic()));
        match end {
            Some(end) => {
                out.push_str(&rest[..at]);
                rest = &code[end + 1..];
            }
            None => {
                out.push_str(&rest[..at + 2]);
                rest = code;
            }
        }
    }
    out + rest
}

/// As regular expressions tell digits: decimal ones of any script.
fn is_digit(c: char) -> bool {
    c.general_category() == GeneralCategory::DecimalNumber
}

fn is_control(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffc}')
}

fn ligature(c: char) -> Option<&'static str> {
    const LIGATURES: [(char, &str); 22] = [
        ('ﬀ', "ff"),
        ('ﬁ', "fi"),
        ('ﬂ', "fl"),
        ('ﬃ', "ffi"),
        ('ﬄ', "ffl"),
        ('ﬅ', "ſt"),
        ('ﬆ', "st"),
        ('Ĳ', "IJ"),
        ('ĳ', "ij"),
        ('ŉ', "ʼn"),
        ('Ǆ', "DŽ"),
        ('ǅ', "Dž"),
        ('ǆ', "dž"),
        ('Ǉ', "LJ"),
        ('ǈ', "Lj"),
        ('ǉ', "lj"),
        ('Ǌ', "NJ"),
        ('ǋ', "Nj"),
        ('ǌ', "nj"),
        ('Ǳ', "DZ"),
        ('ǲ', "Dz"),
        ('ǳ', "dz"),
    ];
    LIGATURES.iter().find(|(known, _)| *known == c).map(|(_, letters)| *letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs() {
        let cases = [
            ("o\u{fb03}ce \u{201c}x\u{201d} it\u{2019}s", "office \"x\" it's"),
            ("\u{ff21}\u{ff22}\u{3000}\u{1b}[31mred\u{1b}[0m", "AB red"),
            ("a\r\nb\rc\u{2028}d\u{feff}", "a\nb\nc\nd"),
            ("e\u{301} \u{85} &amp;amp;amp;amp;", "\u{e9} \u{2026} &"),
            ("<b> &amp;amp;amp; &#8217;", "<b> &amp; \u{2019}"),
            ("&#8217; \u{149}", "' 'n"),
            ("\u{1b}[x \u{1b}[1", " [1"),
            // ftfy looks for tags line by line, and keeps in mind what it has found.
            ("&amp;amp;amp;amp;\n<b>", "&\n<b>"),
            ("&amp;amp;amp;amp;\n<b>\n&amp;amp;amp;amp;", "&\n<b>\n&amp;amp;"),
            ("<b>\r&amp;amp;amp;\n\n", "<b>\n&amp;\n\n"),
            ("a\r\u{2028}b\r\n\u{2029}", "a\n\nb\n\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(repaired(text), expected, "{text:?}");
        }
    }
}
