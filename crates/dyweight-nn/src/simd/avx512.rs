//! AVX-512: 32 registers of 16 floats; a 6×64 block of a product fills 24 of them.

use std::arch::x86_64::*;

use super::Simd;
use crate::isa::Isa;

#[derive(Clone, Copy)]
pub(crate) struct Avx512;

#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as __mmask16
}

impl Simd for Avx512 {
    const ISA: Isa = Isa::Avx512;
    type V = __m512;
    const LANES: usize = 16;
    const PANEL_VECTORS: usize = 4;

    instructions! {
        fn splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        fn load(p: *const f32) -> __m512 = _mm512_loadu_ps(p);
        fn load_part(p: *const f32, n: usize) -> __m512 = _mm512_maskz_loadu_ps(mask(n), p);
        fn store(p: *mut f32, v: __m512) = _mm512_storeu_ps(p, v);
        fn store_part(p: *mut f32, v: __m512, n: usize) = _mm512_mask_storeu_ps(p, mask(n), v);
        fn add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        fn sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        fn mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fn max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fn neg_mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps(a, b, c);
        fn times_power_of_two(v: __m512, n: __m512) -> __m512 = _mm512_scalef_ps(v, n);
        fn zero_below(v: __m512, x: __m512, bound: f32) -> __m512 =
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(bound)), v);
        fn load_f16(p: *const u8) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()));
        fn load_bf16(p: *const u8) -> __m512 =
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))));
        fn from_integers(v: __m512) -> __m512 = _mm512_cvtepi32_ps(_mm512_castps_si512(v));
        fn integer_pairs(low: __m512, high: __m512) -> __m512 = {
            let (low, high) = (_mm512_cvtps_epi32(low), _mm512_slli_epi32::<16>(_mm512_cvtps_epi32(high)));
            _mm512_castsi512_ps(_mm512_mask_blend_epi16(0xaaaa_aaaa, low, high))
        };
        fn transpose(from: &[*const f32], at: usize, to: impl Fn(usize) -> *mut f32) = {
            let mut rows = [_mm512_setzero_ps(); 16];
            for i in 0..16 {
                rows[i] = _mm512_loadu_ps(from[i].add(at));
            }
            // Pairs, then fours, then quarters of vectors.
            let mut pairs = rows;
            for i in (0..16).step_by(2) {
                pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
                pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
            }
            let mut fours = pairs;
            for i in (0..16).step_by(4) {
                for j in 0..2 {
                    let (a, b) = (_mm512_castps_pd(pairs[i + j]), _mm512_castps_pd(pairs[i + j + 2]));
                    fours[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                    fours[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
                }
            }
            for i in 0..4 {
                let [a, b, c, d] = [fours[i], fours[i + 4], fours[i + 8], fours[i + 12]];
                let (even, odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
                let (even_2, odd_2) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
                _mm512_storeu_ps(to(i), _mm512_shuffle_f32x4::<0x88>(even, even_2));
                _mm512_storeu_ps(to(i + 4), _mm512_shuffle_f32x4::<0x88>(odd, odd_2));
                _mm512_storeu_ps(to(i + 8), _mm512_shuffle_f32x4::<0xdd>(even, even_2));
                _mm512_storeu_ps(to(i + 12), _mm512_shuffle_f32x4::<0xdd>(odd, odd_2));
            }
        };
        fn prefetch(p: *const f32) = _mm_prefetch::<_MM_HINT_T0>(p.cast());
        fn prefetch_second(p: *const f32) = _mm_prefetch::<_MM_HINT_T1>(p.cast());
    }
}
