//! One panel of output channels for a range of transformed tiles: weights transformed, multiplied, outputs transformed.

use std::marker::PhantomData;
use std::ops::Range;

use super::tile::{Tile, both_axes};
use super::{SKEW, Stretch, Tiling};
use crate::buffer::Buffer;
use crate::gemm::Panel;
use crate::gemm::kernel::finish_vector;
use crate::gemm::{Epilogue, Grid, PanelProduct, Segments, Start};
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Tiles multiplied before their outputs are transformed; products of that many fit a second-level cache.
const TILE_BLOCK: usize = 128;

/// With no more tiles than this, weights are transformed a few channels at a time, just before use: all of them would
/// pass through the last-level cache twice for little work in between.
const FEW_TILES: usize = 64;

/// Those few channels.
const CHANNEL_CHUNK: usize = 64;

/// What one task computes.
pub(super) struct PanelTask<'a> {
    pub(super) tiling: &'a Tiling,
    pub(super) stretch: Stretch,
    /// Within the stretch.
    pub(super) tiles: Range<usize>,
    pub(super) transformed: &'a [f32],
    /// Untransformed weights, `[9, channels]` deep.
    pub(super) panel: Panel<'a>,
    pub(super) output: *mut f32,
    pub(super) epilogue: Epilogue<'a>,
}

/// Transformed weights and products of one task.
struct Scratch {
    /// Channels transformed at a time.
    chunk: usize,
    weights: Buffer,
    weights_stride: usize,
    products: Buffer,
    products_stride: usize,
}

struct Run<'a, T, const A: usize, const M: usize> {
    task: PanelTask<'a>,
    scratch: Scratch,
    transform: PhantomData<T>,
}

impl PanelTask<'_> {
    /// Computes its output entries.
    ///
    /// # Safety
    /// `output` must be the tiling's output batch, and nobody else may touch this panel's channels of these tiles.
    pub(super) unsafe fn run<T: Tile<A, M>, const A: usize, const M: usize>(self, isa: Isa) {
        let (channels, width) = (self.tiling.input.c, self.panel.width);
        assert_eq!(self.panel.data.len(), 9 * channels * width, "weights of a 3x3 convolution");
        assert!(self.transformed.len() >= A * A * self.stretch.stride && self.tiles.end <= self.stretch.tiles);
        let chunk = if self.tiles.len() <= FEW_TILES { CHANNEL_CHUNK.min(channels) } else { channels };
        let weights_stride = chunk * width + SKEW;
        let products_stride = TILE_BLOCK.min(self.tiles.len()) * width + SKEW;
        let scratch = Scratch {
            chunk,
            weights: Buffer::stale(A * A * weights_stride),
            weights_stride,
            products: Buffer::stale(A * A * products_stride),
            products_stride,
        };
        isa.run(Run::<T, A, M> { task: self, scratch, transform: PhantomData });
    }
}

impl<T: Tile<A, M>, const A: usize, const M: usize> Kernel for Run<'_, T, A, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        // SAFETY: made by `PanelTask::run` only, whose caller vouches for the output and which has checked sizes.
        unsafe {
            let (channels, chunk) = (self.task.tiling.input.c, self.scratch.chunk);
            for first in self.task.tiles.clone().step_by(TILE_BLOCK) {
                let tiles = first..self.task.tiles.end.min(first + TILE_BLOCK);
                for start in (0..channels).step_by(chunk) {
                    let part = start..channels.min(start + chunk);
                    if chunk < channels || first == self.task.tiles.start {
                        self.transform_weights::<S>(part.clone());
                    }
                    for square in 0..A * A {
                        self.multiply::<S>(square, tiles.clone(), part.clone());
                    }
                }
                for tile in tiles.clone() {
                    self.transform_output::<S>(tile, tile - first);
                }
            }
        }
    }
}

impl<T: Tile<A, M>, const A: usize, const M: usize> Run<'_, T, A, M> {
    /// `G g Gᵀ` for a range of input channels and every column of the panel.
    #[inline(always)]
    unsafe fn transform_weights<S: Simd>(&mut self, channels: Range<usize>) {
        let width = self.task.panel.width;
        let plane = self.task.tiling.input.c * width;
        let to = self.scratch.weights.as_mut_ptr();
        let from = self.task.panel.data[channels.start * width..].as_ptr();
        for at in (0..channels.len() * width).step_by(S::LANES) {
            // SAFETY: `at` runs over whole vectors of the nine planes; each of the α² squares has room for a chunk.
            unsafe {
                let mut g = [[S::splat(0.0); 3]; 3];
                for r in 0..3 {
                    for c in 0..3 {
                        g[r][c] = S::load(from.add((3 * r + c) * plane + at));
                    }
                }
                let u = both_axes(
                    g,
                    #[inline(always)]
                    |g| T::weight::<S>(g),
                );
                for r in 0..A {
                    for c in 0..A {
                        S::store(to.add((r * A + c) * self.scratch.weights_stride + at), u[r][c]);
                    }
                }
            }
        }
    }

    /// One of the α² products, for a block of tiles, over a range of channels.
    ///
    /// # Safety
    /// `S` must be available, and tiles and channels within the scratch memory.
    #[inline(always)]
    unsafe fn multiply<S: Simd>(&mut self, square: usize, tiles: Range<usize>, part: Range<usize>) {
        let (channels, width) = (self.task.tiling.input.c, self.task.panel.width);
        let weights = &self.scratch.weights[square * self.scratch.weights_stride..][..part.len() * width];
        let product = PanelProduct {
            input: self.task.transformed.as_ptr(),
            input_rows: Grid {
                offset: square * self.task.stretch.stride + tiles.start * channels + part.start,
                ..Grid::contiguous(channels)
            },
            segments: Segments::single(part.len()),
            rows: 0..tiles.len(),
            panel: Panel { data: weights, first: 0, columns: width, width },
            output: self.scratch.products[square * self.scratch.products_stride..].as_mut_ptr(),
            output_rows: Grid::contiguous(width),
            start: if part.start == 0 { Start::Zero } else { Start::Output },
            epilogue: Epilogue::NONE,
        };
        // SAFETY: the tiles' transformed inputs exist; a square of the products holds a block of tiles.
        unsafe { product.compute::<S>() }
    }

    /// `Aᵀ m A` of one tile, row `row` of the products.
    #[inline(always)]
    unsafe fn transform_output<S: Simd>(&self, tile: usize, row: usize) {
        let output = self.task.tiling.output;
        let (sample, top, left) = self.task.tiling.place(self.task.stretch.first + tile);
        let (rows, columns) = (M.min(output.h - top), M.min(output.w - left));
        let panel = &self.task.panel;
        for first in (0..panel.columns).step_by(S::LANES) {
            let lanes = S::LANES.min(panel.columns - first);
            // SAFETY: products are whole panels wide; only existing pixels and channels of the output are written.
            unsafe {
                let from = self.scratch.products.as_ptr().add(row * panel.width + first);
                let mut m = [[S::splat(0.0); A]; A];
                for r in 0..A {
                    for c in 0..A {
                        m[r][c] = S::load(from.add((r * A + c) * self.scratch.products_stride));
                    }
                }
                let y = both_axes(
                    m,
                    #[inline(always)]
                    |m| T::output::<S>(m),
                );
                for (r, line) in y.iter().enumerate().take(rows) {
                    for (c, sum) in line.iter().enumerate().take(columns) {
                        let pixel = (sample * output.h + top + r) * output.w + left + c;
                        let (column, offset) = (panel.first + first, pixel * output.c + panel.first + first);
                        finish_vector::<S>(&self.task.epilogue, self.task.output, offset, column, *sum, lanes);
                    }
                }
            }
        }
    }
}
