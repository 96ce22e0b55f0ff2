//! One panel of output channels for a range of transformed tiles: weights transformed, multiplied, outputs transformed.

use std::marker::PhantomData;
use std::ops::Range;

use super::super::filters::Part;
use super::factors::{Factors, Planes};
use super::tile::{Tile, both_axes};
use super::{SKEW, Stretch, Tiling};
use crate::buffer::Buffer;
use crate::gemm::Panel;
use crate::gemm::kernel::{Finish, ROWS};
use crate::gemm::{Epilogue, Grid, PanelProduct, Segments, Start};
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Most tiles multiplied before their outputs are transformed; products of that many fit a second-level cache.
const TILE_BLOCK: usize = 132;

/// With no more tiles than this, weights are transformed a few channels at a time, just before use: all of them would
/// pass through the last-level cache twice for little work in between.
const FEW_TILES: usize = 64;

/// Those few channels.
const CHANNEL_CHUNK: usize = 64;

/// Whether a task of these tiles transforms its weights a few channels at a time.
pub(super) fn in_chunks(tiles: &Range<usize>) -> bool {
    tiles.len() <= FEW_TILES
}

/// What one task computes.
pub(super) struct PanelTask<'a, F> {
    pub(super) factors: F,
    pub(super) tiling: &'a Tiling,
    pub(super) stretch: Stretch,
    /// Within the stretch.
    pub(super) tiles: Range<usize>,
    pub(super) transformed: &'a [f32],
    /// Untransformed weights, `[9, channels]` deep; without numbers if it is made in parts.
    pub(super) panel: Panel<'a>,
    pub(super) part: Option<Part<'a>>,
    pub(super) output: *mut f32,
    pub(super) epilogue: Epilogue<'a>,
}

/// Transformed weights and products of one task.
struct Scratch {
    /// Channels transformed at a time.
    chunk: usize,
    /// Tiles multiplied at a time.
    block: usize,
    /// A part of the panel, if it is made in parts.
    made: Buffer,
    weights: Buffer,
    weights_stride: usize,
    products: Buffer,
    products_stride: usize,
}

struct Run<'a, F, T, const A: usize, const M: usize> {
    task: PanelTask<'a, F>,
    scratch: Scratch,
    transform: PhantomData<T>,
}

impl<F: Factors> PanelTask<'_, F> {
    /// Computes its output entries.
    ///
    /// # Safety
    /// `output` must be the tiling's output batch, and nobody else may touch this panel's channels of these tiles.
    pub(super) unsafe fn run<T: Tile<A, M>, const A: usize, const M: usize>(self, isa: Isa) {
        let (channels, width) = (self.tiling.input.c, self.panel.width);
        let in_chunks = in_chunks(&self.tiles);
        let numbers = if self.part.is_some() { 0 } else { 9 * channels * width };
        assert_eq!(self.panel.data.len(), numbers, "weights of a 3x3 convolution");
        assert!(in_chunks || self.part.is_none(), "a panel for many tiles is made whole");
        assert!(self.transformed.len() >= A * A * self.stretch.stride && self.tiles.end <= self.stretch.tiles);
        let chunk = if in_chunks { CHANNEL_CHUNK.min(channels) } else { channels };
        let weights_stride = self.factors.steps(chunk) * width + SKEW;
        // Blocks of equal size: a short one would read the weights for little work.
        let blocks = self.tiles.len().div_ceil(TILE_BLOCK).max(1);
        let block = self.tiles.len().div_ceil(blocks).next_multiple_of(ROWS);
        let products_stride = block * width + SKEW;
        let scratch = Scratch {
            chunk,
            block: block.max(1),
            made: Buffer::stale(if self.part.is_some() { 9 * chunk * width } else { 0 }),
            weights: Buffer::stale(A * A * weights_stride),
            weights_stride,
            products: Buffer::stale(A * A * products_stride),
            products_stride,
        };
        isa.run(Run::<F, T, A, M> { task: self, scratch, transform: PhantomData });
    }
}

impl<F: Factors, T: Tile<A, M>, const A: usize, const M: usize> Kernel for Run<'_, F, T, A, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        // SAFETY: made by `PanelTask::run` only, whose caller vouches for the output and which has checked sizes.
        unsafe {
            let (channels, chunk) = (self.task.tiling.input.c, self.scratch.chunk);
            for first in self.task.tiles.clone().step_by(self.scratch.block) {
                let tiles = first..self.task.tiles.end.min(first + self.scratch.block);
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

impl<F: Factors, T: Tile<A, M>, const A: usize, const M: usize> Run<'_, F, T, A, M> {
    /// `G g Gᵀ` for a range of input channels and every column of the panel.
    #[inline(always)]
    unsafe fn transform_weights<S: Simd>(&mut self, channels: Range<usize>) {
        let width = self.task.panel.width;
        let (from, plane) = match self.task.part {
            None => (self.task.panel.data[channels.start * width..].as_ptr(), self.task.tiling.input.c * width),
            Some(part) => {
                part.make(channels.clone(), &mut self.scratch.made);
                (self.scratch.made.as_ptr(), channels.len() * width)
            }
        };
        let planes = Planes { from, plane, channels: channels.len(), panel: self.task.panel };
        let to = self.scratch.weights.as_mut_ptr();
        // SAFETY: nine planes of at least this many vectors; each of the α² squares has room for a chunk.
        unsafe { self.task.factors.transform_weights::<S, T, A, M>(planes, to, self.scratch.weights_stride) }
    }

    /// One of the α² products, for a block of tiles, over a range of channels.
    ///
    /// # Safety
    /// `S` must be available, and tiles and channels within the scratch memory.
    #[inline(always)]
    unsafe fn multiply<S: Simd>(&mut self, square: usize, tiles: Range<usize>, part: Range<usize>) {
        let factors = self.task.factors;
        let [channels, first, len] = [self.task.tiling.input.c, part.start, part.len()].map(|c| factors.steps(c));
        let width = self.task.panel.width;
        let weights = &self.scratch.weights[square * self.scratch.weights_stride..][..len * width];
        let product = PanelProduct {
            next: &[],
            input: self.task.transformed.as_ptr(),
            input_rows: Grid {
                offset: square * self.task.stretch.stride + tiles.start * channels + first,
                ..Grid::contiguous(channels)
            },
            segments: Segments::single(len),
            rows: 0..tiles.len(),
            panel: Panel { data: weights, first: 0, columns: width, width },
            output: self.scratch.products[square * self.scratch.products_stride..].as_mut_ptr(),
            output_rows: Grid::contiguous(width),
            start: if part.start == 0 { Start::Zero } else { Start::Output },
            epilogue: Epilogue::NONE,
        };
        // SAFETY: the tiles' transformed inputs exist; a square of the products holds a block of tiles.
        unsafe { factors.multiply(S::ISA, product) }
    }

    /// `Aᵀ m A` of one tile, row `row` of the products.
    #[inline(always)]
    unsafe fn transform_output<S: Simd>(&self, tile: usize, row: usize) {
        let (task, factors) = (&self.task, self.task.factors);
        // SAFETY: products are whole panels wide; the caller vouches for the output.
        unsafe {
            let (from, stride) =
                (self.scratch.products.as_ptr().add(row * task.panel.width), self.scratch.products_stride);
            let column = task.panel.first;
            transform_output::<S, T, A, M>(
                task.tiling,
                task.stretch.first + tile,
                #[inline(always)]
                |square, lane| factors.products::<S>(from.add(square * stride + lane), square, tile, column + lane),
                &task.panel,
                task.output,
                &task.epilogue,
            );
        }
    }
}

/// `Aᵀ m A` of one tile and a panel's channels, finished and stored where they exist.
///
/// # Safety
/// `S` must be available; `products(square, column)` must do for each of the α² squares and columns of the panel, and
/// be `#[inline(always)]`; `output` the tiling's output batch, and nobody else at this tile's pixels of this panel.
#[inline(always)]
pub(super) unsafe fn transform_output<S: Simd, T: Tile<A, M>, const A: usize, const M: usize>(
    tiling: &Tiling,
    tile: usize,
    products: impl Fn(usize, usize) -> S::V,
    panel: &Panel<'_>,
    output: *mut f32,
    epilogue: &Epilogue<'_>,
) {
    let shape = tiling.output;
    let (sample, top, left) = tiling.place(tile);
    let (rows, columns) = (M.min(shape.h - top), M.min(shape.w - left));
    for first in (0..panel.columns).step_by(S::LANES) {
        let lanes = S::LANES.min(panel.columns - first);
        // SAFETY: the caller's contract; only existing pixels and channels of the output are written.
        unsafe {
            let mut m = [[S::splat(0.0); A]; A];
            for r in 0..A {
                for c in 0..A {
                    m[r][c] = products(r * A + c, first);
                }
            }
            let y = both_axes(
                m,
                #[inline(always)]
                |m| T::output::<S>(m),
            );
            let finish = Finish::<S>::new(epilogue, panel.first + first, lanes);
            for r in 0..rows {
                let pixel = (sample * shape.h + top + r) * shape.w + left;
                for c in 0..columns {
                    finish.store(output, (pixel + c) * shape.c + panel.first + first, y[r][c]);
                }
            }
        }
    }
}
