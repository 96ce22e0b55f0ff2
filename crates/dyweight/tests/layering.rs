//! A room uses only rooms that stand before it. The order is that of `ARCHITECTURE.md`; this test walks the sources
//! and names every line that breaks it.
//!
//! What counts is code: `crate::x` paths, groups `crate::{x, y}` and chains of `super` that reach the top of the crate.
//! Comments, documentation, texts and `#[cfg(test)]` items do not count.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms from the ground up. Rooms of one line do not use each other.
const ORDER: &[&[&str]] = &[
    &["error"],
    &["tensor"],
    &["coeff"],
    &["comm", "noise", "linalg", "schedule"],
    &["denoiser"],
    &["path"],
    &["solver"],
    &["sample"],
    &["checkpoint"],
    &["models"],
    &["train", "metrics", "image"],
    &["report"],
    &["spec"],
    &["study"],
];

/// Names at the top of the crate that are not rooms, with the room each comes from.
const RE_EXPORTS: &[(&str, &str)] = &[("Error", "error"), ("Result", "error"), ("Tensor", "tensor")];

fn rank(room: &str) -> Option<usize> {
    ORDER.iter().position(|rooms| rooms.contains(&room))
}

#[test]
fn no_room_uses_one_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut offences = Vec::new();
    for file in sources(&root) {
        let inside = file.strip_prefix(&root).expect("a file below the root").to_owned();
        if inside != Path::new("lib.rs") {
            let text = fs::read_to_string(&file).expect("readable source");
            offences.extend(check(&inside, &text));
        }
    }
    assert!(offences.is_empty(), "upward uses:\n{}", offences.join("\n"));
}

#[test]
fn the_order_names_exactly_the_rooms_there_are() {
    let lib = include_str!("../src/lib.rs");
    let mut declared: Vec<&str> = lib.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let mut ordered: Vec<&str> = ORDER.concat();
    declared.sort_unstable();
    ordered.sort_unstable();
    assert_eq!(declared, ordered);
}

/// All Rust files below a directory, in a fixed order.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a readable directory");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a readable entry").path()).collect();
    paths.sort();
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    paths.into_iter().flat_map(below).filter(|p| p.extension().is_some_and(|e| e == "rs")).collect()
}

/// What is wrong with the text of a file; `inside` is its path below `src`.
fn check(inside: &Path, text: &str) -> Vec<String> {
    let modules = module_path(inside);
    let room = modules[0].as_str();
    let own = rank(room);
    let offence = |(line, name): (usize, String)| {
        let used = RE_EXPORTS.iter().find(|(n, _)| *n == name).map_or(name.as_str(), |(_, from)| from);
        let fine = used == room || matches!((rank(used), own), (Some(used), Some(own)) if used < own);
        (!fine).then(|| format!("{}:{line}: {room} uses {name}", inside.display()))
    };
    uses(&without_tests(tokens(text)), modules.len()).into_iter().filter_map(offence).collect()
}

/// `noise/torch.rs` is `[noise, torch]`, `noise.rs` and `noise/mod.rs` are `[noise]`.
fn module_path(inside: &Path) -> Vec<String> {
    let stem = inside.with_extension("");
    let mut names: Vec<String> = stem.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    names.pop_if(|last| last == "mod");
    names
}

/// Names used at the top of the crate, with their lines, by a file `depth` modules below it.
fn uses(tokens: &[Token], depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let word = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    for i in 0..tokens.len() {
        let mut after = match word(i) {
            "crate" if word(i + 1) == "::" => i + 2,
            // A chain of `super` counts once, from its first link.
            "super" if i < 2 || word(i - 2) != "super" => {
                let links = (0..).take_while(|k| word(i + 2 * k) == "super").count();
                if links != depth || word(i + 2 * links - 1) != "::" {
                    continue;
                }
                i + 2 * links
            }
            _ => continue,
        };
        if word(after) != "{" {
            found.push((tokens[i].line, word(after).into()));
            continue;
        }
        // The first word of each entry of the group; entries may have groups of their own.
        let (mut nested, mut first) = (0, false);
        while after < tokens.len() {
            match word(after) {
                "{" => (nested, first) = (nested + 1, nested == 0),
                "}" if nested == 1 => break,
                "}" => nested -= 1,
                "," => first = nested == 1,
                name if first => {
                    found.push((tokens[after].line, name.into()));
                    first = false;
                }
                _ => {}
            }
            after += 1;
        }
    }
    found
}

/// A word or sign of the source.
#[derive(Clone, Debug, PartialEq)]
struct Token {
    text: String,
    line: usize,
}

/// Words and signs; comments are left out and texts are empty.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < chars.len() {
        let rest = &chars[at..];
        let (len, keep) = match rest {
            ['/', '/', ..] => (rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()), false),
            ['/', '*', ..] => (block_comment(rest), false),
            ['"', ..] => (quoted(rest), false),
            ['b', '"', ..] => (1 + quoted(&rest[1..]), false),
            ['r', '"' | '#', ..] if raw_text(rest) > 0 => (raw_text(rest), false),
            ['b', 'r', '"' | '#', ..] if raw_text(&rest[1..]) > 0 => (1 + raw_text(&rest[1..]), false),
            // A character, not a lifetime.
            ['\'', '\\', ..] => (2 + rest[2..].iter().skip(1).position(|c| *c == '\'').map_or(1, |p| p + 2), false),
            ['\'', _, '\'', ..] => (3, false),
            [':', ':', ..] => (2, true),
            [c, ..] if is_word(*c) => (rest.iter().take_while(|c| is_word(**c)).count(), true),
            [c, ..] => (1, !c.is_whitespace()),
            [] => break,
        };
        if keep {
            tokens.push(Token { text: rest[..len].iter().collect(), line });
        }
        line += rest[..len].iter().filter(|c| **c == '\n').count();
        at += len;
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of a comment, which may hold comments.
fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of a text in plain quotes.
fn quoted(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Length of a raw text that starts with `r`; 0 if there is none (`r#type` is a word).
fn raw_text(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = 2 + hashes;
    rest[body..].windows(end.len()).position(|w| w == end).map_or(rest.len(), |p| body + p + end.len())
}

/// Leaves out every item marked `#[cfg(test)]`: up to its closing brace, or its semicolon.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let marked = tokens[at..].iter().map(|t| t.text.as_str()).take(MARK.len()).eq(MARK);
        if !marked {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        for token in &tokens[at + MARK.len()..] {
            match token.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 && matches!(token.text.as_str(), "}" | ";") {
                break;
            }
        }
        at += MARK.len();
    }
    kept
}

/// The offences of a made-up file, as `line room`.
fn found(inside: &str, text: &str) -> Vec<String> {
    let short = |offence: String| offence.trim_start_matches(inside).trim_start_matches(':').to_string();
    check(Path::new(inside), text).into_iter().map(short).collect()
}

#[test]
fn upward_uses_are_found_however_they_are_written() {
    assert_eq!(found("solver/euler.rs", "use crate::sample::Plan;"), ["1: solver uses sample"]);
    assert_eq!(found("tensor.rs", "fn f() {\n    crate::coeff::Coeff::from(1.0);\n}"), ["2: tensor uses coeff"]);
    let group = "use crate::{\n    error::{Error, Result},\n    spec::{self, Budget},\n    train,\n};";
    assert_eq!(found("path/sweep.rs", group), ["3: path uses spec", "4: path uses train"]);
    assert_eq!(found("error/mod.rs", "use crate::Tensor;"), ["1: error uses Tensor"]);
    assert_eq!(found("noise.rs", "use super::schedule::Grid;"), ["1: noise uses schedule"]);
    assert_eq!(found("noise/torch.rs", "use super::super::{models, tensor};"), ["1: noise uses models"]);
    assert_eq!(found("schedule/mod.rs", "use crate::noise::Rng;"), ["1: schedule uses noise"]);
    assert_eq!(found("spec/x.rs", "use crate::nowhere::X;"), ["1: spec uses nowhere"]);
    assert_eq!(found("spec/x.rs", "use crate::*;"), ["1: spec uses *"]);
    let hidden = "const A: &str = \"\\\"\"; const B: char = '\"'; const C: char = '\\''; use crate::study::X;";
    assert_eq!(found("spec/x.rs", hidden), ["1: spec uses study"]);
    assert_eq!(found("tensor.rs", "#[cfg(test)]\nmod tests { fn f() {} }\nuse crate::spec;"), ["3: tensor uses spec"]);
}

#[test]
fn downward_uses_and_mere_words_are_not() {
    let fine = r##"
//! See [`crate::sample`] and use crate::study::X.
/* use crate::study::X; /* crate::spec */ crate::spec */
use crate::coeff::Coeff;
use crate::{Error, Result, Tensor};
use super::{Run, sample_of};
use super::table::Table;
pub(crate) fn f<'a>(x: &'a str) -> &'a str { "crate::study" }
const RAW: &str = r#"use crate::study::"X";"#;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod tests {
    use crate::study::X;
    fn g() { if true { crate::spec::f() } }
}
"##;
    assert_eq!(found("solver/euler.rs", fine), Vec::<String>::new());
}
