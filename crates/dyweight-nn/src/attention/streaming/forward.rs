//! The forward pass; formulas at the head of the parent module.

use std::ops::Range;

use super::bias::{Bias, HeadBias};
use super::blocks::{accumulate, block_of_columns, exp_or_zero, whole_vectors};
use super::{Attention, COLUMNS, LogSums, ROWS, STRIDE};
use crate::act::Act;
use crate::attention::rows::{Matrix, MatrixMut, Operand, Target};
use crate::buffer::Buffer;
use crate::gemm::{Packed, Start};
use crate::isa::Isa;
use crate::pairs::Pairs;
use crate::parallel::{Disjoint, for_each};
use crate::reduce::largest;

/// Keys and values of one head of one sample.
struct Head<'a> {
    isa: Isa,
    pairs: Option<Pairs>,
    scale: f32,
    keys_t: Packed,
    values: Packed,
    bias: HeadBias<'a>,
}

pub(super) fn forward(attention: &Attention, [q, k, v]: [&Act; 3], bias: Bias<'_>) -> (Act, LogSums) {
    let (isa, pairs) = (Isa::active(), attention.pairs);
    let (width, heads) = (attention.width(), attention.heads);
    let (n, queries, keys) = (q.shape().n, q.shape().pixels(), k.shape().pixels());
    let mut y = Act::stale(q.shape());
    let mut sums = LogSums(Buffer::stale(n * heads * queries));
    let (to, to_sums) = (Target::whole(&mut y), Disjoint::new(&mut sums.0));
    for_each(n * heads, |item| {
        let (sample, head) = (item / heads, item % heads);
        let [q, k, v] = [q, k, v].map(|act| Operand::whole(act).head(sample, head, width));
        let head_bias = bias.head(sample, head, [queries, keys], attention.causal);
        let (keys_t, values) = (k.packed_transposed_for(isa, pairs), v.packed_for(isa, pairs));
        let one = Head { isa, pairs, scale: attention.scale, keys_t, values, bias: head_bias };
        for_each(queries.div_ceil(ROWS), |block| {
            let rows = block * ROWS..queries.min((block + 1) * ROWS);
            // SAFETY: heads are disjoint between items; within one, blocks of rows are.
            let (to, sums) =
                unsafe { (to.head(sample, head, width), to_sums.part(item * queries + rows.start, rows.len())) };
            one.gather(q.rows_from(rows.start, rows.len()), &rows, to.rows_from(rows.start, rows.len()), sums);
        });
    });
    (y, sums)
}

impl Head<'_> {
    /// What a block of queries gathers.
    fn gather(&self, q: Matrix<'_>, rows: &Range<usize>, mut to: MatrixMut<'_>, sums: &mut [f32]) {
        let (count, stride, keys) = (rows.len(), whole_vectors(&self.values), self.keys_t.columns());
        let mut scores = Buffer::stale(count * STRIDE);
        let mut gathered = Buffer::zeros(count * stride);
        let [mut rounded, mut rounded_weights] = [Buffer::stale(0), Buffer::stale(0)];
        let q = q.factor(self.pairs, &mut rounded);
        let (mut largest, mut totals) = ([f32::NEG_INFINITY; ROWS], [0.0; ROWS]);
        for first in (0..keys).step_by(COLUMNS) {
            let block = first..keys.min(first + COLUMNS);
            if self.bias.hides(rows, &block) {
                break;
            }
            block_of_columns(q, &self.keys_t, &block, self.scale, &mut scores, STRIDE);
            self.isa.vectorize(
                #[inline(always)]
                || {
                    for r in 0..count {
                        let scores = &mut scores[r * STRIDE..][..block.len()];
                        self.bias.add_to_query(scores, rows.start + r, &block);
                        let shrink = exponentials(scores, &mut largest[r], &mut totals[r]);
                        for sum in &mut gathered[r * stride..][..stride] {
                            *sum *= shrink;
                        }
                    }
                },
            );
            let weights = Matrix::strided(&scores, STRIDE, count, block.len());
            let weights = weights.factor(self.pairs, &mut rounded_weights);
            accumulate(weights, &self.values, &block, &mut gathered, Start::Output);
        }
        for r in 0..count {
            // A query that saw no key: its weights are 0 now, and e^{S − ∞} = 0 in the gradient.
            let empty = totals[r] == 0.0;
            let inverse = if empty { 0.0 } else { 1.0 / totals[r] };
            sums[r] = if empty { f32::INFINITY } else { largest[r] + totals[r].ln() };
            for (to, sum) in to.row_mut(r).iter_mut().zip(&gathered[r * stride..]) {
                *to = sum * inverse;
            }
        }
    }
}

/// Turns scores into `e^{score − largest}`, with the largest so far, and adds them to the total; returns the factor by
/// which everything gathered before must shrink.
#[inline(always)]
fn exponentials(scores: &mut [f32], so_far: &mut f32, total: &mut f32) -> f32 {
    const PARTS: usize = 16;
    let block = largest(scores);
    let new = if block > *so_far { block } else { *so_far };
    // Finite even where everything is hidden: −∞ less a finite number is −∞ still.
    let reference = if new > f32::MIN { new } else { f32::MIN };
    let shrink = exp_or_zero(*so_far - reference);
    let mut parts = [0.0; PARTS];
    let (whole, rest) = scores.as_chunks_mut::<PARTS>();
    for scores in whole {
        for i in 0..PARTS {
            scores[i] = exp_or_zero(scores[i] - reference);
            parts[i] += scores[i];
        }
    }
    let mut sum = parts.iter().sum::<f32>();
    for score in rest {
        *score = exp_or_zero(*score - reference);
        sum += *score;
    }
    (*so_far, *total) = (new, *total * shrink + sum);
    shrink
}
