//! A training_record: one training run inside an experiment, resumed where it was interrupted.

use super::candidate::Candidate;
use super::experiment::{Entry, Subject};
use super::record::TrainingRecord;
use crate::training_loss;
use dyweight_core::error::{Error, Result};
use dyweight_files::{atomic, read_file};
use dyweight_sample::Stop;
use dyweight_sample::comm::Comm;
use dyweight_solvers::solver_file::SolverFile;
use dyweight_solvers::spec::Budget;
use dyweight_train::{Files, Iteration, TeacherCalls, TrainConfig, Trainer, Training, Work};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// LowerOrderFinalText after each iteration, with the total; `Break` stops with the state saved.
pub(super) type TrainingWatcher<'w> = dyn FnMut(&Iteration, usize) -> ControlFlow<Error> + 'w;

/// The training an entry asks for.
pub(super) struct TrainingJob<'c> {
    key: &'c str,
    trainer: Trainer,
    /// The experiment's directory.
    directory: &'c Path,
}

impl<'c> TrainingJob<'c> {
    /// Checks everything; none for an entry that is not learned here.
    pub fn of(
        key: &'c str,
        entry: &'c Entry,
        subject: &'c Subject,
        directory: &'c Path,
        comm: &Arc<dyn Comm>,
    ) -> Result<Option<Self>> {
        let Candidate::Learned { train, schedule, .. } = &entry.who else { return Ok(None) };
        let model = &subject.model;
        let loss = training_loss(train, &model.model)?;
        let budget = Budget::Nfe(entry.nfe);
        let folder = directory.join("lessons");
        let config = TrainConfig {
            arithmetic: Some(model.settings.to_string()),
            schedule: schedule.clone(),
            comm: comm.clone(),
            cache: Some(directory.join("teacher")),
            files: Some(Files::beside(&folder.join(format!("{key}.json")))),
            resume: true,
            ..TrainConfig::new(model.model.clone(), model.identity(), budget, (**train).clone(), loss)
        };
        Ok(Some(Self { key, trainer: config.prepare()?, directory }))
    }

    /// Iterations of the whole run.
    pub fn iterations(&self) -> usize {
        self.trainer.iterations()
    }

    /// Samples per network call.
    pub fn batch(&self) -> usize {
        self.trainer.plan.recipe.micro_batch
    }

    /// What it costs after others, whose teachers' results it finds.
    pub fn work_after(&self, taught: &mut TeacherCalls) -> Result<Work> {
        self.trainer.work_after(taught)
    }

    /// Ends its first validation once this is so.
    pub fn stopped_by(mut self, stop: Option<Stop>) -> Self {
        self.trainer.stopped_by(stop);
        self
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

    /// Trains, or goes on training; `stages` are iterations after which the solver is kept too. Nothing at every rank but 0.
    pub fn take(&self, stages: &[usize], watch: &mut TrainingWatcher<'_>) -> Result<Option<TrainingRecord>> {
        let (folder, comm) = (self.folder(), &self.trainer.config().comm);
        if comm.is_root() {
            std::fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, e))?;
        }
        let dataset = self.trainer.dataset()?;
        let settled = self.trainer.settled(&dataset, &mut |_| {})?;
        let trainer = settled.as_ref().map_or(&self.trainer, |(trainer, _)| trainer);
        if stages.contains(&0) {
            self.keep_stage(trainer, &trainer.begin(&dataset)?, 0, stages)?;
        }
        let trained = trainer.run(&dataset, &mut |iteration, run| match self.keep_stage(
            trainer,
            run,
            iteration.index + 1,
            stages,
        ) {
            Ok(()) => watch(iteration, self.iterations()),
            Err(error) => ControlFlow::Break(error),
        })?;
        if comm.is_root() { self.training_record(&trained.run, trained.file, stages).map(Some) } else { Ok(None) }
    }

    fn keep_stage(&self, trainer: &Trainer, run: &Training, made: usize, stages: &[usize]) -> Result<()> {
        if !stages.contains(&made) || !run.comm().is_root() {
            return Ok(());
        }
        let file = trainer.solver_file(run, &run.params, None)?;
        atomic::write(&self.stage_file(made), &file.to_bytes())
    }

    fn training_record(&self, run: &Training, file: SolverFile, stages: &[usize]) -> Result<TrainingRecord> {
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
        Ok(TrainingRecord {
            training_record: self.key.into(),
            file: Box::new(file),
            losses: lines.iter().map(|l| l["loss"].as_f64()).collect(),
            validation: validation.collect(),
            pairs_per_iteration: run.recipe().pairs,
            stages: stages.iter().map(stage).collect::<Result<_>>()?,
        })
    }
}
