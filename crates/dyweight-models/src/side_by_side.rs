//! Sharing the samples of a batch among threads.
//!
//! A network's operations use all threads, but threads that work on the same samples wait for each other after every one of
//! them, and a call from outside the pool wakes it up as often. Threads with samples of their own do not: on two cores
//! that made sampling with the embedded model 1.6 times as fast. Samples are independent, so the cut changes no bit.

use dyweight_core::error::Result;
use dyweight_nn::Isa;
use rayon::prelude::*;
use std::ops::{Range, RangeInclusive};

/// How a batch is cut: a part for each thread, of as many samples as one pass should have. More than that take memory and
/// no less time, fewer read the weights too often. Threads that are left over help where they can.
pub(super) fn parts(samples: usize, at_once: RangeInclusive<usize>) -> Vec<Range<usize>> {
    let share = samples.div_ceil(rayon::current_num_threads());
    let size = share.clamp(*at_once.start(), *at_once.end());
    (0..samples).step_by(size).map(|start| start..(start + size).min(samples)).collect()
}

/// Runs `f` on all parts, inside the thread pool. Results are in order.
pub(super) fn side_by_side<P: Send, T: Send>(parts: Vec<P>, f: impl Fn(P) -> Result<T> + Sync) -> Result<Vec<T>> {
    let isa = Isa::active();
    parts.into_par_iter().map(|part| isa.scope(|| f(part))).collect()
}
