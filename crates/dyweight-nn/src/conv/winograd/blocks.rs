//! Layers of few channels on large images: all output channels for a block of tiles at a time, with all weights
//! transformed ahead. What a block of tiles comes to stays in the second-level cache, where the stretches of the other
//! way pass through the last level twice; the same sums in the same order, so the same bits.

use std::marker::PhantomData;
use std::ops::Range;

use super::super::filters::Filters;
use super::factors::{Factors, Floats, Image, Planes};
use super::panel::transform_output;
use super::tile::Tile;
use super::{SKEW, Stretch, Tiling, transform_tiles};
use crate::act::Act;
use crate::buffer::Buffer;
use crate::gemm::kernel::ROWS;
use crate::gemm::{Epilogue, Grid, Opened, Panel, PanelProduct, Segments, Start};
use crate::isa::Kernel;
use crate::parallel::{Disjoint, for_each};
use crate::simd::Simd;

/// Most floats of transformed weights (4 MB): part of a last-level cache.
const WEIGHT_BUDGET: usize = 1 << 20;

/// Floats of a block's transformed inputs and products (320 kB): most of a second-level cache.
const BLOCK_BUDGET: usize = 5 << 14;

/// A layer computed by blocks of tiles.
pub(super) struct Blocks<'a> {
    tiling: &'a Tiling,
    filters: &'a Filters<'a>,
    /// Tiles in a block.
    tiles: usize,
    squares: usize,
}

impl<'a> Blocks<'a> {
    /// If weights and blocks are small enough, and blocks as many as there are threads.
    pub(super) fn plan(tiling: &'a Tiling, filters: &'a Filters<'a>, squares: usize) -> Option<Self> {
        let (channels, width) = (tiling.input.c, filters.isa().panel_width());
        let tiles = BLOCK_BUDGET / (squares * (channels + width)) / ROWS * ROWS;
        let plan = Self { tiling, filters, tiles, squares };
        let fits = tiles > 0 && filters.panels() * plan.panel_len() <= WEIGHT_BUDGET;
        (fits && tiling.count() >= tiles * rayon::current_num_threads()).then_some(plan)
    }

    /// From square to square of a panel's transformed weights.
    fn weight_stride(&self) -> usize {
        self.tiling.input.c * self.filters.isa().panel_width() + SKEW
    }

    fn panel_len(&self) -> usize {
        self.squares * self.weight_stride()
    }

    /// Computes all of the output.
    pub(super) fn run<T: Tile<A, M>, const A: usize, const M: usize>(
        &self,
        x: &Act,
        output: &Disjoint<'_>,
        epilogue: Epilogue<'_>,
    ) {
        let weights = self.transformed_weights::<T, A, M>();
        let zeros = Buffer::zeros(self.tiling.input.c);
        let count = self.tiling.count();
        for_each(count.div_ceil(self.tiles), |block| {
            let tiles = block * self.tiles..count.min((block + 1) * self.tiles);
            self.block::<T, A, M>(x, tiles, &weights, &zeros, output, epilogue);
        });
    }

    fn transformed_weights<T: Tile<A, M>, const A: usize, const M: usize>(&self) -> Buffer {
        let mut weights = Buffer::stale(self.filters.panels() * self.panel_len());
        let (len, stride) = (self.panel_len(), self.weight_stride());
        let shared = Disjoint::new(&mut weights);
        for_each(self.filters.panels(), |index| {
            let opened = self.filters.open(index);
            // SAFETY: one panel's place per item.
            let to = unsafe { shared.part(index * len, len) };
            let kernel = WeightPanel::<T, A, M> { opened: &opened, to, stride, transform: PhantomData };
            self.filters.isa().run(kernel);
        });
        weights
    }

    fn block<T: Tile<A, M>, const A: usize, const M: usize>(
        &self,
        x: &Act,
        tiles: Range<usize>,
        weights: &[f32],
        zeros: &[f32],
        output: &Disjoint<'_>,
        epilogue: Epilogue<'_>,
    ) {
        let (isa, channels) = (self.filters.isa(), self.tiling.input.c);
        let stretch = Stretch { first: tiles.start, tiles: tiles.len(), stride: self.tiles * channels + SKEW };
        let mut transformed = Buffer::stale(A * A * stretch.stride);
        let inputs = Disjoint::new(&mut transformed);
        let image = Image { x, tiling: self.tiling, zeros, isa };
        transform_tiles::<T, A, M>(image, stretch, 0..tiles.len(), &inputs);
        let products_stride = self.tiles * isa.panel_width() + SKEW;
        let mut products = Buffer::stale(A * A * products_stride);
        for index in 0..self.filters.panels() {
            let place = Panel::place(isa, self.filters.columns(), index);
            for square in 0..A * A {
                let first = index * self.panel_len() + square * self.weight_stride();
                let product = PanelProduct {
                    next: &[],
                    input: inputs.ptr(),
                    input_rows: Grid { offset: square * stretch.stride, ..Grid::contiguous(channels) },
                    segments: Segments::single(channels),
                    rows: 0..tiles.len(),
                    panel: Panel {
                        data: &weights[first..][..channels * place.width],
                        first: 0,
                        columns: place.width,
                        width: place.width,
                    },
                    output: products[square * products_stride..].as_mut_ptr(),
                    output_rows: Grid::contiguous(place.width),
                    start: Start::Zero,
                    epilogue: Epilogue::NONE,
                };
                // SAFETY: a block's tiles were transformed just before; a square of the products has room for them.
                unsafe { product.run(isa) }
            }
            isa.run(OutputTiles::<T, A, M> {
                tiling: self.tiling,
                tiles: tiles.clone(),
                products: &products,
                stride: products_stride,
                place,
                output: output.ptr(),
                epilogue,
                transform: PhantomData,
            });
        }
    }
}

/// Transforms the weights of one panel.
struct WeightPanel<'a, T, const A: usize, const M: usize> {
    opened: &'a Opened<'a>,
    to: &'a mut [f32],
    stride: usize,
    transform: PhantomData<T>,
}

impl<T: Tile<A, M>, const A: usize, const M: usize> Kernel for WeightPanel<'_, T, A, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let panel = self.opened.panel();
        let plane = panel.data.len() / 9;
        assert!(panel.data.len() == 9 * plane && plane <= self.stride && self.to.len() == A * A * self.stride);
        let planes = Planes { from: panel.data.as_ptr(), plane, channels: plane / panel.width, panel };
        // SAFETY: nine planes and α² squares of that size, as asserted.
        unsafe { Floats.transform_weights::<S, T, A, M>(planes, self.to.as_mut_ptr(), self.stride) }
    }
}

/// Transforms the products of a block of tiles with one panel. Made by [`Blocks::block`] only, which vouches for the
/// output: the tiling's, with nobody else at these tiles.
struct OutputTiles<'a, T, const A: usize, const M: usize> {
    tiling: &'a Tiling,
    tiles: Range<usize>,
    products: &'a [f32],
    stride: usize,
    place: Panel<'a>,
    output: *mut f32,
    epilogue: Epilogue<'a>,
    transform: PhantomData<T>,
}

impl<T: Tile<A, M>, const A: usize, const M: usize> Kernel for OutputTiles<'_, T, A, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.place.width;
        assert!(self.tiles.len() * width <= self.stride && A * A * self.stride <= self.products.len());
        for (row, tile) in self.tiles.clone().enumerate() {
            // SAFETY: products as asserted; the struct's contract.
            unsafe {
                let from = self.products.as_ptr().add(row * width);
                transform_output::<S, T, A, M>(
                    self.tiling,
                    tile,
                    #[inline(always)]
                    |square, lane| S::load(from.add(square * self.stride + lane)),
                    &self.place,
                    self.output,
                    &self.epilogue,
                );
            }
        }
    }
}
