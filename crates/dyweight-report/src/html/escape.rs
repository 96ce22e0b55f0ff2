//! Text that stays text, in HTML and in Markdown.

use crate::svg::escaped;

/// Safe as content of an element and inside a quoted attribute; control characters other than line ends become spaces.
pub(super) fn html(text: &str) -> String {
    escaped(text, |c| match c {
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        '\n' => Some("\n"),
        '\t' => Some("\t"),
        _ => None,
    })
}

/// Running text: escaped, with words between backticks as code.
pub(super) fn prose(text: &str) -> String {
    spans(text).map(|(code, part)| if code { format!("<code>{}</code>", html(part)) } else { html(part) }).collect()
}

/// A path from the page as an address: nothing in it can be taken for another site or a script.
pub(super) fn address(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out.trim_start_matches('/').into()
}

/// Running text without its backticks, for places that know no markup.
pub(super) fn plain(text: &str) -> String {
    spans(text).map(|(_, part)| part).collect()
}

/// Running text on one line of Markdown.
pub(super) fn markdown(text: &str) -> String {
    spans(text).map(|(code, part)| if code { format!("`{}`", line(part)) } else { marked(part) }).collect()
}

/// Text in a cell of a Markdown table, where backticks have no meaning.
pub(super) fn cell(text: &str) -> String {
    marked(text)
}

fn marked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in line(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Parts of a text, and whether each stands between backticks; a backtick without a partner is a plain one.
fn spans(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = text;
    let mut code = false;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (inside, closed) = (code, rest.find('`'));
        let alone = |at: &usize| !inside && !rest[at + 1..].contains('`');
        let (part, after) = match closed.filter(|at| !alone(at)) {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, ""),
        };
        (rest, code) = (after, !code);
        Some((inside, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_place() {
        assert_eq!(html("<script>'\"&\u{0}"), "&lt;script&gt;&#39;&quot;&amp; ");
        assert_eq!(markdown("a|b\n*c* <i> `x|y`"), "a\\|b \\*c\\* \\<i\\> `x|y`");
    }

    #[test]
    fn backticks_come_in_pairs() {
        assert_eq!(prose("a `b<c` d"), "a <code>b&lt;c</code> d");
        assert_eq!(prose("`a` and ` alone"), "<code>a</code> and ` alone");
        assert_eq!(plain("a `b` c"), "a b c");
        assert_eq!(prose(""), "");
    }
}
