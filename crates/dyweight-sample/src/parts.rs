//! Batches cut over threads and processes. Samples are independent, so how they are cut changes nothing.

use dyweight_core::denoiser::Model;
use dyweight_core::error::Result;
use dyweight_core::tensor::Tensor;
use rayon::prelude::*;
use std::ops::Range;

/// Lists of states one behind the other, state by state.
pub fn stacked(parts: &[Vec<Tensor>]) -> Result<Vec<Tensor>> {
    let states = parts.first().map_or(0, Vec::len);
    (0..states).map(|k| Tensor::concat(&parts.iter().map(|p| p[k].clone()).collect::<Vec<_>>())).collect()
}

/// The samples of which a process takes all or none, when calls are of `batch` samples.
pub fn unit(model: &dyn Model, batch: usize) -> usize {
    if model.is_exact_in_batches() { 1 } else { batch }
}

/// Runs `f` over parts of a range: one after the other for a model that fills the machine itself, side by side for one
/// that does not. Results are in order.
pub fn in_parts<T: Send>(
    model: &dyn Model,
    range: Range<usize>,
    batch: usize,
    f: impl Fn(Range<usize>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    each(model, &mut cut(model, range, batch), |part| f(part.clone()))
}

/// The parts of a range.
pub fn cut(model: &dyn Model, range: Range<usize>, batch: usize) -> Vec<Range<usize>> {
    let threads = rayon::current_num_threads();
    let size = if model.is_light() { range.len().div_ceil(threads).min(batch) } else { batch }.max(1);
    range.clone().step_by(size).map(|start| start..(start + size).min(range.end)).collect()
}

/// Runs `f` on every part.
pub fn each<P: Send, T: Send>(
    model: &dyn Model,
    parts: &mut [P],
    f: impl Fn(&mut P) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if model.is_light() && parts.len() > 1 {
        return parts.into_par_iter().map(&f).collect();
    }
    parts.iter_mut().map(f).collect()
}
