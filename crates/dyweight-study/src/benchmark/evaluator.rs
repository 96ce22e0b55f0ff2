//! Judging one entry: its samples on the common noise, against the teacher's and against the reference.
//!
//! ```text
//! slope at a call   d = (x − D(x; level))/T,  T the time the solver believes in;  std(d) = 1 where x really is at T
//! ```

use super::experiment::{Entry, Judging, Subject};
use super::part::{Divergence, Part};
use super::pictures::Pictures;
use super::record::{ByFeatures, Score};
use dyweight_core::denoiser::{Call, Prediction, Watched};
use dyweight_core::error::Result;
use dyweight_core::features::FeatureMap;
use dyweight_core::tensor::Tensor;
use dyweight_metrics::FeatureReference;
use dyweight_metrics::frechet::Paired;
use dyweight_metrics::teacher::{psnr, rmse, squared_errors};
use dyweight_metrics::{Features, quantise};
use dyweight_sample::{Sampler, Show, in_parts, unit};
use dyweight_train::Targets;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Samples whose distances are written down one by one.
const MOST_DISTANCES: usize = 4096;

/// Everything judging needs besides the entry.
pub(super) struct Evaluator<'j> {
    pub judging: &'j Judging,
    pub subject: &'j Subject,
    pub targets: &'j Targets,
    /// The teacher's samples by the features of each network; none but at rank 0.
    pub imitated: &'j [Paired],
    /// Told how many samples are done; true asks to stop.
    pub tick: &'j (dyn Fn(usize) -> Result<()> + Sync),
}

/// What is found of an entry.
pub(super) struct Found {
    pub score: Score,
    pub pictures: Pictures,
    /// What a process needs for a sample, in network and solver; none for a solver that diverges.
    pub seconds_per_sample: Option<f64>,
}

impl Evaluator<'_> {
    /// The score of an entry, its pictures and its time; at every rank but 0 nothing.
    pub fn score(&self, key: &str, entry: &Entry, sampler: &Sampler) -> Result<Option<Found>> {
        let mut score = Score {
            key: key.into(),
            row: entry.row.clone(),
            solver: sampler.solver.label(),
            nfe: sampler.nfe,
            sequential_calls: (sampler.sequential_calls < sampler.nfe).then_some(sampler.sequential_calls),
            steps: sampler.steps(),
            failed: None,
            rmse: None,
            psnr: None,
            frechet: None,
            imitation: None,
            judged: None,
            prompted: Default::default(),
            distances: Vec::new(),
            slopes: Vec::new(),
        };
        let whole = self.all(sampler)?;
        if !self.targets.comm().is_root() {
            return Ok(None);
        }
        // A solver that diverges has a result: that it does.
        if let Some(lost) = whole.lost {
            score.failed = Some(lost.text);
            return Ok(Some(Found { score, pictures: Pictures::default(), seconds_per_sample: None }));
        }
        score.rmse = Some(rmse(&whole.errors));
        score.distances = whole.errors.iter().take(MOST_DISTANCES).map(|error| error.sqrt() as f32).collect();
        // Infinite where there is no difference: nothing JSON could hold, and nothing to learn.
        // Nor has what is decoded first a peak to compare with.
        let decoded = self.subject.model.model.decoder().is_some();
        score.psnr = Some(psnr(&whole.errors)).filter(|p| p.value.is_finite() && !decoded);
        let mut by_network = self.distances(&self.gathered(whole.features)?)?.into_iter();
        ByFeatures { frechet: score.frechet, imitation: score.imitation } = by_network.next().unwrap_or_default();
        score.judged = by_network.next();
        score.prompted = self.judging.means(&whole.scores);
        score.slopes = whole.slopes.iter().map(|samples| deviation(samples)).collect();
        let seconds_per_sample = Some(whole.seconds / whole.errors.len() as f64);
        Ok(Some(Found { score, pictures: whole.pictures, seconds_per_sample }))
    }

    /// The teacher's endpoints by the features of each network; nothing without a reference, and at every rank but 0.
    pub(crate) fn teacher_features(&self) -> Result<Vec<Features>> {
        if self.networks().is_empty() {
            return Ok(Vec::new());
        }
        let rows = self
            .of_teacher(|samples, _| self.features(samples).map(|features| Part { features, ..Part::default() }))?
            .features;
        if self.targets.comm().is_root() { self.gathered(rows) } else { Ok(Vec::new()) }
    }

    /// How the teacher's own endpoints do by the reference, with their prompts and against the exact solution; nothing
    /// without any, and at every rank but 0.
    pub fn teacher(&self, key: &str, features: &[Features]) -> Result<Option<Score>> {
        let exact = self.teacher_to_exact()?;
        if self.networks().is_empty() && self.judging.scorers.is_empty() && exact.is_none() {
            return Ok(None);
        }
        let scores = |samples: &Tensor, range: Range<usize>| self.judging.scores(self.subject, samples, range);
        let whole = match self.judging.scorers.is_empty() {
            true => Part::default(),
            false => self
                .of_teacher(|samples, range| scores(samples, range).map(|scores| Part { scores, ..Part::default() }))?,
        };
        if !self.targets.comm().is_root() {
            return Ok(None);
        }
        let teacher = self.judging.teacher(self.subject)?;
        let mut by_network = self.distances(features)?.into_iter();
        Ok(Some(Score {
            key: key.into(),
            row: "teacher".into(),
            solver: teacher.sampler.solver.label(),
            nfe: teacher.sampler.nfe,
            sequential_calls: None,
            steps: teacher.sampler.steps(),
            failed: None,
            rmse: exact,
            psnr: None,
            frechet: by_network.next().and_then(|found| found.frechet),
            imitation: None,
            judged: by_network.next(),
            prompted: self.judging.means(&whole.scores),
            distances: Vec::new(),
            slopes: Vec::new(),
        }))
    }

    /// What `seen` finds in the teacher's endpoints, at rank 0.
    fn of_teacher(&self, seen: impl Fn(&Tensor, Range<usize>) -> Result<Part> + Sync) -> Result<Part> {
        let part = |range: Range<usize>| {
            let targets = self.targets.of(range.clone())?;
            // Errors say that there is something.
            Ok(Part { errors: vec![0.0; range.len()], ..seen(&targets[targets.len() - 1], range)? })
        };
        let share = || Ok(Part::joined(in_parts(&*self.subject.model.model, self.share(), self.judging.batch, part)?));
        self.targets.comm().gather(share).map(Part::joined)
    }

    /// Features of all samples, network by network.
    fn gathered(&self, rows: Vec<Vec<f32>>) -> Result<Vec<Features>> {
        self.networks().iter().zip(rows).map(|((map, _), rows)| Features::from_rows(map.dims(), rows)).collect()
    }

    /// How far samples are from the reference and, where they are known, from the teacher's, network by network.
    fn distances(&self, features: &[Features]) -> Result<Vec<ByFeatures>> {
        let found = self.networks().into_iter().zip(features).enumerate().map(|(k, ((_, reference), features))| {
            let imitation = self.imitated.get(k).map(|teacher| teacher.estimate(features)).transpose()?;
            Ok(ByFeatures { frechet: Some(reference.estimate(features)?), imitation })
        });
        found.collect()
    }

    /// Features of samples, or of the images they are decoded to, network by network.
    fn features(&self, samples: &Tensor) -> Result<Vec<Vec<f32>>> {
        let networks = self.networks();
        if networks.is_empty() {
            return Ok(Vec::new());
        }
        let images = self.subject.model.model.decoder().map(|decoder| decoder.decode(samples)).transpose()?;
        let images = quantise(images.as_ref().unwrap_or(samples));
        let rows = |(map, _): &FeatureReference| Ok(map.features(&images)?.data().iter().map(|v| *v as f32).collect());
        networks.into_iter().map(rows).collect()
    }

    /// Features and statistics, the judge's last, where they are of what the subject makes: all classes of images of
    /// that shape.
    fn networks(&self) -> Vec<&FeatureReference> {
        let subject = self.subject;
        let one_class = matches!(subject.show, Show::Class(_));
        let fits = |map: &dyn FeatureMap| map.shape() == subject.model.model.image_shape() && !one_class;
        let both = [&self.judging.reference, &self.judging.judge].into_iter().flatten();
        both.filter(|(map, _)| fits(&**map)).collect()
    }

    /// This process's samples.
    pub fn share(&self) -> Range<usize> {
        let unit = unit(&*self.subject.model.model, self.judging.batch);
        self.targets.comm().share(&(0..self.judging.seeds.len()), unit)
    }

    /// All samples, at rank 0.
    fn all(&self, sampler: &Sampler) -> Result<Part> {
        let model = &*self.subject.model.model;
        let part = |range| self.part(sampler, range);
        let share = || {
            let parts = in_parts(model, self.share(), self.judging.batch, part)?;
            // Parts of a light model are made side by side, those of a network one by one.
            let at_once = if model.is_light() { parts.len().min(rayon::current_num_threads()).max(1) } else { 1 };
            let mut whole = Part::joined(parts);
            whole.seconds /= at_once as f64;
            Ok(whole)
        };
        self.targets.comm().gather(share).map(Part::joined)
    }

    fn part(&self, sampler: &Sampler, range: Range<usize>) -> Result<Part> {
        let pairs = self.targets.pairs();
        let bound = self.subject.model.model.denoiser(&pairs.condition(range.clone()))?;
        // The time the solver takes itself to be at, where that is not what the network is told.
        let times = sampler.realised.as_ref().map(|times| &times[usize::from(sampler.afs)..]);
        let seen = Mutex::new(SlopeProbe::new(bound.info().prediction, times));
        let probed = Watched::new(bound, |call| {
            seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).see(&call);
            Ok(())
        });
        let mut pictures = Pictures::begin(range.start, &*self.subject.model.model);
        let latents = pairs.latents(range.clone())?;
        let (begun, mut watching) = (Instant::now(), Duration::ZERO);
        let outcome = sampler.sample(&probed, &latents, &mut |state| {
            let begun = Instant::now();
            pictures.see(state);
            let goes_on = (self.tick)(0);
            watching += begun.elapsed();
            goes_on
        });
        let elapsed = begun.elapsed();
        let probe = seen.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let seconds = elapsed.saturating_sub(watching + probe.watching).as_secs_f64();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                let lost = Some(Divergence::of(error, range.start)?);
                let _ = (self.tick)(range.len());
                return Ok(Part { lost, seconds, ..Part::default() });
            }
        };
        let targets = self.targets.of(range.clone())?;
        let errors = squared_errors(&outcome.samples, &targets[targets.len() - 1])?;
        let features = self.features(&outcome.samples)?;
        let scores = self.judging.scores(self.subject, &outcome.samples, range.clone())?;
        let _ = (self.tick)(range.len());
        Ok(Part { lost: None, seconds, errors, features, scores, slopes: probe.slopes, pictures })
    }
}

fn deviation(samples: &[[f64; 2]]) -> f64 {
    let mean = |k: usize| samples.iter().map(|m| m[k]).sum::<f64>() / samples.len() as f64;
    (mean(1) - mean(0).powi(2)).max(0.0).sqrt()
}

/// Sees the slopes at the network's calls.
struct SlopeProbe<'s> {
    prediction: Prediction,
    times: Option<&'s [f64]>,
    /// Mean and mean square of the slope, for each evaluation and sample.
    slopes: Vec<Vec<[f64; 2]>>,
    /// Time taken to see them.
    watching: Duration,
}

impl<'s> SlopeProbe<'s> {
    fn new(prediction: Prediction, times: Option<&'s [f64]>) -> Self {
        Self { prediction, times, slopes: Vec::new(), watching: Duration::ZERO }
    }

    fn see(&mut self, call: &Call<'_>) {
        let Call::Answered { x, levels, answer } = call else { return };
        let begun = Instant::now();
        let call = self.slopes.len();
        let slope = |i: usize, (x, d): (&f64, &f64)| match self.prediction {
            Prediction::Velocity => *d,
            Prediction::Denoised => {
                let time = self.times.and_then(|t| t.get(call)).copied().unwrap_or_else(|| levels.of(i));
                (x - d) / time
            }
        };
        // Sample by sample, so that sums do not depend on how samples fall into batches.
        let moments = |i: usize| {
            let slopes = x.sample(i).iter().zip(answer.sample(i)).map(|pair| slope(i, pair));
            let (sum, squares) = slopes.fold((0.0, 0.0), |(sum, squares), d| (sum + d, squares + d * d));
            [sum, squares].map(|v| v / x.sample_len() as f64)
        };
        self.slopes.push((0..x.samples()).map(moments).collect());
        self.watching += begun.elapsed();
    }
}
