//! A matrix `[depth, columns]` cut into panels of columns, each stored row by row, so that the kernel reads it once,
//! forwards, in whole vectors. The last panel is only as many vectors wide as it needs; the rest is zeros.
//!
//! Weights that stay where they are stored become panels one at a time, just before use. Pairs of bf16
//! ([`crate::pairs`]) are packed as floats are, half as deep.

use rayon::prelude::*;

use crate::buffer::Buffer;
use crate::isa::{Isa, Kernel};
use crate::pairs::{self, Pairs};
use crate::simd::{Simd, prefetch};
use crate::weights::{Dtype, Weights};

/// A packed matrix.
pub(crate) struct Packed {
    isa: Isa,
    pairs: Option<Pairs>,
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

    /// The same, rounded to pairs of entries of a column.
    pub(crate) fn from_rounded_rows<'a>(
        (isa, pairs): (Isa, Pairs),
        depth: usize,
        columns: usize,
        row: impl Fn(usize) -> &'a [f32] + Sync,
    ) -> Self {
        let (steps, nothing) = (pairs::count(depth), Buffer::zeros(columns));
        let packed = Self::by_panel(isa, steps, columns, |first, count, panel| {
            let width = panel.len() / steps;
            for (k, to) in panel.chunks_exact_mut(width).enumerate() {
                let second = if 2 * k + 1 < depth { row(2 * k + 1) } else { &nothing[..] };
                pairs.interleave([row(2 * k), second].map(|row| &row[first..first + count]), &mut to[..count]);
            }
        });
        Self { pairs: Some(pairs), depth, ..packed }
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

    /// The same, rounded to pairs of entries of a column.
    pub(crate) fn from_rounded_columns<'a>(
        (isa, pairs): (Isa, Pairs),
        depth: usize,
        columns: usize,
        column: impl Fn(usize) -> &'a [f32] + Sync,
    ) -> Self {
        let steps = pairs::count(depth);
        let packed = Self::by_panel(isa, steps, columns, |first, count, panel| {
            let (width, mut scratch) = (panel.len() / steps, Buffer::stale(count * steps));
            for (index, to) in scratch.chunks_exact_mut(steps).enumerate() {
                pairs.round(column(first + index), to);
            }
            let columns: Vec<_> = scratch.chunks_exact(steps).collect();
            transpose(isa, &columns, steps, panel, width);
        });
        Self { pairs: Some(pairs), depth, ..packed }
    }

    /// Packs columns `columns` of stored weights, widened: row after row, since that is how they lie.
    pub(crate) fn of_weights(
        isa: Isa,
        pairs: Option<Pairs>,
        weights: &Weights,
        columns: std::ops::Range<usize>,
    ) -> Self {
        if let Some(pairs) = pairs {
            return Self::of_rounded_weights(isa, pairs, weights, columns);
        }
        let (depth, count, full) = (weights.rows(), columns.len(), isa.panel_width());
        let mut data = Buffer::stale(packed_len(isa, depth, count));
        let mut row = Buffer::zeros(count.next_multiple_of(isa.lanes()));
        for k in 0..depth {
            weights.widen_row(isa, k, columns.clone(), &mut row[..count]);
            for (panel, from) in data.chunks_mut(depth * full).zip(row.chunks(full)) {
                panel[k * from.len()..][..from.len()].copy_from_slice(from);
            }
        }
        Self { isa, pairs: None, depth, columns: count, data }
    }

    /// The same, rounded to pairs of entries of a column.
    fn of_rounded_weights(isa: Isa, pairs: Pairs, weights: &Weights, columns: std::ops::Range<usize>) -> Self {
        let (depth, count, full) = (weights.rows(), columns.len(), isa.panel_width());
        let steps = pairs::count(depth);
        let mut data = Buffer::stale(packed_len(isa, steps, count));
        let padded = count.next_multiple_of(isa.lanes());
        let mut rows = [Buffer::zeros(padded), Buffer::zeros(padded)];
        for k in 0..steps {
            if weights.dtype() == Dtype::Bf16 && 2 * k + 1 < depth {
                let stored = [2 * k, 2 * k + 1].map(|row| weights.bytes_of_row(row, columns.clone()));
                interleave_stored(isa, stored, &mut rows[0][..count]);
                for (panel, from) in data.chunks_mut(steps * full).zip(rows[0].chunks(full)) {
                    panel[k * from.len()..][..from.len()].copy_from_slice(from);
                }
                continue;
            }
            for (i, row) in rows.iter_mut().enumerate() {
                match 2 * k + i {
                    stored if stored < depth => weights.widen_row(isa, stored, columns.clone(), &mut row[..count]),
                    _ => row.fill(0.0),
                }
            }
            for (panel, first) in data.chunks_mut(steps * full).zip((0..padded).step_by(full)) {
                let width = full.min(padded - first);
                pairs.interleave(
                    rows.each_ref().map(|row| &row[first..first + width]),
                    &mut panel[k * width..][..width],
                );
            }
        }
        Self { isa, pairs: Some(pairs), depth, columns: count, data }
    }

    /// Packs the transpose of rows `rows` of stored weights, widened, or rounded to pairs of entries of a row.
    pub(crate) fn of_weights_transposed(
        isa: Isa,
        pairs: Option<Pairs>,
        weights: &Weights,
        rows: std::ops::Range<usize>,
    ) -> Self {
        /// Entries of each row, or pairs of them, made at a time; those of a panel stay in the first-level cache.
        const STRETCH: usize = 128;
        let depth = weights.columns();
        let steps = if pairs.is_some() { pairs::count(depth) } else { depth };
        let packed = Self::by_panel(isa, steps, rows.len(), |first, count, panel| {
            let width = panel.len() / steps;
            // Floats are turned where they lie.
            let stored = (first..first + count).map(|row| weights.floats_of_row(rows.start + row, 0..depth));
            if let (None, Some(columns)) = (pairs, stored.collect::<Option<Vec<_>>>()) {
                return transpose(isa, &columns, depth, panel, width);
            }
            let mut scratch = Buffer::stale(count * STRETCH);
            for (start, panel) in (0..steps).step_by(STRETCH).zip(panel.chunks_mut(STRETCH * width)) {
                let len = panel.len() / width;
                for (row, to) in scratch.chunks_exact_mut(STRETCH).enumerate() {
                    let (row, to) = (rows.start + first + row, &mut to[..len]);
                    let entries = if pairs.is_some() { 2 } else { 1 };
                    let ahead = entries * (start + len)..depth.min(entries * (start + len + STRETCH));
                    if !ahead.is_empty() {
                        prefetch(weights.bytes_of_row(row, ahead));
                    }
                    match pairs {
                        None => weights.widen_row(isa, row, start..start + len, to),
                        Some(pairs) => weights.round_row(pairs, row, 2 * start..depth.min(2 * (start + len)), to),
                    }
                }
                let columns: Vec<_> = scratch.chunks_exact(STRETCH).collect();
                transpose(isa, &columns, len, panel, width);
            }
        });
        Self { pairs, depth, ..packed }
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
        Self { isa, pairs: None, depth, columns, data }
    }

    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// Whether it is one of pairs.
    pub(crate) fn pairs(&self) -> Option<Pairs> {
        self.pairs
    }

    /// Entries of a column.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Rows of a panel: entries of a column, or pairs of them.
    pub(crate) fn steps(&self) -> usize {
        if self.pairs.is_some() { pairs::count(self.depth) } else { self.depth }
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn panels(&self) -> usize {
        self.columns.div_ceil(self.isa.panel_width())
    }

    /// The rows of a panel that hold these entries of its columns.
    ///
    /// # Panics
    /// If there are no such entries, or they begin within a pair.
    pub(crate) fn steps_of(&self, entries: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        assert!(entries.end <= self.depth, "entries {entries:?} of {}", self.depth);
        if self.pairs.is_none() {
            return entries.clone();
        }
        let whole = entries.start.is_multiple_of(2) && (entries.end.is_multiple_of(2) || entries.end == self.depth);
        assert!(whole, "entries {entries:?} are no whole pairs");
        entries.start / 2..pairs::count(entries.end)
    }

    /// Bytes of the packed matrix.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[f32]>(&self.data)
    }

    /// A panel, ready for use.
    pub(crate) fn open(&self, index: usize) -> Opened<'_> {
        let (panel, steps) = (Panel::place(self.isa, self.columns, index), self.steps());
        let start = panel.first * steps;
        Opened { panel: Panel { data: &self.data[start..start + steps * panel.width], ..panel }, made: None }
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

/// Pairs of the entries of two rows of stored bf16.
fn interleave_stored(isa: Isa, [first, second]: [&[u8]; 2], to: &mut [f32]) {
    let [(first, _), (second, _)] = [first.as_chunks::<2>(), second.as_chunks::<2>()];
    isa.vectorize(
        #[inline(always)]
        || {
            for ((to, low), high) in to.iter_mut().zip(first).zip(second) {
                *to = f32::from_bits(u32::from_le_bytes([low[0], low[1], high[0], high[1]]));
            }
        },
    );
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
                    S::transpose(
                        &from[..S::LANES],
                        at,
                        #[inline(always)]
                        |i| to.add(i * self.width),
                    );
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
