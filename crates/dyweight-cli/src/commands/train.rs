//! `dyweight train`.

use crate::args::{ModelArgs, ScheduleArgs, unknown};
use crate::ui;
use clap::Args;
use dyweight::checkpoint::solver_file::{ModelIdentity, Parts};
use dyweight::checkpoint::{SolverFile, TensorFile};
use dyweight::denoiser::Model;
use dyweight::models::features::{FashionFeatures, FeatureMap};
use dyweight::report::{LossCurve, coefficients};
use dyweight::spec::{Budget, LoadedModel, ScheduleSpec, TrainPlan, TrainSpec};
use dyweight::train::{
    Event, Files, Iteration, Loss, Noise, Parameters, ScaleMode, Session, Snapshot, Targets, Trace, Training,
    remove_state,
};
use dyweight::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Everything `train` can be told. Every flag has a key of the same name in the file given with `--config`.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TrainArgs {
    /// TOML file with the same keys as these flags; flags win
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    #[arg(long, value_name = "NAME|FILE", help = "Built-in name (see 'dyweight list models') or file")]
    model: Option<String>,
    /// Sample shape of a mixture file
    #[arg(long, value_name = "C,H,W", value_delimiter = ',', num_args = 1)]
    shape: Option<Vec<usize>>,
    /// Configuration of a weights file that carries none
    #[arg(long, value_name = "FILE")]
    model_config: Option<PathBuf>,
    /// How networks compute 3x3 convolutions: winograd4, winograd2 or direct [winograd4]
    #[arg(long, value_name = "NAME")]
    conv: Option<String>,
    /// Network calls of the solver; several train one after the other
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',', num_args = 1, conflicts_with = "steps")]
    nfe: Option<Vec<usize>>,
    /// Intervals of the grid instead of network calls
    #[arg(long)]
    steps: Option<usize>,
    /// Solver file to write; several budgets add -nfeN to the name
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Analytical first step [true with --nfe on a denoising model]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver")]
    afs: Option<bool>,
    /// Window: slopes a step may weigh [3]
    #[arg(long, help_heading = "Solver")]
    order: Option<usize>,
    /// Start: ab, euler, uniform, perturbed, or a solver file [ab]
    #[arg(long, value_name = "NAME|FILE", help_heading = "Solver")]
    init: Option<String>,
    /// Time scales: free or bounded to (0.5, 1.5) [free]
    #[arg(long, value_name = "free|bounded", help_heading = "Solver")]
    scale: Option<String>,
    /// Ablation: time is not shifted
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver")]
    no_time_shift: Option<bool>,
    /// Ablation: no time scales
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Solver")]
    no_time_scale: Option<bool>,
    /// Teacher's solver [ipndm]
    #[arg(long, value_name = "NAME", help_heading = "Teacher")]
    teacher: Option<String>,
    /// Teacher's order [the method's highest]
    #[arg(long, help_heading = "Teacher")]
    teacher_order: Option<usize>,
    /// Teacher's network calls [35]
    #[arg(long, help_heading = "Teacher")]
    teacher_nfe: Option<usize>,
    /// Teacher's intervals instead of network calls
    #[arg(long, help_heading = "Teacher")]
    teacher_steps: Option<usize>,
    /// What is compared: endpoint or path [endpoint]
    #[arg(long, value_name = "endpoint|path", help_heading = "Teacher")]
    supervision: Option<String>,
    /// Teacher steps per student step under path supervision [5]
    #[arg(long, help_heading = "Teacher")]
    substeps: Option<usize>,
    /// Directory that keeps teacher results across budgets and runs
    #[arg(long, value_name = "DIR", help_heading = "Teacher")]
    cache: Option<PathBuf>,
    /// l2, l1, huber or features [l2]
    #[arg(long, value_name = "NAME", help_heading = "Optimisation")]
    loss: Option<String>,
    /// Where the Huber loss turns linear [0.1]
    #[arg(long, help_heading = "Optimisation")]
    huber_delta: Option<f64>,
    /// Iterations [625; 1500 for a closed form]
    #[arg(long, help_heading = "Optimisation")]
    iters: Option<usize>,
    /// Pairs per iteration and accumulation round [16; 64 for a closed form]
    #[arg(long, help_heading = "Optimisation")]
    batch: Option<usize>,
    /// Accumulation rounds per iteration [1]
    #[arg(long, help_heading = "Optimisation")]
    accumulate: Option<usize>,
    /// Samples per network call; changes memory, not results [the batch]
    #[arg(long, help_heading = "Optimisation")]
    micro_batch: Option<usize>,
    /// Learning rate [0.03 for 3 calls, less for more]
    #[arg(long, help_heading = "Optimisation")]
    lr: Option<f64>,
    /// Fraction of the iterations that warm up [0.1]
    #[arg(long, help_heading = "Optimisation")]
    warm_up: Option<f64>,
    /// adam or adamw [adam]
    #[arg(long, value_name = "NAME", help_heading = "Optimisation")]
    optimiser: Option<String>,
    /// Weight decay of adamw [0.01]
    #[arg(long, help_heading = "Optimisation")]
    weight_decay: Option<f64>,
    /// Largest gradient norm [1]
    #[arg(long, help_heading = "Optimisation")]
    clip: Option<f64>,
    /// Seed of the training pairs [0]
    #[arg(long, help_heading = "Optimisation")]
    seed: Option<u64>,
    /// What is kept for the gradient: keep or recompute [recompute]
    #[arg(long, value_name = "keep|recompute", help_heading = "Optimisation")]
    memory: Option<String>,
    /// Validation pairs, of other seeds [64; 1024 for a closed form]
    #[arg(long, help_heading = "Validation")]
    validation: Option<usize>,
    /// Iterations between validations [a fortieth of the run]
    #[arg(long, help_heading = "Validation")]
    validate_every: Option<usize>,
    /// Stop after this many validations without improvement
    #[arg(long, help_heading = "Validation")]
    patience: Option<usize>,
    /// The reference algorithm and nothing else: no validation, roll-back or early stop
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", help_heading = "Validation")]
    plain: Option<bool>,
    /// Class to train for [drawn anew for every pair]
    #[arg(long)]
    class: Option<usize>,
    /// Classifier-free guidance
    #[arg(long)]
    guidance: Option<f64>,
    /// Unit noise from the tensor 'noise' [iters,batch,c,h,w] of a safetensors file
    #[arg(long, value_name = "FILE")]
    noise: Option<PathBuf>,
    /// Safetensors file for all parameters, losses and gradients
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    trace: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    schedule: ScheduleArgs,
    /// Threads [all cores]; changes nothing but speed
    #[arg(long)]
    #[serde(skip)]
    threads: Option<usize>,
    /// Continue an interrupted run
    #[arg(long, conflicts_with = "trace")]
    #[serde(skip)]
    resume: bool,
    /// Start anew over an interrupted run
    #[arg(long, conflicts_with = "resume")]
    #[serde(skip)]
    overwrite: bool,
    /// Seconds between snapshots [2]
    #[arg(long, hide = true)]
    #[serde(skip)]
    snapshot_seconds: Option<f64>,
    /// Print the result as JSON
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// Keys of the arguments that are not the training's own.
const OTHER_KEYS: [&str; 8] = ["model", "shape", "model-config", "conv", "nfe", "steps", "out", "cache"];

impl TrainArgs {
    /// These arguments over the ones of the configuration file.
    fn over_config(&self) -> Result<Self> {
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
    fn check_numbers(&self) -> Result<()> {
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
    fn check_names(&self) -> Result<()> {
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
    fn spec(&self) -> Result<TrainSpec> {
        let schedule = keys(&self.schedule);
        let own =
            keys(self).into_iter().filter(|(k, _)| !OTHER_KEYS.contains(&k.as_str()) && !schedule.contains_key(k));
        serde_json::from_value(Value::Object(own.collect())).map_err(|e| {
            let expected = e.to_string();
            Error::BadValue { name: "train", value: "options".into(), expected }
        })
    }

    fn budgets(&self) -> Result<Vec<Budget>> {
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
fn keys(args: &impl Serialize) -> serde_json::Map<String, Value> {
    match serde_json::to_value(args) {
        Ok(Value::Object(map)) => map.into_iter().filter(|(_, v)| !v.is_null()).collect(),
        _ => serde_json::Map::new(),
    }
}

/// Runs the command.
pub fn run(args: &TrainArgs) -> Result<()> {
    args.check_numbers()?;
    let args = args.over_config()?;
    args.check_names()?;
    ui::set_threads(args.threads)?;
    let needed = |what: &str| Error::Conflict { problem: format!("{what} is missing"), hint: format!("give --{what}") };
    let name = args.model.clone().ok_or_else(|| needed("model"))?;
    let out = args.out.clone().ok_or_else(|| needed("out"))?;
    let budgets = args.budgets()?;
    let spec = args.spec()?;
    let (shape, config, conv) = (args.shape.clone(), args.model_config.clone(), args.conv.clone());
    let model_args = ModelArgs { model: name, shape, config, conv };
    let model = model_args.spec(None)?.build()?;
    let jobs = budgets
        .iter()
        .map(|budget| Job::new(&args, &spec, &model, *budget, budgets.len(), &out))
        .collect::<Result<Vec<_>>>()?;
    let validation = jobs[0].targets(&spec, "validation", &args)?;
    let training = jobs[0].targets(&spec, "training", &args)?;
    for job in &jobs {
        // Targets serve all budgets unless the teacher follows the student's grid.
        match job.shares_targets() {
            true => job.run(&args, &spec, (&training, &validation))?,
            false => {
                let (training, validation) =
                    (job.targets(&spec, "training", &args)?, job.targets(&spec, "validation", &args)?);
                job.run(&args, &spec, (&training, &validation))?;
            }
        }
    }
    Ok(())
}

/// One budget.
struct Job<'j> {
    model: &'j LoadedModel,
    plan: TrainPlan,
    out: PathBuf,
    identity: String,
    resolved: TrainArgs,
}

impl<'j> Job<'j> {
    fn new(
        args: &TrainArgs,
        spec: &TrainSpec,
        model: &'j LoadedModel,
        budget: Budget,
        budgets: usize,
        out: &Path,
    ) -> Result<Self> {
        let loss = spec.loss(|| features_for(model))?;
        let schedule: ScheduleSpec = args.schedule.spec();
        let plan = spec.plan(&*model.model, &schedule, budget, loss)?;
        let out = if budgets > 1 { with_suffix(out, &format!("-nfe{}", plan.nfe)) } else { out.to_owned() };
        let mut resolved = args.clone();
        resolved.steps = match budget {
            Budget::Steps(steps) => Some(steps),
            Budget::Nfe(_) => None,
        };
        resolved.nfe = args.nfe.as_ref().map(|_| vec![plan.nfe]);
        resolved.out = Some(out.clone());
        resolved.lr = Some(plan.recipe.rate.base);
        resolved.afs = Some(plan.student.afs);
        if Files::beside(&out).state == out {
            let expected = "the ending .state is kept for the state of the run".into();
            return Err(Error::BadValue { name: "out", value: out.display().to_string(), expected });
        }
        // serde_json keeps the order of keys, so the text is the same for the same options.
        let identity = json!({ "options": keys(&resolved), "model": model.sha256 }).to_string();
        if !args.resume && !args.overwrite && Files::beside(&out).state.exists() {
            return Err(Error::Conflict {
                problem: format!("{} holds an interrupted run", Files::beside(&out).state.display()),
                hint: "--resume continues it, --overwrite starts anew".into(),
            });
        }
        // A state that cannot be continued is refused before anything beside it is written.
        if args.resume && Files::beside(&out).state.exists() {
            Snapshot::read(&Files::beside(&out).state, &identity, plan.parameters.values.len())?;
        }
        Ok(Self { model, plan, out, identity, resolved })
    }

    /// The options this run was resolved to: `dyweight train --config FILE` repeats it.
    fn write_config(&self) -> Result<()> {
        let mut table = toml::Table::try_from(&self.resolved).unwrap_or_default();
        table.retain(|_, v| !v.is_str() || v.as_str() != Some(""));
        let path = self.out.with_extension("config.toml");
        let text = format!("# dyweight train --config {}\n{table}", path.display());
        dyweight::checkpoint::atomic::write(&path, text.as_bytes())
    }

    fn shares_targets(&self) -> bool {
        self.plan.supervision == Default::default()
    }

    fn targets(&self, spec: &TrainSpec, purpose: &'static str, args: &TrainArgs) -> Result<Targets<'j>> {
        let model: &dyn Model = &*self.model.model;
        let mut pairs = spec.pairs(model, purpose)?;
        if purpose == "training"
            && let Some(noise) = spec.given_noise(model.shape(), &self.plan.recipe)?
        {
            pairs.noise = Noise::Given(noise);
        }
        let teacher = spec.teacher(model, &self.plan)?;
        let targets = Targets::new(model, pairs, teacher, self.plan.supervision, self.plan.recipe.micro_batch);
        match &args.cache {
            Some(directory) => {
                // Ways of computing a convolution differ in the last bits.
                let model = format!("{} {:?}", self.model.sha256, args.conv);
                targets.cached_in(directory.clone(), &model)
            }
            None => Ok(targets),
        }
    }

    fn run(&self, args: &TrainArgs, spec: &TrainSpec, targets: (&'j Targets<'j>, &'j Targets<'j>)) -> Result<()>
    where
        'j: 'j,
    {
        let model: &dyn Model = &*self.model.model;
        let plan = &self.plan;
        let between = snapshot_interval(args.snapshot_seconds)?;
        // Outputs are tried before the long work, and after everything that can still be refused.
        self.write_config()?;
        if let Some(path) = &args.trace {
            TensorFile::default().write(path)?;
            std::fs::remove_file(path).map_err(|e| Error::io("write", path, e))?;
        }
        let started = Instant::now();
        let mut run =
            Training::new(model, plan.student.clone(), plan.parameters.clone(), targets, plan.recipe.clone())?;
        let baseline = self.baseline(&run)?;
        let files = Files::beside(&self.out);
        let mut trace = args.trace.as_ref().map(|_| Trace::start(&run));
        let (mut session, resumed) = Session::open(&mut run, files.clone(), &self.identity, args.resume)?;
        if let Some(between) = between {
            session = session.snapshots_every(between);
        }
        if resumed {
            eprintln!("resuming {}", files.state.display());
        }
        let mut show = Show::new(plan, baseline, self.plan.nfe);
        let outcome = session.run(&mut |iteration, run| {
            if let Some(trace) = &mut trace {
                trace.add(iteration, run);
            }
            show.iteration(iteration, run);
            if ui::stop_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        show.finish();
        if let Err(Error::Cancelled) = outcome {
            eprintln!(
                "stopped; continue with: dyweight train --config {} --resume",
                self.out.with_extension("config.toml").display()
            );
        }
        outcome?;
        if let (Some(trace), Some(path)) = (&trace, &args.trace) {
            trace.write(path, &run)?;
        }
        let file = self.solver_file(spec, &run, baseline)?;
        file.write(&self.out)?;
        self.draw(&files, &file, baseline)?;
        remove_state(&files)?;
        self.report(args, &run, baseline, started.elapsed().as_secs_f64());
        Ok(())
    }

    /// Validation loss of iPNDM with the same window at the same budget.
    fn baseline(&self, run: &Training<'_>) -> Result<Option<f64>> {
        if run.guard.is_none() {
            return Ok(None);
        }
        let steps = self.plan.student.grid.steps();
        let window = self.plan.parameters.rows().iter().map(Vec::len).max().unwrap_or(1).min(4);
        let rows = dyweight::solver::adams_bashforth_rows(steps, window);
        let ipndm = Parameters::new(&rows, &Vec::new(), ScaleMode::None, false);
        run.validation_loss(&ipndm).map(Some)
    }

    fn solver_file(&self, spec: &TrainSpec, run: &Training<'_>, baseline: Option<f64>) -> Result<SolverFile> {
        let result = run.result();
        let mut file = SolverFile::new(Parts {
            weights: result.rows(),
            time_scale: result.scales(),
            afs: self.plan.student.afs,
            time_shift: result.time_shift(),
            prediction: self.model.model.prediction(),
            schedule: self.plan.schedule.clone(),
            range: self.plan.range,
            nfe: self.plan.nfe,
        })?;
        file.guidance = spec.guidance;
        file.model = ModelIdentity { name: self.model.name.clone(), sha256: Some(self.model.sha256.clone()) };
        let recipe = run.recipe();
        let mut facts = json!({
            "teacher": spec.teacher.as_deref().unwrap_or("ipndm"),
            "loss": spec.loss.as_deref().unwrap_or("l2"),
            "init": spec.init.as_deref().unwrap_or("ab"),
            "iterations": run.iteration, "pairs_per_iteration": recipe.pairs, "lr": recipe.rate.base,
            "seed": spec.seed.unwrap_or(0),
        });
        if let Some(guard) = &run.guard {
            facts["validation_loss"] = json!(guard.best_loss);
            facts["initial_loss"] = json!(guard.initial_loss);
            facts["ipndm_loss"] = json!(baseline);
            facts["rollbacks"] = json!(guard.rollbacks);
        }
        if let Value::Object(facts) = facts {
            file.training = facts;
        }
        Ok(file)
    }

    /// The loss curve and the coefficients beside the solver file: `solver.loss.svg`, `solver.weights.svg` and their PNGs.
    fn draw(&self, files: &Files, file: &SolverFile, baseline: Option<f64>) -> Result<()> {
        let text = std::fs::read_to_string(&files.log).map_err(|e| Error::io("read", &files.log, e))?;
        let mut curve = LossCurve { baseline: baseline.map(|b| ("iPNDM".into(), b)), ..LossCurve::default() };
        for line in text.lines() {
            let facts: Value = serde_json::from_str(line).unwrap_or_default();
            let iteration = facts["iteration"].as_f64().unwrap_or(0.0);
            curve.training.extend(facts["loss"].as_f64().map(|l| (iteration, l)));
            curve.validation.extend(facts["validation"].as_f64().map(|l| (iteration, l)));
        }
        let title = format!("{}: {} calls", self.model.name, self.plan.nfe);
        curve.figure(&title).draw()?.write(&self.out.with_extension("loss"))?;
        coefficients(&title, &file.weights, &file.time_scale).draw()?.write(&self.out.with_extension("weights"))
    }

    fn report(&self, args: &TrainArgs, run: &Training<'_>, baseline: Option<f64>, seconds: f64) {
        let guard = run.guard.as_ref();
        if args.json {
            ui::print_json(&json!({
                "out": self.out, "nfe": self.plan.nfe, "iterations": run.iteration, "seconds": seconds,
                "validation_loss": guard.map(|g| g.best_loss), "initial_loss": guard.map(|g| g.initial_loss),
                "ipndm_loss": baseline, "rollbacks": guard.map(|g| g.rollbacks),
            }));
            return;
        }
        let iterations = run.iteration;
        eprint!("{} calls: {iterations} iterations in {}", self.plan.nfe, ui::duration(seconds));
        if let (Some(guard), Some(baseline)) = (guard, baseline) {
            let ratio = baseline / guard.best_loss;
            eprint!("; validation loss {:.3e}, iPNDM {baseline:.3e} ({ratio:.1}x)", guard.best_loss);
            if guard.best_loss >= guard.initial_loss {
                eprint!("; training found nothing better than its start, which is what was written");
            }
            if guard.rollbacks > 0 {
                eprint!("; rolled back {} times", guard.rollbacks);
            }
        }
        eprintln!();
        ui::print(&self.out.display().to_string());
    }
}

fn snapshot_interval(seconds: Option<f64>) -> Result<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|e| Error::BadValue {
        name: "snapshot-seconds",
        value: seconds.to_string(),
        expected: e.to_string(),
    })
}

/// The embedded feature network serves images of its shape.
fn features_for(model: &LoadedModel) -> Result<Loss> {
    let features = FashionFeatures::embedded()?;
    if features.shape() == model.model.shape() {
        return Ok(Loss::Features(Arc::new(features)));
    }
    Err(Error::Conflict {
        problem: format!("there is no feature network for '{}'", model.name),
        hint: "use --loss l2, l1 or huber".into(),
    })
}

/// `solver.json` with a suffix is `solver-nfe3.json`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}{suffix}.{}", extension.to_string_lossy()),
        None => format!("{stem}{suffix}"),
    };
    path.with_file_name(name)
}

/// What a person sees while it runs.
struct Show {
    progress: ui::Progress,
    baseline: Option<f64>,
    validation: f64,
    started: Instant,
    estimated: bool,
}

impl Show {
    fn new(plan: &TrainPlan, baseline: Option<f64>, nfe: usize) -> Self {
        let progress = ui::Progress::new(&format!("training {nfe} calls"), plan.recipe.rate.iterations);
        Self { progress, baseline, validation: f64::NAN, started: Instant::now(), estimated: false }
    }

    fn iteration(&mut self, iteration: &Iteration, run: &Training<'_>) {
        if let Some(validation) = iteration.validation {
            self.validation = validation.loss;
            if validation.event == Event::RolledBack {
                let rate = run.guard.as_ref().map_or(1.0, |g| g.rate_scale) * run.recipe().rate.base;
                ui::warn(&format!(
                    "iteration {}: the loss exploded; back to the best parameters with rate {rate:.2e}",
                    iteration.index
                ));
            }
        }
        if !self.estimated && iteration.index >= 2 {
            self.estimate(iteration.index, run.recipe().rate.iterations);
        }
        let against =
            self.baseline.map_or(String::new(), |b| format!(" · validation {:.2e} (iPNDM {b:.2e})", self.validation));
        self.progress.add(1, &format!("· loss {:.2e}{against} · rate {:.1e}", iteration.loss, iteration.rate));
    }

    /// Says how long it will take once two iterations have shown it, if that is long enough to matter.
    fn estimate(&mut self, done: usize, all: usize) {
        self.estimated = true;
        let seconds = self.started.elapsed().as_secs_f64() / (done + 1) as f64 * all as f64;
        if seconds > 5.0 {
            eprintln!("about {} for {all} iterations", ui::duration(seconds));
        }
    }

    fn finish(self) {
        self.progress.finish();
    }
}
