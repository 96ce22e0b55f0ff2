//! A training record: one training run inside an experiment, resumed where it was interrupted.

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
use dyweight_train::{
    Files, History, Iteration, Outputs, TrainConfig, TrainOutcome, TrainRun, TrainWatch, Trainer, Training,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Told after each iteration; `Break` stops with the state saved.
pub(super) type TrainingWatcher<'w> = dyn FnMut(&Iteration) -> Result<()> + 'w;

/// The training an entry asks for.
pub(super) struct TrainingJob<'c> {
    key: &'c str,
    run: TrainRun,
    /// Where state, log and stages are.
    folder: PathBuf,
}

/// Keeps the solver after some iterations.
struct Stages<'s> {
    job: &'s TrainingJob<'s>,
    wanted: &'s [usize],
    trainer: Option<Arc<Trainer>>,
    watch: &'s mut TrainingWatcher<'s>,
}

impl<'c> TrainingJob<'c> {
    /// Checks everything; none for an entry that is not learned here.
    pub fn of(
        key: &'c str,
        entry: &'c Entry,
        subject: &'c Subject,
        directory: &'c Path,
        comm: &Arc<dyn Comm>,
        stop: Option<Stop>,
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
            prompts: subject.show.prompts().cloned(),
            stop,
            ..TrainConfig::new(model.model.clone(), model.identity(), budget, (**train).clone(), loss)
        };
        Ok(Some(Self { key, run: TrainRun::new(config.prepare()?, Outputs::default())?, folder }))
    }

    /// The training.
    pub fn trainer(&self) -> &Trainer {
        &self.run.trainer
    }

    /// State and log of the run.
    pub fn files(&self) -> Files {
        Files::beside(&self.folder.join(format!("{}.json", self.key)))
    }

    /// Removes the state, once the record is kept.
    pub fn finish(&self) -> Result<()> {
        self.run.finish()
    }

    fn stage_file(&self, iterations: usize) -> PathBuf {
        self.folder.join(format!("{}-after-{iterations}.json", self.key))
    }

    /// Trains, or goes on training; `stages` are iterations after which the solver is kept too. Nothing at every rank
    /// but 0.
    pub fn take(&self, stages: &[usize], watch: &mut TrainingWatcher<'_>) -> Result<Option<TrainingRecord>> {
        let is_root = self.trainer().config().comm.is_root();
        if is_root {
            std::fs::create_dir_all(&self.folder).map_err(|e| Error::io("create", &self.folder, e))?;
        }
        let mut stages_kept = Stages { job: self, wanted: stages, trainer: None, watch };
        let (_, trained) = self.run.run(&self.trainer().dataset()?, &mut stages_kept)?;
        if is_root { self.training_record(trained, stages).map(Some) } else { Ok(None) }
    }

    fn training_record(&self, trained: TrainOutcome, stages: &[usize]) -> Result<TrainingRecord> {
        let stage = |made: &usize| {
            let path = self.stage_file(*made);
            let bytes = read_file(&path, 1 << 20)?;
            let file = SolverFile::parse(&bytes).map_err(|p| Error::malformed(&path, p))?;
            Ok((*made, Box::new(file)))
        };
        let History { losses, validations } = trained.history;
        Ok(TrainingRecord {
            training_record: self.key.into(),
            file: Box::new(trained.file),
            losses,
            validation: validations.into_iter().map(|(index, loss)| (index + 1, loss)).collect(),
            pairs_per_iteration: trained.run.recipe().pairs,
            stages: stages.iter().map(stage).collect::<Result<_>>()?,
        })
    }
}

impl Stages<'_> {
    fn keep(&self, trainer: &Trainer, run: &Training, made: usize) -> Result<()> {
        if !self.wanted.contains(&made) || !run.comm().is_root() {
            return Ok(());
        }
        let file = trainer.solver_file(run, &run.params, None)?;
        atomic::write(&self.job.stage_file(made), &file.to_bytes())
    }
}

impl TrainWatch for Stages<'_> {
    fn begin(&mut self, trainer: &Arc<Trainer>, run: &Training) -> Result<()> {
        self.trainer = Some(trainer.clone());
        self.keep(trainer, run, 0)
    }

    fn iteration(&mut self, iteration: &Iteration, run: &Training) -> Result<()> {
        self.trainer.as_ref().map_or(Ok(()), |trainer| self.keep(trainer, run, iteration.index + 1))?;
        (self.watch)(iteration)
    }
}
