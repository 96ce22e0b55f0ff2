//! The gradient; formulas at the head of the parent module.
//!
//! Blocks have keys as rows and queries as columns, so that a key's sums run over a whole row. One task takes a stretch
//! of keys and passes over all queries; what several stretches add to a query's gradient is summed afterwards, in
//! order.

use std::ops::Range;

use super::bias::{Bias, HeadBias};
use super::blocks::{accumulate, block_of_columns, whole_vectors};
use super::softmax::Weights;
use super::{Attention, COLUMNS, ROWS, STRIDE};
use crate::act::Act;
use crate::attention::rows::{Matrix, MatrixMut, Operand, Target};
use crate::buffer::Buffer;
use crate::gemm::pack::transpose;
use crate::gemm::{Packed, Start};
use crate::isa::Isa;
use crate::pairs::Pairs;
use crate::parallel::{Disjoint, for_each};
use crate::reduce::dot;

/// Keys one task passes over: a multiple of [`ROWS`].
const STRETCH: usize = 12 * ROWS;

/// One head of one sample.
struct Head<'a> {
    isa: Isa,
    pairs: Option<Pairs>,
    scale: f32,
    k: Matrix<'a>,
    v: Matrix<'a>,
    /// `[d, queries]`.
    queries_t: Packed,
    go_t: Packed,
    /// `[queries, d]`.
    queries: Packed,
    go: Packed,
    /// Per query, `L` and `rowsum(gO∘O)`.
    sums: &'a [f32],
    weighted: Buffer,
    bias: HeadBias<'a>,
}

/// Memory of one task.
struct Scratch {
    /// `Aᵀ`, then `gSᵀ`, of a block.
    weights: Buffer,
    pulls: Buffer,
    turned: Buffer,
    gk: Buffer,
    gv: Buffer,
    /// Left factors as pairs.
    rounded: Buffer,
}

pub(super) fn backward(
    attention: &Attention,
    [q, k, v]: [&Act; 3],
    bias: Bias<'_>,
    [y, gy]: [&Act; 2],
    sums: &[f32],
) -> [Act; 3] {
    let (isa, pairs) = (Isa::active(), attention.pairs);
    let (width, heads) = (attention.width(), attention.heads);
    let (n, queries, keys) = (q.shape().n, q.shape().pixels(), k.shape().pixels());
    let [mut gq, mut gk, mut gv] = [q, k, v].map(|act| Act::stale(act.shape()));
    let [to_q, to_k, to_v] = [&mut gq, &mut gk, &mut gv].map(Target::whole);
    for_each(n * heads, |item| {
        let (sample, head) = (item / heads, item % heads);
        let [q, k, v, y, gy] = [q, k, v, y, gy].map(|act| Operand::whole(act).head(sample, head, width));
        let one = Head {
            isa,
            pairs,
            scale: attention.scale,
            k,
            v,
            queries_t: q.packed_transposed_for(isa, pairs),
            go_t: gy.packed_transposed_for(isa, pairs),
            queries: q.packed_for(isa, pairs),
            go: gy.packed_for(isa, pairs),
            sums: &sums[item * queries..][..queries],
            weighted: row_products(isa, y, gy),
            bias: bias.head(sample, head, [queries, keys], attention.causal),
        };
        let stretches = keys.div_ceil(STRETCH);
        let stride = whole_vectors(&one.queries);
        let mut parts = Buffer::zeros(stretches * queries * stride);
        let shared = Disjoint::new(&mut parts);
        for_each(stretches, |stretch| {
            // SAFETY: one part per item.
            let part = unsafe { shared.part(stretch * queries * stride, queries * stride) };
            one.pass(stretch * STRETCH..keys.min((stretch + 1) * STRETCH), part, |first, count| {
                // SAFETY: heads are disjoint between items; within one, rows of keys are between stretches.
                let (gk, gv) = unsafe { (to_k.head(sample, head, width), to_v.head(sample, head, width)) };
                (gk.rows_from(first, count), gv.rows_from(first, count))
            });
        });
        // SAFETY: heads are disjoint between items, and this one's tasks are done.
        let mut gq = unsafe { to_q.head(sample, head, width) };
        for query in 0..queries {
            let to = gq.row_mut(query);
            to.copy_from_slice(&parts[query * stride..][..width]);
            for part in parts.chunks_exact((queries * stride).max(1)).skip(1) {
                to.iter_mut().zip(&part[query * stride..]).for_each(|(to, part)| *to += part);
            }
        }
    });
    [gq, gk, gv]
}

/// `Σ a∘b` of every row.
fn row_products(isa: Isa, a: Matrix<'_>, b: Matrix<'_>) -> Buffer {
    let mut sums = Buffer::stale(a.rows());
    isa.vectorize(
        #[inline(always)]
        || {
            for (row, sum) in sums.iter_mut().enumerate() {
                *sum = dot(
                    a.row(row),
                    b.row(row),
                    #[inline(always)]
                    |a, b| a * b,
                );
            }
        },
    );
    sums
}

impl Head<'_> {
    /// Gradients of a stretch of keys and values, and what they add to the queries'.
    fn pass<'t>(
        &self,
        stretch: Range<usize>,
        gq: &mut [f32],
        targets: impl Fn(usize, usize) -> (MatrixMut<'t>, MatrixMut<'t>),
    ) {
        let (stride, queries) = (whole_vectors(&self.queries), self.queries.depth());
        let mut scratch = Scratch {
            weights: Buffer::stale(ROWS * STRIDE),
            pulls: Buffer::stale(ROWS * STRIDE),
            turned: Buffer::stale(ROWS * COLUMNS),
            gk: Buffer::stale(ROWS * stride),
            gv: Buffer::stale(ROWS * stride),
            rounded: Buffer::stale(0),
        };
        let [mut rounded_k, mut rounded_v] = [Buffer::stale(0), Buffer::stale(0)];
        for first in stretch.clone().step_by(ROWS) {
            let rows = first..stretch.end.min(first + ROWS);
            let (k, v) = (self.k.rows_from(first, rows.len()), self.v.rows_from(first, rows.len()));
            let keys = k.packed_for(self.isa, self.pairs);
            let factors = [k.factor(self.pairs, &mut rounded_k), v.factor(self.pairs, &mut rounded_v)];
            scratch.gk.fill(0.0);
            scratch.gv.fill(0.0);
            for left in (0..queries).step_by(COLUMNS) {
                let columns = left..queries.min(left + COLUMNS);
                if self.bias.hides(&columns, &rows) {
                    continue;
                }
                self.block(factors, &rows, &columns, &mut scratch);
                let [weights, pulls] = [&scratch.weights, &scratch.pulls]
                    .map(|block| Matrix::strided(block, STRIDE, rows.len(), columns.len()));
                let weights = weights.factor(self.pairs, &mut scratch.rounded);
                accumulate(weights, &self.go, &columns, &mut scratch.gv, Start::Output);
                let pulls = pulls.factor(self.pairs, &mut scratch.rounded);
                accumulate(pulls, &self.queries, &columns, &mut scratch.gk, Start::Output);
                let lines: Vec<_> = scratch.pulls.chunks_exact(STRIDE).take(rows.len()).collect();
                transpose(self.isa, &lines, columns.len(), &mut scratch.turned, ROWS);
                let turned = Matrix::strided(&scratch.turned, ROWS, columns.len(), rows.len());
                let turned = turned.factor(self.pairs, &mut scratch.rounded);
                accumulate(turned, &keys, &(0..rows.len()), &mut gq[left * stride..], Start::Output);
            }
            let (mut gk, mut gv) = targets(first, rows.len());
            for row in 0..rows.len() {
                let (to_k, to_v) = (gk.row_mut(row), gv.row_mut(row));
                to_k.copy_from_slice(&scratch.gk[row * stride..][..to_k.len()]);
                to_v.copy_from_slice(&scratch.gv[row * stride..][..to_v.len()]);
            }
        }
    }

    /// `Aᵀ` and `scale·gSᵀ` of keys `rows`, given with their values as factors, and queries `columns`.
    fn block(&self, [k, v]: [Matrix<'_>; 2], rows: &Range<usize>, columns: &Range<usize>, scratch: &mut Scratch) {
        block_of_columns(k, &self.queries_t, columns, self.scale, &mut scratch.weights, STRIDE);
        block_of_columns(v, &self.go_t, columns, 1.0, &mut scratch.pulls, STRIDE);
        let (sums, weighted) = (&self.sums[columns.clone()], &self.weighted[columns.clone()]);
        for key in rows.clone() {
            let at = (key - rows.start) * STRIDE;
            let (scores, pulls) =
                (&mut scratch.weights[at..][..columns.len()], &mut scratch.pulls[at..][..columns.len()]);
            self.bias.add_to_key(scores, key, columns);
            self.isa.run(Weights { scores, pulls, sums, weighted, scale: self.scale });
        }
    }
}
