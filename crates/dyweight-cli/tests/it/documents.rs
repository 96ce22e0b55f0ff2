//! The documents: links lead somewhere, lines fit a screen, the README stays one screen and a half, pages begin with
//! what to do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn pages_in(folder: &Path, pages: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            pages_in(&path, pages);
        } else if path.extension().is_some_and(|e| e == "md") {
            pages.push(path);
        }
    }
}

/// Everything in `docs`, and what stands beside the README.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let beside = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = beside.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    pages_in(&root.join("docs"), &mut pages);
    pages.sort();
    assert!(pages.len() > 15, "{pages:?}");
    pages
}

fn read(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()))
}

/// Lines with a mark: true inside a block of code.
fn lines(text: &str) -> Vec<(bool, &str)> {
    let mut inside = false;
    let marked = |line| {
        let fence = str::trim_start(line).starts_with("```");
        inside ^= fence;
        (inside || fence, line)
    };
    text.lines().map(marked).collect()
}

/// Anchors of a page's headings, as forges make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = lines(text).into_iter().filter(|(code, line)| !code && line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings
        .map(|(_, line)| line.trim_start_matches('#').trim().to_lowercase())
        .map(|heading| heading.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect())
        .collect()
}

fn links(text: &str) -> Vec<&str> {
    let prose = lines(text).into_iter().filter(|(code, _)| !code).map(|(_, line)| line);
    prose.flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next()).collect()
}

#[test]
fn links_of_the_documents_lead_somewhere() {
    let mut followed = 0;
    for page in pages() {
        let text = read(&page);
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            assert!(
                anchor.is_empty() || anchors(&read(&target)).contains(anchor),
                "{}: {link}: no such heading",
                page.display()
            );
            followed += 1;
        }
    }
    assert!(followed > 100, "{followed} links");
}

/// Rows of tables cannot be wrapped, where a cell has an address.
#[test]
fn lines_of_the_documents_have_at_most_120_columns() {
    let width = |line: &str| if line.starts_with('|') && line.contains("](") { 0 } else { line.chars().count() };
    let too_wide: Vec<String> = pages()
        .iter()
        .flat_map(|page| {
            let wide = |(i, line): (usize, &str)| (width(line) > 120).then(|| format!("{}:{}", page.display(), i + 1));
            read(page).lines().enumerate().filter_map(wide).collect::<Vec<_>>()
        })
        .collect();
    assert!(too_wide.is_empty(), "{too_wide:#?}");
}

#[test]
fn the_readme_is_one_screen_and_a_half() {
    let readme = read(&root().join("README.md"));
    assert!(readme.lines().count() <= 110, "{} lines", readme.lines().count());
    for (_, line) in lines(&readme).into_iter().filter(|(code, _)| *code) {
        assert!(line.chars().count() <= 100, "this scrolls sideways: {line}");
    }
}

/// What is it for, and what do I type: a sentence, then code or a table, in the first twelve lines.
#[test]
fn pages_begin_with_what_to_do() {
    for page in pages().into_iter().filter(|page| page.starts_with(root().join("docs")) && !in_log(page)) {
        let text = read(&page);
        let top: Vec<&str> = text.lines().take(12).collect();
        assert!(top[0].starts_with("# ") && top[1].is_empty(), "{}: a title comes first", page.display());
        assert!(
            top[2].chars().next().is_some_and(|c| c.is_alphanumeric() || c == '`'),
            "{}: then a sentence",
            page.display()
        );
        let shows = |line: &&str| line.starts_with("```") || line.starts_with('|');
        assert!(top.iter().any(shows), "{}: what do I type?", page.display());
    }
}

fn in_log(page: &Path) -> bool {
    page.parent().is_some_and(|folder| folder.ends_with("log"))
}

/// What the README shows of the library is an example of the library, which the compiler has seen.
#[test]
fn the_readmes_rust_is_compiled_elsewhere() {
    let (readme, library) = (read(&root().join("README.md")), read(&root().join("crates/dyweight/src/lib.rs")));
    let code = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    for line in code.lines().filter(|line| !line.is_empty()) {
        assert!(library.contains(&format!("//! {line}\n")), "{line}");
    }
}

fn sources() -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => files.extend(path.extension().is_some_and(|e| e == "rs").then(|| read(&path))),
            }
        }
    }
    files
}

/// The walks of the architecture name functions that there are, each with its type or module.
#[test]
fn walks_name_functions_that_are_there() {
    let (page, sources) = (read(&root().join("ARCHITECTURE.md")), sources());
    let walks = page.split("## Walks").nth(1).unwrap().split("\n## ").next().unwrap();
    let words = walks.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let calls: Vec<(&str, &str)> = words.filter_map(|word| word.trim_matches(':').rsplit_once("::")).collect();
    assert!(calls.len() > 30, "{calls:?}");
    for (owner, function) in calls {
        let owner = owner.rsplit("::").next().unwrap_or(owner);
        let is_type = owner.starts_with(char::is_uppercase);
        let has = |source: &&String| {
            let named = [" ", "<"].iter().any(|before| source.contains(&format!("{before}{owner}")));
            source.contains(&format!("fn {function}")) && (!is_type || named)
        };
        assert!(sources.iter().any(|source| has(&source)), "ARCHITECTURE.md: there is no {owner}::{function}");
    }
}

/// Places that the architecture and the recipes send a reader to exist.
#[test]
fn places_of_the_architecture_are_there() {
    let mut seen = 0;
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let page = read(&root().join(name));
        for quoted in
            page.split('`').skip(1).step_by(2).filter(|text| text.contains('/') && !text.contains([' ', '*', '{']))
        {
            let Some((first, rest)) = quoted.split_once('/') else { continue };
            let known = root().join("crates").join(format!("dyweight-{first}"));
            let place = if known.is_dir() { known.join(rest) } else { root().join(quoted) };
            if quoted.contains("NAME") || quoted.contains('<') || quoted.contains('…') || !rest.contains("src") {
                continue;
            }
            assert!(place.exists(), "{name}: there is no {quoted}");
            seen += 1;
        }
    }
    assert!(seen > 25, "only {seen}");
}
