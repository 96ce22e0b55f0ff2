//! `unsafe` stands in the engine and in the mapping of files alone, and every use of it says why it is sound.

use std::path::{Path, PathBuf};

/// Where it may stand: a crate, and one file.
const MAY: [&str; 2] = ["dyweight-nn", "dyweight-files/src/map.rs"];

fn may_use_it(path: &Path) -> bool {
    MAY.iter().any(|place| path.ancestors().any(|part| part.ends_with(place)))
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<PathBuf> = Vec::new();
    for path in entries.map(|e| e.unwrap().path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A line without its texts and its comment.
fn code(line: &str) -> String {
    let (mut out, mut inside, mut escaped) = (String::new(), false, false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        if !inside && c == '/' && rest.peek() == Some(&'/') {
            break;
        }
        if c == '"' && !escaped && !out.ends_with('\'') {
            inside = !inside;
        } else if !inside {
            out.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    out
}

fn says_unsafe(line: &str) -> bool {
    code(line).split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == "unsafe")
}

/// The one trait of unsafe methods states their contract once, for itself and those that implement it.
fn has_the_contract_of_the_trait(path: &Path, line: &str) -> bool {
    let folder = path.parent().unwrap();
    folder.ends_with("dyweight-nn/src/simd")
        && code(line).contains("unsafe fn")
        && std::fs::read_to_string(folder.join("mod.rs")).unwrap().contains("/// # Safety")
}

/// True if the use of `unsafe` in line `at` is justified: blocks and impls by a comment above or beside them, functions
/// by their documentation or, private ones, by the comment of the block inside.
fn is_justified(lines: &[&str], at: usize) -> bool {
    let justifies = |line: &str| line.contains("SAFETY:") || line.contains("# Safety");
    // Upwards to the end of whatever stands before: a block needs at most its own statement's lines.
    let above = lines[..at].iter().rev().take(12).take_while(|line| !line.trim().is_empty());
    if justifies(lines[at]) || above.into_iter().any(|line| justifies(line)) {
        return true;
    }
    code(lines[at]).contains("unsafe fn") && lines[at..].iter().take(12).any(|line| justifies(line))
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    for path in sources(&crates()) {
        let inside = may_use_it(&path);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| says_unsafe(line)) {
            assert!(inside, "{}:{}: unsafe outside {MAY:?}", path.display(), at + 1);
            let justified = is_justified(&lines, at) || has_the_contract_of_the_trait(&path, lines[at]);
            assert!(justified, "{}:{}: unsafe without a SAFETY comment", path.display(), at + 1);
        }
    }
}

#[test]
fn the_other_crates_forbid_it() {
    for folder in std::fs::read_dir(crates()).unwrap().map(|e| e.unwrap().path()) {
        let root = ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)).into_iter().find(|root| root.exists());
        let Some(root) = root.filter(|_| !may_use_it(&folder)) else { continue };
        let text = std::fs::read_to_string(&root).unwrap();
        // Where one file may, the others are denied it.
        let level = if folder.ends_with("dyweight-files") { "deny" } else { "forbid" };
        assert!(text.contains(&format!("#![{level}(unsafe_code)]")), "{}", root.display());
    }
}

#[test]
fn words_and_texts_are_told_from_code() {
    assert!(says_unsafe("    unsafe { f() }") && says_unsafe("pub unsafe fn f() {"));
    for line in ["#![forbid(unsafe_code)]", "// unsafe", "/// unsafe { }", "let x = \"unsafe {\";", "is_unsafe()"] {
        assert!(!says_unsafe(line), "{line}");
    }
    assert!(is_justified(&["// SAFETY: so", "unsafe { f() }"], 1));
    assert!(!is_justified(&["// SAFETY: so", "", "unsafe { f() }"], 2));
    assert!(is_justified(&["unsafe fn f() {", "    // SAFETY: so", "    unsafe { g() }"], 0));
}
