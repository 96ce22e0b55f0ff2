//! The options of `train`, from the command line and from a TOML file.

use crate::args::{ScheduleArgs, unknown};
use clap::Args;
use dyweight::spec::{Budget, TrainSpec};
use dyweight::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// Everything `train` can be told. Every flag has a key of the same name in the file given with `--config`.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TrainArgs {
    /// TOML file with the same keys as these flags; flags win
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    #[arg(long, value_name = "NAME|FILE", help = "Built-in name (see 'dyweight list models') or file")]
    pub model: Option<String>,
    /// Sample shape of a mixture file
    #[arg(long, value_name = "C,H,W", value_delimiter = ',', num_args = 1)]
    pub shape: Option<Vec<usize>>,
    /// Configuration of a weights file that carries none
    #[arg(long, value_name = "FILE")]
    pub model_config: Option<PathBuf>,
    /// How networks compute 3x3 convolutions: winograd4, winograd2 or direct [winograd4]
    #[arg(long, value_name = "NAME")]
    pub conv: Option<String>,
    /// Network calls of the solver; several train one after the other
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',', num_args = 1, conflicts_with = "steps")]
    pub nfe: Option<Vec<usize>>,
    /// Intervals of the grid instead of network calls
    #[arg(long)]
    pub steps: Option<usize>,
    /// Solver file to write; several budgets add -nfeN to the name
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Analytical first step [true with --nfe on a denoising model]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver")]
    pub afs: Option<bool>,
    /// Window: slopes a step may weigh [3]
    #[arg(long, help_heading = "Solver")]
    pub order: Option<usize>,
    /// Start: ab, euler, uniform, perturbed, or a solver file [ab]
    #[arg(long, value_name = "NAME|FILE", help_heading = "Solver")]
    pub init: Option<String>,
    /// Time scales: free or bounded to (0.5, 1.5) [free]
    #[arg(long, value_name = "free|bounded", help_heading = "Solver")]
    pub scale: Option<String>,
    /// Ablation: time is not shifted
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver")]
    pub no_time_shift: Option<bool>,
    /// Ablation: no time scales
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver")]
    pub no_time_scale: Option<bool>,
    /// Teacher's solver [ipndm]
    #[arg(long, value_name = "NAME", help_heading = "Teacher")]
    pub teacher: Option<String>,
    /// Teacher's order [the method's highest]
    #[arg(long, help_heading = "Teacher")]
    pub teacher_order: Option<usize>,
    /// Teacher's network calls [35]
    #[arg(long, help_heading = "Teacher")]
    pub teacher_nfe: Option<usize>,
    /// Teacher's intervals instead of network calls
    #[arg(long, help_heading = "Teacher")]
    pub teacher_steps: Option<usize>,
    /// What is compared: endpoint or path [endpoint]
    #[arg(long, value_name = "endpoint|path", help_heading = "Teacher")]
    pub supervision: Option<String>,
    /// Teacher steps per student step under path supervision [5]
    #[arg(long, help_heading = "Teacher")]
    pub substeps: Option<usize>,
    /// Directory that keeps teacher results across budgets and runs
    #[arg(long, value_name = "DIR", help_heading = "Teacher")]
    pub cache: Option<PathBuf>,
    /// l2, l1, huber, features (of the embedded network) or inception [l2]
    #[arg(long, value_name = "NAME", help_heading = "Optimisation")]
    pub loss: Option<String>,
    /// Weights of Inception-v3 for the loss inception
    #[arg(long, value_name = "FILE", help_heading = "Optimisation")]
    pub inception: Option<PathBuf>,
    /// How Inception sees an image: edm or pytorch-fid [edm]
    #[arg(long, value_name = "RULE", help_heading = "Optimisation")]
    pub resize: Option<String>,
    /// Where the Huber loss turns linear [0.1]
    #[arg(long, help_heading = "Optimisation")]
    pub huber_delta: Option<f64>,
    /// Iterations [625; 1500 for a closed form]
    #[arg(long, help_heading = "Optimisation")]
    pub iters: Option<usize>,
    /// Pairs per iteration and accumulation round [16; 64 for a closed form]
    #[arg(long, help_heading = "Optimisation")]
    pub batch: Option<usize>,
    /// Accumulation rounds per iteration [1]
    #[arg(long, help_heading = "Optimisation")]
    pub accumulate: Option<usize>,
    /// Samples per network call; changes memory, not results [the batch]
    #[arg(long, help_heading = "Optimisation")]
    pub micro_batch: Option<usize>,
    /// Learning rate [0.03 for 3 calls, less for more]
    #[arg(long, help_heading = "Optimisation")]
    pub lr: Option<f64>,
    /// Fraction of the iterations that warm up [0.1]
    #[arg(long, help_heading = "Optimisation")]
    pub warm_up: Option<f64>,
    /// adam or adamw [adam]
    #[arg(long, value_name = "NAME", help_heading = "Optimisation")]
    pub optimiser: Option<String>,
    /// Weight decay of adamw [0.01]
    #[arg(long, help_heading = "Optimisation")]
    pub weight_decay: Option<f64>,
    /// Largest gradient norm [1]
    #[arg(long, help_heading = "Optimisation")]
    pub clip: Option<f64>,
    /// Seed of the training pairs [0]
    #[arg(long, help_heading = "Optimisation")]
    pub seed: Option<u64>,
    /// What is kept for the gradient: keep or recompute [recompute]
    #[arg(long, value_name = "keep|recompute", help_heading = "Optimisation")]
    pub memory: Option<String>,
    /// Validation pairs, of other seeds [64; 1024 for a closed form]
    #[arg(long, help_heading = "Validation")]
    pub validation: Option<usize>,
    /// Iterations between validations [a fortieth of the run]
    #[arg(long, help_heading = "Validation")]
    pub validate_every: Option<usize>,
    /// Stop after this many validations without improvement
    #[arg(long, help_heading = "Validation")]
    pub patience: Option<usize>,
    /// The reference algorithm and nothing else: no validation, roll-back or early stop
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Validation")]
    pub plain: Option<bool>,
    /// Class to train for [drawn anew for every pair]
    #[arg(long)]
    pub class: Option<usize>,
    /// Classifier-free guidance
    #[arg(long)]
    pub guidance: Option<f64>,
    /// Unit noise from the tensor 'noise' [iters,batch,c,h,w] of a safetensors file
    #[arg(long, value_name = "FILE")]
    pub noise: Option<PathBuf>,
    /// Safetensors file for all parameters, losses and gradients
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    pub schedule: ScheduleArgs,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long)]
    #[serde(skip)]
    pub threads: Option<usize>,
    /// Continue an interrupted run
    #[arg(long, conflicts_with = "trace")]
    #[serde(skip)]
    pub resume: bool,
    /// Start anew over an interrupted run
    #[arg(long, conflicts_with = "resume")]
    #[serde(skip)]
    pub overwrite: bool,
    /// Seconds between snapshots [2]
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub snapshot_seconds: Option<f64>,
    /// Print the result as JSON
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

/// Keys of the arguments that are not the training's own.
const OTHER_KEYS: [&str; 8] = ["model", "shape", "model-config", "conv", "nfe", "steps", "out", "cache"];

impl TrainArgs {
    /// These arguments over the ones of the configuration file.
    pub fn over_config(&self) -> Result<Self> {
        let Some(path) = &self.config else { return Ok(self.clone()) };
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
        let reason = |e: &dyn std::fmt::Display| e.to_string().lines().next().unwrap_or_default().to_string();
        let bad = |e: &dyn std::fmt::Display| {
            let problem = dyweight::error::Malformed::Inconsistent { problem: reason(e) };
            Error::malformed(path, problem)
        };
        let from_file: Self = toml::from_str(&text).map_err(|e| bad(&e.message()))?;
        from_file.check_numbers()?;
        let mut merged = keys(&from_file);
        merged.extend(keys(self));
        let mut args: Self = serde_json::from_value(Value::Object(merged)).map_err(|e| bad(&e))?;
        (args.trace, args.threads, args.resume) = (self.trace.clone(), self.threads, self.resume);
        (args.overwrite, args.json, args.snapshot_seconds) = (self.overwrite, self.json, self.snapshot_seconds);
        Ok(args)
    }

    /// JSON has no NaN or infinity and would lose them on the way to the specs: they are refused before.
    pub fn check_numbers(&self) -> Result<()> {
        let (own, grid) = (self, &self.schedule);
        let all = [
            ("lr", own.lr),
            ("warm-up", own.warm_up),
            ("weight-decay", own.weight_decay),
            ("clip", own.clip),
            ("huber-delta", own.huber_delta),
            ("guidance", own.guidance),
            ("rho", grid.rho),
            ("sigma-min", grid.sigma_min),
            ("sigma-max", grid.sigma_max),
            ("shift", grid.shift),
        ];
        // Nor has TOML, in which the run is written down, larger integers.
        if let Some(seed) = own.seed.filter(|seed| i64::try_from(*seed).is_err()) {
            let expected = format!("must be at most {}", i64::MAX);
            return Err(Error::BadValue { name: "seed", value: seed.to_string(), expected });
        }
        match all.into_iter().find_map(|(name, v)| Some((name, v.filter(|v| !v.is_finite())?))) {
            Some((name, value)) => {
                let expected = "must be a finite number".into();
                Err(Error::BadValue { name, value: value.to_string(), expected })
            }
            None => Ok(()),
        }
    }

    /// Names that become enumerations, checked here because a decoder's message names no flag.
    pub fn check_names(&self) -> Result<()> {
        let all: [(&'static str, &Option<String>, &[&str]); 3] = [
            ("optimiser", &self.optimiser, &["adam", "adamw"]),
            ("scale", &self.scale, &["free", "bounded"]),
            ("memory", &self.memory, &["keep", "recompute"]),
        ];
        for (kind, given, known) in all {
            if let Some(name) = given.as_deref().filter(|name| !known.contains(name)) {
                return Err(unknown(kind, name, known));
            }
        }
        Ok(())
    }

    /// The training's own options.
    pub fn spec(&self) -> Result<TrainSpec> {
        let schedule = keys(&self.schedule);
        let own =
            keys(self).into_iter().filter(|(k, _)| !OTHER_KEYS.contains(&k.as_str()) && !schedule.contains_key(k));
        serde_json::from_value(Value::Object(own.collect())).map_err(|e| {
            let expected = e.to_string();
            Error::BadValue { name: "train", value: "options".into(), expected }
        })
    }

    pub fn budgets(&self) -> Result<Vec<Budget>> {
        match (&self.nfe, self.steps) {
            (Some(calls), None) => Ok(calls.iter().map(|n| Budget::Nfe(*n)).collect()),
            (None, Some(steps)) => Ok(vec![Budget::Steps(steps)]),
            _ => Err(Error::Conflict {
                problem: "which budget?".into(),
                hint: "give --nfe (network calls, one or several) or --steps (intervals of the grid)".into(),
            }),
        }
    }
}

/// The keys that were given, as JSON.
pub fn keys(args: &impl Serialize) -> serde_json::Map<String, Value> {
    match serde_json::to_value(args) {
        Ok(Value::Object(map)) => map.into_iter().filter(|(_, v)| !v.is_null()).collect(),
        _ => serde_json::Map::new(),
    }
}
