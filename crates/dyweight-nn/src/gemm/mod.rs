//! Products with a packed right-hand matrix: the work horse of convolutions, linear layers and attention.
//!
//! ```text
//! C[i, j] = ( Σ_k A[i, k]·B[k, j] + bias[j] + residual[i, j] ) · scale
//! ```
//!
//! `B` is packed in panels as wide as a few vectors ([`pack`]); the kernel ([`kernel`]) keeps a block of six rows by
//! one panel in registers through the whole sum over `k`, in rising order, whatever the number of rows: so an entry of
//! `C` does not depend on how the rows are cut into blocks or spread over threads.

pub(crate) mod kernel;
pub(crate) mod pack;

pub(crate) use kernel::{Epilogue, Grid, PanelProduct, Segments, Start};
pub(crate) use pack::{Opened, Packed, Panel};

use std::ops::Range;

use rayon::prelude::*;

use crate::buffer::Buffer;
use crate::pairs::{self, Pairs};
use crate::parallel::{Disjoint, for_each};

/// Most rows one task handles; with a block of the depth, `A`'s part (1.2 MB) stays in the second-level cache. All of
/// them pass by a panel that comes from farther away: with 96 it came four times as often, and large layers took up to
/// a quarter longer beside other programs.
const ROW_BLOCK: usize = 384;

/// Depth summed over before the next panel's turn. Partial sums wait in the output: the sum comes out the same. With
/// 128, for which a panel stays in the first-level cache, fetching and storing them took an eighth of the time.
const DEPTH_BLOCK: usize = 768;

/// Rows of `A` that are a multiple of this many floats apart share places in the cache, so that they are copied before
/// use,
const CROWDED: usize = 512;

/// to have these between them.
const GAP: usize = 16;

/// Most panels one task handles, over which it uses a block of `A` again.
const PANEL_GROUP: usize = 64;

/// Tasks for each thread, so that one that was held up does not hold up all.
const TASKS: usize = 10;

/// `out = (a·b + bias + residual)·scale`, rows of `a` and `out` contiguous.
pub(crate) fn matmul(a: &[f32], b: &Packed, out: &mut [f32], epilogue: Epilogue<'_>) {
    let rows = a.len() / b.depth();
    assert_eq!((a.len(), out.len()), (rows * b.depth(), rows * b.columns()), "operands of a product");
    let (a, columns) = (Rows::new(a, b.depth(), b.pairs()), Span::whole(b.columns()));
    Product { a: &a, b, columns, tasks: tasks(1), epilogue }.run(&Disjoint::new(out));
}

/// Tasks that one of `products` at the same time should be cut into.
pub(crate) fn tasks(products: usize) -> usize {
    (TASKS * rayon::current_num_threads()).div_ceil(products.max(1))
}

/// Rows of `A`, some way apart.
pub(crate) struct Rows<'a> {
    data: &'a [f32],
    apart: Option<Buffer>,
    count: usize,
    stride: usize,
    pairs: Option<Pairs>,
}

impl<'a> Rows<'a> {
    /// Contiguous rows, copied if they would be in each other's way, or are to be pairs.
    pub(crate) fn new(data: &'a [f32], len: usize, pairs: Option<Pairs>) -> Self {
        let count = data.len() / len;
        assert_eq!(data.len(), count * len, "operands of a product");
        if let Some(pairs) = pairs {
            return Self::rounded(data, len, pairs);
        }
        if !len.is_multiple_of(CROWDED) || count <= kernel::ROWS {
            return Self { data, apart: None, count, stride: len, pairs };
        }
        let stride = len + GAP;
        let mut copy = Buffer::stale(count * stride);
        copy.par_chunks_exact_mut(stride).zip(data.par_chunks_exact(len)).for_each(|(to, row)| {
            to[..len].copy_from_slice(row);
            to[len..].fill(0.0);
        });
        Self { data, apart: Some(copy), count, stride, pairs }
    }

    /// Contiguous rows as pairs.
    fn rounded(data: &'a [f32], len: usize, pairs: Pairs) -> Self {
        let (count, steps) = (data.len() / len, pairs::count(len));
        let stride = if steps.is_multiple_of(CROWDED) { steps + GAP } else { steps };
        let mut copy = Buffer::stale(count * stride);
        copy.par_chunks_exact_mut(stride).zip(data.par_chunks_exact(len)).for_each(|(to, row)| {
            pairs.round(row, &mut to[..steps]);
            to[steps..].fill(0.0);
        });
        Self { data, apart: Some(copy), count, stride, pairs: Some(pairs) }
    }

    fn data(&self) -> &[f32] {
        self.apart.as_deref().unwrap_or(self.data)
    }
}

/// Where a product's columns begin in whole rows.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first: usize,
    /// Length of a whole row.
    pub(crate) of: usize,
}

impl Span {
    pub(crate) fn whole(of: usize) -> Self {
        Self { first: 0, of }
    }
}

/// A product with part of a matrix: some of the depth, some of the columns. A bias counts from the first column of all.
pub(crate) struct Product<'a> {
    pub(crate) a: &'a Rows<'a>,
    pub(crate) b: &'a Packed,
    pub(crate) columns: Span,
    /// How many to cut it into.
    pub(crate) tasks: usize,
    pub(crate) epilogue: Epilogue<'a>,
}

impl Product<'_> {
    /// Computes its columns of all rows.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub(crate) fn run(&self, out: &Disjoint<'_>) {
        let rows = self.a.count;
        assert!(out.len() == rows * self.columns.of && self.b.steps() <= self.a.stride, "operands of a product");
        assert_eq!(self.a.pairs, self.b.pairs(), "operands of a product are both rounded or both not");
        assert!(self.columns.first + self.b.columns() <= self.columns.of, "columns of a product");
        let (threads, panels) = (rayon::current_num_threads(), self.b.panels());
        let blocks = match rows.div_ceil(ROW_BLOCK) {
            many if many >= threads => many.next_multiple_of(threads),
            few => few,
        };
        // Blocks of equal size: a short one would read the panels for little work.
        let per_block = rows.div_ceil(blocks.max(1)).next_multiple_of(kernel::ROWS);
        let wanted = self.tasks.div_ceil(blocks.max(1));
        let group = panels.div_ceil(wanted).clamp(1, PANEL_GROUP);
        let groups = panels.div_ceil(group);
        // Blocks of the same panels follow each other: a thread that has several finds the panels near by.
        for_each(blocks * groups, |item| {
            let (group_index, block) = (item / blocks, item % blocks);
            let block = rows.min(block * per_block)..rows.min((block + 1) * per_block);
            let panels = group_index * group..panels.min((group_index + 1) * group);
            self.block(block, panels, out);
        });
    }

    /// Some rows times some panels.
    fn block(&self, rows: Range<usize>, panels: Range<usize>, out: &Disjoint<'_>) {
        let depth = self.b.steps();
        let panels: Vec<_> = panels.map(|panel| self.b.open(panel)).collect();
        for start in (0..depth).step_by(DEPTH_BLOCK) {
            let end = depth.min(start + DEPTH_BLOCK);
            for (index, panel) in panels.iter().enumerate() {
                let part = |panel: Panel<'_>| start * panel.width..end * panel.width;
                let panel = panel.panel();
                let data = &panel.data[part(panel)];
                let next = panels.get(index + 1).map_or(&[][..], |next| &next.panel().data[part(next.panel())]);
                let product = PanelProduct {
                    input: self.a.data().as_ptr(),
                    input_rows: Grid { offset: rows.start * self.a.stride + start, ..Grid::contiguous(self.a.stride) },
                    segments: Segments::single(end - start),
                    rows: 0..rows.len(),
                    next,
                    panel: Panel { data, first: self.columns.first + panel.first, ..panel },
                    output: out.ptr(),
                    output_rows: Grid { offset: rows.start * self.columns.of, ..Grid::contiguous(self.columns.of) },
                    start: if start == 0 { Start::Zero } else { Start::Output },
                    epilogue: if end == depth { self.epilogue } else { Epilogue::NONE },
                };
                // SAFETY: the rows of `a` and of `out` exist as `run` asserts; its items differ in rows or
                // panels, so their outputs are disjoint.
                unsafe { product.run_for(self.b) }
            }
        }
    }
}
