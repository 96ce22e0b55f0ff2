//! One budget of `train`: its plan, its files, its run.

use super::options::{TrainArgs, keys};
use super::show::Show;
use crate::ui;
use dyweight::checkpoint::{TensorFile, atomic};
use dyweight::comm::Comm;
use dyweight::denoiser::Model;
use dyweight::spec::{Budget, LoadedModel, ScheduleSpec, TrainPlan, TrainSpec};
use dyweight::train::{
    Files, Loss, Noise, Parameters, ScaleMode, Session, Snapshot, Targets, Trace, Training, remove_state,
};
use dyweight::{Error, Result};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What all budgets have in common.
pub struct Common<'j> {
    pub args: &'j TrainArgs,
    pub spec: &'j TrainSpec,
    pub model: &'j LoadedModel,
    pub comm: &'j dyn Comm,
    pub loss: Loss,
    /// How many budgets there are.
    pub budgets: usize,
    pub out: &'j Path,
}

/// One budget.
pub struct Job<'j> {
    pub model: &'j LoadedModel,
    comm: &'j dyn Comm,
    pub plan: TrainPlan,
    pub out: PathBuf,
    identity: String,
    resolved: TrainArgs,
}

impl<'j> Job<'j> {
    pub fn new(common: &Common<'j>, budget: Budget) -> Result<Self> {
        let Common { args, model, comm, out, .. } = *common;
        let schedule: ScheduleSpec = args.schedule.spec();
        let plan = common.spec.plan(&*model.model, &schedule, budget, common.loss.clone())?;
        let out = if common.budgets > 1 { with_suffix(out, &format!("-nfe{}", plan.nfe)) } else { out.to_owned() };
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
        let mut identity = json!({ "options": keys(&resolved), "model": model.sha256 });
        if let Some((name, sha256)) = common.loss.network() {
            identity["features"] = json!([name, sha256]);
        }
        let identity = identity.to_string();
        let job = Self { model, comm, plan, out, identity, resolved };
        // The first process may already be writing when another comes here.
        if comm.is_first() {
            job.check_state(args)?;
        }
        Ok(job)
    }

    /// A state that is in the way or cannot be continued is refused before anything beside it is written.
    fn check_state(&self, args: &TrainArgs) -> Result<()> {
        let state = Files::beside(&self.out).state;
        if !state.exists() || args.overwrite && !args.resume {
            return Ok(());
        }
        if args.resume {
            return Snapshot::read(&state, &self.identity, self.plan.parameters.values.len()).map(drop);
        }
        Err(Error::Conflict {
            problem: format!("{} holds an interrupted run", state.display()),
            hint: "--resume continues it, --overwrite starts anew".into(),
        })
    }

    fn config_path(&self) -> PathBuf {
        self.out.with_extension("config.toml")
    }

    /// The options this run was resolved to: `dyweight train --config FILE` repeats it.
    fn config_text(&self) -> String {
        let mut table = toml::Table::try_from(&self.resolved).unwrap_or_default();
        table.retain(|_, v| !v.is_str() || v.as_str() != Some(""));
        format!("# dyweight train --config {}\n{table}", self.config_path().display())
    }

    /// True if the very same run has left its solver and no state: of several budgets, one that needs no resuming.
    pub fn is_finished(&self) -> bool {
        let same = std::fs::read_to_string(self.config_path()).is_ok_and(|found| found == self.config_text());
        same && self.out.exists() && !Files::beside(&self.out).state.exists()
    }

    pub fn shares_targets(&self) -> bool {
        self.plan.supervision == Default::default()
    }

    pub fn targets(&self, spec: &TrainSpec, purpose: &'static str, args: &TrainArgs) -> Result<Targets<'j>> {
        let model: &dyn Model = &*self.model.model;
        let mut pairs = spec.pairs(model, purpose)?;
        if purpose == "training"
            && let Some(noise) = spec.given_noise(model.shape(), &self.plan.recipe)?
        {
            pairs.noise = Noise::Given(noise);
        }
        let teacher = spec.teacher(model, &self.plan)?;
        let targets = Targets::new(model, pairs, teacher, self.plan.supervision, self.plan.recipe.micro_batch)
            .shared_by(self.comm);
        match &args.cache {
            Some(directory) => {
                // Ways of computing a convolution differ in the last bits.
                let model = format!("{} {:?}", self.model.sha256, args.conv);
                targets.cached_in(directory.clone(), &model)
            }
            None => Ok(targets),
        }
    }

    pub fn run(&self, args: &TrainArgs, spec: &TrainSpec, targets: (&'j Targets<'j>, &'j Targets<'j>)) -> Result<()> {
        let model: &dyn Model = &*self.model.model;
        let plan = &self.plan;
        let between = snapshot_interval(args.snapshot_seconds)?;
        if self.comm.is_first() {
            self.try_outputs(args)?;
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
            ui::say(&format!("resuming {}", files.state.display()));
        }
        let mut show = Show::new(plan, baseline, session.iteration());
        let outcome = session.run(&mut |iteration, run| {
            if let Some(trace) = &mut trace {
                trace.add(iteration, run);
            }
            show.iteration(iteration, run);
            if ui::stop_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        show.finish();
        if let Err(Error::Cancelled) = outcome {
            ui::say(&format!(
                "stopped; continue with: dyweight train --config {} --resume",
                self.config_path().display()
            ));
        }
        outcome?;
        if !self.comm.is_first() {
            return Ok(());
        }
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

    /// Outputs are tried before the long work, and after everything that can still be refused.
    fn try_outputs(&self, args: &TrainArgs) -> Result<()> {
        atomic::write(&self.config_path(), self.config_text().as_bytes())?;
        if let Some(path) = &args.trace {
            TensorFile::default().write(path)?;
            std::fs::remove_file(path).map_err(|e| Error::io("write", path, e))?;
        }
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
}

fn snapshot_interval(seconds: Option<f64>) -> Result<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|e| Error::BadValue {
        name: "snapshot-seconds",
        value: seconds.to_string(),
        expected: e.to_string(),
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
