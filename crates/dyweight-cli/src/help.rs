//! Help: what a newcomer needs of a command comes first, and is all that `-h` shows. Completions and the man pages come
//! from the same descriptions.

use crate::{Cli, colour, examples, flags};
use clap::{Arg, Command, CommandFactory};
use dyweight::train::RENAMED;
use std::ffi::OsString;

/// Of each command, by its words: the options someone needs in the first hour, in this order. Others stand in their
/// groups below.
const FIRST: &[(&str, &[&str])] = &[
    ("quickstart", &["out", "train-seeds", "render-only", "dry-run"]),
    (
        "sample",
        &["model", "nfe", "solver", "weights", "class", "prompt", "guidance", "seeds", "grid", "out", "dry-run"],
    ),
    (
        "train",
        &[
            "model",
            "nfe",
            "out",
            "recipe",
            "method",
            "pairs",
            "iters",
            "class",
            "prompts",
            "guidance",
            "one-file",
            "config",
            "resume",
            "overwrite",
            "dry-run",
        ],
    ),
    ("compare", &["model", "solvers", "weights", "nfe", "seeds", "train-seeds", "out", "dry-run"]),
    ("study numeric", &["quick", "out", "json"]),
    ("study", &["model", "quick", "nfe", "seeds", "train-seeds", "out", "dry-run"]),
    ("probe", &["model", "input", "out"]),
    ("metric teacher", &[]),
    ("metric bench", &[]),
    ("metric clip", &["prompts", "network", "tokenizer", "csv", "json"]),
    ("metric hps", &["prompts", "network", "tokenizer", "csv", "json"]),
    ("metric image-reward", &["prompts", "network", "tokenizer", "csv", "json"]),
    ("metric", &["num", "model", "nfe", "solver", "weights", "seeds", "inception", "out", "dry-run", "json"]),
    ("bench", &["model", "what", "batch", "threads", "repeats", "against", "json"]),
];

/// What other programs call an option.
const ALIASES: &[(&str, &[&str])] = &[
    ("solver", &["sampler"]),
    ("guidance", &["cfg", "cfg-scale", "guidance-scale"]),
    ("optimiser", &["optimizer"]),
    ("lr", &["learning-rate"]),
    ("steps", &["num-inference-steps"]),
    ("seeds", &["seed-range"]),
];

/// What people type for something that is asked for otherwise, without its dashes, and how it is.
const TIPS: &[(&[&str], &str)] = &[
    (&["nef", "nfes", "calls"], "network calls are asked for with --nfe"),
    (&["num", "num-samples", "n"], "samples are asked for by their seeds: --seeds 0-15 makes sixteen"),
    (&["seed"], "samples are asked for by their seeds: --seeds 7, or --seeds 0-15"),
    (&["optimizer", "optimiser", "lr", "learning-rate"], "only 'train' and 'study' have an optimiser"),
    (&["output", "O"], "where results go is said with --out, or -o"),
];

/// The tip for a word that this command does not know.
pub fn tip(word: &str) -> Option<&'static str> {
    let word = word.split('=').next().unwrap_or_default().trim_start_matches('-');
    TIPS.iter().find(|(words, _)| words.contains(&word)).map(|(_, tip)| *tip)
}

/// Options of the command that words name, which were typed by a name that they had: that one, and today's.
pub fn renamed(words: &[OsString]) -> Vec<(&'static str, &'static str)> {
    let command = flags::given(command(), words.iter().cloned());
    let typed = |old: &str| {
        let is_it = |word: &str| word.strip_prefix("--").is_some_and(|w| w.split('=').next() == Some(old));
        words.iter().any(|word| word.to_str().is_some_and(is_it))
    };
    let has = |new: &str| command.get_arguments().any(|arg| arg.get_long() == Some(new));
    let all = RENAMED.iter().chain(&[("weights", "network")]);
    all.filter(|(old, new)| has(new) && typed(old)).copied().collect()
}

/// Shown below the short help.
const MORE: &str = "--help shows all options, and examples.";

/// The whole command, arranged for people.
pub fn command() -> Command {
    arranged(Cli::command().styles(colour::of_help()), "")
}

fn arranged(command: Command, path: &str) -> Command {
    let parent = path.split(' ').next().unwrap_or_default();
    let first = [path, parent].into_iter().find_map(|name| Some(FIRST.iter().find(|(known, _)| *known == name)?.1));
    let command = match first.filter(|first| !first.is_empty() && command.get_subcommands().next().is_none()) {
        Some(first) => command.mut_args(|arg| placed(arg, first)).after_help(MORE),
        None => command,
    };
    // A negative number is a value of the option before it, which then says what is wrong with it.
    let command = command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values() && !arg.is_positional();
        if takes_values { arg.allow_negative_numbers(true) } else { arg }
    });
    let command = command.mut_args(named_as_elsewhere);
    let command = match examples::of(path) {
        Some(examples) => command.after_long_help(examples),
        None => command,
    };
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name()).trim_start().to_string();
        arranged(inner, &path)
    })
}

/// With the names that other programs have for it, and -o for where results go.
fn named_as_elsewhere(arg: Arg) -> Arg {
    let long = arg.get_long().unwrap_or_default().to_string();
    let arg = if long == "out" && arg.get_short().is_none() { arg.short('o') } else { arg };
    match ALIASES.iter().find(|(name, _)| *name == long) {
        Some((_, others)) => arg.aliases(others.iter().copied()),
        None => arg,
    }
}

fn placed(arg: Arg, first: &[&str]) -> Arg {
    if arg.is_positional() {
        return arg;
    }
    match first.iter().position(|name| arg.get_long() == Some(name)) {
        Some(order) => arg.display_order(order).help_heading(None::<&str>),
        None if arg.get_help_heading().is_none() => arg.hide_short_help(true).help_heading("Other"),
        None => arg.hide_short_help(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(command: &Command, path: &str, check: &mut dyn FnMut(&Command, &str)) {
        check(command, path);
        for inner in command.get_subcommands() {
            each(inner, format!("{path} {}", inner.get_name()).trim_start(), check);
        }
    }

    #[test]
    fn most_options_stand_in_a_group_of_their_own() {
        each(&command(), "", &mut |command, path| {
            let others = command.get_arguments().filter(|arg| arg.get_help_heading() == Some("Other")).count();
            assert!(others <= 6, "{path} has {others} options without a group");
        });
    }

    #[test]
    fn names_of_other_programs_are_taken_or_answered() {
        // Another test takes every word with two dashes for an option that is to be found in the help.
        let parsed = |line: &str| command().try_get_matches_from(line.replace('~', "--").split(' '));
        assert!(parsed("dyweight sample ~model mixture ~sampler ipndm ~cfg-scale 2 ~nfe 3 -o here").is_ok());
        assert!(parsed("dyweight sample ~model mixture ~nfe 3 ~cfg 2").is_ok());
        assert!(parsed("dyweight train ~model mixture ~nfe 3 ~optimizer adam ~learning-rate 0.1").is_ok());
        for (words, _) in TIPS {
            for word in *words {
                let typed = if word.len() == 1 { format!("-{word}") } else { format!("--{word}") };
                assert!(tip(&typed).is_some() && parsed(&format!("dyweight list {typed}")).is_err(), "{typed}");
            }
        }
        assert_eq!(tip("-n=5"), tip("-n"));
        assert_eq!(tip("--nfe"), None);
    }

    #[test]
    fn names_that_options_had_are_understood_and_noted() {
        let noted = |line: &str| {
            let words: Vec<_> = line.split(' ').map(|word| OsString::from(word.replace('~', "--"))).collect();
            let parsed = command().try_get_matches_from([OsString::from("dyweight")].iter().chain(&words));
            assert!(parsed.is_ok(), "{line}: {}", parsed.err().map_or(String::new(), |e| e.to_string()));
            renamed(&words)
        };
        for (old, new) in RENAMED {
            let value = match *old {
                "rate" => "constant",
                "mode" => "time",
                "cost" => "l1",
                "updates" => "last",
                "last-direction-one" => "true",
                _ => "2",
            };
            assert_eq!(noted(&format!("train ~model mixture ~nfe 3 ~{old}={value}")), [(*old, *new)]);
            assert_eq!(noted(&format!("train ~model mixture ~nfe 3 ~{new} {value}")), []);
        }
        assert_eq!(noted("metric clip images ~prompts p ~weights w"), [("weights", "network")]);
        assert_eq!(noted("sample ~model mixture ~weights w"), [], "a solver's weights keep their name");
    }

    #[test]
    fn every_first_option_is_there() {
        let command = command();
        for (path, first) in FIRST {
            let mut found = Vec::new();
            each(&command, "", &mut |command, here| {
                if here == *path || here.starts_with(&format!("{path} ")) {
                    found.extend(command.get_arguments().filter_map(|arg| arg.get_long()).map(String::from));
                }
            });
            for name in *first {
                assert!(found.iter().any(|long| long == name), "{path} --{name}");
            }
        }
    }

    #[test]
    fn the_short_help_fits_on_a_screen() {
        each(&command(), "", &mut |command, path| {
            let mut command = command.clone().term_width(80);
            let short = command.render_help().to_string();
            assert!(short.lines().count() <= 36, "{path} -h has {} lines:\n{short}", short.lines().count());
            assert!(short.lines().all(|line| line.chars().count() <= 80), "{path} -h is too wide:\n{short}");
        });
    }

    /// One word for one thing: an option of several commands takes the same kind of value, and a thing has no second
    /// name.
    #[test]
    fn the_same_word_means_the_same_thing() {
        let mut longs = std::collections::BTreeSet::new();
        each(&command(), "", &mut |command, _| {
            longs.extend(command.get_arguments().filter_map(|arg| arg.get_long()).map(String::from));
        });
        for second in ["outdir", "solver-file", "verbosity", "nthreads", "output"] {
            assert!(!longs.contains(second), "--{second} is another word for something that has one");
        }
        // A run's configuration is --config, a model's is --model-config.
        each(&command(), "", &mut |command, path| {
            let has = |name: &str| command.get_arguments().any(|arg| arg.get_long() == Some(name));
            assert!(!has("config") || path == "train", "{path} --config");
            assert!(!has("conv") || has("model-config"), "{path} has a model, but no --model-config");
        });
    }
}
