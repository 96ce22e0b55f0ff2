//! The register-blocked kernel: rows of `A` times one packed panel.

use std::ops::Range;

use super::pack::{Packed, Panel};
use crate::fixed::Fixed;
use crate::isa::{Isa, Kernel};
use crate::pairs::Pairs;
use crate::simd::Simd;

/// Rows kept in registers at once: 6 rows by 4 vectors fill 24 of AVX-512's 32 registers, 6 by 2 fill 12 of AVX2's 16.
pub(crate) const ROWS: usize = 6;

/// Rows kept in registers at once with a panel one vector wide.
const NARROW_ROWS: usize = 8;

/// How far ahead of use the panel is fetched, in panel rows.
const PREFETCH_ROWS: usize = 12;

/// Floats in a cache line.
const CACHE_LINE: usize = 16;

/// Where row `i` of a matrix starts: rows of an image grid, `offset + (i / width)·line + (i % width)·step`.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) offset: usize,
    pub(crate) width: usize,
    pub(crate) line: usize,
    pub(crate) step: usize,
}

impl Grid {
    /// Rows `step` apart.
    pub(crate) fn contiguous(step: usize) -> Self {
        Self { offset: 0, width: usize::MAX, line: 0, step }
    }

    #[inline(always)]
    fn at(&self, row: usize) -> usize {
        if self.width == usize::MAX {
            // Two divisions would cost as much as a short sum.
            return self.offset + row * self.step;
        }
        self.offset + (row / self.width) * self.line + (row % self.width) * self.step
    }
}

/// The sum over `k` runs over `count` stretches of `len` contiguous floats, `stride` apart: the lines of a
/// convolution's window.
#[derive(Clone, Copy)]
pub(crate) struct Segments {
    pub(crate) count: usize,
    pub(crate) len: usize,
    pub(crate) stride: usize,
}

impl Segments {
    pub(crate) fn single(len: usize) -> Self {
        Self { count: 1, len, stride: 0 }
    }
}

/// What happens to a sum before it is stored: `(sum + bias + residual)·scale`, negative ones to 0 if `relu`.
#[derive(Clone, Copy)]
pub(crate) struct Epilogue<'a> {
    /// One per column.
    pub(crate) bias: Option<&'a [f32]>,
    /// Same layout as the output.
    pub(crate) residual: Option<&'a [f32]>,
    pub(crate) scale: f32,
    pub(crate) relu: bool,
}

impl Epilogue<'_> {
    /// The sum as it is.
    pub(crate) const NONE: Self = Self { bias: None, residual: None, scale: 1.0, relu: false };

    /// Whether nothing but the scale happens.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.bias.is_none() && self.residual.is_none() && !self.relu
    }
}

/// Rows `rows` of the product with one panel.
pub(crate) struct PanelProduct<'a> {
    pub(crate) input: *const f32,
    pub(crate) input_rows: Grid,
    pub(crate) segments: Segments,
    pub(crate) rows: Range<usize>,
    pub(crate) panel: Panel<'a>,
    /// What comes next, fetched into the second-level cache meanwhile, a part with every block of rows; may be empty.
    pub(crate) next: &'a [f32],
    pub(crate) output: *mut f32,
    pub(crate) output_rows: Grid,
    pub(crate) start: Start,
    pub(crate) epilogue: Epilogue<'a>,
}

/// What sums start from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Zero,
    /// What the output holds: the sum over earlier `k`, without an epilogue. Sums come out the same as in one go.
    Output,
}

/// A product whose contract has been vouched for.
struct Vouched<'a>(PanelProduct<'a>);

impl Kernel for Vouched<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: only `PanelProduct::run` and `run_on_pairs` make these.
        unsafe { self.0.compute::<S>() }
    }
}

impl PanelProduct<'_> {
    /// Computes the rows.
    ///
    /// # Safety
    /// `input` must be readable at every row's segments, `output` writable at every row's columns of this panel with
    /// nobody else touching those, and a residual as long as the output.
    #[inline(never)] // One copy of all block sizes.
    pub(crate) unsafe fn run(self, isa: Isa) {
        isa.run(Vouched(self));
    }

    /// Computes the rows of floats, or of pairs in their place.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    pub(crate) unsafe fn run_for(self, right: &Packed) {
        // SAFETY: the caller's contract.
        unsafe {
            match right.pairs() {
                None => self.run(right.isa()),
                Some(pairs) => self.run_on_pairs(pairs),
            }
        }
    }

    /// The same of pairs of bf16 in place of floats.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(never)]
    unsafe fn run_on_pairs(self, pairs: Pairs) {
        pairs.run(Vouched(self));
    }

    /// The same of pairs of integers. Sums are stored as 32-bit integers in the place of floats.
    ///
    /// # Safety
    /// As for [`run`](Self::run); there must be no epilogue.
    #[inline(never)]
    pub(crate) unsafe fn run_on_integers(self, fixed: Fixed) {
        debug_assert!(self.epilogue.is_plain() && self.epilogue.scale == 1.0, "integers are finished elsewhere");
        fixed.run(Vouched(self));
    }

    /// # Safety
    /// As for `run`, and `S` must be available.
    #[inline(always)]
    unsafe fn compute<S: Simd>(&self) {
        assert_eq!(self.panel.data.len(), self.segments.count * self.segments.len * self.panel.width);
        // SAFETY: the caller's contract.
        unsafe {
            let vectors = self.panel.width / S::LANES;
            if vectors == 1 {
                self.narrow_rows::<S>();
            } else if S::PANEL_VECTORS == 2 {
                // A constant: what comes after it is not compiled for narrow panels.
                self.all_rows::<S, 2>(self.rows.start);
            } else {
                match vectors {
                    2 => self.all_rows::<S, 2>(self.rows.start),
                    3 => self.all_rows::<S, 3>(self.rows.start),
                    _ => self.all_rows::<S, 4>(self.rows.start),
                }
            }
        }
    }

    /// One vector wide: more rows at once, for as many independent sums as a multiply-add's latency needs.
    #[inline(always)]
    unsafe fn narrow_rows<S: Simd>(&self) {
        let mut row = self.rows.start;
        // SAFETY: the contract of `run`; each call handles rows within `self.rows`.
        unsafe {
            while row + NARROW_ROWS <= self.rows.end {
                self.block::<S, NARROW_ROWS, 1>(row);
                row += NARROW_ROWS;
            }
            self.all_rows::<S, 1>(row);
        }
    }

    #[inline(always)]
    unsafe fn all_rows<S: Simd, const NV: usize>(&self, mut row: usize) {
        // SAFETY: the contract of `run`; each call handles rows within `self.rows`.
        unsafe {
            let lines = self.next.len().div_ceil(CACHE_LINE).div_ceil((self.rows.len() / ROWS).max(1));
            let mut next = self.next.chunks(CACHE_LINE);
            while row + ROWS <= self.rows.end {
                for line in next.by_ref().take(lines) {
                    S::prefetch_second(line.as_ptr());
                }
                self.block::<S, ROWS, NV>(row);
                row += ROWS;
            }
            // What is left, by powers of two: every size of a block is code of its own, which takes seconds to compile.
            let left = self.rows.end.saturating_sub(row);
            if left & 4 != 0 {
                self.block::<S, 4, NV>(row);
                row += 4;
            }
            if left & 2 != 0 {
                self.block::<S, 2, NV>(row);
                row += 2;
            }
            if left & 1 != 0 {
                self.block::<S, 1, NV>(row);
            }
        }
    }

    /// `MR` rows. What happens to whole panels is written so that all of it is unrolled and sums never leave the
    /// registers: it is what short sums would spend most of their time on otherwise.
    #[inline(always)]
    unsafe fn block<S: Simd, const MR: usize, const NV: usize>(&self, row: usize) {
        // SAFETY: the contract of `run`.
        unsafe {
            let mut outputs = [self.output; MR];
            for r in 0..MR {
                outputs[r] = self.output.add(self.output_rows.at(row + r) + self.panel.first);
            }
            let whole = self.panel.columns == NV * S::LANES;
            let sums = self.sums::<S, MR, NV>(row, &outputs, whole);
            if whole && self.epilogue.is_plain() {
                let scale = S::splat(self.epilogue.scale);
                for r in 0..MR {
                    for v in 0..NV {
                        S::store(outputs[r].add(v * S::LANES), S::scaled(sums[r][v], scale));
                    }
                }
                return;
            }
            // A copy, one by one: what is indexed at run time lies in memory.
            let mut kept = [[S::splat(0.0); NV]; MR];
            for r in 0..MR {
                for v in 0..NV {
                    kept[r][v] = sums[r][v];
                }
            }
            for (r, sums) in kept.iter().enumerate() {
                self.finish::<S, NV>(self.output_rows.at(row + r) + self.panel.first, sums);
            }
        }
    }

    /// What `MR` rows of a panel that is not whole start from.
    #[inline(always)]
    unsafe fn partial_start<S: Simd, const MR: usize, const NV: usize>(
        &self,
        outputs: &[*mut f32; MR],
    ) -> [[S::V; NV]; MR] {
        // SAFETY: the contract of `run`; only existing columns are touched.
        unsafe {
            let mut sums = [[S::splat(0.0); NV]; MR];
            for (output, sums) in outputs.iter().zip(&mut sums) {
                for (v, sum) in sums.iter_mut().enumerate() {
                    let lanes = S::LANES.min(self.panel.columns - v * S::LANES);
                    *sum = load_lanes::<S>(output.add(v * S::LANES), lanes);
                }
            }
            sums
        }
    }

    /// A function of its own, so that the running sums are nobody else's and stay in registers.
    #[inline(always)]
    unsafe fn sums<S: Simd, const MR: usize, const NV: usize>(
        &self,
        row: usize,
        outputs: &[*mut f32; MR],
        whole: bool,
    ) -> [[S::V; NV]; MR] {
        // SAFETY: the contract of `run`. The panel is read from start to end; prefetches may run past it, harmlessly.
        unsafe {
            let mut lines = [self.input; MR];
            for (r, line) in lines.iter_mut().enumerate() {
                *line = self.input.add(self.input_rows.at(row + r));
            }
            let mut sums = [[S::splat(0.0); NV]; MR];
            if self.start == Start::Output {
                if whole {
                    for r in 0..MR {
                        for v in 0..NV {
                            sums[r][v] = S::load(outputs[r].add(v * S::LANES));
                        }
                    }
                } else {
                    let start = self.partial_start::<S, MR, NV>(outputs);
                    for r in 0..MR {
                        for v in 0..NV {
                            sums[r][v] = start[r][v];
                        }
                    }
                }
            }
            if MR == ROWS {
                // Where the next rows go, and partial sums of theirs wait: it may be far away.
                for output in outputs {
                    for v in 0..NV {
                        S::prefetch(output.wrapping_add(MR * self.output_rows.step + v * S::LANES));
                    }
                }
            }
            let mut weights = self.panel.data.as_ptr();
            for segment in 0..self.segments.count {
                let start = segment * self.segments.stride;
                let end = start + self.segments.len;
                for stretch in (start..end).step_by(CACHE_LINE) {
                    // The rows of the next block; those of a convolution's windows overlap, so they are there already.
                    if self.segments.count == 1 {
                        for line in lines {
                            S::prefetch(line.wrapping_add(stretch + MR * self.input_rows.step));
                        }
                    }
                    for k in stretch..end.min(stretch + CACHE_LINE) {
                        let mut w = [S::splat(0.0); NV];
                        for v in 0..NV {
                            w[v] = S::load(weights.add(v * S::LANES));
                            // Once for each cache line.
                            if (v * S::LANES).is_multiple_of(CACHE_LINE) {
                                S::prefetch(weights.wrapping_add((PREFETCH_ROWS * NV + v) * S::LANES));
                            }
                        }
                        for r in 0..MR {
                            let a = S::splat(*lines[r].add(k));
                            for v in 0..NV {
                                sums[r][v] = S::mul_add(a, w[v], sums[r][v]);
                            }
                        }
                        weights = weights.add(NV * S::LANES);
                    }
                }
            }
            sums
        }
    }

    /// Stores one row of sums at `offset` of the output.
    #[inline(always)]
    unsafe fn finish<S: Simd, const NV: usize>(&self, offset: usize, sums: &[S::V; NV]) {
        for (v, sum) in sums.iter().enumerate() {
            let (first, lanes) = (v * S::LANES, S::LANES.min(self.panel.columns - v * S::LANES));
            // SAFETY: the contract of `run`; only existing columns are touched.
            unsafe {
                let finish = Finish::<S>::new(&self.epilogue, self.panel.first + first, lanes);
                finish.store(self.output, offset + first, *sum);
            }
        }
    }
}

/// An epilogue of `lanes` columns, taken apart: what is the same for all rows is loaded once.
pub(crate) struct Finish<S: Simd> {
    bias: Option<S::V>,
    residual: Option<*const f32>,
    scale: Option<S::V>,
    relu: bool,
    lanes: usize,
}

impl<S: Simd> Finish<S> {
    /// For columns from `column`.
    ///
    /// # Safety
    /// `S` must be available, and a bias valid at `column..column + lanes`.
    #[inline(always)]
    pub(crate) unsafe fn new(epilogue: &Epilogue<'_>, column: usize, lanes: usize) -> Self {
        let residual = epilogue.residual.map(<[f32]>::as_ptr);
        let mut finish = Self { bias: None, residual, scale: None, relu: epilogue.relu, lanes };
        // SAFETY: the caller's contract.
        unsafe {
            if let Some(bias) = epilogue.bias {
                finish.bias = Some(load_lanes::<S>(bias.as_ptr().add(column), lanes));
            }
            if epilogue.scale != 1.0 {
                finish.scale = Some(S::splat(epilogue.scale));
            }
        }
        finish
    }

    /// Stores a sum at `offset` of the output.
    ///
    /// # Safety
    /// `S` must be available, and `output` and a residual valid at `offset..offset + lanes`.
    #[inline(always)]
    pub(crate) unsafe fn store(&self, output: *mut f32, offset: usize, mut sum: S::V) {
        // SAFETY: the caller's contract.
        unsafe {
            if let Some(bias) = self.bias {
                sum = S::add(sum, bias);
            }
            if let Some(residual) = self.residual {
                sum = S::add(sum, load_lanes::<S>(residual.add(offset), self.lanes));
            }
            if let Some(scale) = self.scale {
                sum = S::mul(sum, scale);
            }
            if self.relu {
                // In this order NaN stays NaN.
                sum = S::max(S::splat(0.0), sum);
            }
            if self.lanes == S::LANES {
                S::store(output.add(offset), sum)
            } else {
                S::store_part(output.add(offset), sum, self.lanes)
            }
        }
    }
}

/// The first lanes from `p`.
///
/// # Safety
/// `S` must be available and `p` valid for `lanes` floats.
#[inline(always)]
pub(crate) unsafe fn load_lanes<S: Simd>(p: *const f32, lanes: usize) -> S::V {
    // SAFETY: the caller's `p` is valid for `lanes` floats.
    unsafe { if lanes == S::LANES { S::load(p) } else { S::load_part(p, lanes) } }
}
