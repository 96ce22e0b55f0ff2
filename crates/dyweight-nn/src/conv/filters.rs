//! The weights of a correlation, as panels of filters `[kh·kw·channels, 16 or 64 columns]`: packed ahead, or made of stored
//! weights one panel at a time.
//!
//! ```text
//! stored      w[o, c·taps + tap]
//! forward     panel[tap·in + c, o]                    columns are output channels
//! gradient    panel[(taps−1−tap)·out + o, c]          columns are input channels, the kernel turned by 180°
//! ```
//!
//! Either way a few hundred numbers of a row are widened, transposed in the first-level cache and put in their places: about as
//! much work as one multiply-add of each weight.

use super::spec::ConvSpec;
use crate::buffer::Buffer;
use crate::gemm::{Opened, Packed, transpose};
use crate::isa::Isa;
use crate::weights::Weights;

/// Entries of a row transposed at a time, at least.
const STRETCH: usize = 128;

/// Widest panel of all instruction sets, in columns.
const WIDEST: usize = 64;

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
        match self {
            Filters::Packed(packed) => packed.panels(),
            Filters::Stored(stored) => stored.columns().div_ceil(stored.isa.panel_width()),
        }
    }

    /// A panel, ready for use.
    pub(super) fn open(&self, index: usize) -> Opened<'_> {
        match self {
            Filters::Packed(packed) => packed.open(index),
            Filters::Stored(stored) => stored.open(index),
        }
    }
}

impl Stored<'_> {
    fn columns(&self) -> usize {
        if self.turned { self.inputs } else { self.outputs }
    }

    fn open(&self, index: usize) -> Opened<'_> {
        let depth = self.taps * if self.turned { self.outputs } else { self.inputs };
        Opened::made(self.isa, [depth, self.columns()], index, |first, count, panel| {
            let width = panel.len() / depth;
            match self.turned {
                false => self.fill(first, count, panel, width),
                true => self.fill_turned(first, count, panel, width),
            }
        })
    }

    /// Rows of the weights become columns, a stretch of whole channels at a time.
    fn fill(&self, first: usize, count: usize, panel: &mut [f32], width: usize) {
        let channels = STRETCH.div_ceil(self.taps);
        let len = channels * self.taps;
        let (mut rows, mut turned) = (Buffer::stale(count * len), Buffer::zeros(len * width));
        for start in (0..self.inputs).step_by(channels) {
            let here = channels.min(self.inputs - start) * self.taps;
            for (row, to) in rows.chunks_exact_mut(len).enumerate() {
                let entries = start * self.taps..start * self.taps + here;
                self.weights.widen_row(self.isa, first + row, entries, &mut to[..here]);
            }
            let mut columns: [&[f32]; WIDEST] = [&[]; WIDEST];
            columns.iter_mut().zip(rows.chunks_exact(len)).for_each(|(column, row)| *column = row);
            transpose(self.isa, &columns[..count], here, &mut turned, width);
            for (k, from) in turned[..here * width].chunks_exact(width).enumerate() {
                let (channel, tap) = (start + k / self.taps, k % self.taps);
                panel[(tap * self.inputs + channel) * width..][..width].copy_from_slice(from);
            }
        }
    }

    /// Channels of each row become columns, one row at a time.
    fn fill_turned(&self, first: usize, count: usize, panel: &mut [f32], width: usize) {
        let len = count * self.taps;
        let (mut row, mut turned) = (Buffer::stale(len), Buffer::zeros(self.taps * width));
        for output in 0..self.outputs {
            let entries = first * self.taps..first * self.taps + len;
            self.weights.widen_row(self.isa, output, entries, &mut row);
            let mut columns: [&[f32]; WIDEST] = [&[]; WIDEST];
            columns.iter_mut().zip(row.chunks_exact(self.taps)).for_each(|(column, entries)| *column = entries);
            transpose(self.isa, &columns[..count], self.taps, &mut turned, width);
            for (tap, from) in turned.chunks_exact(width).enumerate() {
                let k = (self.taps - 1 - tap) * self.outputs + output;
                panel[k * width..][..width].copy_from_slice(from);
            }
        }
    }
}
