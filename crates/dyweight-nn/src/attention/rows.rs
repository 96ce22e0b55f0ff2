//! Matrices of one head, as rows somewhere in an activation, and what is done with them.

use std::marker::PhantomData;

use crate::act::Act;
use crate::activation::exp;
use crate::buffer::Buffer;
use crate::gemm::{Epilogue, Grid, Packed, PanelProduct, Segments, Start};
use crate::isa::Isa;
use crate::pairs::{self, Pairs};
use crate::reduce::{largest, sum};

/// Channels `first..first + channels` of an activation.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) act: &'a Act,
    pub(super) first: usize,
    pub(super) channels: usize,
}

impl<'a> Operand<'a> {
    pub(super) fn whole(act: &'a Act) -> Self {
        Self { act, first: 0, channels: act.shape().c }
    }

    pub(super) fn tokens(&self) -> usize {
        self.act.shape().pixels()
    }

    /// One head of one sample.
    pub(super) fn head(&self, sample: usize, head: usize, width: usize) -> Matrix<'a> {
        let first = self.first + head * width;
        Matrix { data: self.act.sample(sample), first, stride: self.act.shape().c, rows: self.tokens(), width }
    }
}

/// Channels of an activation to be written, by tasks that share it.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    data: *mut f32,
    first: usize,
    stride: usize,
    tokens: usize,
    lifetime: PhantomData<&'a mut Act>,
}

// SAFETY: writing through it is `unsafe`, with disjointness the caller's duty.
unsafe impl Send for Target<'_> {}
// SAFETY: as above.
unsafe impl Sync for Target<'_> {}

impl<'a> Target<'a> {
    pub(super) fn whole(act: &'a mut Act) -> Self {
        let shape = act.shape();
        let (stride, tokens) = (shape.c, shape.pixels());
        Self { data: act.data_mut().as_mut_ptr(), first: 0, stride, tokens, lifetime: PhantomData }
    }

    /// Three equal parts of the channels.
    pub(super) fn thirds(act: &'a mut Act) -> [Self; 3] {
        let channels = act.shape().c / 3;
        let whole = Self::whole(act);
        [0, 1, 2].map(|part| Self { first: part * channels, ..whole })
    }

    /// One head of one sample.
    ///
    /// # Safety
    /// The sample and head must exist, and no two tasks may write the same head's rows at the same time.
    pub(super) unsafe fn head(&self, sample: usize, head: usize, width: usize) -> MatrixMut<'a> {
        let offset = sample * self.tokens * self.stride + self.first + head * width;
        // SAFETY: within the activation by the caller's contract.
        let data = unsafe { self.data.add(offset) };
        MatrixMut { data, stride: self.stride, rows: self.tokens, width, lifetime: PhantomData }
    }
}

/// Rows of `width` floats, `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    data: &'a [f32],
    first: usize,
    stride: usize,
    rows: usize,
    width: usize,
}

impl<'a> Matrix<'a> {
    pub(super) fn contiguous(data: &'a [f32], width: usize) -> Self {
        Self { data, first: 0, stride: width, rows: data.len() / width, width }
    }

    /// `rows` rows of `width` floats, `stride` apart.
    pub(super) fn strided(data: &'a [f32], stride: usize, rows: usize, width: usize) -> Self {
        assert!(width <= stride && rows * stride <= data.len(), "{rows} rows of {width} in {}", data.len());
        Self { data, first: 0, stride, rows, width }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// The first row's address; all rows are readable from there.
    pub(super) fn as_ptr(&self) -> *const f32 {
        assert!(self.rows == 0 || self.first + (self.rows - 1) * self.stride + self.width <= self.data.len());
        self.data[self.first..].as_ptr()
    }

    pub(super) fn packed(&self, isa: Isa) -> Packed {
        Packed::from_rows(isa, self.rows, self.width, |t| self.row(t))
    }

    pub(super) fn packed_transposed(&self, isa: Isa) -> Packed {
        Packed::from_columns(isa, self.width, self.rows, |t| self.row(t))
    }

    /// [`packed`](Self::packed), rounded if products are to be of pairs.
    pub(super) fn packed_for(&self, isa: Isa, pairs: Option<Pairs>) -> Packed {
        match pairs {
            None => self.packed(isa),
            Some(pairs) => Packed::from_rounded_rows((isa, pairs), self.rows, self.width, |t| self.row(t)),
        }
    }

    /// [`packed_transposed`](Self::packed_transposed), rounded if products are to be of pairs.
    pub(super) fn packed_transposed_for(&self, isa: Isa, pairs: Option<Pairs>) -> Packed {
        match pairs {
            None => self.packed_transposed(isa),
            Some(pairs) => Packed::from_rounded_columns((isa, pairs), self.width, self.rows, |t| self.row(t)),
        }
    }

    /// The matrix as the left factor of a product: itself, or its rows as pairs, in `room`.
    pub(super) fn factor<'r>(self, pairs: Option<Pairs>, room: &'r mut Buffer) -> Matrix<'r>
    where
        'a: 'r,
    {
        /// Between rows, so that no power of two lies between them.
        const GAP: usize = 16;
        let Some(pairs) = pairs else { return self };
        let steps = pairs::count(self.width);
        let stride = steps + GAP;
        if room.len() < self.rows * stride {
            *room = Buffer::stale(self.rows * stride);
        }
        for (row, to) in room.chunks_exact_mut(stride).take(self.rows).enumerate() {
            pairs.round(self.row(row), &mut to[..steps]);
        }
        Matrix::strided(room, stride, self.rows, steps)
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.stride + self.first..][..self.width]
    }

    pub(super) fn rows_from(self, row: usize, count: usize) -> Self {
        assert!(row + count <= self.rows, "rows {row}+{count} of {}", self.rows);
        Self { first: self.first + row * self.stride, rows: count, ..self }
    }
}

/// Rows to be written.
pub(super) struct MatrixMut<'a> {
    data: *mut f32,
    stride: usize,
    rows: usize,
    width: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

impl<'a> MatrixMut<'a> {
    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: one of this matrix's rows, all of which are exclusive for its lifetime.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(row * self.stride), self.width) }
    }

    pub(super) fn contiguous(data: &'a mut [f32], width: usize) -> Self {
        let rows = data.len() / width;
        Self { data: data.as_mut_ptr(), stride: width, rows, width, lifetime: PhantomData }
    }

    pub(super) fn rows_from(self, row: usize, count: usize) -> Self {
        assert!(row + count <= self.rows, "rows {row}+{count} of {}", self.rows);
        // SAFETY: row `row` is one of this matrix's, or one past them when none are left.
        let data = unsafe { self.data.add(row * self.stride) };
        Self { data, rows: count, ..self }
    }
}

/// `out = left·right`.
pub(super) fn multiply(left: Matrix<'_>, right: &Packed, out: MatrixMut<'_>) {
    assert_eq!((left.rows, left.width, right.columns()), (out.rows, right.depth(), out.width), "sizes of a product");
    assert!(left.rows == 0 || left.first + (left.rows - 1) * left.stride + left.width <= left.data.len());
    for panel in 0..right.panels() {
        let panel = right.open(panel);
        let product = PanelProduct {
            next: &[],
            input: left.data.as_ptr(),
            input_rows: Grid { offset: left.first, ..Grid::contiguous(left.stride) },
            segments: Segments::single(left.width),
            rows: 0..left.rows,
            panel: panel.panel(),
            output: out.data,
            output_rows: Grid::contiguous(out.stride),
            start: Start::Zero,
            epilogue: Epilogue::NONE,
        };
        // SAFETY: sizes as asserted; `out` is exclusive for its lifetime.
        unsafe { product.run(right.isa()) }
    }
}

/// Turns `row` into `softmax(scale·row)`; returns `ln Σ e^{scale·row}`.
#[inline(always)]
pub(super) fn softmax_row(row: &mut [f32], scale: f32) -> f32 {
    let largest = largest(row);
    for x in row.iter_mut() {
        *x = exp((*x - largest) * scale);
    }
    let total = sum(row);
    let inverse = 1.0 / total;
    for x in row.iter_mut() {
        *x *= inverse;
    }
    largest * scale + total.ln()
}
