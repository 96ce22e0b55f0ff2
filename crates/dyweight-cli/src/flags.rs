//! Options in the library's texts, as the command that was given has them.

use crate::{files, help};
use clap::{Arg, Command};
use dyweight::option;
use std::ffi::OsString;

/// The library's text in the words of this process's command: `--lr 0.1`. What is no option of it, or stands in the
/// file of `--config`, is called by its key.
pub fn written(text: &str) -> String {
    let words = || std::env::args_os().skip(1);
    let command = given(help::command(), words());
    let has = |flag: &str| words().any(|w| w.to_str().is_some_and(|w| w.split('=').next() == Some(flag)));
    option::written(text, |key, value| match (command.get_arguments().find(|arg| is_called(arg, key)), value) {
        (Some(arg), Some(value)) if !has("--config") || has(&flag(arg)) => with_value(arg, value),
        (Some(arg), None) => flag(arg),
        (_, Some(value)) => format!("{key} = {value}"),
        (None, None) => key.into(),
    })
}

fn is_called(arg: &Arg, key: &str) -> bool {
    arg.get_long() == Some(key) || arg.get_all_aliases().is_some_and(|others| others.contains(&key))
}

fn flag(arg: &Arg) -> String {
    format!("--{}", arg.get_long().unwrap_or_default())
}

/// A switch is not told that it is on.
fn with_value(arg: &Arg, value: &str) -> String {
    let may_be_alone = !arg.get_action().takes_values() || arg.get_num_args().is_some_and(|n| n.min_values() == 0);
    match may_be_alone && value == "true" {
        true => flag(arg),
        false => format!("{} {}", flag(arg), files::quoted(value)),
    }
}

/// The command that words name: `metric fid …` is two deep.
pub fn given(mut command: Command, words: impl Iterator<Item = OsString>) -> Command {
    for word in words {
        match command.find_subcommand(&word) {
            Some(deeper) => command = deeper.clone(),
            None => break,
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    fn longs(command: &Command, found: &mut BTreeSet<String>) {
        let names = |arg: &Arg| {
            arg.get_long()
                .into_iter()
                .chain(arg.get_all_aliases().unwrap_or_default())
                .map(String::from)
                .collect::<Vec<_>>()
        };
        found.extend(command.get_arguments().flat_map(names));
        command.get_subcommands().for_each(|c| longs(c, found));
    }

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()) {
            match path.is_dir() {
                true => sources(&path, found),
                false => found.extend(Some(path).filter(|p| p.extension().is_some_and(|e| e == "rs"))),
            }
        }
    }

    /// The text literals of a source, each with its line; not those of its tests, nor of comments.
    fn literals(source: &str) -> Vec<(usize, String)> {
        let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let (mut found, mut chars, mut line) = (Vec::new(), source.chars().peekable(), 1);
        while let Some(c) = chars.next() {
            line += usize::from(c == '\n');
            match (c, chars.peek()) {
                ('/', Some('/')) => line += usize::from(chars.by_ref().any(|c| c == '\n')),
                ('\'', Some('"')) => _ = chars.next(),
                ('"', _) => {
                    let (mut text, first) = (String::new(), line);
                    while let Some(c) = chars.next().filter(|c| *c != '"') {
                        line += usize::from(c == '\n');
                        text.extend(if c == '\\' { chars.next().filter(|c| *c != '\n') } else { Some(c) });
                    }
                    found.push((first, text));
                }
                _ => {}
            }
        }
        found
    }

    /// The flags a text names.
    fn flags_in(text: &str) -> Vec<String> {
        let words = text.split(|c: char| !(c.is_alphanumeric() || "-{}_".contains(c)));
        let options = words.filter_map(|word| word.strip_prefix("--")).map(|o| o.trim_end_matches('-').to_string());
        options.filter(|o| o.starts_with(|c: char| c.is_ascii_lowercase() || c == '{')).collect()
    }

    /// The options a text calls by their keys.
    fn keys_in(text: &str) -> Vec<String> {
        let found = std::cell::RefCell::new(Vec::new());
        option::written(text, |key, _| {
            found.borrow_mut().push(key.to_string());
            String::new()
        });
        found.into_inner()
    }

    /// A library calls options by their keys, which are those of the program; the program writes its flags.
    #[test]
    fn every_option_a_text_names_is_one() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let (mut known, mut seen) = (BTreeSet::new(), 0);
        longs(&help::command(), &mut known);
        // Options of cargo, and the one every command has.
        known.extend(["release", "features", "help"].map(String::from));
        for folder in std::fs::read_dir(crates).unwrap().map(|e| e.unwrap().path()).filter(|f| f.join("src").is_dir()) {
            let of_library = !folder.ends_with("dyweight-cli");
            let mut files = Vec::new();
            sources(&folder.join("src"), &mut files);
            // Style sheets name their variables so.
            files.retain(|file| !file.components().any(|c| c.as_os_str() == "html") && !file.ends_with("tests.rs"));
            for file in files {
                for (line, text) in literals(&std::fs::read_to_string(&file).unwrap()) {
                    let (place, flags) = (format!("{}:{line}", file.display()), flags_in(&text));
                    assert!(!of_library || flags.is_empty(), "{place}: '{text}' is for the command line alone");
                    let keys = if of_library { keys_in(&text) } else { flags };
                    for option in keys.iter().filter(|option| !option.contains('{')) {
                        assert!(known.contains(option), "{place}: there is no option {option}");
                    }
                    seen += keys.len();
                }
            }
        }
        assert!(seen > 100, "only {seen} were found");
    }

    #[test]
    fn the_command_is_found_by_its_words() {
        let flags = |words: &str| {
            let command = given(help::command(), words.split(' ').map(OsString::from));
            command.get_arguments().filter_map(|a| a.get_long()).map(String::from).collect::<Vec<_>>()
        };
        assert!(flags("sample --model mixture").contains(&"order".into()));
        assert!(!flags("compare --solvers ipndm:9").contains(&"order".into()));
        assert!(flags("metric stats x").contains(&"name".into()));
        let source = "f('\"', \"use --lr\n \\\"or --{x}\"); // \"--gone\"\ng(\"b\")";
        assert_eq!(literals(source), [(1, "use --lr\n \"or --{x}".into()), (3, "b".into())]);
        assert_eq!(flags_in("use --lr, or --{x} -- and"), ["lr", "{x}"]);
        assert_eq!(keys_in("use `nfe = 3` or `lr`"), ["nfe", "lr"]);
    }
}
