//! The forward pass; formulas at the head of the parent module.

use std::ops::Range;

use super::bias::{Bias, HeadBias};
use super::blocks::{accumulate, block_of_columns, whole_vectors};
use super::softmax::Exponentials;
use super::{Attention, COLUMNS, LogSums, ROWS, STRIDE};
use crate::act::Act;
use crate::attention::rows::{Matrix, MatrixMut, Operand, Target};
use crate::buffer::Buffer;
use crate::gemm::{Packed, Start};
use crate::isa::Isa;
use crate::pairs::Pairs;
use crate::parallel::{Disjoint, for_each};

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
        let (mut largest, mut totals, mut shrink) = ([f32::NEG_INFINITY; ROWS], [0.0; ROWS], [0.0; ROWS]);
        for first in (0..keys).step_by(COLUMNS) {
            let block = first..keys.min(first + COLUMNS);
            if self.bias.hides(rows, &block) {
                break;
            }
            block_of_columns(q, &self.keys_t, &block, self.scale, &mut scores, STRIDE);
            for (r, scores) in scores.chunks_exact_mut(STRIDE).take(count).enumerate() {
                self.bias.add_to_query(&mut scores[..block.len()], rows.start + r, &block);
            }
            self.isa.run(Exponentials {
                scores: &mut scores,
                stride: STRIDE,
                len: block.len(),
                so_far: &mut largest[..count],
                totals: &mut totals[..count],
                shrink: &mut shrink,
            });
            for (gathered, shrink) in gathered.chunks_exact_mut(stride).zip(&shrink) {
                if *shrink != 1.0 {
                    gathered.iter_mut().for_each(|sum| *sum *= shrink);
                }
            }
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
