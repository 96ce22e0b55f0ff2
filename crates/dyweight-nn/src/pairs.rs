//! Pairs of bf16 in place of floats, for AVX-512's VDPBF16PS.
//!
//! ```text
//! C[i, j] += A[i, 2k]·B[2k, j] + A[i, 2k+1]·B[2k+1, j]                  products exact, sums f32
//! ```
//!
//! Two bf16 that follow each other along the depth are 32 bits, the place of one float. So matrices of pairs are
//! packed, cut and multiplied as matrices of floats of half the depth are, with another multiply-add ([`crate::simd`]).
//! Numbers are rounded to the nearest bf16, ties to even; subnormal ones count as 0, here and in the instruction.

use crate::isa::Kernel;

/// Proof that the processor multiplies pairs, and that nobody asked for lesser instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pairs(());

/// Whether products of pairs are faster than those of floats.
#[cfg(target_arch = "x86_64")]
pub(crate) fn pay() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() != b"GenuineIntel"
}

/// Whether products of pairs are faster than those of floats.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn pay() -> bool {
    false
}

/// Pairs that `entries` numbers make.
pub(crate) fn count(entries: usize) -> usize {
    entries.div_ceil(2)
}

#[cfg(not(target_arch = "x86_64"))]
impl Pairs {
    pub(crate) fn available() -> Option<Self> {
        None
    }

    pub(crate) fn run<K: Kernel>(self, _: K) -> K::Output {
        unreachable!("there is no proof of pairs here")
    }

    pub(crate) fn round(self, _: &[f32], _: &mut [f32]) {
        unreachable!("there is no proof of pairs here")
    }

    pub(crate) fn interleave(self, _: [&[f32]; 2], _: &mut [f32]) {
        unreachable!("there is no proof of pairs here")
    }
}

#[cfg(target_arch = "x86_64")]
impl Pairs {
    /// Those of the instruction set in use, if it has them.
    pub(crate) fn available() -> Option<Self> {
        let wide = crate::isa::Isa::active() == crate::isa::Isa::Avx512;
        (wide && is_x86_feature_detected!("avx512bf16")).then_some(Self(()))
    }

    /// Runs a kernel whose multiply-adds are of pairs.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: `self` is proof of the instructions.
        unsafe { run_on_pairs(kernel) }
    }

    /// Numbers that follow each other as pairs; the last one's partner is 0 if they are odd in number.
    pub(crate) fn round(self, numbers: &[f32], pairs: &mut [f32]) {
        assert_eq!(pairs.len(), count(numbers.len()), "pairs of {} numbers", numbers.len());
        // SAFETY: `self` is proof of the instructions.
        unsafe { round(numbers, pairs) }
    }

    /// Pairs of the numbers of two rows.
    pub(crate) fn interleave(self, [first, second]: [&[f32]; 2], pairs: &mut [f32]) {
        assert!(first.len() == pairs.len() && second.len() == pairs.len(), "pairs of two rows");
        // SAFETY: `self` is proof of the instructions.
        unsafe { interleave([first, second], pairs) }
    }
}

/// # Safety
/// The processor must have these parts of AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512bf16,avx2,fma")]
unsafe fn run_on_pairs<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<crate::simd::halves::Bf16Pairs>()
}

#[cfg(target_arch = "x86_64")]
const LANES: usize = 16;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
fn round(numbers: &[f32], pairs: &mut [f32]) {
    use std::arch::x86_64::*;
    let (whole, rest) = numbers.as_chunks::<{ 2 * LANES }>();
    let (to, to_rest) = pairs.split_at_mut(whole.len() * LANES);
    let rounded = |numbers: &[f32; 2 * LANES], to: &mut [f32]| {
        let to = &mut to[..LANES];
        // SAFETY: 32 floats become 16 pairs.
        unsafe {
            let (first, second) = (_mm512_loadu_ps(numbers.as_ptr()), _mm512_loadu_ps(numbers[LANES..].as_ptr()));
            let pairs: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(second, first));
            _mm512_storeu_si512(to.as_mut_ptr().cast(), pairs);
        }
    };
    for (numbers, to) in whole.iter().zip(to.chunks_exact_mut(LANES)) {
        rounded(numbers, to);
    }
    if !rest.is_empty() {
        let (mut padded, mut pairs) = ([0.0; 2 * LANES], [0.0; LANES]);
        padded[..rest.len()].copy_from_slice(rest);
        rounded(&padded, &mut pairs);
        to_rest.copy_from_slice(&pairs[..to_rest.len()]);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16,avx512vl")]
fn interleave([first, second]: [&[f32]; 2], pairs: &mut [f32]) {
    use std::arch::x86_64::*;
    let mut at = 0;
    while at < pairs.len() {
        let lanes = LANES.min(pairs.len() - at);
        let mask = ((1u32 << lanes) - 1) as __mmask16;
        // SAFETY: as many numbers of each row as there are pairs left; masked lanes are not touched.
        unsafe {
            let [low, high] = [first, second].map(|row| {
                let numbers = _mm512_maskz_loadu_ps(mask, row.as_ptr().add(at));
                let halves: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(numbers));
                _mm512_cvtepu16_epi32(halves)
            });
            let both = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
            _mm512_mask_storeu_epi32(pairs.as_mut_ptr().add(at).cast(), mask, both);
        }
        at += lanes;
    }
}
