//! One budget of `train`: its files and its run.

use super::options::{LARGEST_CONFIG, TrainArgs, keys};
use super::show::TrainShow;
use crate::benchmark::command_line;
use crate::dry_run::{Forecast, Pace};
use crate::files::{keep_finished, quoted};
use crate::ui;
use dyweight::comm::Comm;
use dyweight::error::shown;
use dyweight::files::{Lock, NamedPath, atomic, is_same_file, keep_apart, read_file};
use dyweight::models::LoadedModel;
use dyweight::solver_file::SolverFile;
use dyweight::spec::Budget;
use dyweight::study::training_loss;
use dyweight::train::{Dataset, Files, Trace, TrainConfig, TrainOutcome, Trainer, beside, remove_state};
use dyweight::{Error, Result};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the options a run was resolved to begin with.
const HEAD: &str = "# dyweight train --config ";
/// The endings of the files beside a solver.
const NEIGHBOURS: [&str; 8] =
    ["config.toml", "state", "stats.jsonl", "start.json", "loss.svg", "loss.png", "weights.svg", "weights.png"];

/// One budget.
pub struct Job<'j> {
    pub model: &'j LoadedModel,
    pub trainer: Trainer,
    pub out: PathBuf,
    /// The options this run was resolved to: `dyweight train --config FILE` repeats it.
    config: String,
}

impl<'j> Job<'j> {
    pub fn new(
        args: &TrainArgs,
        model: &'j LoadedModel,
        comm: &Arc<dyn Comm>,
        budget: Budget,
        out: PathBuf,
    ) -> Result<Self> {
        let loss = training_loss(&args.spec, &model.model)?;
        let config = TrainConfig {
            arithmetic: Some(model.settings.to_string()),
            schedule: args.schedule.spec(),
            comm: comm.clone(),
            cache: args.job.cache.clone(),
            files: Some(Files::beside(&out)),
            resume: args.resume,
            between_snapshots: snapshot_interval(args.snapshot_seconds)?,
            stop: Some(Arc::new(ui::stop_requested)),
            ..TrainConfig::new(model.model.clone(), model.identity(), budget, args.spec.clone(), loss)
        };
        let trainer = config.prepare()?;
        let config = config_text(args, &trainer, &out)?;
        let job = Self { model, trainer, out, config };
        // The first process may already be writing when another comes here.
        if comm.is_root() {
            job.check_state(args)?;
        }
        Ok(job)
    }

    /// The solver that training starts from, under the name of its file.
    pub fn beginning(&self) -> Result<(String, SolverFile)> {
        let plan = &self.trainer.plan;
        Ok((shown(&self.out), plan.learnable.export(&plan.start, &plan.student.frame)?))
    }

    fn files(&self) -> Files {
        Files::beside(&self.out)
    }

    /// A state that is in the way or cannot be continued is refused before anything beside it is written.
    fn check_state(&self, args: &TrainArgs) -> Result<()> {
        let state = self.files().state;
        if !state.exists() || args.overwrite && !args.resume {
            return Ok(());
        }
        if args.resume {
            return self.trainer.check_state(&state);
        }
        // A run that goes on says so itself.
        drop(Lock::file(&self.out)?);
        Err(Error::Conflict {
            problem: format!("{} holds an interrupted run", state.display()),
            hint: "--resume continues it, --overwrite starts anew".into(),
        })
    }

    /// A finished solver is replaced only by someone who says so.
    pub fn keep_finished(&self, args: &TrainArgs) -> Result<()> {
        keep_finished(&self.out, args.overwrite || self.goes_on(args), "--out")
    }

    /// True if an earlier run is to be gone on with, or has come to its end.
    pub fn goes_on(&self, args: &TrainArgs) -> bool {
        args.resume && (self.files().state.exists() || self.is_finished())
    }

    /// Refuses what would be lost to the files beside the solver, or they to it: inputs, the trace, the cache.
    pub fn keep_neighbours_apart(&self, args: &TrainArgs) -> Result<()> {
        let mut inputs = args.inputs();
        if self.repeats(args)? {
            inputs.retain(|(flag, _)| *flag != "--config");
        }
        let files = NEIGHBOURS.map(|ending| beside(&self.out, ending));
        let mut outputs: Vec<NamedPath<'_>> =
            files.iter().map(|file| ("a file beside --out,", file.as_path())).collect();
        outputs.push(("--out", &self.out));
        outputs.extend(args.trace.as_deref().map(|trace| ("--trace", trace)));
        outputs.extend(args.job.cache.as_deref().map(|cache| ("--cache", cache)));
        keep_apart(&outputs, &inputs)
    }

    /// True if the configuration that was given is what such a run wrote down: then it may be written down anew.
    fn repeats(&self, args: &TrainArgs) -> Result<bool> {
        match &args.config {
            Some(given) if is_same_file(given, &self.config_path()) => {
                Ok(read_file(given, LARGEST_CONFIG)?.starts_with(HEAD.as_bytes()))
            }
            _ => Ok(false),
        }
    }

    fn config_path(&self) -> PathBuf {
        beside(&self.out, "config.toml")
    }

    /// True if the very same run has left its solver and no state: of several budgets, one that needs no resuming.
    pub fn is_finished(&self) -> bool {
        let same = std::fs::read_to_string(self.config_path()).is_ok_and(|found| found == self.config);
        same && self.out.exists() && !self.files().state.exists()
    }

    pub fn run(&self, args: &TrainArgs, dataset: &Dataset) -> Result<()> {
        let (is_root, started) = (self.trainer.config().comm.is_root(), Instant::now());
        if is_root {
            self.write_config()?;
        }
        let Some(trainer) = self.settled(args, dataset)? else { return self.learn(args, dataset, started) };
        let Self { model, out, config, .. } = self;
        Job { model, trainer, out: out.clone(), config: config.clone() }.learn(args, dataset, started)
    }

    /// The training from the start that was chosen, where one is.
    fn settled(&self, args: &TrainArgs, dataset: &Dataset) -> Result<Option<Trainer>> {
        let mut progress = None;
        let settled = self.trainer.settled(dataset, &mut |all| match &mut progress {
            None => progress = Some(ui::Progress::new("choosing the start", all)),
            Some(progress) => progress.add(1, ""),
        });
        progress.into_iter().for_each(ui::Progress::finish);
        if let Err(Error::Cancelled) = settled {
            ui::say(&format!("stopped; begin anew with: {} --resume", self.again(args)));
        }
        let Some((trainer, search)) = settled? else { return Ok(None) };
        let sentence = search.sentence().filter(|_| trainer.config().comm.is_root());
        sentence.iter().for_each(|sentence| ui::say(&format!("{} calls: {sentence}", self.calls())));
        Ok(Some(trainer))
    }

    fn learn(&self, args: &TrainArgs, dataset: &Dataset, started: Instant) -> Result<()> {
        let (is_root, files) = (self.trainer.config().comm.is_root(), self.files());
        let goes_on = args.resume && files.state.exists();
        let mut trace = args.trace.as_ref().map(|_| self.trainer.begin(dataset)).transpose()?.map(|r| Trace::start(&r));
        if let Some(samples) = self.trainer.variety_samples().filter(|_| is_root) {
            ui::say(&format!("at the end {samples} samples each of start, result and teacher are compared"));
        }
        let mut show = TrainShow::new(goes_on.then(|| files.state.clone()), &self.trainer.plan, self.calls());
        let outcome = self.trainer.run(dataset, &mut |iteration, run| {
            if let Some(trace) = &mut trace {
                trace.add(iteration, run);
            }
            show.iteration(iteration, run);
            if ui::stop_requested() { ControlFlow::Break(Error::Cancelled) } else { ControlFlow::Continue(()) }
        });
        show.finish();
        if let Err(Error::Cancelled) = outcome {
            ui::say(&format!("stopped; continue with: {} --resume", self.again(args)));
        }
        let trained = outcome?;
        let seconds = started.elapsed().as_secs_f64();
        if is_root {
            self.keep(args, trace.as_ref(), &files, &trained)?;
        }
        // Someone who stops here has a solver, and goes without the comparison.
        let gain = self.gain(dataset, &trained);
        if is_root {
            self.report(args, &trained, gain.as_ref().ok().and_then(Option::as_ref), seconds);
        }
        gain.map(drop)
    }

    /// The command that goes on when it is told to: of several budgets the one that trains them all.
    fn again(&self, args: &TrainArgs) -> String {
        if args.job.nfe.as_ref().is_some_and(|calls| calls.len() > 1) {
            let words = command_line();
            return words
                .split(' ')
                .filter(|word| !matches!(*word, "--overwrite" | "--resume"))
                .collect::<Vec<_>>()
                .join(" ");
        }
        format!("dyweight train --config {}", quoted(&shown(&self.config_path())))
    }

    /// Writes what was learned, and removes the state: from here on there is nothing to resume.
    fn keep(&self, args: &TrainArgs, trace: Option<&Trace>, files: &Files, trained: &TrainOutcome) -> Result<()> {
        if let (Some(trace), Some(path)) = (trace, &args.trace) {
            trace.write(path)?;
        }
        atomic::write(&self.out, &trained.file.to_bytes())?;
        self.draw(files, trained)?;
        remove_state(files)
    }

    /// Network calls.
    pub fn calls(&self) -> usize {
        self.trainer.plan.student.frame.nfe
    }

    /// Says what would be done.
    pub fn dry_run(&self, args: &TrainArgs) -> Result<()> {
        let (plan, mut work) = (&self.trainer.plan, self.trainer.work()?);
        if plan.recipe.validate_every.is_some() {
            work.calls += self.trainer.calls_of_search(self.calls())?;
        }
        let recipe = &plan.recipe;
        let pairs = self.trainer.config().spec.pairs(&*self.model.model, "training")?;
        let condition = |range: Range<usize>| Ok(pairs.condition(range));
        let seconds = Pace::of(self.model, &condition, recipe.micro_batch)?.seconds(work)?;
        let what = format!(
            "train a solver of {} calls for {}: {} iterations of {} pairs, {} validation pairs",
            self.calls(),
            self.model.described(),
            recipe.iterations(),
            recipe.pairs,
            recipe.validate_every.map_or(0, |_| recipe.validation_pairs),
        );
        let ends = ["config.toml", "stats.jsonl", "loss.svg", "weights.svg"].map(|end| shown(&beside(&self.out, end)));
        Forecast { what, work, seconds, writes: [vec![shown(&self.out)], ends.to_vec()].concat(), known: None }
            .print(args.json);
        Ok(())
    }

    /// The first output that is written, after everything that can still be refused.
    fn write_config(&self) -> Result<()> {
        atomic::write(&self.config_path(), self.config.as_bytes())
    }
}

fn config_text(args: &TrainArgs, trainer: &Trainer, out: &Path) -> Result<String> {
    let mut job = args.job.clone();
    job.steps = matches!(trainer.config().budget, Budget::Steps(_)).then_some(trainer.plan.student.frame.grid.steps());
    job.nfe = args.job.nfe.as_ref().map(|_| vec![trainer.plan.student.frame.nfe]);
    // One budget is no range.
    job.one_file = None;
    // A name that is no text cannot be written into a text; the rest can.
    job.out = out.to_str().map(PathBuf::from);
    let mut table = toml::Table::new();
    for part in [keys(&job)?, keys(&trainer.plan.resolved)?, keys(&args.schedule)?] {
        table.extend(part);
    }
    Ok(format!("{HEAD}{}\n{table}", beside(out, "config.toml").display()))
}

fn snapshot_interval(seconds: Option<f64>) -> Result<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|e| Error::BadValue {
        name: "snapshot-seconds",
        value: seconds.to_string(),
        expected: e.to_string(),
    })
}

/// The file of a budget: with several, `solver.json` becomes `solver-nfe3.json`.
pub fn named(out: &Path, several: bool, budget: Budget) -> PathBuf {
    let (true, Budget::Nfe(nfe)) = (several, budget) else { return out.to_owned() };
    let mut name = out.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-nfe{nfe}"));
    if let Some(extension) = out.extension() {
        name.push(".");
        name.push(extension);
    }
    out.with_file_name(name)
}
