//! Judging one entry: its samples on the common noise, against the teacher's and against the reference.
//!
//! ```text
//! slope at a call   d = (x − D(x; level))/T,  T the time the solver believes in;  std(d) = 1 where x really is at T
//! ```

use super::contestant::Contestant;
use super::experiment::{Entry, Judging, Subject};
use super::pictures::Pictures;
use super::record::Score;
use crate::checkpoint::SolverFile;
use crate::comm::{Parcel, Reader};
use crate::denoiser::{Denoiser, Levels, Prediction};
use crate::error::{Error, Result};
use crate::metrics::teacher::{psnr, rmse, squared_errors};
use crate::metrics::{Features, quantise};
use crate::models::features::FeatureMap;
use crate::sample::{Plan, sample};
use crate::schedule::Grid;
use crate::solver::{DyWeight, Solver, realised_times};
use crate::spec::budget::Setting;
use crate::spec::{Budget, FeatureReference};
use crate::tensor::Tensor;
use crate::train::{Targets, in_parts};
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

/// A solver ready to run.
pub(super) struct Ready {
    solver: Box<dyn Solver>,
    grid: Grid,
    afs: bool,
    nfe: usize,
    /// The time the solver takes itself to be at, step by step; none where it is what the network is told.
    times: Option<Vec<f64>>,
}

impl Ready {
    /// Builds the solver of an entry that needs no training; refuses a budget it cannot meet.
    pub fn of(entry: &Entry, subject: &Subject) -> Result<Option<Self>> {
        match &entry.who {
            Contestant::Handcrafted { solver, schedule, afs } => {
                let model = &subject.model.model;
                let prediction = model.prediction();
                let (solver, rule) = (solver.build(prediction)?, schedule.build(prediction)?);
                let range = schedule.range(&rule, model.sigma_range());
                let (afs, calls) = (*afs, subject.calls());
                let setting = Setting {
                    solver: &*solver,
                    schedule: &rule,
                    range,
                    afs,
                    denoise_to_zero: false,
                    prediction,
                    calls,
                };
                let grid = setting.grid(Budget::Nfe(entry.nfe))?;
                let nfe = setting.count(&grid)?;
                Ok(Some(Self { solver, grid, afs, nfe, times: None }))
            }
            Contestant::Given { file } => Self::learned(file, entry.nfe, subject).map(Some),
            Contestant::Learned { .. } => Ok(None),
        }
    }

    /// Learned coefficients on the grid they were learned on.
    pub fn learned(file: &SolverFile, nfe: usize, subject: &Subject) -> Result<Self> {
        let prediction = subject.model.model.prediction();
        if file.prediction != prediction {
            return Err(Error::Conflict {
                problem: format!("a solver for {:?} predictions cannot run on '{}'", file.prediction, subject.name),
                hint: "leave the solver or the model out".into(),
            });
        }
        let solver = DyWeight::fixed(&file.weights, &file.time_scale)?.time_shift(file.time_shift);
        let grid = file.grid()?;
        let plan = Plan::new(&solver, &grid).afs(file.afs);
        let made = subject.calls() * crate::sample::count_calls(&plan, prediction)?;
        if made != nfe {
            return Err(Error::NoSuchBudget { solver: solver.label(), nfe, near: vec![made] });
        }
        let mut times =
            if file.time_shift { realised_times(grid.sigmas(), &file.weights) } else { grid.sigmas().to_vec() };
        times.drain(..usize::from(file.afs));
        Ok(Self { solver: Box::new(solver), grid, afs: file.afs, nfe, times: Some(times) })
    }
}

impl Entry {
    /// An error unless the solver can make exactly that many calls on the subject.
    pub fn possible_on(&self, subject: &Subject) -> Result<()> {
        Ready::of(self, subject).map(drop)
    }
}

/// What a part of the samples gave.
#[derive(Default)]
struct Part {
    errors: Vec<f64>,
    features: Vec<f32>,
    /// Mean and mean square of the slope, for each evaluation and sample.
    slopes: Vec<Vec<[f64; 2]>>,
    pictures: Pictures,
}

impl Part {
    /// Adds what later samples gave.
    fn append(&mut self, part: Self) {
        self.errors.extend(part.errors);
        self.features.extend(part.features);
        self.pictures.append(part.pictures);
        self.slopes.resize(part.slopes.len(), Vec::new());
        self.slopes.iter_mut().zip(part.slopes).for_each(|(all, more)| all.extend(more));
    }

    fn joined(parts: Vec<Self>) -> Self {
        let mut whole = Self::default();
        parts.into_iter().filter(|part| !part.errors.is_empty()).for_each(|part| whole.append(part));
        whole
    }
}

impl Parcel for Part {
    fn put(&self, out: &mut Vec<u8>) {
        self.errors.put(out);
        self.features.put(out);
        let slopes: Vec<Vec<f64>> = self.slopes.iter().map(|samples| samples.concat()).collect();
        slopes.put(out);
        self.pictures.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let (errors, features) = (Parcel::take(from)?, Parcel::take(from)?);
        let slopes: Vec<Vec<f64>> = Parcel::take(from)?;
        let slopes = slopes.iter().map(|samples| samples.as_chunks().0.to_vec()).collect();
        Some(Self { errors, features, slopes, pictures: Parcel::take(from)? })
    }
}

/// Everything judging needs besides the entry.
pub(super) struct Judge<'j> {
    pub judging: &'j Judging,
    pub subject: &'j Subject,
    pub targets: &'j Targets<'j>,
    /// Told how many samples are done; true asks to stop.
    pub tick: &'j (dyn Fn(usize) -> bool + Sync),
}

impl Judge<'_> {
    /// The score of an entry and its pictures; at every rank but 0 nothing.
    pub fn score(&self, key: &str, entry: &Entry, ready: &Ready) -> Result<Option<(Score, Pictures)>> {
        let mut score = Score {
            key: key.into(),
            row: entry.row.clone(),
            solver: ready.solver.label(),
            nfe: ready.nfe,
            steps: ready.grid.steps(),
            failed: None,
            rmse: None,
            psnr: None,
            frechet: None,
            slopes: Vec::new(),
        };
        let whole = match self.all(ready) {
            // A solver that loses the numbers has a result: that it does.
            Err(error @ Error::Diverged { .. }) => {
                score.failed = Some(error.to_string());
                return Ok(Some((score, Pictures::default())));
            }
            other => other?,
        };
        if !self.targets.comm().is_first() {
            return Ok(None);
        }
        score.rmse = Some(rmse(&whole.errors));
        // Infinite where there is no difference: nothing JSON could hold, and nothing to learn.
        score.psnr = Some(psnr(&whole.errors)).filter(|p| p.value.is_finite());
        if let Some((map, reference)) = self.reference() {
            score.frechet = Some(reference.estimate(&Features::from_rows(map.dims(), whole.features)?)?);
        }
        score.slopes = whole.slopes.iter().map(|samples| deviation(samples)).collect();
        Ok(Some((score, whole.pictures)))
    }

    /// How the teacher's own endpoints do by the reference; nothing without one, and at every rank but 0.
    pub fn teacher(&self, key: &str) -> Result<Option<Score>> {
        let Some((map, reference)) = self.reference() else { return Ok(None) };
        let part = |range: Range<usize>| {
            let targets = self.targets.of(range)?;
            self.features(&targets[targets.len() - 1])
        };
        let share = || Ok(in_parts(&*self.subject.model.model, self.share(), self.judging.batch, part)?.concat());
        let rows: Vec<f32> = self.targets.comm().collect(share)?.concat();
        if !self.targets.comm().is_first() {
            return Ok(None);
        }
        let judging = self.judging;
        let teacher = judging.teacher(self.subject)?;
        Ok(Some(Score {
            key: key.into(),
            row: "teacher".into(),
            solver: teacher.solver.label(),
            nfe: judging.teacher_nfe * self.subject.calls(),
            steps: teacher.grid.steps(),
            failed: None,
            rmse: None,
            psnr: None,
            frechet: Some(reference.estimate(&Features::from_rows(map.dims(), rows)?)?),
            slopes: Vec::new(),
        }))
    }

    /// Features of samples; none without a reference.
    fn features(&self, samples: &Tensor) -> Result<Vec<f32>> {
        let Some((map, _)) = self.reference() else { return Ok(Vec::new()) };
        Ok(map.features(&quantise(samples))?.data().iter().map(|v| *v as f32).collect())
    }

    /// Features and statistics, where they are of what the subject makes: all classes of images of that shape.
    fn reference(&self) -> Option<&FeatureReference> {
        let subject = self.subject;
        let fits = |map: &dyn FeatureMap| map.shape() == subject.model.model.shape() && subject.class.is_none();
        self.judging.reference.as_ref().filter(|(map, _)| fits(&**map))
    }

    /// This process's samples. Whole batches of a network: a solver that loses the numbers does so in a batch, and says in which
    /// sample of it.
    pub fn share(&self) -> Range<usize> {
        let unit = if self.subject.model.model.is_light() { 1 } else { self.judging.batch };
        self.targets.comm().share(&(0..self.judging.seeds.len()), unit)
    }

    /// All samples, at rank 0.
    fn all(&self, ready: &Ready) -> Result<Part> {
        let model = &*self.subject.model.model;
        let part = |range| self.part(ready, range);
        let share = || Ok(Part::joined(in_parts(model, self.share(), self.judging.batch, part)?));
        self.targets.comm().collect(share).map(Part::joined)
    }

    fn part(&self, ready: &Ready, range: Range<usize>) -> Result<Part> {
        let pairs = self.targets.pairs();
        let bound = self.subject.model.model.bind(&pairs.condition(range.clone()))?;
        let spy = Spy { inner: &*bound, times: ready.times.as_deref(), seen: Mutex::default() };
        let plan = Plan::new(&*ready.solver, &ready.grid).afs(ready.afs);
        let mut pictures = Pictures::begin(range.start, self.subject.model.model.shape());
        let outcome = sample(&spy, &plan, &pairs.latents(range.clone())?, &mut |state| {
            pictures.see(state);
            if (self.tick)(0) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let targets = self.targets.of(range.clone())?;
        let errors = squared_errors(&outcome.samples, &targets[targets.len() - 1])?;
        let features = self.features(&outcome.samples)?;
        (self.tick)(range.len());
        let slopes = spy.seen.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(Part { errors, features, slopes, pictures })
    }
}

fn deviation(samples: &[[f64; 2]]) -> f64 {
    let mean = |k: usize| samples.iter().map(|m| m[k]).sum::<f64>() / samples.len() as f64;
    (mean(1) - mean(0).powi(2)).max(0.0).sqrt()
}

/// Watches the slopes at the network's calls.
struct Spy<'s> {
    inner: &'s dyn Denoiser,
    times: Option<&'s [f64]>,
    seen: Mutex<Vec<Vec<[f64; 2]>>>,
}

impl Denoiser for Spy<'_> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        let out = self.inner.predict(x, levels)?;
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let call = seen.len();
        let slope = |i: usize, (x, d): (&f64, &f64)| match self.inner.prediction() {
            Prediction::Velocity => *d,
            Prediction::Denoised => {
                let time = self.times.and_then(|t| t.get(call)).copied().unwrap_or_else(|| levels.of(i));
                (x - d) / time
            }
        };
        // Sample by sample, so that sums do not depend on how samples fall into batches.
        let moments = |i: usize| {
            let slopes = x.sample(i).iter().zip(out.sample(i)).map(|pair| slope(i, pair));
            let (sum, squares) = slopes.fold((0.0, 0.0), |(sum, squares), d| (sum + d, squares + d * d));
            [sum, squares].map(|v| v / x.sample_len() as f64)
        };
        seen.push((0..x.samples()).map(moments).collect());
        Ok(out)
    }

    fn prediction(&self) -> Prediction {
        self.inner.prediction()
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.inner.sigma_range()
    }

    fn calls(&self) -> usize {
        self.inner.calls()
    }
}
