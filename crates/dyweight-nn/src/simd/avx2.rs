//! AVX2 with FMA: 16 registers of 8 floats; a 6×16 block of a product fills 12 of them.

use std::arch::x86_64::*;

use super::Simd;
use crate::isa::Isa;

#[derive(Clone, Copy)]
pub(crate) struct Avx2;

/// All ones in the first `n` lanes.
#[inline(always)]
unsafe fn mask(n: usize) -> __m256i {
    // SAFETY: called from the trait's methods only, under their contract.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

impl Simd for Avx2 {
    const ISA: Isa = Isa::Avx2;
    type V = __m256;
    const LANES: usize = 8;
    const PANEL_VECTORS: usize = 2;

    instructions! {
        fn splat(x: f32) -> __m256 = _mm256_set1_ps(x);
        fn load(p: *const f32) -> __m256 = _mm256_loadu_ps(p);
        fn load_part(p: *const f32, n: usize) -> __m256 = _mm256_maskload_ps(p, mask(n));
        fn store(p: *mut f32, v: __m256) = _mm256_storeu_ps(p, v);
        fn store_part(p: *mut f32, v: __m256, n: usize) = _mm256_maskstore_ps(p, mask(n), v);
        fn add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        fn sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        fn mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        fn max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fn neg_mul_add(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fnmadd_ps(a, b, c);
        fn times_power_of_two(v: __m256, n: __m256) -> __m256 = {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        };
        fn zero_below(v: __m256, x: __m256, bound: f32) -> __m256 =
            _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLT_UQ>(x, _mm256_set1_ps(bound)), v);
        fn load_f16(p: *const u8) -> __m256 = _mm256_cvtph_ps(_mm_loadu_si128(p.cast()));
        fn load_bf16(p: *const u8) -> __m256 =
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))));
        fn from_integers(v: __m256) -> __m256 = _mm256_cvtepi32_ps(_mm256_castps_si256(v));
        fn integer_pairs(low: __m256, high: __m256) -> __m256 = {
            let (low, high) = (_mm256_cvtps_epi32(low), _mm256_slli_epi32::<16>(_mm256_cvtps_epi32(high)));
            _mm256_castsi256_ps(_mm256_blend_epi16::<0xaa>(low, high))
        };
        fn transpose(from: &[*const f32], at: usize, to: impl Fn(usize) -> *mut f32) = {
            let mut rows = [_mm256_setzero_ps(); 8];
            for i in 0..8 {
                rows[i] = _mm256_loadu_ps(from[i].add(at));
            }
            // Pairs, then fours, then the halves of eight.
            let mut pairs = rows;
            for i in 0..4 {
                pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
                pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
            }
            let mut fours = pairs;
            for i in [0, 4] {
                fours[i] = _mm256_shuffle_ps::<0x44>(pairs[i], pairs[i + 2]);
                fours[i + 1] = _mm256_shuffle_ps::<0xee>(pairs[i], pairs[i + 2]);
                fours[i + 2] = _mm256_shuffle_ps::<0x44>(pairs[i + 1], pairs[i + 3]);
                fours[i + 3] = _mm256_shuffle_ps::<0xee>(pairs[i + 1], pairs[i + 3]);
            }
            for i in 0..4 {
                _mm256_storeu_ps(to(i), _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]));
                _mm256_storeu_ps(to(i + 4), _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]));
            }
        };
        fn prefetch(p: *const f32) = _mm_prefetch::<_MM_HINT_T0>(p.cast());
        fn prefetch_second(p: *const f32) = _mm_prefetch::<_MM_HINT_T1>(p.cast());
    }
}
