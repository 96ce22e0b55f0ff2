//! Plain arrays that the compiler turns into whatever vectors the target's baseline has (SSE2, NEON).

use super::Simd;

#[derive(Clone, Copy)]
pub(crate) struct Portable;

const LANES: usize = 4;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Portable {
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
    unsafe fn prefetch(_: *const f32) {}
}
