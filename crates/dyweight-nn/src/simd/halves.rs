//! AVX-512 on pairs of 16-bit numbers in the place of floats: a multiply-add adds two products to each sum; everything
//! else is of floats.

use std::arch::x86_64::*;

use super::Simd;
use super::avx512::Avx512;
use crate::isa::Isa;

/// Pairs of bf16; sums are floats.
#[derive(Clone, Copy)]
pub(crate) struct Bf16Pairs;

/// Pairs of 16-bit integers; sums are 32-bit integers in the place of floats, and leave the kernel as such.
#[derive(Clone, Copy)]
pub(crate) struct IntegerPairs;

macro_rules! forwarded {
    ($(fn $name:ident($($arg:ident: $of:ty),*) $(-> $to:ty)?;)*) => {
        $(
            #[inline(always)]
            unsafe fn $name($($arg: $of),*) $(-> $to)? {
                // SAFETY: the trait's contract; who has pairs has AVX-512.
                unsafe { Avx512::$name($($arg),*) }
            }
        )*
    };
}

/// What is of floats.
macro_rules! of_floats {
    () => {
        const ISA: Isa = Isa::Avx512;
        type V = __m512;
        const LANES: usize = Avx512::LANES;
        const PANEL_VECTORS: usize = Avx512::PANEL_VECTORS;

        forwarded! {
            fn splat(x: f32) -> __m512;
            fn load(p: *const f32) -> __m512;
            fn load_part(p: *const f32, n: usize) -> __m512;
            fn store(p: *mut f32, v: __m512);
            fn store_part(p: *mut f32, v: __m512, n: usize);
            fn add(a: __m512, b: __m512) -> __m512;
            fn sub(a: __m512, b: __m512) -> __m512;
            fn mul(a: __m512, b: __m512) -> __m512;
            fn max(a: __m512, b: __m512) -> __m512;
            fn neg_mul_add(a: __m512, b: __m512, c: __m512) -> __m512;
            fn times_power_of_two(v: __m512, n: __m512) -> __m512;
            fn zero_below(v: __m512, x: __m512, bound: f32) -> __m512;
            fn load_f16(p: *const u8) -> __m512;
            fn load_bf16(p: *const u8) -> __m512;
            fn from_integers(v: __m512) -> __m512;
            fn integer_pairs(low: __m512, high: __m512) -> __m512;
            fn transpose(from: &[*const f32], at: usize, to: impl Fn(usize) -> *mut f32);
            fn prefetch(p: *const f32);
            fn prefetch_second(p: *const f32);
        }
    };
}

impl Simd for Bf16Pairs {
    of_floats!();

    /// Adds the products of both halves of `a` and `b`.
    #[inline(always)]
    unsafe fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the trait's contract; any bits are pairs.
        unsafe {
            _mm512_dpbf16_ps(c, std::mem::transmute::<__m512, __m512bh>(a), std::mem::transmute::<__m512, __m512bh>(b))
        }
    }
}

impl Simd for IntegerPairs {
    of_floats!();

    /// Adds the products of both halves of `a` and `b`.
    #[inline(always)]
    unsafe fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the trait's contract; any bits are integers.
        unsafe {
            let sum = _mm512_dpwssd_epi32(_mm512_castps_si512(c), _mm512_castps_si512(a), _mm512_castps_si512(b));
            _mm512_castsi512_ps(sum)
        }
    }

    /// Integers stay as they are.
    #[inline(always)]
    unsafe fn scaled(sum: __m512, _: __m512) -> __m512 {
        sum
    }
}
