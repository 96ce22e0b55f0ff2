//! Direct convolution as a product: the window of an output pixel is `kh` stretches of `kw·channels` contiguous floats
//! of the padded image, so rows of the left matrix need not be gathered, only pointed at.

use super::spec::Plan;
use crate::act::{Act, Shape};
use crate::gemm::{Epilogue, Grid, Packed, PanelProduct, Segments, Start, matmul};
use crate::parallel::{Disjoint, for_each};

/// Output pixels one task computes per panel.
const PIXEL_BLOCK: usize = 96;

/// The planned correlation of `x` with packed weights (`[kh, kw, channels]` deep).
pub(super) fn convolve(x: &Act, weights: &Packed, plan: &Plan, shape: Shape, epilogue: Epilogue<'_>) -> Act {
    let mut y = Act::stale(shape);
    if plan.is_pointwise() {
        // Every pixel of every sample is a row of one product.
        matmul(x.data(), weights, y.data_mut(), epilogue);
        return y;
    }
    let padded;
    let canvas = if plan.canvas == x.size() {
        x
    } else {
        padded = lay_out(x, plan);
        &padded
    };
    let (channels, canvas_shape) = (canvas.shape().c, canvas.shape());
    let line = canvas_shape.w * channels;
    let blocks = shape.pixels().div_ceil(PIXEL_BLOCK);
    let shared = Disjoint::new(y.data_mut());
    for_each(shape.n * blocks * weights.panels(), |item| {
        let (sample, block, panel) = split_index(item, blocks, weights.panels());
        let (first, panel) = (block * PIXEL_BLOCK, weights.open(panel));
        let grid = Grid {
            offset: sample * canvas_shape.sample_len(),
            width: shape.w,
            line: plan.stride[0] * line,
            step: plan.stride[1] * channels,
        };
        let product = PanelProduct {
            input: canvas.data().as_ptr(),
            input_rows: grid,
            segments: Segments { count: plan.kernel[0], len: plan.kernel[1] * channels, stride: line },
            rows: first..shape.pixels().min(first + PIXEL_BLOCK),
            panel: panel.panel(),
            output: shared.ptr(),
            output_rows: Grid { offset: sample * shape.sample_len(), ..Grid::contiguous(shape.c) },
            start: Start::Zero,
            epilogue,
        };
        // SAFETY: the plan's sizes keep every window on the canvas; items differ in sample, pixels or panel, so their
        // outputs are disjoint.
        unsafe { product.run(weights.isa()) }
    });
    y
}

fn split_index(item: usize, blocks: usize, panels: usize) -> (usize, usize, usize) {
    (item / (blocks * panels), item / panels % blocks, item % panels)
}

/// The image on its canvas of zeros.
fn lay_out(x: &Act, plan: &Plan) -> Act {
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
