//! Products of blocks.

use std::ops::Range;

use crate::attention::rows::Matrix;
use crate::gemm::Panel;
use crate::gemm::{Epilogue, Grid, Packed, PanelProduct, Segments, Start};

/// Columns `columns` of `scale·left·right`, as rows `stride` apart.
///
/// # Panics
/// If `out` is too short, or `columns` does not start at a panel.
pub(super) fn block_of_columns(
    left: Matrix<'_>,
    right: &Packed,
    columns: &Range<usize>,
    scale: f32,
    out: &mut [f32],
    stride: usize,
) {
    let full = right.isa().panel_width();
    assert!(columns.start.is_multiple_of(full) && columns.end <= right.columns(), "columns {columns:?}");
    assert!(columns.len() <= stride && left.rows() * stride <= out.len(), "room for a block of scores");
    assert_eq!(left.width(), right.steps(), "depth of a product");
    for index in columns.start / full..columns.end.div_ceil(full) {
        let opened = right.open(index);
        let panel = opened.panel();
        let panel = Panel { first: panel.first - columns.start, ..panel };
        let product = PanelProduct {
            next: &[],
            input: left.as_ptr(),
            input_rows: Grid::contiguous(left.stride()),
            segments: Segments::single(left.width()),
            rows: 0..left.rows(),
            panel,
            output: out.as_mut_ptr(),
            output_rows: Grid::contiguous(stride),
            start: Start::Zero,
            epilogue: Epilogue { scale, ..Epilogue::NONE },
        };
        // SAFETY: a `Matrix` is readable at all its rows; sizes as asserted, and `out` is exclusive.
        unsafe { product.run_for(right) }
    }
}

/// Adds `left·right[depth, ·]` to `out`, whose rows are as wide as `right`'s columns in whole vectors. With
/// [`Start::Zero`], `out` is overwritten. Of pairs, `depth` begins with a whole one.
pub(super) fn accumulate(left: Matrix<'_>, right: &Packed, depth: &Range<usize>, out: &mut [f32], start: Start) {
    let stride = whole_vectors(right);
    let steps = right.steps_of(depth);
    assert_eq!(left.width(), steps.len(), "depth of a product");
    assert!(left.rows() * stride <= out.len(), "room for sums");
    for index in 0..right.panels() {
        let opened = right.open(index);
        let panel = opened.panel();
        let (width, data) = (panel.width, &panel.data[steps.start * panel.width..steps.end * panel.width]);
        let product = PanelProduct {
            next: &[],
            input: left.as_ptr(),
            input_rows: Grid::contiguous(left.stride()),
            segments: Segments::single(steps.len()),
            rows: 0..left.rows(),
            panel: Panel { data, first: 0, columns: width, width },
            // SAFETY: a panel's first column is one of `out`'s row.
            output: unsafe { out.as_mut_ptr().add(panel.first) },
            output_rows: Grid::contiguous(stride),
            start,
            epilogue: Epilogue::NONE,
        };
        // SAFETY: as above; panels side by side fill a row of `stride` floats.
        unsafe { product.run_for(right) }
    }
}

/// The columns of a packed matrix, rounded up to whole vectors.
pub(super) fn whole_vectors(right: &Packed) -> usize {
    right.columns().next_multiple_of(right.isa().lanes())
}
