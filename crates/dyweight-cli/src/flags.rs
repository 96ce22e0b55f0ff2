//! What the command that was given can be told: a hint names no option that is not there.

use crate::Cli;
use clap::{Command, CommandFactory};
use std::ffi::OsString;

/// How a value can be changed in the command of this process, if it is one of its options.
pub fn remedy(name: &str) -> Option<String> {
    let command = given(Cli::command(), std::env::args_os().skip(1));
    command.get_arguments().find(|a| a.get_long() == Some(name))?;
    // Training alone can be told in a file what it is told by options.
    let key =
        if command.get_name() == "train" { format!(", or the key '{name}' of the configuration") } else { "".into() };
    Some(format!("change --{name}{key}"))
}

/// The command that words name: `metric fid …` is two deep.
fn given(mut command: Command, words: impl Iterator<Item = OsString>) -> Command {
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
        found.extend(command.get_arguments().filter_map(|a| a.get_long()).map(String::from));
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

    /// The options a line names inside its texts.
    fn named(line: &str) -> Vec<String> {
        let texts = line.split("//").next().unwrap_or_default().split('"').skip(1).step_by(2);
        let words = texts.flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == '-')));
        let options = words.filter_map(|word| word.strip_prefix("--")).map(|o| o.trim_end_matches('-').to_string());
        options.filter(|o| o.starts_with(|c: char| c.is_ascii_lowercase())).collect()
    }

    #[test]
    fn every_option_a_text_names_is_one() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let (mut files, mut known) = (Vec::new(), BTreeSet::new());
        for folder in std::fs::read_dir(crates).unwrap().map(|e| e.unwrap().path().join("src")).filter(|f| f.is_dir()) {
            sources(&folder, &mut files);
        }
        longs(&Cli::command(), &mut known);
        // Options of cargo, and the one every command has.
        known.extend(["release", "features", "help"].map(String::from));
        let mut seen = 0;
        for file in files {
            // Style sheets name their variables so.
            if file.components().any(|c| c.as_os_str() == "html") {
                continue;
            }
            for (number, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
                for option in named(line) {
                    seen += 1;
                    assert!(known.contains(&option), "{}:{}: there is no --{option}", file.display(), number + 1);
                }
            }
        }
        assert!(seen > 40, "only {seen} were found");
    }

    #[test]
    fn the_command_is_found_by_its_words() {
        let flags = |words: &str| {
            let command = given(Cli::command(), words.split(' ').map(OsString::from));
            command.get_arguments().filter_map(|a| a.get_long()).map(String::from).collect::<Vec<_>>()
        };
        assert!(flags("sample --model mixture").contains(&"order".into()));
        assert!(!flags("compare --solvers ipndm:9").contains(&"order".into()));
        assert!(flags("metric stats x").contains(&"name".into()));
        assert_eq!(named(r#"f("use --lr or --{x}"); // "--gone""#), ["lr"]);
    }
}
