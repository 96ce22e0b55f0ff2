//! Where a training starts: the analytical first step, the grid and the order, chosen on the training pairs by a little training of each.
//!
//! The best untrained solver is not the best start: what training makes of one shows after an iteration or two. So all starts are tried as they are,
//! the best of them are trained by one iteration of Gauss–Newton, the best of those by another, and so on. The first half of a few training pairs
//! makes the equations, the other half judges. Validation pairs have no say: they judge the training that follows, which begins anew at the start
//! that was chosen.
//!
//! A learned solver's times follow from its weights' sums, so the grid is no freedom that training lacks: it decides where training begins, and with that in
//! which valley it ends.

use crate::gauss_newton::{GaussNewton, LADDER, Options};
use crate::grids::{TriedGrid, grids};
use crate::recipe::Recipe;
use crate::spec::{TeacherGrid, TrainSpec};
use crate::trainer::{Dataset, TrainConfig, Trainer};
use crate::training::Training;
use dyweight_core::error::Result;
use dyweight_files::{atomic, read_file};
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How many starts are trained by another iteration, round by round.
const ROUNDS: [usize; 3] = [6, 3, 2];
/// Pairs that are looked at; of a model whose calls cost nothing [`LIGHT`] times as many.
const PAIRS: usize = 16;
const LIGHT: usize = 16;
/// Windows that are tried.
const ORDERS: [usize; 3] = [2, 3, 4];
/// A record of so many bytes is none.
const LARGEST: u64 = 1 << 20;

/// A start, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedStart {
    /// As a person would say it.
    pub name: String,
    /// The analytical first step.
    pub afs: bool,
    /// The window.
    pub order: usize,
    /// The rule of the grid.
    pub schedule: ScheduleSpec,
    /// Root mean squared difference to the teacher, untrained; none where it diverges.
    pub untrained: Option<f64>,
    /// The same after so many iterations.
    pub trained: Option<f64>,
    /// Iterations made.
    pub iterations: usize,
}

/// All starts that were tried, the chosen one first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartSearch {
    /// Names the search: two of the same text choose the same.
    pub identity: String,
    /// The starts.
    pub tried: Vec<TriedStart>,
}

/// A start under trial.
struct Candidate {
    start: TriedStart,
    run: Training,
    state: Option<GaussNewton>,
}

impl StartSearch {
    /// The start that was chosen.
    pub fn chosen(&self) -> Option<&TriedStart> {
        self.tried.first()
    }

    /// What was chosen and what it was worth, as a person would say it.
    pub fn sentence(&self) -> Option<String> {
        let chosen = self.chosen()?;
        let after = |one: &TriedStart| Some(format!("{:.4} after {} iterations", one.trained?, one.iterations));
        let next = self.tried.iter().skip(1).find_map(|one| Some(format!("{}: {}", one.name, after(one)?)));
        let against = next.map_or(String::new(), |next| format!("; next {next}"));
        let untrained = chosen.untrained.map_or(String::new(), |loss| format!("{loss:.4} untrained, "));
        let all = self.tried.len();
        Some(format!("starts at {}, of {all} tried ({untrained}{}{against})", chosen.name, after(chosen)?))
    }

    fn read(path: &Path, identity: &str) -> Option<Self> {
        let found: Self = serde_json::from_slice(read_file(path, LARGEST).ok()?.as_ref()).ok()?;
        (found.identity == identity && !found.tried.is_empty()).then_some(found)
    }
}

impl Trainer {
    /// True if something of the start is left to choose.
    pub fn is_open(&self) -> bool {
        self.config().is_open()
    }

    /// The same training from the start that promises most, and the search that chose it; itself where nothing is left to choose. A search that is on
    /// record is not made again. `watch` is told before each trial how many there are at most. Every process must call it.
    pub fn settled(self, dataset: &Dataset, watch: &mut dyn FnMut(usize)) -> Result<(Self, Option<StartSearch>)> {
        if !self.is_open() {
            return Ok((self, None));
        }
        let search = match self.on_record()? {
            Some(known) => known,
            None => self.search(dataset, watch)?,
        };
        let Some(chosen) = search.chosen() else { return Ok((self, None)) };
        let config = self.config().starting_at(chosen.afs, chosen.order, &chosen.schedule);
        Ok((config.prepare()?, Some(search)))
    }

    /// The search of an interrupted run of this very training.
    fn on_record(&self) -> Result<Option<StartSearch>> {
        let config = self.config();
        let Some(files) = config.files.as_ref().filter(|_| config.can_resume()) else { return Ok(None) };
        let read = || Ok(StartSearch::read(&files.start, self.identity()));
        let text = config.comm.broadcast(|| read().map(|found| found.and_then(|f| serde_json::to_string(&f).ok())))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    fn search(&self, dataset: &Dataset, watch: &mut dyn FnMut(usize)) -> Result<StartSearch> {
        let (fitted, judged) = self.searched_pairs();
        let mut candidates = self.candidates(dataset)?;
        let all = candidates.len() + ROUNDS.iter().map(|most| candidates.len().min(*most)).sum::<usize>();
        for candidate in &mut candidates {
            watch(all);
            candidate.try_untrained(fitted, judged)?;
        }
        let mut dropped = Vec::new();
        for most in ROUNDS {
            candidates.sort_by(|a, b| a.loss().total_cmp(&b.loss()));
            dropped.splice(0..0, candidates.drain(most.min(candidates.len())..).map(|candidate| candidate.start));
            for candidate in &mut candidates {
                watch(all);
                candidate.train(fitted, judged)?;
            }
        }
        candidates.sort_by(|a, b| a.loss().total_cmp(&b.loss()));
        let tried = candidates.into_iter().map(|candidate| candidate.start).chain(dropped).collect();
        let search = StartSearch { identity: self.identity().into(), tried };
        if let Some(files) = self.config().files.as_ref().filter(|_| self.config().comm.is_root()) {
            let text = serde_json::to_string_pretty(&search).unwrap_or_default();
            atomic::write(&files.start, text.as_bytes())?;
        }
        Ok(search)
    }

    /// Pairs that make the equations, and pairs that judge.
    fn searched_pairs(&self) -> (usize, usize) {
        let most = if self.config().model.is_light() { LIGHT * PAIRS } else { PAIRS };
        let pairs = self.plan.recipe.pairs_needed().min(most);
        (pairs.div_ceil(2), pairs / 2)
    }

    fn candidates(&self, dataset: &Dataset) -> Result<Vec<Candidate>> {
        self.starts()?
            .into_iter()
            .map(|(start, mut trainer)| {
                // Nothing is validated, and what is learned in trying is not kept.
                let recipe = trainer.plan.recipe.clone();
                trainer.plan.recipe = Recipe { validate_every: None, gauss_newton: None, relax: None, ..recipe };
                Ok(Candidate { start, run: trainer.begin(dataset)?, state: None })
            })
            .collect()
    }

    /// Every start with its training; those that cannot be are passed over.
    fn starts(&self) -> Result<Vec<(TriedStart, Self)>> {
        let config = self.config();
        let first_steps = match (config.spec.afs, config.budget) {
            (Some(given), _) => vec![given],
            (None, Budget::Nfe(_)) => vec![true, false],
            // Without a number of calls it would change what is compared.
            (None, Budget::Steps(_)) => vec![self.plan.student.frame.afs],
        };
        let mut found: Vec<(TriedStart, Self)> = Vec::new();
        for grid in grids(&*config.model, &config.schedule) {
            for afs in &first_steps {
                for order in config.spec.order.map_or(ORDERS.to_vec(), |given| vec![given]) {
                    let Ok(trainer) = config.starting_at(*afs, order, &grid.schedule).prepare() else { continue };
                    // A window longer than the grid is that of the grid.
                    if trainer.plan.window == order || found.is_empty() || config.spec.order.is_some() {
                        found.push((TriedStart::new(&grid, *afs, order), trainer));
                    }
                }
            }
        }
        match found.is_empty() {
            // Says why.
            true => config.clone().prepare().map(|_| found),
            false => Ok(found),
        }
    }

    /// Solves that the search makes, of whichever starts are left the longest.
    pub(crate) fn solves_of_start(&self) -> Result<usize> {
        if !self.is_open() {
            return Ok(0);
        }
        let (starts, (fitted, judged)) = (self.starts()?, self.searched_pairs());
        let params = starts.iter().map(|(_, trainer)| trainer.plan.start.len()).max().unwrap_or(0);
        let judging = if judged > 0 { judged } else { fitted };
        let iteration = 2 * params + 3 + (params + 1) * fitted + LADDER.len() * judging;
        let trained: usize = ROUNDS.iter().map(|most| starts.len().min(*most)).sum();
        Ok(starts.len() * judging + trained * iteration)
    }
}

impl TrainConfig {
    /// True if something of the start is left to choose: never of a run whose options are all resolved.
    fn is_open(&self) -> bool {
        let spec = &self.spec;
        let left = spec.afs.is_none() && matches!(self.budget, Budget::Nfe(_))
            || spec.order.is_none()
            || !crate::grids::is_fixed(&self.schedule);
        left && spec.chooses_start()
    }

    fn starting_at(&self, afs: bool, order: usize, schedule: &ScheduleSpec) -> Self {
        let teacher_schedule = self.spec.teacher_schedule.or(Some(TeacherGrid::Model));
        let spec = TrainSpec { afs: Some(afs), order: Some(order), teacher_schedule, ..self.spec.clone() };
        Self { spec, schedule: schedule.clone(), ..self.clone() }
    }
}

impl TriedStart {
    fn new(grid: &TriedGrid, afs: bool, order: usize) -> Self {
        let first = if afs { ", analytical first step" } else { "" };
        let (name, schedule) = (format!("{}, order {order}{first}", grid.name), grid.schedule.clone());
        Self { name, afs, order, schedule, untrained: None, trained: None, iterations: 0 }
    }
}

impl Candidate {
    /// What it is worth so far.
    fn loss(&self) -> f64 {
        self.start.trained.or(self.start.untrained).unwrap_or(f64::INFINITY)
    }

    fn try_untrained(&mut self, fitted: usize, judged: usize) -> Result<()> {
        let options = Options { iterations: usize::MAX, patience: usize::MAX, ..Options::default() };
        let mut ends = self.run.on_training_pairs(fitted, judged);
        let state = GaussNewton::new(self.run.params.clone(), options, &mut ends)?;
        self.start.untrained = Some(state.best_validation.sqrt()).filter(|loss| loss.is_finite());
        self.state = Some(state);
        Ok(())
    }

    fn train(&mut self, fitted: usize, judged: usize) -> Result<()> {
        let Some(state) = self.state.as_mut().filter(|state| state.best_validation.is_finite()) else { return Ok(()) };
        state.advance(&mut self.run.on_training_pairs(fitted, judged))?;
        self.start.trained = Some(state.best_validation.sqrt());
        self.start.iterations = state.iteration;
        Ok(())
    }
}
