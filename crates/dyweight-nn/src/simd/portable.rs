//! Plain arrays that the compiler turns into whatever vectors the target's baseline has (SSE2, NEON).

use super::Simd;
use crate::isa::Isa;

#[derive(Clone, Copy)]
pub(crate) struct Portable;

const LANES: usize = 4;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Portable {
    const ISA: Isa = Isa::Portable;
    type V = [f32; LANES];
    const LANES: usize = LANES;
    const PANEL_VECTORS: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: the trait's contract.
        unsafe { p.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V {
        // SAFETY: the trait's contract.
        std::array::from_fn(|i| if i < n { unsafe { p.add(i).read() } } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        // SAFETY: the trait's contract.
        unsafe { p.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: Self::V, n: usize) {
        for (i, x) in v.into_iter().enumerate().take(n) {
            // SAFETY: the trait's contract.
            unsafe { p.add(i).write(x) }
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Two roundings: without the instruction, a fused multiply-add is a slow library call.
        zip(zip(a, b, |a, b| a * b), c, |ab, c| ab + c)
    }
    #[inline(always)]
    unsafe fn neg_mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        zip(zip(a, b, |a, b| a * b), c, |ab, c| c - ab)
    }
    #[inline(always)]
    unsafe fn times_power_of_two(v: Self::V, n: Self::V) -> Self::V {
        zip(v, n, |v, n| v * f32::from_bits(((n as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn zero_below(v: Self::V, x: Self::V, bound: f32) -> Self::V {
        zip(v, x, |v, x| if x < bound { 0.0 } else { v })
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u8) -> Self::V {
        // SAFETY: the trait's contract.
        let halves = unsafe { p.cast::<[[u8; 2]; LANES]>().read_unaligned() };
        std::array::from_fn(|i| widen_f16(u16::from_le_bytes(halves[i])))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> Self::V {
        // SAFETY: the trait's contract.
        let halves = unsafe { p.cast::<[[u8; 2]; LANES]>().read_unaligned() };
        std::array::from_fn(|i| f32::from_bits(u32::from(u16::from_le_bytes(halves[i])) << 16))
    }
    #[inline(always)]
    unsafe fn from_integers(v: Self::V) -> Self::V {
        v.map(|v| v.to_bits() as i32 as f32)
    }
    #[inline(always)]
    unsafe fn integer_pairs(low: Self::V, high: Self::V) -> Self::V {
        let integer = |x: f32| u32::from(x.round_ties_even() as i16 as u16);
        zip(low, high, |low, high| f32::from_bits(integer(low) | integer(high) << 16))
    }
    #[inline(always)]
    unsafe fn transpose(from: &[*const f32], at: usize, to: impl Fn(usize) -> *mut f32) {
        for (j, row) in from.iter().enumerate().take(LANES) {
            for i in 0..LANES {
                // SAFETY: the trait's contract.
                unsafe { to(i).add(j).write(row.add(at + i).read()) }
            }
        }
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const f32) {}
    #[inline(always)]
    unsafe fn prefetch_second(_: *const f32) {}
}

/// Exact, subnormal numbers included: the exponent's bias changes by a multiplication.
#[inline(always)]
fn widen_f16(half: u16) -> f32 {
    /// 2¹¹²: the difference of the biases.
    const REBIAS: f32 = f32::from_bits(0x7780_0000);
    let (sign, rest) = (u32::from(half & 0x8000) << 16, u32::from(half & 0x7fff) << 13);
    // Infinities and NaNs keep an exponent of all ones.
    let magnitude =
        if half & 0x7c00 == 0x7c00 { rest | 0x7f80_0000 } else { (f32::from_bits(rest) * REBIAS).to_bits() };
    f32::from_bits(sign | magnitude)
}
