//! Direct convolution as a product: the window of an output pixel is `kh` stretches of `kw·channels` contiguous floats
//! of the padded image, so rows of the left matrix need not be gathered, only pointed at.

use super::filters::Filters;
use super::spec::Plan;
use crate::act::{Act, Shape};
use crate::gemm::{Epilogue, Grid, Panel, PanelProduct, Segments, Start, matmul};
use crate::parallel::{Disjoint, for_each};

/// Output pixels one task computes per panel.
const PIXEL_BLOCK: usize = 96;

/// The planned correlation of `x` with filters (`[kh, kw, channels]` deep).
pub(super) fn convolve(x: &Act, filters: &Filters<'_>, plan: &Plan, shape: Shape, epilogue: Epilogue<'_>) -> Act {
    let mut y = Act::stale(shape);
    if let (true, Filters::Packed(packed)) = (plan.is_pointwise(), filters) {
        // Every pixel of every sample is a row of one product.
        matmul(x.data(), packed, y.data_mut(), epilogue);
        return y;
    }
    let padded;
    let canvas = if plan.canvas == x.size() {
        x
    } else {
        padded = lay_out(x, plan);
        &padded
    };
    let blocks = shape.n * blocks(shape);
    let shared = Disjoint::new(y.data_mut());
    let panels = filters.panels();
    let at_once = blocks_at_once(filters, blocks);
    for_each(blocks.div_ceil(at_once) * panels, |item| {
        let (part, opened) = (item / panels, filters.open(item % panels));
        for block in part * at_once..blocks.min((part + 1) * at_once) {
            let product = windows(canvas, plan, shape, block, opened.panel());
            // SAFETY: the plan's sizes keep every window on the canvas; items differ in pixels or panel, so their
            // outputs are disjoint.
            unsafe { PanelProduct { output: shared.ptr(), epilogue, ..product }.run(filters.isa()) }
        }
    });
    y
}

/// Blocks of output pixels of a sample.
pub(super) fn blocks(shape: Shape) -> usize {
    shape.pixels().div_ceil(PIXEL_BLOCK)
}

/// A block of output pixels times a panel, with no output yet.
pub(super) fn windows<'a>(canvas: &Act, plan: &Plan, shape: Shape, block: usize, panel: Panel<'a>) -> PanelProduct<'a> {
    let (sample, first) = (block / blocks(shape), block % blocks(shape) * PIXEL_BLOCK);
    let (channels, line) = (canvas.shape().c, canvas.shape().w * canvas.shape().c);
    PanelProduct {
        next: &[],
        input: canvas.data().as_ptr(),
        input_rows: Grid {
            offset: sample * canvas.shape().sample_len(),
            width: shape.w,
            line: plan.stride[0] * line,
            step: plan.stride[1] * channels,
        },
        segments: Segments { count: plan.kernel[0], len: plan.kernel[1] * channels, stride: line },
        rows: first..shape.pixels().min(first + PIXEL_BLOCK),
        panel,
        output: std::ptr::null_mut(),
        output_rows: Grid { offset: sample * shape.sample_len(), ..Grid::contiguous(shape.c) },
        start: Start::Zero,
        epilogue: Epilogue::NONE,
    }
}

/// Blocks of pixels one task computes: one of packed filters, so that a block stays in the cache while panels pass by;
/// of stored ones as many as leave every thread its share, because each task makes its panel anew.
pub(super) fn blocks_at_once(filters: &Filters<'_>, blocks: usize) -> usize {
    match filters {
        Filters::Packed(_) => 1,
        Filters::Stored(_) => {
            let parts = (4 * rayon::current_num_threads()).div_ceil(filters.panels().max(1));
            blocks.div_ceil(parts).max(1)
        }
    }
}

/// The image on its canvas of zeros.
pub(super) fn lay_out(x: &Act, plan: &Plan) -> Act {
    let shape = x.shape();
    let mut canvas = Act::stale(shape.with_size(plan.canvas));
    let [canvas_h, canvas_w] = plan.canvas;
    let line = canvas_w * shape.c;
    let shared = Disjoint::new(canvas.data_mut());
    for_each(shape.n * canvas_h, |item| {
        let (sample, row) = (item / canvas_h, item % canvas_h);
        // SAFETY: one line of the canvas per item.
        let to = unsafe { shared.part(item * line, line) };
        let y = row.checked_sub(plan.origin[0]).filter(|y| y.is_multiple_of(plan.spacing[0]));
        let Some(y) = y.map(|y| y / plan.spacing[0]).filter(|y| *y < shape.h) else { return to.fill(0.0) };
        let from = &x.sample(sample)[y * shape.w * shape.c..][..shape.w * shape.c];
        if plan.spacing[1] == 1 {
            let (left, rest) = to.split_at_mut(plan.origin[1] * shape.c);
            let (middle, right) = rest.split_at_mut(from.len());
            left.fill(0.0);
            middle.copy_from_slice(from);
            return right.fill(0.0);
        }
        to.fill(0.0);
        for (column, pixel) in from.chunks_exact(shape.c).enumerate() {
            let at = (plan.origin[1] + plan.spacing[1] * column) * shape.c;
            to[at..at + shape.c].copy_from_slice(pixel);
        }
    });
    canvas
}
