//! What the products of transformed tiles and weights are made of: floats, or 16-bit integers two by two
//! ([`crate::fixed`]).

use std::marker::PhantomData;
use std::ops::Range;

use super::super::filters::Filters;
use super::tile::{Tile, both_axes, first_axis};
use super::{SKEW, Stretch, Tiling, transform_tiles};
use crate::act::Act;
use crate::buffer::Buffer;
use crate::fixed::{Fixed, Scales, scale_of};
use crate::gemm::{Panel, PanelProduct};
use crate::isa::{Isa, Kernel};
use crate::pairs;
use crate::parallel::{Disjoint, for_each};
use crate::simd::Simd;

/// A kind of factors.
pub(super) trait Factors: Copy + Send + Sync {
    /// Places of floats that the factors of some channels take.
    fn steps(self, channels: usize) -> usize;

    /// Transforms some tiles of a stretch; no two calls may have the same tile.
    fn transform_tiles<T: Tile<A, M>, const A: usize, const M: usize>(
        self,
        from: Image<'_>,
        stretch: Stretch,
        tiles: Range<usize>,
        to: &Disjoint<'_>,
    );

    /// `G g Gᵀ` of nine planes of `channels` rows of a panel; the α² results are `stride` apart.
    ///
    /// # Safety
    /// `S` must be that of the filters, the rows readable in each plane, and their factors writable at each result.
    unsafe fn transform_weights<S: Simd, T: Tile<A, M>, const A: usize, const M: usize>(
        self,
        planes: Planes<'_>,
        to: *mut f32,
        stride: usize,
    );

    /// Multiplies.
    ///
    /// # Safety
    /// As for [`PanelProduct::run`].
    unsafe fn multiply(self, isa: Isa, product: PanelProduct<'_>);

    /// A vector of products of one of the α² squares, for a tile of the stretch, from a column on.
    ///
    /// # Safety
    /// `S` must be that of the filters, and `from` readable.
    unsafe fn products<S: Simd>(self, from: *const f32, square: usize, tile: usize, column: usize) -> S::V;
}

/// Where tiles come from.
#[derive(Clone, Copy)]
pub(super) struct Image<'a> {
    pub(super) x: &'a Act,
    pub(super) tiling: &'a Tiling,
    pub(super) zeros: &'a [f32],
    pub(super) isa: Isa,
}

/// Rows of some channels in the nine planes of a panel of filters.
#[derive(Clone, Copy)]
pub(super) struct Planes<'a> {
    pub(super) from: *const f32,
    /// Floats from plane to plane.
    pub(super) plane: usize,
    pub(super) channels: usize,
    /// Without its numbers.
    pub(super) panel: Panel<'a>,
}

impl Planes<'_> {
    /// A vector of the weights of a channel, from place `at` of a plane.
    ///
    /// # Safety
    /// `S` must be that of the filters, and each plane readable there.
    #[inline(always)]
    unsafe fn weights<S: Simd>(&self, at: usize) -> [[S::V; 3]; 3] {
        // SAFETY: the caller's contract.
        unsafe {
            let mut g = [[S::splat(0.0); 3]; 3];
            for r in 0..3 {
                for c in 0..3 {
                    g[r][c] = S::load(self.from.add((3 * r + c) * self.plane + at));
                }
            }
            g
        }
    }

    /// The same, transformed along the first axis.
    ///
    /// # Safety
    /// As for [`weights`](Self::weights).
    #[inline(always)]
    unsafe fn half_transformed<S: Simd, T: Tile<A, M>, const A: usize, const M: usize>(
        &self,
        at: usize,
    ) -> [[S::V; 3]; A] {
        // SAFETY: the caller's contract.
        unsafe {
            first_axis(
                self.weights::<S>(at),
                #[inline(always)]
                |g| T::weight::<S>(g),
            )
        }
    }

    /// The same, transformed.
    ///
    /// # Safety
    /// As for [`weights`](Self::weights).
    #[inline(always)]
    unsafe fn transformed<S: Simd, T: Tile<A, M>, const A: usize, const M: usize>(&self, at: usize) -> [[S::V; A]; A] {
        // SAFETY: the caller's contract.
        unsafe {
            both_axes(
                self.weights::<S>(at),
                #[inline(always)]
                |g| T::weight::<S>(g),
            )
        }
    }
}

/// Floats.
#[derive(Clone, Copy)]
pub(super) struct Floats;

impl Factors for Floats {
    fn steps(self, channels: usize) -> usize {
        channels
    }

    fn transform_tiles<T: Tile<A, M>, const A: usize, const M: usize>(
        self,
        from: Image<'_>,
        stretch: Stretch,
        tiles: Range<usize>,
        to: &Disjoint<'_>,
    ) {
        transform_tiles::<T, A, M>(from, stretch, tiles, to);
    }

    #[inline(always)]
    unsafe fn transform_weights<S: Simd, T: Tile<A, M>, const A: usize, const M: usize>(
        self,
        planes: Planes<'_>,
        to: *mut f32,
        stride: usize,
    ) {
        for at in (0..planes.channels * planes.panel.width).step_by(S::LANES) {
            // SAFETY: the caller's contract.
            unsafe {
                let u = planes.transformed::<S, T, A, M>(at);
                for r in 0..A {
                    for c in 0..A {
                        S::store(to.add((r * A + c) * stride + at), u[r][c]);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, isa: Isa, product: PanelProduct<'_>) {
        // SAFETY: the caller's contract.
        unsafe { product.run(isa) }
    }

    #[inline(always)]
    unsafe fn products<S: Simd>(self, from: *const f32, _: usize, _: usize, _: usize) -> S::V {
        // SAFETY: the caller's contract.
        unsafe { S::load(from) }
    }
}

/// Pairs of integers, each row of a square scaled by its norm, as is each column.
#[derive(Clone, Copy)]
pub(super) struct Integers<'a> {
    pub(super) fixed: Fixed,
    /// Of columns, by squares.
    pub(super) columns: &'a Scales,
    /// What rows are multiplied by to get them back, by squares.
    pub(super) rows: Disjoint<'a>,
    /// Tiles of a stretch, at most.
    pub(super) tiles: usize,
}

impl Factors for Integers<'_> {
    fn steps(self, channels: usize) -> usize {
        pairs::count(channels)
    }

    fn transform_tiles<T: Tile<A, M>, const A: usize, const M: usize>(
        self,
        from: Image<'_>,
        stretch: Stretch,
        tiles: Range<usize>,
        to: &Disjoint<'_>,
    ) {
        let channels = from.x.shape().c;
        let (steps, stride) = (self.steps(channels), channels + SKEW);
        let mut floats = Buffer::stale(A * A * stride);
        for tile in tiles {
            let one = Stretch { first: stretch.first + tile, tiles: 1, stride };
            transform_tiles::<T, A, M>(from, one, 0..1, &Disjoint::new(&mut floats));
            for (square, row) in floats.chunks_exact(stride).enumerate() {
                let row = &row[..channels];
                let [scale, back] = scale_of(self.fixed.squares(row));
                // SAFETY: one place for each tile and square.
                let (place, to) = unsafe {
                    (
                        self.rows.part(square * self.tiles + tile, 1),
                        to.part(square * stretch.stride + tile * steps, steps),
                    )
                };
                place[0] = back;
                self.fixed.round(row, scale, to);
            }
        }
    }

    #[inline(always)]
    unsafe fn transform_weights<S: Simd, T: Tile<A, M>, const A: usize, const M: usize>(
        self,
        planes: Planes<'_>,
        to: *mut f32,
        stride: usize,
    ) {
        let (channels, width) = (planes.channels, planes.panel.width);
        for k in 0..pairs::count(channels) {
            for lane in (0..width).step_by(S::LANES) {
                // SAFETY: the caller's contract; there is a scale for every square and column.
                unsafe {
                    let low = planes.half_transformed::<S, T, A, M>(2 * k * width + lane);
                    let mut high = [[S::splat(0.0); 3]; A];
                    if 2 * k + 1 < channels {
                        high = planes.half_transformed::<S, T, A, M>((2 * k + 1) * width + lane);
                    }
                    // A row at a time: both squares as a whole are more than there are registers.
                    for r in 0..A {
                        let (low, high) = (T::weight::<S>(low[r]), T::weight::<S>(high[r]));
                        let by = self.columns.by(r * A, planes.panel.first + lane);
                        let to = to.add(r * A * stride + k * width + lane);
                        for c in 0..A {
                            let by = S::load(by.add(c * self.columns.count()));
                            S::store(to.add(c * stride), S::integer_pairs(S::mul(low[c], by), S::mul(high[c], by)));
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, _: Isa, product: PanelProduct<'_>) {
        // SAFETY: the caller's contract.
        unsafe { product.run_on_integers(self.fixed) }
    }

    #[inline(always)]
    unsafe fn products<S: Simd>(self, from: *const f32, square: usize, tile: usize, column: usize) -> S::V {
        // SAFETY: the caller's contract; there are scales for every square, tile and column.
        unsafe {
            let row = S::splat(self.rows.ptr().add(square * self.tiles + tile).read());
            let column = S::load(self.columns.back(square, column));
            S::mul(S::from_integers(S::load(from)), S::mul(row, column))
        }
    }
}

/// Scales of the transformed weights, by squares and columns.
pub(in crate::conv) fn scales_of<T: Tile<A, M>, const A: usize, const M: usize>(filters: &Filters<'_>) -> Scales {
    let (isa, channels) = (filters.isa(), filters.depth() / 9);
    let columns = filters.columns().next_multiple_of(isa.lanes());
    let mut squares = vec![0.0; A * A * columns];
    let shared = Disjoint::new(&mut squares);
    for_each(filters.panels(), |index| {
        let opened = filters.open(index);
        let panel = opened.panel();
        let plane = channels * panel.width;
        assert_eq!(panel.data.len(), 9 * plane, "weights of a 3x3 convolution");
        let planes = Planes { from: panel.data.as_ptr(), plane, channels, panel };
        isa.run(Squares::<T, A, M> { planes, to: shared, columns, transform: PhantomData });
    });
    Scales::new(&squares, columns)
}

/// Sums of squares of a panel's transformed weights. Made by [`scales_of`] only, which vouches for the planes.
struct Squares<'a, T, const A: usize, const M: usize> {
    planes: Planes<'a>,
    to: Disjoint<'a>,
    columns: usize,
    transform: PhantomData<T>,
}

impl<T: Tile<A, M>, const A: usize, const M: usize> Kernel for Squares<'_, T, A, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Panel { first, width, .. } = self.planes.panel;
        for lane in (0..width).step_by(S::LANES) {
            // SAFETY: as many rows in each plane as there are channels; nobody else has this panel's columns.
            unsafe {
                let mut sums = [[S::splat(0.0); A]; A];
                for channel in 0..self.planes.channels {
                    let u = self.planes.transformed::<S, T, A, M>(channel * width + lane);
                    for r in 0..A {
                        for c in 0..A {
                            sums[r][c] = S::mul_add(u[r][c], u[r][c], sums[r][c]);
                        }
                    }
                }
                for r in 0..A {
                    for c in 0..A {
                        let to = self.to.part((r * A + c) * self.columns + first + lane, S::LANES);
                        S::store(to.as_mut_ptr(), sums[r][c]);
                    }
                }
            }
        }
    }
}
