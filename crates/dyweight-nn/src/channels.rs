//! Joining activations along channels, and the way back.

use crate::act::Act;
use crate::parallel::{Disjoint, for_each};

/// One after the other along the channel axis.
///
/// # Panics
/// If there are none, or samples, rows or columns differ.
pub fn concat(parts: &[&Act]) -> Act {
    let first = parts.first().expect("something to join").shape();
    let channels = parts.iter().map(|part| part.shape().c).sum();
    for part in parts {
        assert_eq!(part.shape().with_channels(0), first.with_channels(0), "shapes of joined activations");
    }
    let mut joined = Act::stale(first.with_channels(channels));
    let shared = Disjoint::new(joined.data_mut());
    for_each(first.n * first.h, |row| {
        // SAFETY: one image row per item.
        let to = unsafe { shared.part(row * first.w * channels, first.w * channels) };
        let mut start = 0;
        for part in parts {
            let c = part.shape().c;
            let from = &part.data()[row * first.w * c..][..first.w * c];
            for (to, from) in to.chunks_exact_mut(channels).zip(from.chunks_exact(c)) {
                to[start..start + c].copy_from_slice(from);
            }
            start += c;
        }
    });
    joined
}

/// The parts of a joined activation with these channel counts: [`concat()`]'s inverse and its gradient.
///
/// # Panics
/// If the counts do not add up.
pub fn split(joined: &Act, channels: &[usize]) -> Vec<Act> {
    let shape = joined.shape();
    assert_eq!(channels.iter().sum::<usize>(), shape.c, "channels of the parts");
    let mut start = 0;
    let part = |c: &usize| {
        let part = channel_range(joined, start, *c);
        start += c;
        part
    };
    channels.iter().map(part).collect()
}

/// Channels `first..first + c`.
fn channel_range(joined: &Act, first: usize, c: usize) -> Act {
    let shape = joined.shape();
    let mut part = Act::stale(shape.with_channels(c));
    let shared = Disjoint::new(part.data_mut());
    for_each(shape.n * shape.h, |row| {
        // SAFETY: one image row per item.
        let to = unsafe { shared.part(row * shape.w * c, shape.w * c) };
        let from = &joined.data()[row * shape.w * shape.c..][..shape.w * shape.c];
        for (to, from) in to.chunks_exact_mut(c).zip(from.chunks_exact(shape.c)) {
            to.copy_from_slice(&from[first..first + c]);
        }
    });
    part
}
