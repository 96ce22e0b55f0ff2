//! A lesson: one training run inside an experiment, resumed where it was interrupted.

use super::contestant::Contestant;
use super::experiment::{Entry, Subject};
use super::record::Lesson;
use crate::checkpoint::{SolverFile, read_file};
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::spec::{Budget, TrainPlan, TrainSpec};
use crate::train::{Files, Iteration, Session, Targets, Training};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Told after each iteration, with the total; `Break` stops with the state saved.
pub(super) type Watcher<'w> = dyn FnMut(&Iteration, usize) -> ControlFlow<()> + 'w;

/// The training an entry asks for.
pub(super) struct Course<'c> {
    key: &'c str,
    train: &'c TrainSpec,
    subject: &'c Subject,
    plan: TrainPlan,
    /// The experiment's directory.
    directory: &'c Path,
}

impl<'c> Course<'c> {
    /// Checks everything; none for an entry that is not learned here.
    pub fn of(key: &'c str, entry: &'c Entry, subject: &'c Subject, directory: &'c Path) -> Result<Option<Self>> {
        let Contestant::Learned { train, schedule, .. } = &entry.who else { return Ok(None) };
        let model = &subject.model.model;
        let loss = train.loss(model.shape())?;
        let plan = train.plan(&**model, schedule, Budget::Nfe(entry.nfe), loss)?;
        train.teacher(&**model, &plan)?;
        Ok(Some(Self { key, train, subject, plan, directory }))
    }

    /// Iterations of the whole run.
    pub fn iterations(&self) -> usize {
        self.plan.recipe.rate.iterations
    }

    fn folder(&self) -> PathBuf {
        self.directory.join("lessons")
    }

    /// State and log of the run.
    pub fn files(&self) -> Files {
        Files::beside(&self.folder().join(format!("{}.json", self.key)))
    }

    fn stage_file(&self, iterations: usize) -> PathBuf {
        self.folder().join(format!("{}-after-{iterations}.json", self.key))
    }

    fn targets(&self, purpose: &'static str, comm: &'c dyn Comm) -> Result<Targets<'c>> {
        let model = &*self.subject.model.model;
        let teacher = self.train.teacher(model, &self.plan)?;
        let pairs = self.train.pairs(model, purpose)?;
        Targets::new(model, pairs, teacher, self.plan.supervision, self.plan.recipe.micro_batch)
            .shared_by(comm)
            .cached_in(self.directory.join("teacher"), &self.subject.model.sha256)
    }

    /// Trains, or goes on training; `stages` are iterations after which the solver is kept too. Nothing at every rank but 0.
    pub fn take(&self, stages: &[usize], comm: &'c dyn Comm, watch: &mut Watcher<'_>) -> Result<Option<Lesson>> {
        let folder = self.folder();
        if comm.is_first() {
            std::fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, e))?;
        }
        let plan = &self.plan;
        let (training, validation) = (self.targets("training", comm)?, self.targets("validation", comm)?);
        let (student, start, recipe) = (plan.student.clone(), plan.parameters.clone(), plan.recipe.clone());
        let mut run = Training::new(&*self.subject.model.model, student, start, (&training, &validation), recipe)?;
        let files = self.files();
        self.keep_stage(&run, 0, stages)?;
        let identity = json!({ "lesson": self.key, "model": self.subject.identity() }).to_string();
        let (session, _) = Session::open(&mut run, files.clone(), &identity, files.state.exists())?;
        let mut failure = None;
        let outcome = session.run(&mut |iteration, run| match self.keep_stage(run, iteration.index + 1, stages) {
            Ok(()) => watch(iteration, self.iterations()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        outcome?;
        if comm.is_first() { self.lesson(&run, stages).map(Some) } else { Ok(None) }
    }

    fn keep_stage(&self, run: &Training<'_>, made: usize, stages: &[usize]) -> Result<()> {
        if !stages.contains(&made) || !run.comm().is_first() {
            return Ok(());
        }
        let file = self.plan.solver_file(&self.subject.model, self.train, run, &run.parameters)?;
        file.write(&self.stage_file(made))
    }

    fn lesson(&self, run: &Training<'_>, stages: &[usize]) -> Result<Lesson> {
        let log = self.files().log;
        let text = std::fs::read_to_string(&log).map_err(|e| Error::io("read", &log, e))?;
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap_or_default()).collect();
        let validation = lines.iter().enumerate().filter_map(|(i, l)| Some((i + 1, l["validation"].as_f64()?)));
        let stage = |made: &usize| {
            let path = self.stage_file(*made);
            let bytes = read_file(&path, 1 << 20)?;
            let file = SolverFile::parse(&bytes).map_err(|p| Error::malformed(&path, p))?;
            Ok((*made, Box::new(file)))
        };
        Ok(Lesson {
            lesson: self.key.into(),
            file: Box::new(self.plan.solver_file(&self.subject.model, self.train, run, &run.result())?),
            losses: lines.iter().map(|l| l["loss"].as_f64()).collect(),
            validation: validation.collect(),
            pairs_per_iteration: run.recipe().pairs,
            stages: stages.iter().map(stage).collect::<Result<_>>()?,
        })
    }
}
