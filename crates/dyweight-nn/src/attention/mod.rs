//! Multi-head scaled dot-product attention over the pixels (tokens) of each sample.
//!
//! ```text
//! S = Q·Kᵀ/√d,  A = softmax_rows(S),  O = A·V                               per sample and head
//! gV = Aᵀ·gO,  gA = gO·Vᵀ,  gS = A∘(gA − rowsum(A∘gA)),  gQ = gS·K/√d,  gK = gSᵀ·Q/√d
//! ```
//!
//! `A` is never kept and never whole in memory: rows are handled in blocks, the gradient computes them again, once by
//! blocks of queries (for `gQ`) and once by blocks of keys (for `gK`, `gV`), so that nothing is summed across tasks
//! (compare Dao et al. 2022, FlashAttention).

mod backward;
mod rows;
mod streaming;

pub use streaming::{Attention, Bias, LogSums};

use crate::act::Act;
use crate::buffer::Buffer;
use crate::error::{Result, check_groups};
use crate::isa::Isa;
use crate::parallel::for_each;
use rows::{Matrix, MatrixMut, Operand, Target, multiply, softmax_row};

/// Rows of the attention matrix in memory at once, per task.
const ROW_BLOCK: usize = 48;

/// Attention of queries `[n, ·, ·, heads·d]` to keys and values of another (or the same) number of tokens.
///
/// Token `t` is pixel `t` in row-major order; head `h` has channels `h·d..(h+1)·d`.
pub fn attention(q: &Act, k: &Act, v: &Act, heads: usize) -> Act {
    assert_eq!(k.shape(), v.shape(), "keys and values");
    assert_eq!((q.shape().n, q.shape().c), (k.shape().n, k.shape().c), "samples and channels of queries and keys");
    let mut out = Act::stale(q.shape());
    forward([Operand::whole(q), Operand::whole(k), Operand::whole(v)], heads, Target::whole(&mut out));
    out
}

/// Gradients of [`attention`]'s queries, keys and values.
pub fn attention_backward(q: &Act, k: &Act, v: &Act, heads: usize, gy: &Act) -> [Act; 3] {
    assert_eq!(gy.shape(), q.shape(), "attention's output gradient");
    let [mut gq, mut gk, mut gv] = [Act::stale(q.shape()), Act::stale(k.shape()), Act::stale(v.shape())];
    let targets = [Target::whole(&mut gq), Target::whole(&mut gk), Target::whole(&mut gv)];
    backward::backward([Operand::whole(q), Operand::whole(k), Operand::whole(v)], heads, Operand::whole(gy), targets);
    [gq, gk, gv]
}

/// Attention of an image to itself, with queries, keys and values one after the other along the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfAttention {
    heads: usize,
    channels: usize,
}

impl SelfAttention {
    /// `heads` heads that share `channels` channels evenly.
    pub fn new(channels: usize, heads: usize) -> Result<Self> {
        check_groups(channels, heads)?;
        Ok(Self { heads, channels })
    }

    /// From `[q, k, v]` (`3·channels` channels) to `channels` channels.
    pub fn forward(&self, qkv: &Act) -> Act {
        assert_eq!(qkv.shape().c, 3 * self.channels, "channels of queries, keys and values together");
        let mut out = Act::stale(qkv.shape().with_channels(self.channels));
        forward(self.operands(qkv), self.heads, Target::whole(&mut out));
        out
    }

    /// Gradient of `[q, k, v]`, which must be given as in the forward pass.
    pub fn backward(&self, qkv: &Act, gy: &Act) -> Act {
        assert_eq!(gy.shape(), qkv.shape().with_channels(self.channels), "attention's output gradient");
        let mut gradient = Act::stale(qkv.shape());
        let targets = Target::thirds(&mut gradient);
        backward::backward(self.operands(qkv), self.heads, Operand::whole(gy), targets);
        gradient
    }

    fn operands<'a>(&self, qkv: &'a Act) -> [Operand<'a>; 3] {
        [0, 1, 2].map(|part| Operand { act: qkv, first: part * self.channels, channels: self.channels })
    }
}

fn head_width(channels: usize, heads: usize) -> usize {
    assert!(heads > 0 && channels.is_multiple_of(heads), "{channels} channels in {heads} heads");
    channels / heads
}

fn forward([q, k, v]: [Operand<'_>; 3], heads: usize, out: Target<'_>) {
    let (isa, width) = (Isa::active(), head_width(q.channels, heads));
    let (queries, keys, scale) = (q.tokens(), k.tokens(), 1.0 / (width as f32).sqrt());
    for_each(q.act.shape().n * heads, |item| {
        let (sample, head) = (item / heads, item % heads);
        let (q, k, v) = (q.head(sample, head, width), k.head(sample, head, width), v.head(sample, head, width));
        let (keys_t, values) = (k.packed_transposed(isa), v.packed(isa));
        for_each(queries.div_ceil(ROW_BLOCK), |block| {
            let first = block * ROW_BLOCK;
            let count = ROW_BLOCK.min(queries - first);
            let mut scores = Buffer::stale(count * keys);
            multiply(q.rows_from(first, count), &keys_t, MatrixMut::contiguous(&mut scores, keys));
            isa.vectorize(
                #[inline(always)]
                || {
                    for row in scores.chunks_exact_mut(keys) {
                        softmax_row(row, scale);
                    }
                },
            );
            // SAFETY: heads are disjoint between items; within one, row blocks are.
            let to = unsafe { out.head(sample, head, width) };
            multiply(Matrix::contiguous(&scores, keys), &values, to.rows_from(first, count));
        });
    });
}
