//! The one error type of the library.
//!
//! Variants are chosen by what the caller can do about them, and carry the names, numbers and paths a message
//! needs. Options are called by their keys, in backquotes ([`crate::option`]). [`Error::is_users`] tells a wrong input
//! (exit code 2 on the command line) from a run that failed (exit code 1); [`Error::hint`] says what to try.

use crate::option;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// What is wrong with the bytes of a file: the reader that found it says it.
pub trait Problem: std::error::Error + Send + Sync + 'static {
    /// What to try, where there is something to try.
    fn hint(&self) -> Option<String> {
        None
    }
}

/// What the library returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that stands for nothing.
    #[error("unknown {kind} '{}'", printable(name))]
    UnknownName {
        /// What kind of thing was named: solver, schedule, model, preset, ...
        kind: &'static str,
        /// The name as given.
        name: String,
        /// The names that would have worked.
        known: Vec<String>,
    },
    /// A parameter outside what it may be.
    #[error("{}: {expected}", option::with(name, value))]
    BadValue {
        /// The parameter, by its key (`order`, `sigma-min`).
        name: &'static str,
        /// The value as given.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// Two parameters that exclude or need each other.
    #[error("{problem}")]
    Conflict {
        /// Which parameters, and why they do not go together.
        problem: String,
        /// How to resolve it.
        hint: String,
    },
    /// A time grid that is not strictly decreasing.
    #[error("sigmas must decrease strictly, but sigma[{index}] = {} is followed by {}", number(*left), number(*right))]
    GridNotDecreasing {
        /// Index of the first offender.
        index: usize,
        /// The value at the index.
        left: f64,
        /// The value after it.
        right: f64,
    },
    /// No grid gives the wanted number of network calls.
    #[error("no grid lets {solver} make exactly {}{}", counted(*nfe, "network call"), if *each > 1 { UNDER_GUIDANCE } else { "" })]
    NoSuchBudget {
        /// The solver with its options.
        solver: String,
        /// The budget asked for.
        nfe: usize,
        /// Network calls of an evaluation: 2 with guidance.
        each: usize,
        /// Budgets near it that can be met.
        near: Vec<usize>,
    },
    /// Two shapes that should agree.
    #[error("{what}: expected shape {expected:?}, found {found:?}")]
    Shape {
        /// The tensor.
        what: String,
        /// What was needed.
        expected: Vec<usize>,
        /// What was there.
        found: Vec<usize>,
    },
    /// NaN or infinity where a number must be.
    #[error("{what} holds {} at index {index}", number(*value))]
    NotFinite {
        /// The tensor or list.
        what: String,
        /// Flat index of the first such entry.
        index: usize,
        /// The entry.
        value: f64,
    },
    /// The numbers left the finite ones while a solver was running; the first place where that is seen.
    #[error(
        "{solver} diverged at step {step} (sigma {}): {tensor} holds {} in sample {sample}",
        number(*sigma),
        number(*value)
    )]
    Diverged {
        /// The solver.
        solver: String,
        /// Zero-based step.
        step: usize,
        /// The level the network was told, or the time of the state.
        sigma: f64,
        /// Which tensor: the state, or the network's output.
        tensor: &'static str,
        /// Index of the first bad sample in its batch.
        sample: usize,
        /// The value found.
        value: f64,
    },
    /// Every solver that was compared diverged.
    #[error("every solver diverged; the first: {first}")]
    AllDiverged {
        /// What the first of them reported.
        first: String,
    },
    /// A decoder made no image of finite numbers.
    #[error("decoding diverged: the image of seed {seed} holds {}", number(*value))]
    DecodingLost {
        /// Of the sample.
        seed: u64,
        /// The value found.
        value: f64,
    },
    /// An iteration of linear algebra that did not settle.
    #[error("{what} did not converge")]
    NotConverged {
        /// What was computed.
        what: &'static str,
    },
    /// Training found no number, and had nothing to go back to.
    #[error("training diverged at iteration {iteration}: {what} is {}", number(*value))]
    TrainingLost {
        /// The loss or the gradient.
        what: &'static str,
        /// Iterations made before.
        iteration: usize,
        /// The value found.
        value: f64,
    },
    /// A file whose bytes are not what they should be.
    #[error("{}: {problem}", shown(path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The way in which it is wrong.
        problem: Box<dyn Problem>,
    },
    /// Something given from outside failed in its own way: a model, a callback, the link to other processes. What it
    /// said is passed on as it is.
    #[error("{}{source}", in_step(*step))]
    Foreign {
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// The solver's step it happened in, from 0, if it was a model's answer or its derivative.
        step: Option<usize>,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", shown(path))]
    Io {
        /// read, write, create, ...
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Stopped on request, at a step boundary.
    #[error("stopped on request")]
    Cancelled,
}

impl Error {
    /// An option's value that is out of its range.
    pub fn bad_value(name: &'static str, value: impl ToString, expected: impl Into<String>) -> Self {
        Error::BadValue { name, value: value.to_string(), expected: expected.into() }
    }

    /// A name that is none of those known.
    pub fn unknown_name<K: ToString>(
        kind: &'static str,
        name: impl Into<String>,
        known: impl IntoIterator<Item = K>,
    ) -> Self {
        Error::UnknownName { kind, name: name.into(), known: known.into_iter().map(|k| k.to_string()).collect() }
    }

    /// Options or inputs that do not go together.
    pub fn conflict(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Error::Conflict { problem: problem.into(), hint: hint.into() }
    }

    /// An option that does nothing, and why.
    pub fn no_effect(option: &str, why: impl Display) -> Self {
        Self::conflict(format!("`{option}` has no effect: {why}"), format!("leave `{option}` out"))
    }

    /// An option that does nothing without another: a key, or a key and its value, as in `loss = huber`.
    pub fn needs(option: &str, other: impl Display) -> Self {
        let problem = format!("`{option}` has no effect without `{other}`");
        Self::conflict(problem, format!("add `{other}`, or leave `{option}` out"))
    }

    /// An option that does nothing beside another.
    pub fn excluded(option: &str, by: impl Display) -> Self {
        Self::conflict(format!("`{option}` has no effect with `{by}`"), "leave one of them out")
    }

    /// The same about options that are called otherwise here: each under its own name.
    pub fn renamed(self, names: &[(&'static str, &'static str)]) -> Self {
        let own = |name: &'static str| names.iter().find(|(other, _)| *other == name).map_or(name, |(_, own)| own);
        match self {
            Error::BadValue { name, value, expected } => Error::BadValue { name: own(name), value, expected },
            Error::UnknownName { kind, name, known } => Error::UnknownName { kind: own(kind), name, known },
            other => other,
        }
    }

    /// Names the action and file of a failed system call.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Error::Io { action, path: path.to_owned(), source }
    }

    /// What something given from outside failed with.
    pub fn foreign(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Foreign { source: source.into(), step: None }
    }

    /// The same, with the step a model failed in.
    pub fn in_step(self, step: usize) -> Self {
        match self {
            Error::Foreign { source, step: None } => Error::Foreign { source, step: Some(step) },
            other => other,
        }
    }

    /// Puts a file's name to what is wrong with it.
    pub fn malformed(path: &Path, problem: impl Problem) -> Self {
        Error::Malformed { path: path.to_owned(), problem: Box::new(problem) }
    }

    /// True if the input was wrong, false if a sound run failed.
    pub fn is_users(&self) -> bool {
        match self {
            Error::Diverged { .. }
            | Error::AllDiverged { .. }
            | Error::DecodingLost { .. }
            | Error::NotConverged { .. }
            | Error::TrainingLost { .. }
            | Error::Foreign { .. }
            | Error::Cancelled => false,
            Error::Io { source, .. } => source.kind() != std::io::ErrorKind::StorageFull,
            _ => true,
        }
    }

    /// What to try, where there is something to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::UnknownName { known, name, .. } => Some(match closest(name, known) {
                Some(best) => format!("did you mean '{best}'? known: {}", known.join(", ")),
                None => format!("known: {}", known.join(", ")),
            }),
            Error::NoSuchBudget { near, .. } if !near.is_empty() => {
                let near: Vec<String> = near.iter().map(usize::to_string).collect();
                Some(format!("possible budgets nearby: {}", near.join(", ")))
            }
            Error::Conflict { hint, .. } => Some(hint.clone()),
            Error::Malformed { problem, .. } => problem.hint(),
            Error::GridNotDecreasing { .. } => Some("list noise levels from the largest to the smallest".into()),
            Error::Shape { .. } => {
                Some("the parts do not belong together: check the file and the options that name it".into())
            }
            Error::NotFinite { .. } => Some("NaN and infinity are refused: the file may be damaged".into()),
            Error::Diverged { .. } | Error::AllDiverged { .. } => {
                Some("try more steps, another solver, or levels inside the model's range".into())
            }
            Error::DecodingLost { .. } => {
                Some("try weaker guidance or more steps; `latent-out` keeps what was to be decoded".into())
            }
            Error::TrainingLost { .. } => Some("try a lower `lr`, another `init`, or do without `plain = true`".into()),
            Error::Io { source, .. } => io_hint(source.kind()).map(String::from),
            Error::BadValue { .. }
            | Error::NoSuchBudget { .. }
            | Error::NotConverged { .. }
            | Error::Foreign { .. }
            | Error::Cancelled => None,
        }
    }
}

/// What doubles the calls of a solver.
const UNDER_GUIDANCE: &str = ": with guidance every evaluation is two";

/// A number of things: "1 call", "3 calls".
pub fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn in_step(step: Option<usize>) -> String {
    step.map_or(String::new(), |step| format!("in step {step}: "))
}

fn io_hint(kind: std::io::ErrorKind) -> Option<&'static str> {
    use std::io::ErrorKind;
    match kind {
        ErrorKind::NotFound => Some("does it exist, and the directory it is in?"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Some("choose a place you may read and write"),
        ErrorKind::StorageFull => {
            Some("the disk is full: nothing half-written was left, free some space and run again")
        }
        ErrorKind::AlreadyExists => Some("a file stands where a directory is to be, or the other way round"),
        ErrorKind::InvalidInput => Some("only plain files are read and written: no folder, pipe or device"),
        ErrorKind::NotADirectory => Some("a part of the path is a file, not a directory"),
        _ => None,
    }
}

/// What a name stands for.
pub fn named<T: Copy>(kind: &'static str, name: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
    found.ok_or_else(|| Error::unknown_name(kind, name, known.iter().map(|(n, _)| n)))
}

/// The known name within two edits of what was typed, if any.
fn closest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let best = known.iter().min_by_key(|k| edits(name, k))?;
    (edits(name, best) <= 2).then_some(best)
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A path, fit for a message: whole, and nothing in it that a terminal would obey or that would begin a new line.
pub fn shown(path: &Path) -> String {
    let harmless = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    path.to_string_lossy().chars().map(harmless).collect()
}

/// A number, fit for a message: exact, and never hundreds of digits.
pub fn number(value: f64) -> String {
    let is_plain = value == 0.0 || !value.is_finite() || (1e-6..1e15).contains(&value.abs());
    if is_plain { value.to_string() } else { format!("{value:e}") }
}

/// A text from a file, fit for a message: not too long, and nothing in it that a terminal would obey.
pub fn printable(text: &str) -> String {
    const MAX_CHARS: usize = 120;
    let harmless = |c: char| -> String {
        match c {
            '\'' | '"' => c.into(),
            c => c.escape_debug().collect(),
        }
    };
    let mut shown: String = text.chars().take(MAX_CHARS).map(harmless).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_messages_are_short() {
        let shown = [0.0, 80.0, 0.002, -1.5, 1e300, -2.5e-300, f64::NAN, f64::INFINITY].map(number);
        assert_eq!(shown, ["0", "80", "0.002", "-1.5", "1e300", "-2.5e-300", "NaN", "inf"]);
        let error = Error::GridNotDecreasing { index: 0, left: f64::MIN_POSITIVE, right: f64::MAX };
        assert!(error.to_string().len() < 120, "{error}");
    }
}
