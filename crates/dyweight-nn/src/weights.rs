//! Frozen weights as they lie in a file: a row-major matrix of f32, f16 or bf16, borrowed from whoever keeps the bytes.
//!
//! Nothing is copied or converted until an operation uses a piece of it; half precision is widened then, exactly. A
//! matrix in a memory-mapped file thus takes no memory of its own, and may be larger than memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result, check_len};
use crate::isa::{Isa, Kernel};
use crate::pairs::Pairs;
use crate::simd::Simd;

/// Element type of stored weights, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// 16-bit IEEE float: 1 sign, 5 exponent, 10 fraction bits.
    F16,
    /// Upper half of a 32-bit float.
    Bf16,
}

impl Dtype {
    /// Bytes of one entry.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// Whoever keeps the bytes of weights: a vector, a memory-mapped file.
pub type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A matrix of weights, `[rows, columns]` row-major (`[out, in]` of a linear layer, `[out, in·kh·kw]` of a
/// convolution).
#[derive(Clone)]
pub struct Weights {
    dtype: Dtype,
    rows: usize,
    columns: usize,
    owner: Owner,
    start: usize,
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} {:?} weights", self.rows, self.columns, self.dtype)
    }
}

impl Weights {
    /// The `rows·columns` entries from byte `start` of what `owner` keeps; need not be aligned.
    pub fn new(dtype: Dtype, [rows, columns]: [usize; 2], owner: Owner, start: usize) -> Result<Self> {
        let available = (*owner).as_ref().len().saturating_sub(start) / dtype.size();
        let entries = rows.checked_mul(columns).ok_or(Error::Size { what: "number of weight rows", found: rows })?;
        if available < entries {
            return Err(Error::Length { what: "stored weight", expected: entries, found: available });
        }
        Ok(Self { dtype, rows, columns, owner, start })
    }

    /// A copy of f32 entries.
    pub fn from_f32([rows, columns]: [usize; 2], entries: &[f32]) -> Result<Self> {
        check_len("weight", rows * columns, entries.len())?;
        let bytes: Vec<u8> = entries.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self::new(Dtype::F32, [rows, columns], Arc::new(bytes), 0)
    }

    /// Number of rows: outputs of a layer.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns: inputs of a layer.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Some of the rows, without a copy: one of several projections that are stored together.
    pub fn row_range(&self, rows: Range<usize>) -> Result<Self> {
        if rows.start > rows.end || rows.end > self.rows {
            return Err(Error::Row { rows: self.rows, found: rows.end.max(rows.start) });
        }
        let start = self.start + rows.start * self.columns * self.dtype.size();
        Ok(Self { rows: rows.len(), start, ..self.clone() })
    }

    /// All entries, widened.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut entries = vec![0.0; self.rows * self.columns];
        widen(Isa::active(), self.dtype, self.bytes(0, entries.len()), &mut entries);
        entries
    }

    /// Entries `columns` of a row, widened.
    pub(crate) fn widen_row(&self, isa: Isa, row: usize, columns: Range<usize>, to: &mut [f32]) {
        widen(isa, self.dtype, self.bytes_of_row(row, columns), to);
    }

    /// Entries `columns` of a row as pairs.
    pub(crate) fn round_row(&self, pairs: Pairs, row: usize, columns: Range<usize>, to: &mut [f32]) {
        const STRETCH: usize = 256;
        if self.dtype == Dtype::Bf16 {
            // Two that follow each other are a pair as they lie.
            let (whole, last) = self.bytes_of_row(row, columns).as_chunks::<4>();
            let pairs = whole.iter().copied().chain(last.first_chunk().map(|[low, high]| [*low, *high, 0, 0]));
            to.iter_mut().zip(pairs).for_each(|(to, pair)| *to = f32::from_bits(u32::from_le_bytes(pair)));
            return;
        }
        if let Some(floats) = self.floats_of_row(row, columns.clone()) {
            return pairs.round(floats, to);
        }
        let mut wide = [0.0; STRETCH];
        for (first, to) in columns.clone().step_by(STRETCH).zip(to.chunks_mut(STRETCH / 2)) {
            let columns = first..columns.end.min(first + STRETCH);
            let wide = &mut wide[..columns.len()];
            self.widen_row(Isa::Avx512, row, columns, wide);
            pairs.round(wide, to);
        }
    }

    /// The stored bytes of entries `columns` of a row.
    pub(crate) fn bytes_of_row(&self, row: usize, columns: Range<usize>) -> &[u8] {
        self.bytes(row * self.columns + columns.start, columns.len())
    }

    /// The same as numbers, if they are stored as such; `columns` may run on into the next rows.
    pub(crate) fn floats_of_row(&self, row: usize, columns: Range<usize>) -> Option<&[f32]> {
        let first = row * self.columns + columns.start;
        let stored = cfg!(target_endian = "little") && self.dtype == Dtype::F32;
        if !stored || first + columns.len() > self.rows * self.columns {
            return None;
        }
        // SAFETY: any four bytes are a float.
        let (before, floats, _) = unsafe { self.bytes(first, columns.len()).align_to::<f32>() };
        before.is_empty().then_some(floats)
    }

    fn bytes(&self, first: usize, count: usize) -> &[u8] {
        assert!(first + count <= self.rows * self.columns, "entries {first}+{count} of {self:?}");
        let size = self.dtype.size();
        &(*self.owner).as_ref()[self.start + first * size..][..count * size]
    }
}

/// Little-endian entries as f32.
pub(crate) fn widen(isa: Isa, dtype: Dtype, from: &[u8], to: &mut [f32]) {
    isa.run(Widen { dtype, from, to });
}

/// As many entries as there is room for.
pub(crate) struct Widen<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a mut [f32],
}

impl Kernel for Widen<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        /// As many bytes as the widest vector of f32.
        const WIDEST: usize = 64;
        let (size, len) = (self.dtype.size(), self.to.len());
        assert_eq!(self.from.len(), len * size, "bytes of {len} entries");
        let whole = len - len % S::LANES;
        // SAFETY: `from` holds as many entries as `to`; the rest is copied to where a whole vector may be read.
        unsafe {
            for at in (0..whole).step_by(S::LANES) {
                S::store(self.to.as_mut_ptr().add(at), vector::<S>(self.dtype, self.from.as_ptr().add(at * size)));
            }
            if whole < len {
                let mut rest = [0u8; WIDEST];
                rest[..(len - whole) * size].copy_from_slice(&self.from[whole * size..]);
                S::store_part(self.to.as_mut_ptr().add(whole), vector::<S>(self.dtype, rest.as_ptr()), len - whole);
            }
        }
    }
}

/// # Safety
/// `S` must be available and `p` readable for a vector of entries.
#[inline(always)]
unsafe fn vector<S: Simd>(dtype: Dtype, p: *const u8) -> S::V {
    // SAFETY: the caller's contract; loads need no alignment.
    unsafe {
        match dtype {
            Dtype::F32 => S::load(p.cast()),
            Dtype::F16 => S::load_f16(p),
            Dtype::Bf16 => S::load_bf16(p),
        }
    }
}
