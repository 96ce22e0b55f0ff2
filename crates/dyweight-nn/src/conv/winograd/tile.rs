//! The one-dimensional transforms of Winograd's minimal filtering F(m, 3) (Lavin & Gray 2016, section 4):
//!
//! ```text
//! F(2, 3), points 0, ±1, ∞        F(4, 3), points 0, ±1, ±2, ∞
//!      1  0 −1  0                      4  0 −5  0  1  0
//! Bᵀ = 0  1  1  0                      0 −4 −4  1  1  0
//!      0 −1  1  0                 Bᵀ = 0  4 −4 −1  1  0
//!      0  1  0 −1                      0 −2 −1  2  1  0
//!                                      0  2 −1 −2  1  0
//!                                      0  4  0 −5  0  1
//!
//!       2  0  0                         6  0  0
//! G = ½ 1  1  1                        −4 −4 −4
//!       1 −1  1                   G = ¹⁄₂₄ −4  4 −4     (first row ¼, last row 0 0 1)
//!       0  0  2                         1  2  4
//!                                       1 −2  4
//!                                       0  0 24
//!
//! Aᵀ = 1  1  1  0                      1  1  1  1  1  0
//!      0  1 −1 −1                 Aᵀ = 0  1 −1  2 −2  0
//!                                      0  1  1  4  4  0
//!                                      0  1 −1  8 −8  1
//! ```

use crate::simd::Simd;

/// Transforms of a tile of `A` inputs to `M` outputs per axis.
///
/// # Safety
/// Methods may only be called where `S` is available.
pub(in crate::conv) trait Tile<const A: usize, const M: usize>: Sync + Copy {
    /// `Bᵀ·d`.
    unsafe fn input<S: Simd>(d: [S::V; A]) -> [S::V; A];
    /// `G·g`.
    unsafe fn weight<S: Simd>(g: [S::V; 3]) -> [S::V; A];
    /// `Aᵀ·m`.
    unsafe fn output<S: Simd>(m: [S::V; A]) -> [S::V; M];
}

/// F(2, 3).
#[derive(Clone, Copy)]
pub(in crate::conv) struct F2;

impl Tile<4, 2> for F2 {
    #[inline(always)]
    unsafe fn input<S: Simd>(d: [S::V; 4]) -> [S::V; 4] {
        // SAFETY: the trait's contract.
        unsafe { [S::sub(d[0], d[2]), S::add(d[1], d[2]), S::sub(d[2], d[1]), S::sub(d[1], d[3])] }
    }

    #[inline(always)]
    unsafe fn weight<S: Simd>(g: [S::V; 3]) -> [S::V; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            let half = S::splat(0.5);
            let outer = S::add(g[0], g[2]);
            [g[0], S::mul(half, S::add(outer, g[1])), S::mul(half, S::sub(outer, g[1])), g[2]]
        }
    }

    #[inline(always)]
    unsafe fn output<S: Simd>(m: [S::V; 4]) -> [S::V; 2] {
        // SAFETY: the trait's contract.
        unsafe { [S::add(m[0], S::add(m[1], m[2])), S::sub(S::sub(m[1], m[2]), m[3])] }
    }
}

/// F(4, 3).
#[derive(Clone, Copy)]
pub(in crate::conv) struct F4;

impl Tile<6, 4> for F4 {
    #[inline(always)]
    unsafe fn input<S: Simd>(d: [S::V; 6]) -> [S::V; 6] {
        // SAFETY: the trait's contract.
        unsafe {
            let (two, four, five) = (S::splat(2.0), S::splat(4.0), S::splat(5.0));
            let even_1 = S::neg_mul_add(four, d[2], d[4]);
            let odd_1 = S::neg_mul_add(four, d[1], d[3]);
            let even_2 = S::sub(d[4], d[2]);
            let odd_2 = S::mul(two, S::sub(d[3], d[1]));
            [
                S::mul_add(four, d[0], S::neg_mul_add(five, d[2], d[4])),
                S::add(even_1, odd_1),
                S::sub(even_1, odd_1),
                S::add(even_2, odd_2),
                S::sub(even_2, odd_2),
                S::mul_add(four, d[1], S::neg_mul_add(five, d[3], d[5])),
            ]
        }
    }

    #[inline(always)]
    unsafe fn weight<S: Simd>(g: [S::V; 3]) -> [S::V; 6] {
        // SAFETY: the trait's contract.
        unsafe {
            let (quarter, sixth, twelfth) = (S::splat(0.25), S::splat(-1.0 / 6.0), S::splat(1.0 / 12.0));
            let outer = S::add(g[0], g[2]);
            // g₀/24 + g₂/6
            let far = S::mul(twelfth, S::mul_add(S::splat(2.0), g[2], S::mul(S::splat(0.5), g[0])));
            [
                S::mul(quarter, g[0]),
                S::mul(sixth, S::add(outer, g[1])),
                S::mul(sixth, S::sub(outer, g[1])),
                S::mul_add(twelfth, g[1], far),
                S::neg_mul_add(twelfth, g[1], far),
                g[2],
            ]
        }
    }

    #[inline(always)]
    unsafe fn output<S: Simd>(m: [S::V; 6]) -> [S::V; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            let (two, four, eight) = (S::splat(2.0), S::splat(4.0), S::splat(8.0));
            let (sum_1, difference_1) = (S::add(m[1], m[2]), S::sub(m[1], m[2]));
            let (sum_2, difference_2) = (S::add(m[3], m[4]), S::sub(m[3], m[4]));
            [
                S::add(m[0], S::add(sum_1, sum_2)),
                S::mul_add(two, difference_2, difference_1),
                S::mul_add(four, sum_2, sum_1),
                S::add(S::mul_add(eight, difference_2, difference_1), m[5]),
            ]
        }
    }
}

/// F(4, 3) with points 0, ±a, ±b, ∞, where ab = 1:
///
/// ```text
/// Bᵀ: d₀ − (a²+b²)d₂ + d₄;  (d₄ − b²d₂) ± a(d₃ − b²d₁);  (d₄ − a²d₂) ± b(d₃ − a²d₁);  d₁ − (a²+b²)d₃ + d₅
/// G:  g₀;  (g₀ ± a·g₁ + a²g₂)/(2a²(a²−b²));  (g₀ ± b·g₁ + b²g₂)/(2b²(b²−a²));  g₂
/// Aᵀ: powers 0 to 3 of the points
/// ```
#[derive(Clone, Copy)]
pub(in crate::conv) struct Near4;

impl Near4 {
    const A: f32 = 2.0 / 3.0;
    const B: f32 = 1.0 / Self::A;
    const A2: f32 = Self::A * Self::A;
    const B2: f32 = Self::B * Self::B;
    const SUM: f32 = Self::A2 + Self::B2;
    const BY_A: f32 = 1.0 / (2.0 * Self::A2 * (Self::A2 - Self::B2));
    const BY_B: f32 = 1.0 / (2.0 * Self::B2 * (Self::B2 - Self::A2));
}

impl Tile<6, 4> for Near4 {
    #[inline(always)]
    unsafe fn input<S: Simd>(d: [S::V; 6]) -> [S::V; 6] {
        // SAFETY: the trait's contract.
        unsafe {
            let (a, b, sum) = (S::splat(Self::A), S::splat(Self::B), S::splat(Self::SUM));
            let (a2, b2) = (S::splat(Self::A2), S::splat(Self::B2));
            let (even_a, odd_a) = (S::neg_mul_add(b2, d[2], d[4]), S::neg_mul_add(b2, d[1], d[3]));
            let (even_b, odd_b) = (S::neg_mul_add(a2, d[2], d[4]), S::neg_mul_add(a2, d[1], d[3]));
            [
                S::add(d[0], S::neg_mul_add(sum, d[2], d[4])),
                S::mul_add(a, odd_a, even_a),
                S::neg_mul_add(a, odd_a, even_a),
                S::mul_add(b, odd_b, even_b),
                S::neg_mul_add(b, odd_b, even_b),
                S::add(d[1], S::neg_mul_add(sum, d[3], d[5])),
            ]
        }
    }

    #[inline(always)]
    unsafe fn weight<S: Simd>(g: [S::V; 3]) -> [S::V; 6] {
        // SAFETY: the trait's contract.
        unsafe {
            let even_a = S::mul(S::splat(Self::BY_A), S::mul_add(S::splat(Self::A2), g[2], g[0]));
            let even_b = S::mul(S::splat(Self::BY_B), S::mul_add(S::splat(Self::B2), g[2], g[0]));
            let (odd_a, odd_b) = (S::splat(Self::BY_A * Self::A), S::splat(Self::BY_B * Self::B));
            [
                g[0],
                S::mul_add(odd_a, g[1], even_a),
                S::neg_mul_add(odd_a, g[1], even_a),
                S::mul_add(odd_b, g[1], even_b),
                S::neg_mul_add(odd_b, g[1], even_b),
                g[2],
            ]
        }
    }

    #[inline(always)]
    unsafe fn output<S: Simd>(m: [S::V; 6]) -> [S::V; 4] {
        // SAFETY: the trait's contract.
        unsafe {
            let (sum_a, difference_a) = (S::add(m[1], m[2]), S::sub(m[1], m[2]));
            let (sum_b, difference_b) = (S::add(m[3], m[4]), S::sub(m[3], m[4]));
            let (a, a2, a3) = (S::splat(Self::A), S::splat(Self::A2), S::splat(Self::A2 * Self::A));
            let (b, b2, b3) = (S::splat(Self::B), S::splat(Self::B2), S::splat(Self::B2 * Self::B));
            [
                S::add(m[0], S::add(sum_a, sum_b)),
                S::mul_add(b, difference_b, S::mul(a, difference_a)),
                S::mul_add(b2, sum_b, S::mul(a2, sum_a)),
                S::add(S::mul_add(b3, difference_b, S::mul(a3, difference_a)), m[5]),
            ]
        }
    }
}

/// A one-dimensional transform along both axes of a square: `f` of the columns, then of the rows. `f` must be
/// `#[inline(always)]`.
#[inline(always)]
pub(super) fn both_axes<V: Copy, const P: usize, const Q: usize>(
    square: [[V; P]; P],
    f: impl Fn([V; P]) -> [V; Q] + Copy,
) -> [[V; Q]; Q] {
    // A copy of `f`: behind a reference it would be called.
    let rows = first_axis(square, f);
    let mut result = [[square[0][0]; Q]; Q];
    for r in 0..Q {
        result[r] = f(rows[r]);
    }
    result
}

/// The first of both: rows for the second.
#[inline(always)]
pub(super) fn first_axis<V: Copy, const P: usize, const Q: usize>(
    square: [[V; P]; P],
    f: impl Fn([V; P]) -> [V; Q],
) -> [[V; P]; Q] {
    // Loops instead of iterators, here and where squares are loaded and stored: what is not inlined for certain would
    // be compiled without the instruction set.
    let mut rows = [[square[0][0]; P]; Q];
    for c in 0..P {
        let mut line = [square[0][0]; P];
        for r in 0..P {
            line[r] = square[r][c];
        }
        let column = f(line);
        for r in 0..Q {
            rows[r][c] = column[r];
        }
    }
    rows
}
