//! A matrix `[depth, columns]` cut into panels of columns, each stored row by row, so that the kernel reads it once,
//! forwards, in whole vectors. The last panel is only as many vectors wide as it needs; the rest is zeros.
//!
//! Weights that stay where they are stored become panels one at a time, just before use.

use rayon::prelude::*;

use crate::buffer::Buffer;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;
use crate::weights::Weights;

/// A packed matrix.
pub(crate) struct Packed {
    isa: Isa,
    depth: usize,
    columns: usize,
    data: Buffer,
}

/// One panel: `depth` rows of `width` floats.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    pub(crate) data: &'a [f32],
    /// Index of its first column in the matrix.
    pub(crate) first: usize,
    /// Columns that exist.
    pub(crate) columns: usize,
    /// Floats from row to row, a multiple of the vector length.
    pub(crate) width: usize,
}

/// A panel, in memory of its own if it was made for this use.
pub(crate) struct Opened<'a> {
    panel: Panel<'a>,
    made: Option<Buffer>,
}

impl<'a> Opened<'a> {
    /// Panel `index` of a matrix, made by `fill(place, panel)`; lanes without a column are zero.
    pub(crate) fn made(
        isa: Isa,
        [depth, columns]: [usize; 2],
        index: usize,
        fill: impl FnOnce(&Panel<'_>, &mut [f32]),
    ) -> Self {
        let place = Panel::place(isa, columns, index);
        let mut made = Buffer::stale(depth * place.width);
        if place.columns < place.width {
            made.fill(0.0);
        }
        fill(&place, &mut made);
        Self { panel: place, made: Some(made) }
    }

    pub(crate) fn panel(&self) -> Panel<'_> {
        Panel { data: self.made.as_deref().unwrap_or(self.panel.data), ..self.panel }
    }
}

impl Panel<'_> {
    /// Where a panel lies among the columns; without its numbers.
    pub(crate) fn place(isa: Isa, columns: usize, index: usize) -> Self {
        let full = isa.panel_width();
        let first = index * full;
        let columns = full.min(columns - first);
        Self { data: &[], first, columns, width: columns.next_multiple_of(isa.lanes()) }
    }
}

impl Packed {
    /// Packs the matrix whose entry at `(k, j)` is `entry(k, j)`.
    pub(crate) fn new(isa: Isa, depth: usize, columns: usize, entry: impl Fn(usize, usize) -> f32 + Sync) -> Self {
        Self::by_panel(isa, depth, columns, |first, count, panel| fill_entries(depth, first, count, panel, &entry))
    }

    /// Packs a matrix given by its rows.
    pub(crate) fn from_rows<'a>(
        isa: Isa,
        depth: usize,
        columns: usize,
        row: impl Fn(usize) -> &'a [f32] + Sync,
    ) -> Self {
        Self::by_panel(isa, depth, columns, |first, count, panel| {
            let width = panel.len() / depth;
            for (k, to) in panel.chunks_exact_mut(width).enumerate() {
                to[..count].copy_from_slice(&row(k)[first..first + count]);
            }
        })
    }

    /// Packs a matrix given by its columns.
    pub(crate) fn from_columns<'a>(
        isa: Isa,
        depth: usize,
        columns: usize,
        column: impl Fn(usize) -> &'a [f32] + Sync,
    ) -> Self {
        Self::by_panel(isa, depth, columns, |first, count, panel| {
            let columns: Vec<_> = (first..first + count).map(&column).collect();
            let width = panel.len() / depth;
            transpose(isa, &columns, depth, panel, width);
        })
    }

    /// Packs columns `columns` of stored weights, widened: row after row, since that is how they lie.
    pub(crate) fn of_weights(isa: Isa, weights: &Weights, columns: std::ops::Range<usize>) -> Self {
        let (depth, count, full) = (weights.rows(), columns.len(), isa.panel_width());
        let mut data = Buffer::stale(packed_len(isa, depth, count));
        let mut row = Buffer::zeros(count.next_multiple_of(isa.lanes()));
        for k in 0..depth {
            weights.widen_row(isa, k, columns.clone(), &mut row[..count]);
            for (panel, from) in data.chunks_mut(depth * full).zip(row.chunks(full)) {
                panel[k * from.len()..][..from.len()].copy_from_slice(from);
            }
        }
        Self { isa, depth, columns: count, data }
    }

    /// Packs the transpose of rows `rows` of stored weights, widened.
    pub(crate) fn of_weights_transposed(isa: Isa, weights: &Weights, rows: std::ops::Range<usize>) -> Self {
        /// Entries of each row widened at a time; those of a panel stay in the first-level cache.
        const STRETCH: usize = 128;
        Self::by_panel(isa, weights.columns(), rows.len(), |first, count, panel| {
            let width = panel.len() / weights.columns();
            let mut scratch = Buffer::stale(count * STRETCH);
            for (start, panel) in (0..weights.columns()).step_by(STRETCH).zip(panel.chunks_mut(STRETCH * width)) {
                let len = panel.len() / width;
                for (row, to) in scratch.chunks_exact_mut(STRETCH).enumerate() {
                    weights.widen_row(isa, rows.start + first + row, start..start + len, &mut to[..len]);
                }
                let columns: Vec<_> = scratch.chunks_exact(STRETCH).collect();
                transpose(isa, &columns, len, panel, width);
            }
        })
    }

    /// Fills panels with `fill(first column, existing columns, panel)`; lanes without a column are zero.
    fn by_panel(isa: Isa, depth: usize, columns: usize, fill: impl Fn(usize, usize, &mut [f32]) + Sync) -> Self {
        let mut data = Buffer::stale(packed_len(isa, depth, columns));
        let full = isa.panel_width();
        data.par_chunks_mut((depth * full).max(1)).enumerate().for_each(|(p, panel)| {
            let count = full.min(columns - p * full);
            if count * depth < panel.len() {
                panel.fill(0.0);
            }
            fill(p * full, count, panel);
        });
        Self { isa, depth, columns, data }
    }

    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn panels(&self) -> usize {
        self.columns.div_ceil(self.isa.panel_width())
    }

    /// Bytes of the packed matrix.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[f32]>(&self.data)
    }

    /// A panel, ready for use.
    pub(crate) fn open(&self, index: usize) -> Opened<'_> {
        let panel = Panel::place(self.isa, self.columns, index);
        let start = panel.first * self.depth;
        Opened { panel: Panel { data: &self.data[start..start + self.depth * panel.width], ..panel }, made: None }
    }

    /// A matrix whose entry `(k, j)` is this one's at `from(k, j)`.
    pub(crate) fn rearranged(
        &self,
        depth: usize,
        columns: usize,
        from: impl Fn(usize, usize) -> (usize, usize) + Sync,
    ) -> Self {
        Self::new(self.isa, depth, columns, |k, j| {
            let (k, j) = from(k, j);
            let panel = Panel::place(self.isa, self.columns, j / self.isa.panel_width());
            self.data[panel.first * self.depth + k * panel.width + j - panel.first]
        })
    }
}

fn packed_len(isa: Isa, depth: usize, columns: usize) -> usize {
    depth * columns.next_multiple_of(isa.lanes())
}

fn fill_entries(
    depth: usize,
    first: usize,
    count: usize,
    panel: &mut [f32],
    entry: &(impl Fn(usize, usize) -> f32 + Sync),
) {
    let width = panel.len() / depth;
    for lane in 0..count {
        for k in 0..depth {
            panel[k * width + lane] = entry(k, first + lane);
        }
    }
}

/// `to[k·width + j] = rows[j][k]` for `k < len`; where there is no row `j`, `to` stays as it is.
///
/// # Panics
/// If a row or `to` is too short.
pub(crate) fn transpose(isa: Isa, rows: &[&[f32]], len: usize, to: &mut [f32], width: usize) {
    assert!(rows.iter().all(|row| row.len() >= len) && rows.len() <= width && len * width <= to.len());
    isa.run(Transpose { rows, len, to, width });
}

struct Transpose<'a> {
    rows: &'a [&'a [f32]],
    len: usize,
    to: &'a mut [f32],
    width: usize,
}

impl Kernel for Transpose<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        /// Lanes of the widest vector.
        const MOST: usize = 16;
        let whole = self.len - self.len % S::LANES;
        for (block, rows) in self.rows.chunks(S::LANES).enumerate() {
            let first = block * S::LANES;
            let squares = if rows.len() == S::LANES { whole } else { 0 };
            let mut from = [std::ptr::null(); MOST];
            for (from, row) in from.iter_mut().zip(rows) {
                *from = row.as_ptr();
            }
            for at in (0..squares).step_by(S::LANES) {
                // SAFETY: `LANES` rows of at least `len` floats, and `to` has `len` rows of `width`, as asserted by
                // `transpose`.
                unsafe {
                    let to = self.to.as_mut_ptr().add(at * self.width + first);
                    S::transpose(&from[..S::LANES], at, to, self.width);
                }
            }
            for (j, row) in rows.iter().enumerate() {
                for at in squares..self.len {
                    self.to[at * self.width + first + j] = row[at];
                }
            }
        }
    }
}
