//! Convolution with factors of 16 bits: pairs of fixed-point integers ([`crate::fixed`]).
//!
//! Winograd's F(4×4) and F(2×2) scale every row of channels of every transformed tile, and every column of the
//! transformed weights, by its norm ([`super::winograd`]). The direct sum scales a sample by the largest norm of its
//! windows, and every filter by its own. Weights never change, so their scales are computed once.

use std::sync::OnceLock;

use rayon::prelude::*;

use super::direct::{blocks, lay_out, windows};
use super::filters::Filters;
use super::spec::{ConvAlgo, Plan};
use super::winograd::{self, F2, Near4};
use crate::act::{Act, Shape};
use crate::buffer::Buffer;
use crate::fixed::{Fixed, Scales, scale_of};
use crate::gemm::kernel::{Finish, load_lanes};
use crate::gemm::{Epilogue, Panel, PanelProduct};
use crate::isa::Kernel;
use crate::pairs;
use crate::parallel::{Disjoint, for_each};
use crate::simd::Simd;

/// Proof of the instructions, and the scales of one layer's weights by algorithm and direction.
pub(super) struct Integers {
    fixed: Fixed,
    scales: [OnceLock<Scales>; 6],
}

impl Integers {
    pub(super) fn new(fixed: Fixed) -> Self {
        Self { fixed, scales: Default::default() }
    }

    /// Runs a planned correlation by the algorithm that suits it.
    pub(super) fn correlate(
        &self,
        (x, filters, turned): (&Act, &Filters<'_>, bool),
        plan: &Plan,
        shape: Shape,
        epilogue: Epilogue<'_>,
    ) -> Act {
        let algo = plan.algo_for(x.shape().c, [shape.h, shape.w]);
        let scales = self.scales(algo, turned, || match algo {
            ConvAlgo::Winograd4 => winograd::scales_of::<Near4, 6, 4>(filters),
            ConvAlgo::Winograd2 => winograd::scales_of::<F2, 4, 2>(filters),
            ConvAlgo::Direct => scales_of(filters),
        });
        let (factors, operands) = ((self.fixed, scales), (x, filters));
        match algo {
            ConvAlgo::Winograd4 => winograd::convolve_integers::<Near4, 6, 4>(factors, operands, plan, shape, epilogue),
            ConvAlgo::Winograd2 => winograd::convolve_integers::<F2, 4, 2>(factors, operands, plan, shape, epilogue),
            ConvAlgo::Direct => convolve(factors, operands, plan, shape, epilogue),
        }
    }

    fn scales(&self, algo: ConvAlgo, turned: bool, make: impl FnOnce() -> Scales) -> &Scales {
        let kept = &self.scales[algo as usize * 2 + usize::from(turned)];
        if kept.get().is_none() {
            // Not inside `get_or_init`: making them is parallel, and a thread that waits may take up this very layer.
            let _ = kept.set(make());
        }
        kept.get().expect("set just before, by this thread or another")
    }
}

/// The direct sum.
fn convolve(
    (fixed, columns): (Fixed, &Scales),
    (x, filters): (&Act, &Filters<'_>),
    plan: &Plan,
    shape: Shape,
    epilogue: Epilogue<'_>,
) -> Act {
    let (canvas, rows) = rounded(fixed, lay_out(x, plan), plan, shape);
    let (isa, panels, blocks) = (filters.isa(), filters.panels(), shape.n * blocks(shape));
    let at_once = blocks.div_ceil((4 * rayon::current_num_threads()).div_ceil(panels)).max(1);
    let mut y = Act::stale(shape);
    let shared = Disjoint::new(y.data_mut());
    for_each(blocks.div_ceil(at_once) * panels, |item| {
        let (part, opened) = (item / panels, filters.open(item % panels));
        let (taps, floats) = (plan.kernel[0] * plan.kernel[1], opened.panel());
        let mut integers = Buffer::stale(taps * canvas.shape().c * floats.width);
        isa.run(RoundPanel { floats, taps, columns, to: &mut integers });
        let panel = Panel { data: &integers, ..floats };
        for block in part * at_once..blocks.min((part + 1) * at_once) {
            let product = windows(&canvas, plan, shape, block, panel);
            let (pixels, offset) = (product.rows.clone(), product.output_rows.offset);
            let row = rows[offset / shape.sample_len()];
            // SAFETY: the plan's sizes keep every window on the canvas; items differ in pixels or panel, so their
            // outputs are disjoint.
            unsafe { PanelProduct { output: shared.ptr(), ..product }.run_on_integers(fixed) }
            let places = pixels.map(|pixel| offset + pixel * shape.c);
            isa.run(Finished { places, row, columns, panel, output: shared.ptr(), epilogue });
        }
    });
    y
}

/// A canvas as pairs, each sample scaled by the largest norm of its windows; and what samples are multiplied by to get
/// them back.
fn rounded(fixed: Fixed, canvas: Act, plan: &Plan, shape: Shape) -> (Act, Vec<f32>) {
    let from = canvas.shape();
    let mut squares = vec![0.0; from.n * from.pixels()];
    squares.par_iter_mut().zip(canvas.data().par_chunks_exact(from.c)).for_each(|(squares, pixel)| {
        *squares = fixed.squares(pixel);
    });
    let scales: Vec<_> = squares.chunks_exact(from.pixels()).map(|s| scale_of(largest(s, from, plan, shape))).collect();
    let mut pairs = Act::stale(from.with_channels(pairs::count(from.c)));
    let steps = pairs.shape().c;
    pairs
        .data_mut()
        .par_chunks_exact_mut(steps)
        .zip(canvas.data().par_chunks_exact(from.c))
        .enumerate()
        .for_each(|(pixel, (to, from_pixel))| fixed.round(from_pixel, scales[pixel / from.pixels()][0], to));
    (pairs, scales.into_iter().map(|[_, back]| back).collect())
}

/// The largest sum over a window; not a number if there is one that is not.
fn largest(squares: &[f32], canvas: Shape, plan: &Plan, shape: Shape) -> f32 {
    let mut largest = 0.0f32;
    for pixel in 0..shape.pixels() {
        let (top, left) = (pixel / shape.w * plan.stride[0], pixel % shape.w * plan.stride[1]);
        let lines = (top..top + plan.kernel[0]).map(|row| &squares[row * canvas.w + left..][..plan.kernel[1]]);
        let sum: f32 = lines.flatten().sum();
        if sum.is_nan() {
            return sum;
        }
        largest = largest.max(sum);
    }
    largest
}

/// Scales of filters.
fn scales_of(filters: &Filters<'_>) -> Scales {
    let columns = filters.columns().next_multiple_of(filters.isa().lanes());
    let mut squares = vec![0.0; columns];
    let shared = Disjoint::new(&mut squares);
    for_each(filters.panels(), |index| {
        let opened = filters.open(index);
        let panel = opened.panel();
        // SAFETY: each panel has columns of its own.
        let to = unsafe { shared.part(panel.first, panel.width) };
        to.fill(0.0);
        for row in panel.data.chunks_exact(panel.width) {
            to.iter_mut().zip(row).for_each(|(sum, v)| *sum += v * v);
        }
    });
    Scales::new(&squares, columns)
}

/// A panel `[taps, channels]` deep as pairs of channels.
struct RoundPanel<'a> {
    floats: Panel<'a>,
    taps: usize,
    columns: &'a Scales,
    to: &'a mut [f32],
}

impl Kernel for RoundPanel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Panel { data, width, first, .. } = self.floats;
        let channels = data.len() / width / self.taps;
        let steps = pairs::count(channels);
        assert!(data.len() == self.taps * channels * width && self.to.len() == self.taps * steps * width);
        for row in 0..self.taps * steps {
            let (tap, k) = (row / steps, row % steps);
            for lane in (0..width).step_by(S::LANES) {
                // SAFETY: rows of a panel, as asserted; there is a scale for every column.
                unsafe {
                    let low = data.as_ptr().add((tap * channels + 2 * k) * width + lane);
                    let by = S::load(self.columns.by(0, first + lane));
                    let second = if 2 * k + 1 < channels { S::load(low.add(width)) } else { S::splat(0.0) };
                    let both = S::integer_pairs(S::mul(S::load(low), by), S::mul(second, by));
                    S::store(self.to.as_mut_ptr().add(row * width + lane), both);
                }
            }
        }
    }
}

/// Finishes sums of integers where they lie. Made by [`convolve`] only, which vouches for the output: a panel's columns
/// at each place, and nobody else there.
struct Finished<'a, P> {
    places: P,
    /// What rows are multiplied by.
    row: f32,
    columns: &'a Scales,
    panel: Panel<'a>,
    output: *mut f32,
    epilogue: Epilogue<'a>,
}

impl<P: Iterator<Item = usize>> Kernel for Finished<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Panel { first, columns, .. } = self.panel;
        for place in self.places {
            for lane in (0..columns).step_by(S::LANES) {
                let (lanes, column) = (S::LANES.min(columns - lane), first + lane);
                // SAFETY: the struct's contract; there is a scale for every column of a whole panel.
                unsafe {
                    let scale = S::mul(S::splat(self.row), S::load(self.columns.back(0, column)));
                    let sum = S::from_integers(load_lanes::<S>(self.output.add(place + column), lanes));
                    let finish = Finish::<S>::new(&self.epilogue, column, lanes);
                    finish.store(self.output, place + column, S::mul(sum, scale));
                }
            }
        }
    }
}
