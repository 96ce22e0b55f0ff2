//! Pairs of 16-bit integers: rows and columns of a product as fixed-point numbers, each with a scale of its own.
//!
//! ```text
//! â[k] = round(a[k]·s),  s = 32704 / |a|         |a| the Euclidean norm of the row, or column
//! Σ a[k]·b[k] ≈ Σ â[k]·b̂[k] / (s_a·s_b)         the sum of integers is exact
//! ```
//!
//! By the inequality of Cauchy and Schwarz no sum leaves 32 bits, whatever its depth and order. A number is rounded by
//! |a|/65408 at most: for the depths of a U-Net that is 3 to 15 times less than bf16 rounds, which is what Winograd's
//! transforms need. A multiply-add of pairs does as much work as one of bf16.
//!
//! Two integers that follow each other along the depth take the place of one float, as in [`crate::pairs`].

use crate::isa::Kernel;

/// The norm that rows and columns are scaled to: the largest 16-bit integer, less what norms and products of floats
/// are rounded by.
const NORM: f32 = 32704.0;

/// Proof that the processor multiplies pairs of integers, and that nobody asked for lesser instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed(());

/// What numbers with this sum of squares are multiplied by, and what their integers are multiplied by to get them back.
/// Numbers too small for a scale become 0; what is no number, or infinite, comes back as that.
pub(crate) fn scale_of(squares: f32) -> [f32; 2] {
    let norm = squares.sqrt();
    let scale = NORM / norm;
    [if scale.is_finite() { scale } else { 0.0 }, norm / NORM]
}

/// Scales of the columns of one or several matrices.
pub(crate) struct Scales {
    by: Vec<f32>,
    back: Vec<f32>,
    columns: usize,
}

impl Scales {
    /// From the columns' sums of squares.
    pub(crate) fn new(squares: &[f32], columns: usize) -> Self {
        let (by, back) = squares.iter().map(|squares| <(f32, f32)>::from(scale_of(*squares))).unzip();
        Self { by, back, columns }
    }

    /// Columns of a matrix.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.columns
    }

    /// What columns of a matrix are multiplied by, from this one on.
    #[inline(always)]
    pub(crate) fn by(&self, matrix: usize, column: usize) -> *const f32 {
        self.by[matrix * self.columns + column..].as_ptr()
    }

    /// What their integers are multiplied by to get them back.
    #[inline(always)]
    pub(crate) fn back(&self, matrix: usize, column: usize) -> *const f32 {
        self.back[matrix * self.columns + column..].as_ptr()
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Fixed {
    pub(crate) fn available() -> Option<Self> {
        None
    }

    pub(crate) fn run<K: Kernel>(self, _: K) -> K::Output {
        unreachable!("there is no proof of pairs here")
    }

    pub(crate) fn squares(self, _: &[f32]) -> f32 {
        unreachable!("there is no proof of pairs here")
    }

    pub(crate) fn round(self, _: &[f32], _: f32, _: &mut [f32]) {
        unreachable!("there is no proof of pairs here")
    }
}

#[cfg(target_arch = "x86_64")]
impl Fixed {
    /// Those of the instruction set in use, if it has them.
    pub(crate) fn available() -> Option<Self> {
        let wide = crate::isa::Isa::active() == crate::isa::Isa::Avx512;
        (wide && is_x86_feature_detected!("avx512vnni")).then_some(Self(()))
    }

    /// Runs a kernel whose multiply-adds are of pairs.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: `self` is proof of the instructions.
        unsafe { run_on_integers(kernel) }
    }

    /// The sum of squares, in an order of its own.
    pub(crate) fn squares(self, numbers: &[f32]) -> f32 {
        // SAFETY: `self` is proof of the instructions.
        unsafe { squares(numbers) }
    }

    /// Numbers that follow each other, scaled, as pairs; the last one's partner is 0 if they are odd in number.
    pub(crate) fn round(self, numbers: &[f32], scale: f32, pairs: &mut [f32]) {
        assert_eq!(pairs.len(), crate::pairs::count(numbers.len()), "pairs of {} numbers", numbers.len());
        // SAFETY: `self` is proof of the instructions.
        unsafe { round(numbers, scale, pairs) }
    }
}

/// # Safety
/// The processor must have these parts of AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma")]
unsafe fn run_on_integers<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<crate::simd::halves::IntegerPairs>()
}

#[cfg(target_arch = "x86_64")]
const LANES: usize = 16;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn squares(numbers: &[f32]) -> f32 {
    use std::arch::x86_64::*;
    // Four sums, so that none waits for the one before.
    let mut sums = [_mm512_setzero_ps(); 4];
    let (whole, rest) = numbers.as_chunks::<LANES>();
    for (i, numbers) in whole.iter().enumerate() {
        // SAFETY: 16 floats.
        let v = unsafe { _mm512_loadu_ps(numbers.as_ptr()) };
        sums[i % 4] = _mm512_fmadd_ps(v, v, sums[i % 4]);
    }
    let mut last = [0.0; LANES];
    last[..rest.len()].copy_from_slice(rest);
    // SAFETY: 16 floats.
    let v = unsafe { _mm512_loadu_ps(last.as_ptr()) };
    let sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
    _mm512_reduce_add_ps(_mm512_fmadd_ps(v, v, sum))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn round(numbers: &[f32], scale: f32, pairs: &mut [f32]) {
    use std::arch::x86_64::*;
    let scale = _mm512_set1_ps(scale);
    let (whole, rest) = numbers.as_chunks::<LANES>();
    let (to, last) = pairs.split_at_mut(whole.len() * LANES / 2);
    for (numbers, to) in whole.iter().zip(to.chunks_exact_mut(LANES / 2)) {
        // SAFETY: 16 floats become 16 integers in the place of 8.
        unsafe {
            let integers = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(numbers.as_ptr()), scale));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtsepi32_epi16(integers));
        }
    }
    if !rest.is_empty() {
        let (mut padded, mut integers) = ([0.0; LANES], [0.0; LANES / 2]);
        padded[..rest.len()].copy_from_slice(rest);
        // SAFETY: as above.
        unsafe {
            let rounded = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(padded.as_ptr()), scale));
            _mm256_storeu_si256(integers.as_mut_ptr().cast(), _mm512_cvtsepi32_epi16(rounded));
        }
        last.copy_from_slice(&integers[..last.len()]);
    }
}
