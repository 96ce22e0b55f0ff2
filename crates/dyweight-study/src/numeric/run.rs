//! Plan, run, resume: every cell (K, S, order) that is not yet on record is computed and recorded.
//!
//! The problems of a degree K are drawn once, each from a stream of its own, and shared by all S and all orders, so
//! that curves compare like with like and a sub-grid gives the numbers of the full one. Problems are spread over
//! rayon's threads; each is computed by itself and means are taken in the order of the problems, so the number of
//! threads changes nothing.

use super::optimise::{evaluate, evaluate_classical, fit};
use super::options::{NumericOptions, Settings};
use super::problem::{LinearProblem, Track};
use super::record::{Record, Store, StudyCell};
use super::{figures, observe, tables};
use dyweight_core::error::Result;
use dyweight_core::noise::Stream;
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// Steps of the teacher, which is the classical AB-4.
pub(crate) const TEACHER_STEPS: usize = 100;

/// Told after each cell.
#[derive(Clone, Debug)]
pub struct CellProgress<'a> {
    /// Cells on record, of those asked for.
    pub done: usize,
    /// Cells asked for.
    pub total: usize,
    /// The cell just finished.
    pub latest: &'a Record,
}

/// What a finished run found and wrote.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The cells asked for, by degree, steps, order.
    pub records: Vec<Record>,
    /// How many of them were already on record.
    pub resumed: usize,
    /// The paper's four observations with the numbers found.
    pub observations: Vec<observe::Observation>,
    /// Files written.
    pub files: Vec<PathBuf>,
}

/// Runs the study into a directory; cells already recorded there are not computed again.
///
/// Stops with the error of `progress`; finished cells stay on record.
pub fn run(
    options: &NumericOptions,
    outdir: &Path,
    progress: &mut dyn FnMut(CellProgress<'_>) -> Result<()>,
) -> Result<Summary> {
    options.validate()?;
    let mut store = Store::open(outdir, &options.settings)?;
    let wanted = cells(options);
    let resumed = wanted.iter().filter(|cell| store.records().contains_key(cell)).count();
    let mut done = resumed;
    for degree in &options.degrees {
        let missing = |cell: &&StudyCell| cell.degree == *degree && !store.records().contains_key(cell);
        let missing: Vec<StudyCell> = wanted.iter().filter(missing).copied().collect();
        if missing.is_empty() {
            continue;
        }
        let set = ProblemSet::draw(&options.settings, *degree)?;
        for group in missing.chunk_by(|a, b| a.steps == b.steps) {
            let tracks = Tracks::new(&set, group[0].steps);
            for cell in group {
                store.append(set.solve(&tracks, *cell, &options.settings))?;
                done += 1;
                let progress_made = CellProgress { done, total: wanted.len(), latest: &store.records()[cell] };
                progress(progress_made)?;
            }
        }
    }
    let records: Vec<Record> = wanted.iter().map(|cell| store.records()[cell].clone()).collect();
    report(options, outdir, records, resumed)
}

/// All cells asked for, by degree, steps, order.
fn cells(options: &NumericOptions) -> Vec<StudyCell> {
    let mut cells = Vec::with_capacity(options.cells());
    for degree in &options.degrees {
        for steps in &options.steps {
            cells.extend(options.orders.iter().map(|order| StudyCell {
                degree: *degree,
                steps: *steps,
                order: *order,
            }));
        }
    }
    cells.sort();
    cells
}

fn report(options: &NumericOptions, outdir: &Path, records: Vec<Record>, resumed: usize) -> Result<Summary> {
    let observations = observe::observations(&records);
    let mut files = vec![outdir.join("records.jsonl")];
    files.extend(tables::write(&records, &options.settings, &observations, outdir)?);
    files.extend(figures::write(&records, outdir)?);
    Ok(Summary { records, resumed, observations, files })
}

/// The problems of one degree: those weights are fitted to, and fresh ones.
struct ProblemSet {
    own: Vec<LinearProblem>,
    fresh: Vec<LinearProblem>,
    teacher: Vec<f64>,
}

/// All problems of a set on one grid.
struct Tracks {
    own: Vec<Track>,
    fresh: Vec<Track>,
}

impl Tracks {
    fn new(set: &ProblemSet, steps: usize) -> Self {
        let tracks = |problems: &[LinearProblem]| problems.par_iter().map(|p| Track::new(p, steps)).collect();
        Self { own: tracks(&set.own), fresh: tracks(&set.fresh) }
    }
}

impl ProblemSet {
    fn draw(settings: &Settings, degree: usize) -> Result<Self> {
        let draw = |kind: u64, index: usize| {
            let mut stream = Stream::of_words(&[settings.seed, kind, degree as u64, index as u64]);
            LinearProblem::draw(&mut stream, settings, degree)
        };
        let many = |kind| (0..settings.problems).into_par_iter().map(|i| draw(kind, i)).collect::<Result<Vec<_>>>();
        let (own, fresh) = (many(0)?, many(1)?);
        let teach = |p: &LinearProblem| evaluate_classical(p, &Track::new(p, TEACHER_STEPS), 4);
        let teacher = own.par_iter().map(teach).collect();
        Ok(Self { own, fresh, teacher })
    }

    fn solve(&self, tracks: &Tracks, cell: StudyCell, settings: &Settings) -> Record {
        let order = cell.order;
        let rows = cell.steps + 1 - settings.startup.states(order);
        let classical = super::adams::CLASSICAL[order - 1].repeat(rows);
        let errors = |index: usize| {
            let fit = fit(&self.own[index], &tracks.own[index], order, settings);
            let fresh = |weights: &[f64]| evaluate(&self.fresh[index], &tracks.fresh[index], order, weights);
            [fit.standard, fit.optimised, fresh(&fit.weights), fresh(&classical)]
        };
        let all: Vec<[f64; 4]> = (0..self.own.len()).into_par_iter().map(errors).collect();
        let column = |i: usize| all.iter().map(|e| e[i]).collect();
        let (standard, optimised, fresh, fresh_standard) = (column(0), column(1), column(2), column(3));
        Record { cell, standard, optimised, fresh, fresh_standard, teacher: self.teacher.clone() }
    }
}
