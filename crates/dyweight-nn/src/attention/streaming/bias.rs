//! What is added to the scores of attention before the softmax.

use std::ops::Range;

use crate::act::{Act, Shape};

/// What is added to the scores; −∞ hides a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bias<'a> {
    /// `[n, 1, 1, keys]`: per sample and key, the same for all queries and heads.
    pub keys: Option<&'a Act>,
    /// `[heads, queries, keys]`: the same for all samples.
    pub pairs: Option<&'a [f32]>,
}

impl<'a> Bias<'a> {
    /// Nothing.
    pub const NONE: Self = Self { keys: None, pairs: None };

    pub(super) fn check(&self, n: usize, heads: usize, queries: usize, keys: usize) {
        if let Some(bias) = self.keys {
            assert_eq!(bias.shape(), Shape::tokens(n, 1, keys), "bias of attention's keys");
        }
        if let Some(bias) = self.pairs {
            assert_eq!(bias.len(), heads * queries * keys, "bias of {heads} heads, {queries} queries, {keys} keys");
        }
    }

    /// For one sample and head.
    pub(super) fn head(&self, sample: usize, head: usize, [queries, keys]: [usize; 2], causal: bool) -> HeadBias<'a> {
        let pairs = self.pairs.map(|bias| &bias[head * queries * keys..][..queries * keys]);
        HeadBias { keys: self.keys.map(|bias| bias.sample(sample)), pairs, stride: keys, causal }
    }
}

/// The bias of one sample and head, with the causal mask.
#[derive(Clone, Copy)]
pub(super) struct HeadBias<'a> {
    keys: Option<&'a [f32]>,
    pairs: Option<&'a [f32]>,
    stride: usize,
    causal: bool,
}

impl HeadBias<'_> {
    /// Whether no query of `queries` sees a key of `keys`.
    pub(super) fn hides(&self, queries: &Range<usize>, keys: &Range<usize>) -> bool {
        self.causal && queries.end <= keys.start
    }

    /// Adds to the scores of one query against `keys`.
    #[inline(always)]
    pub(super) fn add_to_query(&self, scores: &mut [f32], query: usize, keys: &Range<usize>) {
        if let Some(bias) = self.keys {
            add(scores, &bias[keys.clone()]);
        }
        if let Some(bias) = self.pairs {
            add(scores, &bias[query * self.stride..][keys.clone()]);
        }
        if self.causal && query + 1 < keys.end {
            scores[(query + 1).saturating_sub(keys.start)..].fill(f32::NEG_INFINITY);
        }
    }

    /// Adds to the scores of one key against `queries`.
    #[inline(always)]
    pub(super) fn add_to_key(&self, scores: &mut [f32], key: usize, queries: &Range<usize>) {
        if let Some(bias) = self.keys {
            for score in scores.iter_mut() {
                *score += bias[key];
            }
        }
        if let Some(bias) = self.pairs {
            let column = bias[queries.start * self.stride + key..].iter().step_by(self.stride);
            for (score, bias) in scores.iter_mut().zip(column) {
                *score += bias;
            }
        }
        if self.causal && key > queries.start {
            let hidden = (key - queries.start).min(scores.len());
            scores[..hidden].fill(f32::NEG_INFINITY);
        }
    }
}

#[inline(always)]
fn add(scores: &mut [f32], bias: &[f32]) {
    for (score, bias) in scores.iter_mut().zip(bias) {
        *score += bias;
    }
}
