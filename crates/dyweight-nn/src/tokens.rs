//! Sequences of tokens: activations of shape `[n, 1, tokens, c]`, and what is done with them along the token axis.
//!
//! An image `[n, h, w, c]` is a sequence already, in row-major order.

use crate::act::{Act, Shape};
use crate::elementwise::axpy;
use crate::isa::Isa;
use crate::parallel::{Disjoint, for_each};

impl Shape {
    /// `n` sequences of `tokens` vectors of `c` entries.
    pub fn tokens(n: usize, tokens: usize, c: usize) -> Self {
        Self { n, h: 1, w: tokens, c }
    }
}

impl Act {
    /// A sequence as the pixels of images of this size.
    ///
    /// # Panics
    /// If the number of tokens is not that of pixels.
    pub fn into_image(self, size: [usize; 2]) -> Self {
        let shape = self.shape().with_size(size);
        self.reshaped(shape)
    }
}

/// One after the other along the token axis.
///
/// # Panics
/// If there are none, or samples or channels differ.
pub fn concat_tokens(parts: &[&Act]) -> Act {
    let Shape { n, c, .. } = parts.first().expect("something to join").shape();
    for part in parts {
        assert_eq!((part.shape().n, part.shape().c), (n, c), "samples and channels of joined sequences");
    }
    let tokens = parts.iter().map(|part| part.shape().pixels()).sum();
    let mut joined = Act::stale(Shape::tokens(n, tokens, c));
    for (sample, to) in joined.data_mut().chunks_exact_mut((tokens * c).max(1)).enumerate() {
        let mut start = 0;
        for part in parts {
            let from = part.sample(sample);
            to[start..start + from.len()].copy_from_slice(from);
            start += from.len();
        }
    }
    joined
}

/// The parts of a joined sequence with these numbers of tokens: [`concat_tokens`]'s inverse and its gradient.
///
/// # Panics
/// If the counts do not add up.
pub fn split_tokens(joined: &Act, counts: &[usize]) -> Vec<Act> {
    let shape = joined.shape();
    assert_eq!(counts.iter().sum::<usize>(), shape.pixels(), "tokens of the parts");
    let mut first = 0;
    let mut parts = Vec::with_capacity(counts.len());
    for &count in counts {
        let mut part = Act::stale(Shape::tokens(shape.n, count, shape.c));
        for (sample, to) in part.data_mut().chunks_exact_mut((count * shape.c).max(1)).enumerate() {
            to.copy_from_slice(&joined.sample(sample)[first * shape.c..][..count * shape.c]);
        }
        first += count;
        parts.push(part);
    }
    parts
}

/// `x + table`, the same table (`[1, ·, ·, c]`, as many tokens as a sample) for every sample: position embeddings. Its
/// input's gradient is that of its output.
pub fn add_to_each(x: &Act, table: &Act) -> Act {
    assert_eq!(table.shape().n, 1, "samples of a table");
    assert_eq!(table.shape().sample_len(), x.shape().sample_len(), "entries of a table and of a sample");
    let len = x.shape().sample_len();
    let mut y = x.clone();
    let isa = Isa::active();
    let shared = Disjoint::new(y.data_mut());
    for_each(x.shape().n, |sample| {
        // SAFETY: one sample per item.
        let to = unsafe { shared.part(sample * len, len) };
        isa.vectorize(
            #[inline(always)]
            || axpy(to, 1.0, table.data()),
        );
    });
    y
}

/// Token `at[i]` of sample `i`, as vectors `[n, 1, 1, c]`.
///
/// # Panics
/// If there is not one index per sample, or a token does not exist.
pub fn pick_tokens(x: &Act, at: &[usize]) -> Act {
    let Shape { n, c, .. } = x.shape();
    assert_eq!(at.len(), n, "one token per sample");
    let mut picked = Act::stale(Shape::tokens(n, 1, c));
    for (i, to) in picked.data_mut().chunks_exact_mut(c.max(1)).enumerate() {
        to.copy_from_slice(&x.sample(i)[at[i] * c..][..c]);
    }
    picked
}

/// Gradient of [`pick_tokens`]'s input, which had `tokens` tokens.
pub fn pick_tokens_backward(gy: &Act, at: &[usize], tokens: usize) -> Act {
    let Shape { n, c, .. } = gy.shape();
    assert_eq!(at.len(), n, "one token per sample");
    let mut gx = Act::zeros(Shape::tokens(n, tokens, c));
    for (i, to) in gx.data_mut().chunks_exact_mut((tokens * c).max(1)).enumerate() {
        to[at[i] * c..][..c].copy_from_slice(gy.sample(i));
    }
    gx
}
