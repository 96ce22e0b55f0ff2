//! Multi-head attention with a free scale, biases and masks, in blocks of queries and keys.
//!
//! ```text
//! S = scale·Q·Kᵀ + bias,  A = softmax_rows(S),  O = A·V                         per sample and head
//! L = ln Σ_keys e^S                                                             kept for the gradient
//! gV = Aᵀ·gO,  gS = A∘(gO·Vᵀ − rowsum(gO∘O)),  gQ = scale·gS·K,  gK = scale·gSᵀ·Q,  A = e^{S − L}
//! ```
//!
//! The softmax is made on the way over the blocks of keys, with a running maximum (Milakov & Gimelshein 2018); blocks
//! of `A` never leave the cache, forwards and backwards (Dao et al. 2022, FlashAttention). The order of every sum
//! depends on the numbers of queries and keys alone.

mod backward;
mod bias;
mod blocks;
mod forward;
mod softmax;

pub use bias::Bias;

use crate::act::Act;
use crate::buffer::Buffer;
use crate::error::{Error, Result, check_groups};
use crate::pairs::Pairs;
use crate::precision::Precision;

/// Rows of a block in memory.
const ROWS: usize = 96;

/// Columns of a block in memory: a multiple of every panel width.
const COLUMNS: usize = 256;

/// From row to row of a block; not a power of two, whose multiples share places in the cache.
const STRIDE: usize = COLUMNS + 16;

/// Attention of queries to keys and values, `[n, ·, ·, heads·d]` each; head `h` has channels `h·d..(h+1)·d`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    channels: usize,
    heads: usize,
    scale: f32,
    causal: bool,
    /// Whether products are of pairs of bf16.
    pairs: Option<Pairs>,
}

/// Per sample, head and query, the logarithm of the softmax's denominator.
#[derive(Clone, Debug)]
pub struct LogSums(Buffer);

impl Attention {
    /// `heads` heads that share `channels` channels evenly; scores are scaled by `1/√d`.
    pub fn new(channels: usize, heads: usize) -> Result<Self> {
        check_groups(channels, heads)?;
        let scale = 1.0 / ((channels / heads) as f32).sqrt();
        Ok(Self { channels, heads, scale, causal: false, pairs: None })
    }

    /// The same with another scale of the scores.
    pub fn with_scale(self, scale: f32) -> Self {
        Self { scale, ..self }
    }

    /// The same with products of this precision: queries, keys and values are rounded, and the weights of the softmax;
    /// the softmax itself is f32.
    pub fn in_precision(self, precision: Precision) -> Result<Self> {
        let pairs = match precision {
            Precision::F32 => None,
            Precision::Bf16 => Some(Pairs::available().ok_or(Error::Instructions { precision })?),
        };
        Ok(Self { pairs, ..self })
    }

    /// The same with each query seeing only keys up to its own place.
    pub fn causal(self) -> Self {
        Self { causal: true, ..self }
    }

    /// What the queries gather, and what [`backward`](Self::backward) needs. A query that sees no key gathers zeros.
    pub fn forward(&self, q: &Act, k: &Act, v: &Act, bias: Bias<'_>) -> (Act, LogSums) {
        self.check(q, k, v, bias);
        forward::forward(self, [q, k, v], bias)
    }

    /// Gradients of queries, keys and values; `y` and `sums` are what the forward pass returned.
    pub fn backward(&self, [q, k, v]: [&Act; 3], bias: Bias<'_>, y: &Act, sums: &LogSums, gy: &Act) -> [Act; 3] {
        self.check(q, k, v, bias);
        assert_eq!((y.shape(), gy.shape()), (q.shape(), q.shape()), "attention's output and its gradient");
        assert_eq!(sums.0.len(), q.shape().n * self.heads * q.shape().pixels(), "attention's sums");
        backward::backward(self, [q, k, v], bias, [y, gy], &sums.0)
    }

    fn check(&self, q: &Act, k: &Act, v: &Act, bias: Bias<'_>) {
        let (queries, keys) = (q.shape().pixels(), k.shape().pixels());
        assert_eq!(q.shape().c, self.channels, "channels of attention's queries");
        assert_eq!(k.shape(), v.shape(), "keys and values");
        assert_eq!((q.shape().n, q.shape().c), (k.shape().n, k.shape().c), "samples and channels of queries and keys");
        assert!(!self.causal || queries == keys, "{queries} queries and {keys} keys in causal attention");
        bias.check(q.shape().n, self.heads, queries, keys);
    }

    fn width(&self) -> usize {
        self.channels / self.heads
    }
}
