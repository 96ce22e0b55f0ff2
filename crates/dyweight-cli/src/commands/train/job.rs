//! One budget of `train`: its files and its run.

use super::options::{LARGEST_CONFIG, TrainArgs, keys};
use super::show::{Phases, TrainShow};
use crate::benchmark::command_line;
use crate::dry_run::{Forecast, Gradients, Pace};
use crate::files::quoted;
use crate::ui;
use dyweight::comm::Comm;
use dyweight::error::shown;
use dyweight::files::{OutputGuard, atomic, is_same_file, read_file};
use dyweight::models::LoadedModel;
use dyweight::sample::Prompts;
use dyweight::solver_file::SolverFile;
use dyweight::spec::Budget;
use dyweight::study::training_loss;
use dyweight::tape::Memory;
use dyweight::train::{Dataset, Files, Outputs, TrainConfig, TrainRun, Trainer, beside};
use dyweight::{Error, Result};
use std::ops::Range;
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
    pub run: TrainRun,
    pub out: PathBuf,
}

impl<'j> Job<'j> {
    /// `prompts` are those of the budget before.
    pub fn new(
        args: &TrainArgs,
        (model, prompts): (&'j LoadedModel, Option<Arc<Prompts>>),
        comm: &Arc<dyn Comm>,
        budget: Budget,
        out: PathBuf,
    ) -> Result<Self> {
        let loss = training_loss(&args.spec, &model.model)?;
        let config = TrainConfig {
            arithmetic: Some(model.settings.to_string()),
            schedule: args.schedule.clone(),
            comm: comm.clone(),
            prompts,
            cache: args.job.cache.clone(),
            files: Some(Files::beside(&out)),
            resume: args.resume,
            between_snapshots: snapshot_interval(args.snapshot_seconds)?,
            stop: Some(Arc::new(ui::stop_requested)),
            ..TrainConfig::new(model.model.clone(), model.identity(), budget, args.spec.clone(), loss)
        };
        let trainer = config.prepare()?;
        let config = Some((beside(&out, "config.toml"), config_text(args, &trainer, &out)?));
        let (trace, overwrite) = (args.trace.clone(), args.overwrite);
        let run = TrainRun::new(trainer, Outputs { out: Some(out.clone()), config, trace, overwrite, judged: true })?;
        Ok(Self { model, run, out })
    }

    /// The solver that training starts from, under the name of its file.
    pub fn beginning(&self) -> Result<(String, SolverFile)> {
        let plan = &self.run.trainer.plan;
        Ok((shown(&self.out), plan.learnable.export(&plan.start, &plan.student.frame)?))
    }

    /// Refuses what would be lost to the files beside the solver, or they to it: inputs, the trace, the cache.
    pub fn keep_neighbours_apart(&self, args: &TrainArgs) -> Result<()> {
        let mut inputs = args.inputs();
        if self.repeats(args)? {
            inputs.retain(|(flag, _)| *flag != "--config");
        }
        let files = NEIGHBOURS.map(|ending| beside(&self.out, ending));
        let guard = OutputGuard::new(inputs);
        let guard = files.iter().fold(guard, |guard, file| guard.beside("a file beside --out,", file));
        let given =
            [("--out", Some(&self.out)), ("--trace", args.trace.as_ref()), ("--cache", args.job.cache.as_ref())];
        let given = given.into_iter().filter_map(|(flag, path)| Some((flag, path?)));
        given.fold(guard, |guard, (flag, path)| guard.beside(flag, path)).check()
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

    /// Trains on the pairs that a run is given; without any it is finished already.
    pub fn learn_or_say(&self, args: &TrainArgs, dataset: Option<&Dataset>) -> Result<()> {
        match dataset {
            Some(dataset) => self.learn(args, dataset),
            None => {
                ui::say(&format!("{} is finished already", self.out.display()));
                Ok(())
            }
        }
    }

    /// Trains on these pairs, and says what came of it.
    pub fn learn(&self, args: &TrainArgs, dataset: &Dataset) -> Result<()> {
        let (is_root, started) = (self.run.trainer.config().comm.is_root(), Instant::now());
        let planned = &self.run.trainer;
        let phases = Phases { searches: planned.is_open(), compares: planned.plan.recipe.validate_every.is_some() };
        let mut show = TrainShow::new(self.goes_on(args), self.calls(), phases);
        let outcome = self.run.run(dataset, &mut show);
        let has_begun = show.finish();
        if let Err(Error::Cancelled) = outcome {
            let how = if has_begun { "continue" } else { "begin anew" };
            ui::say(&format!("stopped; {how} with: {} --resume", self.again(args)));
        }
        let (_, trained) = outcome?;
        let seconds = started.elapsed().as_secs_f64();
        if is_root {
            self.draw(&trained)?;
        }
        self.run.finish()?;
        if is_root {
            self.report(args, &trained, seconds);
        }
        Ok(())
    }

    /// The state of an interrupted run that is gone on with.
    fn goes_on(&self, args: &TrainArgs) -> Option<PathBuf> {
        Some(Files::beside(&self.out).state).filter(|state| args.resume && state.exists())
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

    /// Network calls.
    pub fn calls(&self) -> usize {
        self.run.trainer.plan.student.frame.nfe
    }

    /// Network calls of an evaluation.
    fn model_calls(&self) -> Result<usize> {
        let condition = self.run.trainer.plan.inputs.condition(0..1);
        Ok(self.model.model.denoiser(&condition)?.info().calls)
    }

    /// Says what would be done.
    pub fn dry_run(&self, args: &TrainArgs) -> Result<()> {
        args.job.cache.as_deref().map_or(Ok(()), atomic::try_folder)?;
        let (plan, mut work) = (&self.run.trainer.plan, self.run.trainer.work()?);
        if plan.recipe.validate_every.is_some() {
            work.calls += self.run.trainer.calls_of_search(self.calls())?;
        }
        let recipe = &plan.recipe;
        let condition = |range: Range<usize>| Ok(plan.inputs.condition(range));
        let pace = Pace::of(self.model, &condition, recipe.micro_batch.min(recipe.pairs))?;
        let gradients = match (work.gradients, plan.student.memory) {
            (0, _) => Gradients::None,
            (_, Memory::Keep) => Gradients::Of(self.calls() / plan.calls().max(1)),
            (_, Memory::Recompute) => Gradients::Of(1),
        };
        let seconds = pace.seconds(work)?;
        let peak = pace.peak(recipe.micro_batch.min(recipe.pairs), gradients)? + self.run.trainer.held();
        let what = format!(
            "train a solver of {} for {}: {} iterations of {} pairs, {} validation pairs",
            ui::calls(self.calls(), self.model_calls()?),
            self.model.described(),
            recipe.iterations(),
            recipe.pairs,
            recipe.validate_every.map_or(0, |_| recipe.validation_pairs),
        );
        let ends = ["config.toml", "stats.jsonl", "loss.svg", "weights.svg"].map(|end| shown(&beside(&self.out, end)));
        let writes = [vec![shown(&self.out)], ends.to_vec()].concat();
        Forecast { what, work, seconds, peak, writes, known: None }.print(args.json);
        Ok(())
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
    let name = trainer.name().map_or(String::new(), |name| format!("# the run {name}\n"));
    Ok(format!("{HEAD}{}\n{name}{table}", beside(out, "config.toml").display()))
}

fn snapshot_interval(seconds: Option<f64>) -> Result<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    Duration::try_from_secs_f64(seconds)
        .map(Some)
        .map_err(|e| Error::bad_value("snapshot-seconds", seconds, e.to_string()))
}

/// Where solvers of a model go if nobody says where: `fashion.json`, to which the budget is added, in the working
/// folder.
pub fn default_out(model: &str) -> PathBuf {
    let last = model.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(model);
    let is_file = Path::new(model).is_file();
    let stem = if is_file { Path::new(last).file_stem().and_then(|stem| stem.to_str()).unwrap_or(last) } else { last };
    let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let name: String = stem.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    PathBuf::from(format!("{}.json", if name.trim_matches('.').is_empty() { "solver" } else { &name }))
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

/// What the budgets of one file are named after: they stand in a folder of their own, `any.parts/any-nfe3.json`.
pub fn parts(out: &Path) -> PathBuf {
    beside(out, "parts").join(out.file_name().unwrap_or_default())
}

/// The files of the budgets between these, which may have to be trained as well.
pub fn between(out: &Path, budgets: &[Budget]) -> Vec<PathBuf> {
    let calls = |budget: &Budget| if let Budget::Nfe(nfe) = budget { Some(*nfe) } else { None };
    let calls: Vec<usize> = budgets.iter().filter_map(calls).collect();
    let (Some(least), Some(most)) = (calls.iter().min(), calls.iter().max()) else { return Vec::new() };
    (*least..*most).filter(|nfe| !calls.contains(nfe)).map(|nfe| named(&parts(out), true, Budget::Nfe(nfe))).collect()
}
