//! The options of `train`, from the command line and from a TOML file.

use crate::args::ModelOptions;
use crate::files::quoted;
use crate::ui;
use clap::Args;
use dyweight::error::shown;
use dyweight::files::{Malformed, NamedPath, read_file};
use dyweight::spec::{Budget, ScheduleSpec};
use dyweight::train::{RENAMED, TrainSpec};
use dyweight::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// No sound configuration is larger.
pub(super) const LARGEST_CONFIG: u64 = 1 << 20;

/// Everything `train` can be told. Every option of a run has a key of the same name in the file given with `--config`.
#[derive(Args, Clone, Default)]
pub struct TrainArgs {
    /// TOML file with the same keys as these flags; flags win
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub job: JobArgs,
    #[command(flatten)]
    pub spec: TrainSpec,
    #[command(flatten)]
    pub schedule: ScheduleSpec,
    /// Safetensors file for all parameters, losses and gradients
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub trace: Option<PathBuf>,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long, help_heading = "Run")]
    pub threads: Option<usize>,
    /// Continue an interrupted run
    #[arg(long, conflicts_with = "trace", help_heading = "Run")]
    pub resume: bool,
    /// Start anew over an interrupted run, or replace a finished solver
    #[arg(long, conflicts_with = "resume", help_heading = "Run")]
    pub overwrite: bool,
    /// Say what would be done, how many calls and how long it takes; do nothing
    #[arg(long, help_heading = "Run")]
    pub dry_run: bool,
    /// Seconds between snapshots [2]
    #[arg(long, hide = true)]
    pub snapshot_seconds: Option<f64>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Run")]
    pub json: bool,
}

/// For which model, how long, and where to.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Model")]
#[serde(rename_all = "kebab-case", default)]
pub struct JobArgs {
    #[arg(long, value_name = "NAME|FILE", help = "Built-in name (see 'dyweight list models') or file")]
    pub model: Option<String>,
    #[serde(flatten)]
    #[command(flatten)]
    pub options: ModelOptions,
    /// Network calls; several train one after another
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',', num_args = 1, conflicts_with = "steps")]
    pub nfe: Option<Vec<usize>>,
    /// Intervals of the grid instead of network calls
    #[arg(long, help_heading = "Run")]
    pub steps: Option<usize>,
    /// Solver file; several add -nfeN [MODEL-nfeN.json]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// One file, --out, for all budgets from the fewest to the most calls
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Run")]
    #[arg(hide_possible_values = true)]
    pub one_file: Option<bool>,
    /// Directory that keeps teacher results across budgets and runs
    #[arg(long, value_name = "DIR", help_heading = "Teacher")]
    pub cache: Option<PathBuf>,
}

impl TrainArgs {
    /// These arguments over the ones of the configuration file.
    pub fn over_config(&self) -> Result<Self> {
        let mut args = self.clone();
        if let Some(path) = &self.config {
            let mut file = ConfigFile::read(path)?;
            (args.job, args.spec) = (file.under(&self.job)?, file.under(&self.spec)?);
            args.schedule = file.under(&self.schedule)?;
            file.refuse_rest()?;
            // A length from the command line replaces the file's, however either is said.
            if self.job.nfe.is_some() {
                args.job.steps = None;
            } else if self.job.steps.is_some() {
                args.job.nfe = None;
            }
        }
        args.check_seed()?;
        Ok(args)
    }

    /// Files the run reads.
    pub fn inputs(&self) -> Vec<NamedPath<'_>> {
        let spec = &self.spec;
        let init = spec.init.as_deref().map(Path::new);
        [
            ("--model", self.job.model.as_deref().map(Path::new)),
            ("--config", self.config.as_deref()),
            ("--prompts", spec.prompts.as_deref()),
            ("--init", init),
            ("--noise", spec.noise.as_deref()),
            ("--inception", spec.inception.as_deref()),
            ("--clip-model", spec.clip_model.as_deref()),
            ("--reference", spec.joint.reference.as_deref().map(Path::new)),
        ]
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, path?)))
        .chain(self.job.options.files())
        .collect()
    }

    /// The command that samples with what was learned: the model as it was named here, and what it was asked for.
    pub fn next_command(&self, model: &str, solver: &Path) -> String {
        let (job, spec) = (&self.job.options, &self.spec);
        let shape = job.shape.as_ref().map(|s| s.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
        let path = |path: &Option<PathBuf>| path.as_deref().map(shown);
        let number = |number: Option<usize>| number.map(|n| n.to_string());
        let options = [
            ("--model", Some(model.to_string())),
            ("--shape", shape),
            ("--model-config", path(&job.model_config)),
            ("--height", number(job.height)),
            ("--width", number(job.width)),
            ("--tokenizer", path(&job.tokenizer)),
            ("--text-tokens", number(job.text_tokens)),
            ("--class", spec.class.as_ref().map(ToString::to_string)),
            ("--prompts", path(&spec.prompts)),
            ("--negative", spec.negative.clone()),
            ("--guidance", spec.guidance.map(|g| g.to_string())),
            ("--weights", Some(shown(solver))),
        ];
        let words = options.into_iter().filter_map(|(flag, value)| Some(format!(" {flag} {}", quoted(&value?))));
        words.fold("dyweight sample".into(), |command, word| command + &word)
    }

    /// TOML, in which the run is written down, has no larger integers.
    fn check_seed(&self) -> Result<()> {
        match self.spec.seed.filter(|seed| i64::try_from(*seed).is_err()) {
            Some(seed) => Err(Error::bad_value("seed", seed, format!("must be at most {}", i64::MAX))),
            None => Ok(()),
        }
    }

    /// The lengths to train for, each once.
    pub fn budgets(&self) -> Result<Vec<Budget>> {
        match (&self.job.nfe, self.job.steps) {
            (Some(calls), None) if !calls.is_empty() => {
                let mut calls = calls.clone();
                let mut seen = std::collections::HashSet::new();
                calls.retain(|n| seen.insert(*n));
                Ok(calls.into_iter().map(Budget::Nfe).collect())
            }
            (None, Some(steps)) => Ok(vec![Budget::Steps(steps)]),
            (Some(_), Some(_)) => Err(Error::conflict("nfe and steps both say the length", "give one of them")),
            _ => Err(no_budget()),
        }
    }
}

/// No length was said.
pub fn no_budget() -> Error {
    Error::conflict("which budget?", "give --nfe (network calls, one or several) or --steps (intervals of the grid)")
}

/// A TOML file whose keys are handed out to the lists of options they belong to.
struct ConfigFile<'p> {
    path: &'p Path,
    text: String,
    keys: toml::Table,
    /// The options there are, of the lists that have been asked.
    known: Vec<String>,
}

impl<'p> ConfigFile<'p> {
    fn read(path: &'p Path) -> Result<Self> {
        let bytes = read_file(path, LARGEST_CONFIG)?;
        let not_text = Malformed::NotText { what: "the configuration", offset: 0 };
        let text = String::from_utf8(bytes.to_vec()).map_err(|_| Error::malformed(path, not_text))?;
        let mut keys: toml::Table = toml::from_str(&text).map_err(|e: toml::de::Error| {
            let line = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            let line = e.span().map_or(String::new(), |span| format!("line {}: ", line(span.start)));
            inconsistent(path, format!("{line}{}", e.message()))
        })?;
        for (old, new) in RENAMED {
            if let Some(value) = keys.remove(*old) {
                ui::say(&format!("{}: '{old}' is called '{new}' now", shown(path)));
                keys.entry(*new).or_insert(value);
            }
        }
        Ok(Self { path, text, keys, known: Vec::new() })
    }

    /// The options `given` on the command line over those of the file, whose keys are taken out of it.
    fn under<T: Serialize + DeserializeOwned + Default>(&mut self, given: &T) -> Result<T> {
        let mut merged = toml::Table::new();
        for key in names(&T::default())? {
            self.known.push(key.clone());
            let Some(value) = self.keys.remove(&key) else { continue };
            let mut alone = toml::Table::new();
            alone.insert(key.clone(), value.clone());
            // Each key by itself, so that what is wrong with it can be said of it.
            alone.try_into::<T>().map_err(|e| self.refuse(&key, e.message()))?;
            merged.insert(key, value);
        }
        merged.extend(keys(given)?);
        merged.try_into().map_err(|e: toml::de::Error| inconsistent(self.path, e.message().into()))
    }

    fn refuse(&self, key: &str, reason: &str) -> Error {
        let starts = |rest: &str| rest.trim_start().starts_with(['=', '.', ']']);
        let is_it = |line: &&str| line.trim_start_matches([' ', '\t', '[']).strip_prefix(key).is_some_and(starts);
        let line =
            self.text.lines().position(|line| is_it(&line)).map_or(String::new(), |i| format!("line {}, ", i + 1));
        inconsistent(self.path, format!("{line}key '{key}': {}", reason.lines().next().unwrap_or_default()))
    }

    fn refuse_rest(&self) -> Result<()> {
        match self.keys.keys().next() {
            Some(key) => {
                let meant = key.replace('_', "-");
                let reason = match self.known.contains(&meant) {
                    true => format!("there is no such option; it is called '{meant}'"),
                    false => "there is no such option".into(),
                };
                Err(self.refuse(key, &reason))
            }
            None => Ok(()),
        }
    }
}

fn inconsistent(path: &Path, problem: String) -> Error {
    Error::malformed(path, Malformed::Inconsistent { problem })
}

/// The names of all options of a list.
fn names(options: &impl Serialize) -> Result<Vec<String>> {
    match serde_json::to_value(options) {
        Ok(Value::Object(map)) => Ok(map.into_iter().map(|(key, _)| key).collect()),
        Ok(_) => Ok(Vec::new()),
        Err(e) => Err(unwritable(&e)),
    }
}

/// The options that were given, as they are written down. A path that is no text cannot be.
pub fn keys(options: &impl Serialize) -> Result<toml::Table> {
    toml::Table::try_from(options).map_err(|e| unwritable(&e))
}

fn unwritable(reason: &dyn std::fmt::Display) -> Error {
    Error::bad_value("train", "options", reason.to_string())
}
