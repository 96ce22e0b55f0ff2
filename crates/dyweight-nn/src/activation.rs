//! Element-wise activations and the fast exponential they share.

use rayon::prelude::*;

use crate::act::Act;
use crate::isa::Isa;
use crate::parallel::CHUNK;

/// `eˣ` to about 1 unit in the last place for −87 ≤ x ≤ 88, constant beyond; NaN stays NaN. Branch-free, so loops over
/// it become vector code. Range reduction and polynomial are those of the Cephes library (S. Moshier, `expf`).
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to an integer and leaves that integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    // ln 2 in two parts, so that the remainder is exact.
    let f = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * f + 1.398_2e-3;
    let p = p * f + 8.333_452e-3;
    let p = p * f + 4.166_579_6e-2;
    let p = p * f + 1.666_666_5e-1;
    let p = p * f + 0.5;
    let mantissa = p * f * f + f + 1.0;
    let power = f32::from_bits((shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127)) << 23);
    mantissa * power
}

/// `1/(1 + e⁻ˣ)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Derivative of `x·sigmoid(x)`.
#[inline(always)]
pub(crate) fn silu_slope(x: f32) -> f32 {
    let s = sigmoid(x);
    s * (1.0 + x * (1.0 - s))
}

/// `x·sigmoid(x)`.
pub fn silu(x: &Act) -> Act {
    map(
        x,
        #[inline(always)]
        |x| x * sigmoid(x),
    )
}

/// Gradient of [`silu`]'s input `x`.
pub fn silu_backward(x: &Act, gy: &Act) -> Act {
    zip(
        x,
        gy,
        #[inline(always)]
        |x, gy| gy * silu_slope(x),
    )
}

/// `max(x, 0)`.
pub fn relu(x: &Act) -> Act {
    map(
        x,
        #[inline(always)]
        |x| if x < 0.0 { 0.0 } else { x },
    )
}

/// Gradient of [`relu`]'s input `x` (0 where `x` is 0). [`relu`]'s output serves as well as its input.
pub fn relu_backward(x: &Act, gy: &Act) -> Act {
    zip(
        x,
        gy,
        #[inline(always)]
        |x, gy| if x > 0.0 { gy } else { 0.0 },
    )
}

/// Entry by entry.
pub(crate) fn map(x: &Act, f: impl Fn(f32) -> f32 + Sync + Copy) -> Act {
    let mut y = Act::stale(x.shape());
    let isa = Isa::active();
    y.data_mut().par_chunks_mut(CHUNK).zip(x.data().par_chunks(CHUNK)).for_each(|(y, x)| {
        isa.vectorize(
            #[inline(always)]
            || {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = f(*x);
                }
            },
        );
    });
    y
}

/// Entry by entry, of two activations of the same shape.
pub(crate) fn zip(a: &Act, b: &Act, f: impl Fn(f32, f32) -> f32 + Sync + Copy) -> Act {
    assert_eq!(a.shape(), b.shape(), "shapes of an element-wise operation");
    let mut y = Act::stale(a.shape());
    let isa = Isa::active();
    let inputs = a.data().par_chunks(CHUNK).zip(b.data().par_chunks(CHUNK));
    y.data_mut().par_chunks_mut(CHUNK).zip(inputs).for_each(|(y, (a, b))| {
        isa.vectorize(
            #[inline(always)]
            || {
                for (y, (a, b)) in y.iter_mut().zip(a.iter().zip(b)) {
                    *y = f(*a, *b);
                }
            },
        );
    });
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate() {
        for i in -8700..8800 {
            let x = i as f32 * 0.01 + 0.003;
            let exact = f64::from(x).exp();
            assert!(((f64::from(exp(x)) - exact) / exact).abs() < 2e-7, "exp({x})");
        }
        assert!(exp(f32::NAN).is_nan() && exp(-1e9) > 0.0 && exp(1e9).is_finite());
    }
}
