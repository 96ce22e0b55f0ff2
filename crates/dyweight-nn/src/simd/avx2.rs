//! AVX2 with FMA: 16 registers of 8 floats; a 6×16 block of a product fills 12 of them.

use std::arch::x86_64::*;

use super::Simd;

#[derive(Clone, Copy)]
pub(crate) struct Avx2;

/// All ones in the first `n` lanes.
#[inline(always)]
unsafe fn mask(n: usize) -> __m256i {
    // SAFETY: called from the trait's methods only, under their contract.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

impl Simd for Avx2 {
    type V = __m256;
    const LANES: usize = 8;
    const PANEL_VECTORS: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        // SAFETY: the trait's contract.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        // SAFETY: the trait's contract.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> __m256 {
        // SAFETY: the trait's contract; masked lanes are not touched.
        unsafe { _mm256_maskload_ps(p, mask(n)) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m256) {
        // SAFETY: the trait's contract.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: __m256, n: usize) {
        // SAFETY: the trait's contract; masked lanes are not touched.
        unsafe { _mm256_maskstore_ps(p, mask(n), v) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        // SAFETY: the trait's contract.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        // SAFETY: the trait's contract.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        // SAFETY: the trait's contract.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        // SAFETY: the trait's contract.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the trait's contract.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn neg_mul_add(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the trait's contract.
        unsafe { _mm256_fnmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const f32) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
}
