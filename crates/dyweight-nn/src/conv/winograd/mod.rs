//! Winograd's minimal filtering for 3×3 convolutions of stride 1 (Lavin & Gray 2016).
//!
//! ```text
//! Y = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A             per tile of α×α inputs d and m×m outputs Y, α = m + 2
//! ```
//!
//! Summed over input channels, the element-wise product is α² matrix products `[tiles, in]·[in, out]`. Three steps per
//! stretch of tiles: transform the inputs (parallel over tiles); then, parallel over panels of output channels,
//! transform the panel's weights, multiply, and transform the outputs.
//!
//! The weights are transformed anew in every call, from the same filters the direct algorithm uses: for T tiles this
//! costs about 3/T of the products, and in exchange F(4×4) needs no memory of its own (4 times the weights otherwise)
//! and small batches, which are bound by reading weights, read a quarter as much.
//!
//! Layers of few channels go another way, a block of tiles at a time (`blocks`).
//!
//! Sums over channels run in rising order whatever the blocking, so blocking and threads change no bit.

mod blocks;
mod factors;
mod panel;
mod tile;

use std::ops::Range;

use super::filters::Filters;
use super::spec::Plan;
use crate::act::{Act, Shape};
use crate::buffer::Buffer;
use crate::fixed::{Fixed, Scales};
use crate::gemm::{Epilogue, Opened};
use crate::isa::Kernel;
use crate::pairs;
use crate::parallel::{Disjoint, for_each};
use crate::simd::Simd;
use blocks::Blocks;
pub(super) use factors::scales_of;
use factors::{Factors, Floats, Image, Integers};
use panel::PanelTask;
use tile::both_axes;
pub(super) use tile::{F2, F4, Near4, Tile};

/// Floats of transformed input in memory at once (9 MB): a part of the last-level cache.
const INPUT_BUDGET: usize = 36 * 256 * 256;

/// Tiles per task of the input transform.
const TRANSFORM_TILES: usize = 4;

/// Floats added to power-of-two strides, which would map everything to one cache set.
const SKEW: usize = 16;

/// Where tiles lie in a batch.
#[derive(Clone, Copy)]
struct Tiling {
    input: Shape,
    output: Shape,
    origin: [usize; 2],
    /// Outputs per tile and axis.
    side: usize,
    rows: usize,
    columns: usize,
}

impl Tiling {
    fn new(input: Shape, output: Shape, origin: [usize; 2], side: usize) -> Self {
        Self { input, output, origin, side, rows: output.h.div_ceil(side), columns: output.w.div_ceil(side) }
    }

    fn count(&self) -> usize {
        self.output.n * self.rows * self.columns
    }

    /// Sample, and first output row and column, of a tile.
    fn place(&self, tile: usize) -> (usize, usize, usize) {
        let per_sample = self.rows * self.columns;
        let within = tile % per_sample;
        (tile / per_sample, within / self.columns * self.side, within % self.columns * self.side)
    }
}

/// Transformed inputs of a stretch of tiles: `[α², tiles, channels]`, squares `stride` apart.
#[derive(Clone, Copy)]
struct Stretch {
    first: usize,
    tiles: usize,
    stride: usize,
}

/// The planned correlation of `x` with 3×3 filters.
pub(super) fn convolve<T: Tile<A, M>, const A: usize, const M: usize>(
    x: &Act,
    filters: &Filters<'_>,
    plan: &Plan,
    shape: Shape,
    epilogue: Epilogue<'_>,
) -> Act {
    let tiling = Tiling::new(x.shape(), shape, plan.origin, M);
    if let Some(blocks) = Blocks::plan(&tiling, filters, A * A) {
        let mut y = Act::stale(shape);
        blocks.run::<T, A, M>(x, &Disjoint::new(y.data_mut()), epilogue);
        return y;
    }
    let mut y = Act::stale(shape);
    let tiles = stretch_len(&tiling, A * A * x.shape().c);
    by_panels::<_, T, A, M>(Floats, (x, filters), &tiling, tiles, &mut y, epilogue);
    y
}

/// The same with factors of 16 bits.
pub(super) fn convolve_integers<T: Tile<A, M>, const A: usize, const M: usize>(
    (fixed, columns): (Fixed, &Scales),
    (x, filters): (&Act, &Filters<'_>),
    plan: &Plan,
    shape: Shape,
    epilogue: Epilogue<'_>,
) -> Act {
    let tiling = Tiling::new(x.shape(), shape, plan.origin, M);
    let mut y = Act::stale(shape);
    let tiles = stretch_len(&tiling, A * A * pairs::count(x.shape().c));
    let mut rows = Buffer::stale(A * A * tiles);
    let factors = Integers { fixed, columns, rows: Disjoint::new(&mut rows), tiles };
    by_panels::<_, T, A, M>(factors, (x, filters), &tiling, tiles, &mut y, epilogue);
    y
}

/// Tiles in a stretch: of equal length, because each transforms the weights once.
fn stretch_len(tiling: &Tiling, floats: usize) -> usize {
    let most = (INPUT_BUDGET / floats).max(32);
    tiling.count().div_ceil(tiling.count().div_ceil(most).max(1)).max(1)
}

/// A stretch of tiles at a time, each panel by a task.
fn by_panels<F: Factors, T: Tile<A, M>, const A: usize, const M: usize>(
    factors: F,
    (x, filters): (&Act, &Filters<'_>),
    tiling: &Tiling,
    per_stretch: usize,
    y: &mut Act,
    epilogue: Epilogue<'_>,
) {
    let stride = per_stretch * factors.steps(x.shape().c) + SKEW;
    let mut transformed = Buffer::stale(A * A * stride);
    let zeros = Buffer::zeros(x.shape().c);
    let image = Image { x, tiling, zeros: &zeros, isa: filters.isa() };
    for first in (0..tiling.count()).step_by(per_stretch) {
        let stretch = Stretch { first, tiles: per_stretch.min(tiling.count() - first), stride };
        let shared = Disjoint::new(&mut transformed);
        for_each(stretch.tiles.div_ceil(TRANSFORM_TILES), |block| {
            let first = block * TRANSFORM_TILES;
            let tiles = first..stretch.tiles.min(first + TRANSFORM_TILES);
            factors.transform_tiles::<T, A, M>(image, stretch, tiles, &shared);
        });
        let output = Disjoint::new(y.data_mut());
        let splits = splits_per_panel(filters.panels(), stretch.tiles);
        for_each(filters.panels() * splits, |item| {
            let (index, split) = (item / splits, item % splits);
            let bound = |i: usize| i * stretch.tiles / splits;
            let tiles = bound(split)..bound(split + 1);
            let part = filters.part(index).filter(|_| panel::in_chunks(&tiles));
            let whole = part.is_none().then(|| filters.open(index));
            let panel = whole.as_ref().map(Opened::panel).or(part.map(|part| part.place()));
            let task = PanelTask {
                factors,
                tiling,
                stretch,
                tiles,
                transformed: &transformed,
                panel: panel.expect("whole or in parts"),
                part,
                output: output.ptr(),
                epilogue,
            };
            // SAFETY: tasks differ in panel or tiles, so they write different entries of `y`.
            unsafe { task.run::<T, A, M>(filters.isa()) }
        });
    }
}

/// Into how many tasks to cut one panel's tiles so that all threads have the same amount to do.
fn splits_per_panel(panels: usize, tiles: usize) -> usize {
    let threads = rayon::current_num_threads();
    let even = (1..=threads).find(|splits| (panels * splits).is_multiple_of(threads)).unwrap_or(1);
    even.min(tiles)
}

/// Transforms some tiles of a stretch; no two calls may have the same tile.
fn transform_tiles<T: Tile<A, M>, const A: usize, const M: usize>(
    from: Image<'_>,
    stretch: Stretch,
    tiles: Range<usize>,
    to: &Disjoint<'_>,
) {
    let channels = from.x.shape().c;
    assert!(to.len() >= A * A * stretch.stride && stretch.tiles * channels <= stretch.stride);
    assert!(tiles.end <= stretch.tiles && from.zeros.len() >= channels);
    for tile in tiles {
        let corners = corners::<A>(from.x, from.tiling, stretch.first + tile, from.zeros);
        // SAFETY: each tile has its own row in each of the α² squares, within bounds as asserted.
        let output = unsafe { to.ptr().add(tile * channels) };
        from.isa.run(InputTile::<T, A, M> {
            pixels: corners,
            channels,
            output,
            stride: stretch.stride,
            transform: std::marker::PhantomData,
        });
    }
}

/// Addresses of a tile's input pixels; those outside the image point to zeros.
fn corners<const A: usize>(x: &Act, tiling: &Tiling, tile: usize, zeros: &[f32]) -> [[*const f32; A]; A] {
    let Shape { h, w, c, .. } = tiling.input;
    let (sample, top, left) = tiling.place(tile);
    let sample = x.sample(sample);
    let inside =
        |start: usize, i: usize, origin: usize, len: usize| (start + i).checked_sub(origin).filter(|p| *p < len);
    std::array::from_fn(|r| {
        let row = inside(top, r, tiling.origin[0], h);
        std::array::from_fn(|col| match (row, inside(left, col, tiling.origin[1], w)) {
            (Some(u), Some(v)) => sample[(u * w + v) * c..][..c].as_ptr(),
            _ => zeros.as_ptr(),
        })
    })
}

/// Transforms one tile: `Bᵀ d B` for every channel. Made by `transform_inputs` only, which vouches for the pointers:
/// `channels` floats at each pixel, and at each of the α² places `stride` apart in the output.
struct InputTile<T, const A: usize, const M: usize> {
    pixels: [[*const f32; A]; A],
    channels: usize,
    output: *mut f32,
    stride: usize,
    transform: std::marker::PhantomData<T>,
}

impl<T: Tile<A, M>, const A: usize, const M: usize> Kernel for InputTile<T, A, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let whole = self.channels / S::LANES * S::LANES;
        // SAFETY: the struct's contract; only `channels` floats are touched at each place.
        unsafe {
            for c in (0..whole).step_by(S::LANES) {
                let mut d = [[S::splat(0.0); A]; A];
                for r in 0..A {
                    for col in 0..A {
                        d[r][col] = S::load(self.pixels[r][col].add(c));
                    }
                }
                let v = both_axes(
                    d,
                    #[inline(always)]
                    |d| T::input::<S>(d),
                );
                for r in 0..A {
                    for col in 0..A {
                        S::store(self.output.add((r * A + col) * self.stride + c), v[r][col]);
                    }
                }
            }
            let rest = self.channels - whole;
            if rest > 0 {
                let mut d = [[S::splat(0.0); A]; A];
                for r in 0..A {
                    for col in 0..A {
                        d[r][col] = S::load_part(self.pixels[r][col].add(whole), rest);
                    }
                }
                let v = both_axes(
                    d,
                    #[inline(always)]
                    |d| T::input::<S>(d),
                );
                for r in 0..A {
                    for col in 0..A {
                        S::store_part(self.output.add((r * A + col) * self.stride + whole), v[r][col], rest);
                    }
                }
            }
        }
    }
}
