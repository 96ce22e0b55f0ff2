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
pub(crate) use pack::Packed;

use crate::parallel::{Disjoint, for_each};

/// Rows one task handles per panel; `A`'s part stays in the second-level cache.
const ROW_BLOCK: usize = 96;

/// `out = (a·b + bias + residual)·scale`, rows of `a` and `out` contiguous.
pub(crate) fn matmul(a: &[f32], b: &Packed, out: &mut [f32], epilogue: Epilogue<'_>) {
    let rows = a.len() / b.depth();
    assert_eq!((a.len(), out.len()), (rows * b.depth(), rows * b.columns()), "operands of a product");
    let (depth, columns) = (b.depth(), b.columns());
    let shared = Disjoint::new(out);
    let blocks = rows.div_ceil(ROW_BLOCK);
    for_each(blocks * b.panels(), |item| {
        let (block, panel) = (item / b.panels(), item % b.panels());
        let first = block * ROW_BLOCK;
        let product = PanelProduct {
            input: a.as_ptr(),
            input_rows: Grid::contiguous(depth),
            segments: Segments::single(depth),
            rows: first..rows.min(first + ROW_BLOCK),
            panel: b.panel(panel),
            output: shared.ptr(),
            output_rows: Grid::contiguous(columns),
            start: Start::Zero,
            epilogue,
        };
        // SAFETY: the rows of `a` and `out` exist as asserted above; blocks and panels are disjoint in `out`.
        unsafe { product.run(b.isa()) }
    });
}
