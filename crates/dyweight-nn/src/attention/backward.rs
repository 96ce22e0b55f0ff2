//! The gradient of attention; formulas at the head of the parent module.

use super::rows::{Matrix, MatrixMut, Operand, Target, multiply, softmax_row};
use super::{ROW_BLOCK, head_width};
use crate::activation::exp;
use crate::buffer::Buffer;
use crate::isa::Isa;
use crate::parallel::{Disjoint, for_each};
use crate::reduce::dot;

/// One head of one sample.
struct Head<'a> {
    isa: Isa,
    scale: f32,
    q: Matrix<'a>,
    k: Matrix<'a>,
    v: Matrix<'a>,
    go: Matrix<'a>,
    queries: usize,
    keys: usize,
}

/// What a row of the softmax is computed again from: `ln Σ e^S`, and `Σ A∘gA`.
struct RowSums {
    log_total: Buffer,
    weighted: Buffer,
}

pub(super) fn backward([q, k, v]: [Operand<'_>; 3], heads: usize, go: Operand<'_>, targets: [Target<'_>; 3]) {
    let (isa, width) = (Isa::active(), head_width(q.channels, heads));
    for_each(q.act.shape().n * heads, |item| {
        let (sample, head) = (item / heads, item % heads);
        let one = Head {
            isa,
            scale: 1.0 / (width as f32).sqrt(),
            q: q.head(sample, head, width),
            k: k.head(sample, head, width),
            v: v.head(sample, head, width),
            go: go.head(sample, head, width),
            queries: q.tokens(),
            keys: k.tokens(),
        };
        let sums = one.by_queries(|| {
            // SAFETY: heads are disjoint between items; within one, row blocks are.
            unsafe { targets[0].head(sample, head, width) }
        });
        one.by_keys(&sums, || {
            // SAFETY: as above; keys and values are different targets.
            unsafe { (targets[1].head(sample, head, width), targets[2].head(sample, head, width)) }
        });
    });
}

impl Head<'_> {
    /// `gQ`, block by block of queries.
    fn by_queries<'t>(&self, gq: impl Fn() -> MatrixMut<'t> + Sync) -> RowSums {
        let (keys_t, values_t) = (self.k.packed_transposed(self.isa), self.v.packed_transposed(self.isa));
        let keys = self.k.packed(self.isa);
        let mut sums = RowSums { log_total: Buffer::stale(self.queries), weighted: Buffer::stale(self.queries) };
        let (log_total, weighted) = (Disjoint::new(&mut sums.log_total), Disjoint::new(&mut sums.weighted));
        for_each(self.queries.div_ceil(ROW_BLOCK), |block| {
            let first = block * ROW_BLOCK;
            let count = ROW_BLOCK.min(self.queries - first);
            let (mut a, mut ga) = (Buffer::stale(count * self.keys), Buffer::stale(count * self.keys));
            multiply(self.q.rows_from(first, count), &keys_t, MatrixMut::contiguous(&mut a, self.keys));
            multiply(self.go.rows_from(first, count), &values_t, MatrixMut::contiguous(&mut ga, self.keys));
            // SAFETY: one stretch of rows per block.
            let (log_total, weighted) = unsafe { (log_total.part(first, count), weighted.part(first, count)) };
            let scale = self.scale;
            self.isa.vectorize(
                #[inline(always)]
                || {
                    let rows = a.chunks_exact_mut(self.keys).zip(ga.chunks_exact_mut(self.keys));
                    for ((a, ga), (log_total, weighted)) in rows.zip(log_total.iter_mut().zip(weighted)) {
                        *log_total = softmax_row(a, scale);
                        let mean = dot(
                            a,
                            ga,
                            #[inline(always)]
                            |a, g| a * g,
                        );
                        for (g, a) in ga.iter_mut().zip(a) {
                            *g = *a * (*g - mean) * scale;
                        }
                        *weighted = mean;
                    }
                },
            );
            multiply(Matrix::contiguous(&ga, self.keys), &keys, gq().rows_from(first, count));
        });
        sums
    }

    /// `gK` and `gV`, block by block of keys.
    fn by_keys<'t>(&self, sums: &RowSums, targets: impl Fn() -> (MatrixMut<'t>, MatrixMut<'t>) + Sync) {
        let (queries_t, go_t) = (self.q.packed_transposed(self.isa), self.go.packed_transposed(self.isa));
        let (queries, go) = (self.q.packed(self.isa), self.go.packed(self.isa));
        for_each(self.keys.div_ceil(ROW_BLOCK), |block| {
            let first = block * ROW_BLOCK;
            let count = ROW_BLOCK.min(self.keys - first);
            let (mut a, mut ga) = (Buffer::stale(count * self.queries), Buffer::stale(count * self.queries));
            multiply(self.k.rows_from(first, count), &queries_t, MatrixMut::contiguous(&mut a, self.queries));
            multiply(self.v.rows_from(first, count), &go_t, MatrixMut::contiguous(&mut ga, self.queries));
            let scale = self.scale;
            self.isa.vectorize(
                #[inline(always)]
                || {
                    for (a, ga) in a.chunks_exact_mut(self.queries).zip(ga.chunks_exact_mut(self.queries)) {
                        let rows = sums.log_total.iter().zip(&sums.weighted[..]);
                        for ((a, g), (log_total, mean)) in a.iter_mut().zip(ga).zip(rows) {
                            *a = exp(*a * scale - log_total);
                            *g = *a * (*g - mean) * scale;
                        }
                    }
                },
            );
            let (gk, gv) = targets();
            multiply(Matrix::contiguous(&ga, self.queries), &queries, gk.rows_from(first, count));
            multiply(Matrix::contiguous(&a, self.queries), &go, gv.rows_from(first, count));
        });
    }
}
