//! What parts of the samples gave, put together in the order of the samples.

use super::pictures::Pictures;
use dyweight_core::error::{Error, Result};
use dyweight_sample::comm::{Reader, Wire};

/// Where a solver diverged.
pub(super) struct Divergence {
    /// Step, network's output before state, levels as they fall, sample: the order in which a run meets them.
    pub(super) at: [f64; 4],
    pub(super) text: String,
}

impl Divergence {
    /// Where this error says; other errors are passed on. Samples are numbered from `first`.
    pub(super) fn of(error: Error, first: usize) -> Result<Self> {
        let Error::Diverged { solver, step, sigma, tensor, sample, value } = error else { return Err(error) };
        let sample = first + sample;
        let in_state = if tensor == "the state" { 1.0 } else { 0.0 };
        let at = [step as f64, in_state, -sigma, sample as f64];
        let text = Error::Diverged { solver, step, sigma, tensor, sample, value }.to_string();
        Ok(Self { at, text })
    }

    /// The earlier of two. A batch reports the earliest of its samples, so the earliest of all is the same however
    /// samples fall into batches, threads and processes.
    pub(super) fn earlier(self, other: Self) -> Self {
        let order = self.at.iter().zip(&other.at).map(|(a, b)| a.total_cmp(b)).find(|o| o.is_ne());
        if order.is_some_and(|o| o.is_gt()) { other } else { self }
    }
}

impl Wire for Divergence {
    fn put(&self, out: &mut Vec<u8>) {
        self.at.to_vec().put(out);
        self.text.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let at: Vec<f64> = Wire::take(from)?;
        Some(Self { at: at.try_into().ok()?, text: Wire::take(from)? })
    }
}

/// What a part of the samples gave.
#[derive(Default)]
pub(super) struct Part {
    pub(super) lost: Option<Divergence>,
    /// Spent in network and solver.
    pub(super) seconds: f64,
    pub(super) errors: Vec<f64>,
    /// Rows of features, one behind the other, of each network that judges.
    pub(super) features: Vec<Vec<f32>>,
    /// For each scorer, of each sample.
    pub(super) scores: Vec<Vec<f64>>,
    /// Mean and mean square of the slope, for each evaluation and sample.
    pub(super) slopes: Vec<Vec<[f64; 2]>>,
    pub(super) pictures: Pictures,
}

impl Part {
    /// Adds what later samples gave.
    pub(super) fn append(&mut self, part: Self) {
        self.errors.extend(part.errors);
        self.pictures.append(part.pictures);
        extend_each(&mut self.features, part.features);
        extend_each(&mut self.scores, part.scores);
        extend_each(&mut self.slopes, part.slopes);
    }

    pub(super) fn joined(parts: Vec<Self>) -> Self {
        let mut whole = Self::default();
        for mut part in parts {
            whole.seconds += part.seconds;
            whole.lost = match (whole.lost.take(), part.lost.take()) {
                (Some(a), Some(b)) => Some(a.earlier(b)),
                (a, b) => a.or(b),
            };
            if !part.errors.is_empty() {
                whole.append(part);
            }
        }
        whole
    }
}

fn extend_each<T: Clone>(all: &mut Vec<Vec<T>>, more: Vec<Vec<T>>) {
    all.resize(more.len(), Vec::new());
    all.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
}

impl Wire for Part {
    fn put(&self, out: &mut Vec<u8>) {
        self.lost.put(out);
        self.seconds.put(out);
        self.errors.put(out);
        self.features.put(out);
        self.scores.put(out);
        let slopes: Vec<Vec<f64>> = self.slopes.iter().map(|samples| samples.concat()).collect();
        slopes.put(out);
        self.pictures.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let lost = Wire::take(from)?;
        let (seconds, errors, features) = (Wire::take(from)?, Wire::take(from)?, Wire::take(from)?);
        let scores = Wire::take(from)?;
        let slopes: Vec<Vec<f64>> = Wire::take(from)?;
        let slopes = slopes.iter().map(|samples| samples.as_chunks().0.to_vec()).collect();
        Some(Self { lost, seconds, errors, features, scores, slopes, pictures: Wire::take(from)? })
    }
}
