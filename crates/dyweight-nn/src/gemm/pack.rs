//! A matrix `[depth, columns]` cut into panels of columns, each stored row by row, so that the kernel reads it once,
//! forwards, in whole vectors. The last panel is only as many vectors wide as it needs; the rest is zeros.

use rayon::prelude::*;

use crate::buffer::Buffer;
use crate::isa::Isa;

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

impl Packed {
    /// Packs the matrix whose entry at `(k, j)` is `entry(k, j)`.
    pub(crate) fn new(isa: Isa, depth: usize, columns: usize, entry: impl Fn(usize, usize) -> f32 + Sync) -> Self {
        Self::by_panel(isa, depth, columns, |first, count, panel| {
            let width = panel.len() / depth;
            for lane in 0..count {
                for k in 0..depth {
                    panel[k * width + lane] = entry(k, first + lane);
                }
            }
        })
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
        /// Rows written at a time, so that their cache lines stay.
        const ROWS: usize = 16;
        Self::by_panel(isa, depth, columns, |first, count, panel| {
            let width = panel.len() / depth;
            for (block, rows) in panel.chunks_mut(ROWS * width).enumerate() {
                for lane in 0..count {
                    let from = &column(first + lane)[block * ROWS..];
                    for (to, x) in rows[lane..].iter_mut().step_by(width).zip(from) {
                        *to = *x;
                    }
                }
            }
        })
    }

    /// Fills panels with `fill(first column, existing columns, panel)`; lanes without a column are zero.
    fn by_panel(isa: Isa, depth: usize, columns: usize, fill: impl Fn(usize, usize, &mut [f32]) + Sync) -> Self {
        let mut packed = Self::stale(isa, depth, columns);
        let full = isa.panel_width();
        packed.data.par_chunks_mut((depth * full).max(1)).enumerate().for_each(|(p, panel)| {
            let count = full.min(columns - p * full);
            if count * depth < panel.len() {
                panel.fill(0.0);
            }
            fill(p * full, count, panel);
        });
        packed
    }

    fn stale(isa: Isa, depth: usize, columns: usize) -> Self {
        let lanes = isa.lanes();
        Self { isa, depth, columns, data: Buffer::stale(depth * columns.div_ceil(lanes) * lanes) }
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
        self.data.len() * size_of::<f32>()
    }

    pub(crate) fn panel(&self, index: usize) -> Panel<'_> {
        let full = self.isa.panel_width();
        let first = index * full;
        let columns = full.min(self.columns - first);
        let width = columns.div_ceil(self.isa.lanes()) * self.isa.lanes();
        Panel { data: &self.data[first * self.depth..][..self.depth * width], first, columns, width }
    }

    /// The entry at `(k, j)`.
    pub(crate) fn entry(&self, k: usize, j: usize) -> f32 {
        let panel = self.panel(j / self.isa.panel_width());
        panel.data[k * panel.width + j - panel.first]
    }
}
