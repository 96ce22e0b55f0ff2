//! `--one-file`: all budgets from one start, those between them compared, and one that is not clearly closer than its
//! rival trained as well.

use super::TrainArgs;
use super::job::{Job, named, parts};
use crate::{files, ui};
use dyweight::Result;
use dyweight::comm::Comm;
use dyweight::error::{counted, shown};
use dyweight::files::{Lock, atomic};
use dyweight::sample::Prompts;
use dyweight::solver_file::SolverFile;
use dyweight::spec::Budget;
use dyweight::train::{Dataset, LeftOut, Trainer, run_each};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the job of a budget that goes to a file; with texts that are encoded already.
type Make<'r> = dyn Fn(&TrainArgs, Budget, PathBuf, Option<Arc<Prompts>>) -> Result<Job<'r>> + 'r;

/// The file for a range, and what its budgets are made with.
pub struct Range<'r> {
    pub out: &'r Path,
    pub make: &'r Make<'r>,
    pub comm: &'r Arc<dyn Comm>,
}

/// The search for one start, on the budget in the middle: files of one range differ in weights alone.
pub struct OneStart<'r> {
    trainer: Arc<Trainer>,
    _lock: Option<Lock>,
    _job: Job<'r>,
}

impl<'r> Range<'r> {
    pub fn start(&self, args: &TrainArgs, budgets: &[Budget]) -> Result<OneStart<'r>> {
        let mut sorted = budgets.to_vec();
        sorted.sort_by_key(|budget| match budget {
            Budget::Nfe(n) | Budget::Steps(n) => *n,
        });
        let job = (self.make)(args, sorted[sorted.len() / 2], parts(self.out), None)?;
        let lock = self.comm.is_root().then(|| Lock::file(self.out)).transpose()?;
        Ok(OneStart { trainer: job.run.trainer.clone(), _lock: lock, _job: job })
    }

    /// Joins the solvers of all budgets, with those that have to be trained before each budget between them is worth
    /// having.
    pub fn serve(&self, args: &TrainArgs, mut jobs: Vec<Job<'r>>, dataset: Option<Dataset>) -> Result<()> {
        let trainer = jobs[0].run.trainer.clone();
        let dataset = dataset.map_or_else(|| trainer.dataset(), Ok)?;
        let mut tried = Vec::new();
        loop {
            let file = self.joined(&jobs)?;
            let between = self.between(&trainer, &dataset, &file)?;
            let weak: Vec<&LeftOut> = between.iter().filter(|one| one.is_weak() && !tried.contains(&one.nfe)).collect();
            if weak.is_empty() {
                return if self.comm.is_root() { self.write(args, &jobs, &file, &between) } else { Ok(()) };
            }
            let mut more = Vec::new();
            for one in &weak {
                ui::say(&format!("{}: trained as well", sentence(one)));
                let prompts = trainer.config().prompts.clone();
                let budget = Budget::Nfe(one.nfe);
                more.push((self.make)(args, budget, named(&parts(self.out), true, budget), prompts)?);
            }
            let runs: Vec<_> = more.iter().map(|job| &job.run).collect();
            run_each(&runs, Some(dataset.clone()), &mut |index, dataset| more[index].learn_or_say(args, dataset))?;
            for (one, job) in weak.into_iter().zip(more) {
                tried.push(one.nfe);
                // A training may end in another valley than its neighbours: what lies between them stays if it is
                // closer.
                let own = trainer.distance_to_teacher(&dataset, &self.read(&job)?, one.nfe)?;
                match own < one.distance {
                    true => jobs.push(job),
                    false => ui::say(&format!(
                        "{}: {own:.4} after a training of its own, {:.4} without: what lies between its neighbours stays",
                        counted(one.nfe, "call"),
                        one.distance
                    )),
                }
            }
        }
    }

    fn joined(&self, jobs: &[Job<'_>]) -> Result<SolverFile> {
        let named = |job: &Job<'_>| Ok((shown(&job.out), files::solver_file(&job.out)?));
        self.told(|| SolverFile::joined(jobs.iter().map(named).collect::<Result<Vec<_>>>()?))
    }

    fn read(&self, job: &Job<'_>) -> Result<SolverFile> {
        self.told(|| files::solver_file(&job.out))
    }

    /// The first process reads the files it has written, for all.
    fn told(&self, file: impl FnOnce() -> Result<SolverFile>) -> Result<SolverFile> {
        let text = self.comm.broadcast(|| Ok(String::from_utf8_lossy(&file()?.to_bytes()).into_owned()))?;
        SolverFile::parse(text.as_bytes()).map_err(|problem| dyweight::Error::malformed(self.out, problem))
    }

    /// Nothing of a plain run, which has no validation pairs.
    fn between(&self, trainer: &Trainer, dataset: &Dataset, file: &SolverFile) -> Result<Vec<LeftOut>> {
        if trainer.plan.recipe.validate_every.is_none() {
            return Ok(Vec::new());
        }
        let mut progress = None;
        let found = trainer.left_out(dataset, file, &mut |all| match &mut progress {
            None => progress = Some(ui::Progress::new("comparing the budgets between", all)),
            Some(progress) => progress.add(1, ""),
        })?;
        progress.into_iter().for_each(ui::Progress::finish);
        Ok(found)
    }

    fn write(&self, args: &TrainArgs, jobs: &[Job<'_>], file: &SolverFile, between: &[LeftOut]) -> Result<()> {
        let out = self.out;
        atomic::write(out, &file.to_bytes())?;
        let Some((least, most)) = file.served() else { return Ok(()) };
        if args.json {
            let between: Vec<Value> = between.iter().map(facts).collect();
            ui::print_json(&json!({ "out": files::text(out), "serves": [least, most], "left_out": between }));
            return Ok(());
        }
        between.iter().for_each(|one| ui::say(&sentence(one)));
        let parts = parts(out);
        let folder = shown(parts.parent().unwrap_or(out));
        ui::say(&format!(
            "wrote {} for every budget from {least} to {most} network calls; {folder} has each",
            shown(out)
        ));
        ui::say(&format!("next: {} --nfe {least}", args.next_command(&jobs[0].model.name, out)));
        ui::print_path(out);
        Ok(())
    }
}

impl OneStart<'_> {
    /// The options from the start that an interrupted run has chosen.
    pub fn known(&self, args: &TrainArgs) -> Result<Option<TrainArgs>> {
        Ok(self.trainer.settled_before()?.map(|settled| from(args, &settled)))
    }

    /// The options from the start that promises most, and the pairs it was chosen on; none where nothing is left to
    /// choose.
    pub fn choose(&self, args: &TrainArgs) -> Result<Option<(TrainArgs, Dataset)>> {
        if !self.trainer.is_open() {
            return Ok(None);
        }
        let dataset = self.trainer.dataset()?;
        let mut progress = None;
        let settled = self.trainer.settled(&dataset, &mut |all| match &mut progress {
            None => progress = Some(ui::Progress::new("choosing the start of all budgets", all)),
            Some(progress) => progress.add(1, ""),
        })?;
        progress.into_iter().for_each(ui::Progress::finish);
        let Some((settled, search)) = settled else { return Ok(None) };
        search.sentence().iter().for_each(|said| ui::say(&format!("every budget {said}")));
        Ok(Some((from(args, &settled), dataset)))
    }
}

fn from(args: &TrainArgs, settled: &Trainer) -> TrainArgs {
    let (mut args, config) = (args.clone(), settled.config());
    (args.spec, args.schedule) = (config.spec.clone(), config.schedule.clone());
    args.spec.choose_start = Some(false);
    args
}

fn facts(one: &LeftOut) -> Value {
    let rival = one.rival.as_ref();
    json!({
        "nfe": one.nfe, "distance": one.distance,
        "best_handcrafted": rival.map(|r| &r.name), "best_handcrafted_distance": rival.map(|r| r.distance),
    })
}

fn sentence(one: &LeftOut) -> String {
    let rival = one.rival.as_ref().map_or(String::new(), |r| format!(", {} {:.4}", r.name, r.distance));
    let calls = counted(one.nfe, "call");
    format!("{calls}, between trained budgets: {:.4} from the teacher{rival}", one.distance)
}
