//! Products with a packed right-hand matrix: the work horse of convolutions, linear layers and attention.
//!
//! ```text
//! C[i, j] = ( Σ_k A[i, k]·B[k, j] + bias[j] + residual[i, j] ) · scale
//! ```
//!
//! `B` is packed in panels as wide as a few vectors ([`pack`]); the kernel ([`kernel`]) keeps a block of six rows by one
//! panel in registers through the whole sum over `k`, in rising order, whatever the number of rows: so an entry of `C`
//! does not depend on how the rows are cut into blocks or spread over threads.

pub(crate) mod kernel;
pub(crate) mod pack;

pub(crate) use kernel::{Epilogue, Grid, PanelProduct, Segments, Start};
pub(crate) use pack::{Opened, Packed, Panel, transpose};

use std::ops::Range;

use crate::buffer::Buffer;
use crate::parallel::{Disjoint, for_each};

/// Most rows one task handles; with a block of the depth, `A`'s part (600 kB) stays in the second-level cache. All of them pass by a panel
/// that comes from farther away: with 96 it came four times as often, and large layers took up to a quarter longer beside other programs.
const ROW_BLOCK: usize = 384;

/// Depth summed over before the next panel's turn. Partial sums wait in the output: the sum comes out the same.
const DEPTH_BLOCK: usize = 384;

/// Rows of `A` that are a multiple of this many floats apart share places in the cache, so that they are copied before use,
const CROWDED: usize = 512;

/// to be this far apart.
const DEPTH_STRIDE: usize = DEPTH_BLOCK + 16;

/// Most panels one task handles, over which it uses a block of `A` again,
const PANEL_GROUP: usize = 64;
/// and fewest: copying `A` must pay.
const FEWEST_PANELS: usize = 1;

/// Tasks for each thread, so that one that was held up does not hold up all.
const TASKS: usize = 10;

/// `out = (a·b + bias + residual)·scale`, rows of `a` and `out` contiguous.
pub(crate) fn matmul(a: &[f32], b: &Packed, out: &mut [f32], epilogue: Epilogue<'_>) {
    let rows = a.len() / b.depth();
    assert_eq!((a.len(), out.len()), (rows * b.depth(), rows * b.columns()), "operands of a product");
    let (depth, columns) = (Span::whole(b.depth()), Span::whole(b.columns()));
    Product { a, depth, b, columns, start: Start::Zero, epilogue }.run(&Disjoint::new(out));
}

/// Where a product's part of the depth, or of the columns, begins in whole rows.
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
    pub(crate) a: &'a [f32],
    pub(crate) depth: Span,
    pub(crate) b: &'a Packed,
    pub(crate) columns: Span,
    pub(crate) start: Start,
    pub(crate) epilogue: Epilogue<'a>,
}

impl Product<'_> {
    /// Computes its columns of all rows.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub(crate) fn run(&self, out: &Disjoint<'_>) {
        let rows = self.a.len() / self.depth.of;
        assert!(self.a.len() == rows * self.depth.of && out.len() == rows * self.columns.of, "operands of a product");
        assert!(self.depth.first + self.b.depth() <= self.depth.of, "depth of a product");
        assert!(self.columns.first + self.b.columns() <= self.columns.of, "columns of a product");
        let (threads, panels) = (rayon::current_num_threads(), self.b.panels());
        let blocks = match rows.div_ceil(ROW_BLOCK) {
            many if many >= threads => many.next_multiple_of(threads),
            few => few,
        };
        // Blocks of equal size: a short one would read the panels for little work.
        let per_block = rows.div_ceil(blocks.max(1)).next_multiple_of(kernel::ROWS);
        let wanted = (TASKS * threads).div_ceil(blocks.max(1)).min(panels.div_ceil(FEWEST_PANELS));
        let group = panels.div_ceil(wanted.max(1)).clamp(1, PANEL_GROUP);
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
        let depth = self.b.depth();
        let panels: Vec<_> = panels.map(|panel| self.b.open(panel)).collect();
        let crowded = depth > DEPTH_BLOCK && self.depth.of.is_multiple_of(CROWDED);
        let mut copy = crowded.then(|| Buffer::stale(rows.len() * DEPTH_STRIDE));
        for start in (0..depth).step_by(DEPTH_BLOCK) {
            let end = depth.min(start + DEPTH_BLOCK);
            let place = |row: usize| row * self.depth.of + self.depth.first + start;
            let (input, input_rows) = match &mut copy {
                None => (self.a.as_ptr(), Grid { offset: place(rows.start), ..Grid::contiguous(self.depth.of) }),
                Some(copy) => {
                    for (to, row) in copy.chunks_exact_mut(DEPTH_STRIDE).zip(rows.clone()) {
                        to[..end - start].copy_from_slice(&self.a[place(row)..][..end - start]);
                    }
                    (copy.as_ptr(), Grid::contiguous(DEPTH_STRIDE))
                }
            };
            for (index, panel) in panels.iter().enumerate() {
                let part = |panel: Panel<'_>| start * panel.width..end * panel.width;
                let panel = panel.panel();
                let data = &panel.data[part(panel)];
                let next = panels.get(index + 1).map_or(&[][..], |next| &next.panel().data[part(next.panel())]);
                let product = PanelProduct {
                    input,
                    input_rows,
                    segments: Segments::single(end - start),
                    rows: 0..rows.len(),
                    next,
                    panel: Panel { data, first: self.columns.first + panel.first, ..panel },
                    output: out.ptr(),
                    output_rows: Grid { offset: rows.start * self.columns.of, ..Grid::contiguous(self.columns.of) },
                    start: if start == 0 { self.start } else { Start::Output },
                    epilogue: if end == depth { self.epilogue } else { Epilogue::NONE },
                };
                // SAFETY: the rows of `a`, or their copy, and of `out` exist as `run` asserts; its items differ in rows or
                // panels, so their outputs are disjoint.
                unsafe { product.run(self.b.isa()) }
            }
        }
    }
}
