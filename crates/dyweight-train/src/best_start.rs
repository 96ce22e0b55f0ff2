//! Where a training starts: the analytical first step, the grid and the order, chosen on the training pairs by a little
//! training of each.
//!
//! The best untrained solver is not the best start: what training makes of one shows after an iteration or two. So all
//! starts are tried as they are, the best of them are trained by one iteration of Gauss–Newton, the best of those by
//! another, and so on. The first half of a few training pairs makes the equations, the other half judges. The usual
//! start is never dropped on the way, and gives way in the end only to one that is clearly closer: some starts are
//! quicker without ending closer, and so few pairs tell no small difference. Validation pairs have no say: they judge
//! the training that follows, which begins anew at the start that was chosen.
//!
//! A learned solver's times follow from its weights' sums, so the grid is no freedom that training lacks: it decides
//! where training begins, and with that in which valley it ends.

use crate::gauss_newton::{GaussNewton, LADDER, Options};
use crate::halving::halve_one;
use crate::recipe::Recipe;
use crate::trainer::{Dataset, TrainConfig, Trainer};
use crate::training::Training;
use crate::{TeacherGrid, TrainSpec};
use dyweight_core::error::Result;
use dyweight_files::{atomic, read_file};
use dyweight_solvers::spec::handcrafted::grids;
use dyweight_solvers::spec::{Budget, ScheduleSpec};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How many starts are trained by another iteration, round by round.
const ROUNDS: [usize; 3] = [5, 3, 2];
/// Pairs that are looked at; of a model whose calls cost nothing [`LIGHT`] times as many.
const PAIRS: usize = 16;
const LIGHT: usize = 16;
/// Windows that are tried: longer ones have more parameters than few pairs can tell.
const ORDERS: [usize; 2] = [3, 2];
/// Another start takes the place of the usual one if it ends at less than this share of its distance.
const CLEARLY: f64 = 0.85;
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
    /// True for the start of a training that chooses none.
    pub usual: bool,
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

    /// The same training from the start that promises most, and the search that chose it; none where nothing is left to
    /// choose. A search that is on record is not made again. `watch` is told before each trial how many there are.
    /// Every process must call it.
    pub fn settled(&self, dataset: &Dataset, watch: &mut dyn FnMut(usize)) -> Result<Option<(Self, StartSearch)>> {
        if !self.is_open() {
            return Ok(None);
        }
        let search = match self.on_record()? {
            Some(known) => known,
            None => self.search(dataset, watch)?,
        };
        let settled = search.chosen().map(|chosen| self.starting_at(chosen)).transpose()?;
        Ok(settled.map(|trainer| (trainer, search)))
    }

    /// The same training from the start that an interrupted run has chosen. Every process must call it.
    pub fn settled_before(&self) -> Result<Option<Self>> {
        let search = if self.is_open() { self.on_record()? } else { None };
        search.as_ref().and_then(StartSearch::chosen).map(|chosen| self.starting_at(chosen)).transpose()
    }

    /// The same run from a start: what it is follows from the options that were given.
    fn starting_at(&self, start: &TriedStart) -> Result<Self> {
        let config = self.config().starting_at(start.afs, start.order, &start.schedule);
        Ok(config.prepare()?.known_as(self.identity()))
    }

    /// The search of an interrupted run of this very training.
    fn on_record(&self) -> Result<Option<StartSearch>> {
        let config = self.config();
        let Some(files) = config.files.as_ref().filter(|_| config.can_resume()) else { return Ok(None) };
        let read = || StartSearch::read(&files.start, self.identity());
        let text = config.comm.broadcast(|| Ok(read().and_then(|found| serde_json::to_string(&found).ok())))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// The training whose state an interrupted run has left, as far as one process sees it.
    pub(crate) fn of_record(&self) -> Result<Option<Self>> {
        let record = self.config().files.as_ref().and_then(|files| StartSearch::read(&files.start, self.identity()));
        record.as_ref().and_then(StartSearch::chosen).map(|chosen| self.starting_at(chosen)).transpose()
    }

    fn search(&self, dataset: &Dataset, watch: &mut dyn FnMut(usize)) -> Result<StartSearch> {
        let (fitted, judged) = self.searched_pairs();
        let candidates = self.candidates(dataset)?;
        let all = candidates.len() + ROUNDS.iter().map(|most| candidates.len().min(*most)).sum::<usize>();
        let candidates = halve_one(candidates, &[&ROUNDS[..], &[all]].concat(), |round, candidate| {
            watch(all);
            match round {
                0 => candidate.try_untrained(fitted, judged)?,
                _ => candidate.train(fitted, judged)?,
            }
            Ok(candidate.score(round == ROUNDS.len()))
        })?;
        let tried = candidates.into_iter().map(|candidate| candidate.start).collect();
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
            (None, Budget::Nfe(_)) => vec![self.plan.student.frame.afs, !self.plan.student.frame.afs],
            // Without a number of calls it would change what is compared.
            (None, Budget::Steps(_)) => vec![self.plan.student.frame.afs],
        };
        let mut found: Vec<(TriedStart, Self)> = Vec::new();
        for grid in grids(config.model.prediction(), &config.schedule) {
            for afs in &first_steps {
                for order in config.spec.order.map_or(ORDERS.to_vec(), |given| vec![given]) {
                    let Ok(trainer) = config.starting_at(*afs, order, &grid).prepare() else { continue };
                    // A window longer than the grid is that of the grid.
                    if trainer.plan.window == order || found.is_empty() || config.spec.order.is_some() {
                        let usual = found.is_empty();
                        found.push((TriedStart { usual, ..TriedStart::new(&grid, *afs, order) }, trainer));
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
    fn is_open(&self) -> bool {
        self.spec.is_open(self.budget, &self.schedule)
    }

    fn starting_at(&self, afs: bool, order: usize, schedule: &ScheduleSpec) -> Self {
        let teacher_schedule = self.spec.teacher_schedule.or(Some(TeacherGrid::Model));
        let spec = TrainSpec { afs: Some(afs), order: Some(order), teacher_schedule, ..self.spec.clone() };
        Self { spec, schedule: schedule.clone(), ..self.clone() }
    }
}

impl TriedStart {
    fn new(grid: &ScheduleSpec, afs: bool, order: usize) -> Self {
        let first = if afs { ", analytical first step" } else { "" };
        let name = format!("{}, order {order}{first}", grid.term().unwrap_or_else(|| "own grid".into()));
        Self { name, afs, order, schedule: grid.clone(), usual: false, untrained: None, trained: None, iterations: 0 }
    }
}

impl Candidate {
    /// What it is worth against the others: the usual start is never dropped, and in the end gives way only to one
    /// clearly closer.
    fn score(&self, is_last: bool) -> f64 {
        let loss = self.start.trained.or(self.start.untrained).unwrap_or(f64::INFINITY);
        match (self.start.usual, is_last) {
            (false, _) => loss,
            (true, true) => CLEARLY * loss,
            (true, false) => f64::NEG_INFINITY,
        }
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
