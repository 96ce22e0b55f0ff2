//! The few vector operations the matrix and Winograd kernels are written in, for three instruction sets.
//!
//! Every method is `#[inline(always)]` and becomes one instruction inside [`crate::isa::Isa::run`].

/// Methods of [`Simd`], each with the instructions that it is made of.
#[cfg(target_arch = "x86_64")]
macro_rules! instructions {
    ($(fn $name:ident($($arg:ident: $of:ty),*) $(-> $to:ty)? = $body:expr;)*) => {
        $(
            #[inline(always)]
            unsafe fn $name($($arg: $of),*) $(-> $to)? {
                // SAFETY: the trait's contract; lanes that are masked out are not touched, and a prefetch never faults.
                unsafe { $body }
            }
        )*
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod halves;
mod portable;

pub(crate) use portable::Portable;

use crate::isa::Isa;

/// Asks for the cache lines of some bytes.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every such processor has the instruction, which touches no memory.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// A vector instruction set.
///
/// # Safety
/// All methods may only be called where the instruction set is available, i.e. under [`crate::isa::Isa::run`]. Methods
/// with pointers need them valid for the floats they touch: `LANES`, or `n ≤ LANES` for the `_part` ones.
pub(crate) trait Simd: Copy + 'static {
    /// Its name.
    const ISA: Isa;
    /// One vector.
    type V: Copy;
    /// Floats in a vector.
    const LANES: usize;
    /// Vectors side by side in one full panel of packed weights.
    const PANEL_VECTORS: usize;
    /// Floats across one full panel.
    const PANEL: usize = Self::LANES * Self::PANEL_VECTORS;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    unsafe fn store_part(p: *mut f32, v: Self::V, n: usize);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// The larger; `b` where either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// `a·b + c`.
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c − a·b`.
    unsafe fn neg_mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `v·2ⁿ` for whole `n` from −126 to 127.
    unsafe fn times_power_of_two(v: Self::V, n: Self::V) -> Self::V;
    /// `v`, and 0 where `x < bound`.
    unsafe fn zero_below(v: Self::V, x: Self::V, bound: f32) -> Self::V;
    /// `LANES` little-endian 16-bit floats, widened.
    unsafe fn load_f16(p: *const u8) -> Self::V;
    /// `LANES` little-endian upper halves of 32-bit floats, widened.
    unsafe fn load_bf16(p: *const u8) -> Self::V;
    /// 32-bit integers in the places of floats, as floats.
    unsafe fn from_integers(v: Self::V) -> Self::V;
    /// Both rounded to 16-bit integers; `high` in the upper halves.
    unsafe fn integer_pairs(low: Self::V, high: Self::V) -> Self::V;
    /// A finished sum times `by`, where there is anything but the sum to store.
    #[inline(always)]
    unsafe fn scaled(sum: Self::V, by: Self::V) -> Self::V {
        // SAFETY: the trait's contract.
        unsafe { Self::mul(sum, by) }
    }
    /// Writes a square of `LANES` by `LANES`: float `i` of row `j`, at `from[j] + at`, goes to `to(i) + j`.
    ///
    /// `from` must have `LANES` addresses, and `to` be `#[inline(always)]`.
    unsafe fn transpose(from: &[*const f32], at: usize, to: impl Fn(usize) -> *mut f32);
    /// Asks for the cache line at `p`; never touches memory.
    unsafe fn prefetch(p: *const f32);
    /// The same, no nearer than the second-level cache.
    unsafe fn prefetch_second(p: *const f32);
}
