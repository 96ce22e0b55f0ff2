//! The weights of a correlation, as panels of filters `[kh·kw·channels, 16 or 64 columns]`: packed ahead, or made of
//! stored weights one panel at a time.
//!
//! ```text
//! stored      w[o, c·taps + tap]
//! forward     panel[tap·in + c, o]                    columns are output channels
//! gradient    panel[(taps−1−tap)·out + o, c]          columns are input channels, the kernel turned by 180°
//! ```
//!
//! Either way a few hundred numbers of a row are widened, if they are halves, transposed in the first-level cache and
//! put in their places: about as much work as one multiply-add of each weight. Where a panel is used for little more
//! than that, it is made a few channels at a time ([`Part`]), so that it stays in the cache until it is used.

use std::ops::Range;

use super::spec::ConvSpec;
use crate::buffer::Buffer;
use crate::gemm::{Opened, Packed, Panel};
use crate::isa::{Isa, Kernel};
use crate::simd::{Simd, prefetch};
use crate::weights::{Weights, Widen};

/// Channels of a row transposed at a time: whole squares, whatever the number of taps.
const STRETCH: usize = 16;

/// Widest panel of all instruction sets, in columns.
const WIDEST: usize = 64;

/// Rows by which stored weights are fetched ahead of their use: what is taken of each is short, and they are far apart.
const ROWS_AHEAD: usize = 4;

/// Filters of a correlation.
pub(super) enum Filters<'a> {
    Packed(&'a Packed),
    Stored(Stored<'a>),
}

/// Filters in stored weights.
pub(super) struct Stored<'a> {
    isa: Isa,
    weights: &'a Weights,
    /// Input channels, output channels, pixels of the kernel.
    inputs: usize,
    outputs: usize,
    taps: usize,
    /// For the gradient.
    turned: bool,
}

/// A panel of stored weights that is made a few channels at a time.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    stored: &'a Stored<'a>,
    index: usize,
}

impl<'a> Filters<'a> {
    /// Those of a convolution, or of its gradient.
    pub(super) fn stored(isa: Isa, weights: &'a Weights, spec: &ConvSpec, turned: bool) -> Self {
        let taps = spec.kernel[0] * spec.kernel[1];
        let (inputs, outputs) = (spec.in_channels, spec.out_channels);
        Filters::Stored(Stored { isa, weights, inputs, outputs, taps, turned })
    }

    pub(super) fn isa(&self) -> Isa {
        match self {
            Filters::Packed(packed) => packed.isa(),
            Filters::Stored(stored) => stored.isa,
        }
    }

    pub(super) fn panels(&self) -> usize {
        self.columns().div_ceil(self.isa().panel_width())
    }

    /// Channels of the result.
    pub(super) fn columns(&self) -> usize {
        match self {
            Filters::Packed(packed) => packed.columns(),
            Filters::Stored(stored) => stored.columns(),
        }
    }

    /// Numbers of a filter.
    pub(super) fn depth(&self) -> usize {
        match self {
            Filters::Packed(packed) => packed.depth(),
            Filters::Stored(stored) => stored.taps * stored.channels(),
        }
    }

    /// A panel, ready for use.
    pub(super) fn open(&self, index: usize) -> Opened<'_> {
        match self {
            Filters::Packed(packed) => packed.open(index),
            Filters::Stored(stored) => stored.open(index),
        }
    }

    /// A panel to be made in parts, if it is not packed.
    pub(super) fn part(&self, index: usize) -> Option<Part<'_>> {
        match self {
            Filters::Packed(_) => None,
            Filters::Stored(stored) => Some(Part { stored, index }),
        }
    }
}

impl Part<'_> {
    /// The panel's place, without its numbers.
    pub(super) fn place(&self) -> Panel<'static> {
        Panel::place(self.stored.isa, self.stored.columns(), self.index)
    }

    /// Writes the rows of some channels, `[taps, channels, width]`.
    pub(super) fn make(&self, channels: Range<usize>, to: &mut [f32]) {
        let place = self.place();
        let to = &mut to[..self.stored.taps * channels.len() * place.width];
        if place.columns < place.width {
            to.fill(0.0);
        }
        self.stored.fill(&place, channels, to);
    }
}

impl Stored<'_> {
    fn columns(&self) -> usize {
        if self.turned { self.inputs } else { self.outputs }
    }

    /// Channels that are summed over.
    fn channels(&self) -> usize {
        if self.turned { self.outputs } else { self.inputs }
    }

    fn open(&self, index: usize) -> Opened<'_> {
        let depth = self.taps * self.channels();
        Opened::made(self.isa, [depth, self.columns()], index, |place, panel| {
            self.fill(place, 0..self.channels(), panel);
        })
    }

    /// The rows of some channels, `[taps, channels, width]`; lanes without a column stay as they are.
    fn fill(&self, place: &Panel<'_>, channels: Range<usize>, panel: &mut [f32]) {
        match self.turned {
            false => {
                let mut rows = Buffer::stale(place.columns * STRETCH * self.taps);
                self.isa.run(Plain { stored: self, place: *place, channels, rows: &mut rows, panel });
            }
            true => {
                let len = place.columns * self.taps;
                let mut row = Buffer::zeros(len + WIDEST);
                let mut turned = Buffer::zeros(self.taps.next_multiple_of(self.isa.lanes()) * place.width);
                let (row, turned) = (&mut row[..], &mut turned[..]);
                self.isa.run(Turn { stored: self, place: *place, channels, row, turned, panel });
            }
        }
    }
}

/// Panels of the forward pass: rows of the weights become columns, a stretch of whole channels at a time.
struct Plain<'a> {
    stored: &'a Stored<'a>,
    place: Panel<'a>,
    channels: Range<usize>,
    /// A stretch of every row, where they must be widened.
    rows: &'a mut [f32],
    panel: &'a mut [f32],
}

impl Kernel for Plain<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { stored: Stored { weights, taps, isa, .. }, place, channels, rows, panel } = self;
        let (taps, Panel { first, columns: count, width, .. }) = (*taps, place);
        let len = STRETCH * taps;
        assert!(panel.len() == channels.len() * taps * width && count <= width);
        // Where an entry of a stretch goes, from the first one's row on.
        let begins: Vec<_> = (0..len).map(|k| (k % taps * channels.len() + k / taps) * width).collect();
        for start in channels.clone().step_by(STRETCH) {
            let here = STRETCH.min(channels.end - start) * taps;
            let entries = start * taps..start * taps + here;
            let ahead = entries.end..(entries.end + len).min(channels.end * taps);
            let mut columns: [&[f32]; WIDEST] = [&[]; WIDEST];
            for ((row, column), to) in columns[..count].iter_mut().enumerate().zip(rows.chunks_exact_mut(len)) {
                *column = match weights.floats_of_row(first + row, entries.clone()) {
                    Some(floats) => floats,
                    None => {
                        weights.widen_row(*isa, first + row, entries.clone(), &mut to[..here]);
                        &to[..here]
                    }
                };
                prefetch(weights.bytes_of_row(first + row, ahead.clone()));
            }
            let panel = &mut panel[(start - channels.start) * width..];
            for (block, columns) in columns[..count].chunks(S::LANES).enumerate() {
                let lane = block * S::LANES;
                let squares = if columns.len() == S::LANES { here - here % S::LANES } else { 0 };
                let mut from = [std::ptr::null(); 16];
                for (from, column) in from.iter_mut().zip(columns) {
                    *from = column.as_ptr();
                }
                for at in (0..squares).step_by(S::LANES) {
                    let (to, begin) = (panel.as_mut_ptr(), &begins[at..at + S::LANES]);
                    // SAFETY: `here` entries of each column; they go to rows of the panel, which has as many as was
                    // asserted, and a column for each.
                    unsafe {
                        S::transpose(
                            &from[..S::LANES],
                            at,
                            #[inline(always)]
                            |i| to.add(begin[i] + lane),
                        )
                    }
                }
                for (j, column) in columns.iter().enumerate() {
                    for k in squares..here {
                        panel[begins[k] + lane + j] = column[k];
                    }
                }
            }
        }
    }
}

/// Panels of the gradient: channels of each row of the weights become columns, one row at a time.
struct Turn<'a> {
    stored: &'a Stored<'a>,
    place: Panel<'a>,
    channels: Range<usize>,
    /// One row's entries, where they must be widened, and room to read on.
    row: &'a mut [f32],
    /// The same by taps, in whole squares.
    turned: &'a mut [f32],
    panel: &'a mut [f32],
}

impl Kernel for Turn<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (taps, Panel { first, columns: count, width, .. }) = (self.stored.taps, self.place);
        let (weights, entries) = (self.stored.weights, first * taps..(first + count) * taps);
        // So few taps beyond whole squares are moved one by one.
        let squares = if taps % S::LANES <= S::LANES / 4 { taps - taps % S::LANES } else { taps };
        let whole = count - count % S::LANES;
        for (k, channel) in self.channels.clone().enumerate() {
            let ahead = weights.bytes_of_row((channel + ROWS_AHEAD).min(weights.rows() - 1), entries.clone());
            prefetch(ahead);
            let row = match weights.floats_of_row(channel, entries.start..entries.end + WIDEST) {
                Some(floats) => floats,
                None => {
                    let from = weights.bytes_of_row(channel, entries.clone());
                    Widen { dtype: weights.dtype(), from, to: &mut self.row[..entries.len()] }.run::<S>();
                    &*self.row
                }
            };
            for lane in (0..whole).step_by(S::LANES) {
                let mut columns = [std::ptr::null(); 16];
                for (i, column) in columns.iter_mut().enumerate().take(S::LANES) {
                    *column = row[(lane + i) * taps..].as_ptr();
                }
                for at in (0..squares).step_by(S::LANES) {
                    assert!((lane + S::LANES - 1) * taps + at + S::LANES <= row.len());
                    assert!((at + S::LANES - 1) * width + lane + S::LANES <= self.turned.len());
                    // SAFETY: read and written where it was just asserted that there is room; what lies beyond a
                    // column's taps is another's and goes to rows that are not used.
                    unsafe {
                        let to = self.turned.as_mut_ptr().add(at * width + lane);
                        S::transpose(
                            &columns[..S::LANES],
                            at,
                            #[inline(always)]
                            |i| to.add(i * width),
                        )
                    }
                }
            }
            for lane in 0..count {
                for tap in if lane < whole { squares } else { 0 }..taps {
                    self.turned[tap * width + lane] = row[lane * taps + tap];
                }
            }
            for (tap, from) in self.turned.chunks_exact(width).take(taps).enumerate() {
                let to = (taps - 1 - tap) * self.channels.len() + k;
                self.panel[to * width..][..width].copy_from_slice(from);
            }
        }
    }
}
