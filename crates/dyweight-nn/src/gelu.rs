//! The Gaussian error linear unit (Hendrycks & Gimpel 2016) in its three spellings, alone and as a gate (Shazeer 2020,
//! GEGLU).
//!
//! ```text
//! exact  x·Φ(x)                                   Φ the normal distribution function
//! tanh   ½x(1 + tanh u) = x·s(2u)                 u = √(2/π)(x + 0.044715 x³),  s the logistic function
//! quick  x·s(1.702 x)
//! ```
//!
//! `Φ(−z√2) = ½·e^{−z²}·w(z)` for z ≥ 0, with `w(z) = e^{z²} erfc z` a polynomial in `t = 1/(1 + z/2)`: so that
//! nothing cancels in the left tail.

use crate::act::Act;
use crate::activation::{exp, map, sigmoid, zip};
use crate::isa::Isa;
use crate::parallel::{CHUNK, Disjoint, for_each};

/// Which spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gelu {
    /// By the error function.
    Exact,
    /// By the hyperbolic tangent (`gelu_new`).
    Tanh,
    /// By the logistic function (OpenAI CLIP).
    Quick,
}

/// Calls `$run` with the value and the slope function of a spelling, both `#[inline(always)]`.
macro_rules! with_spelling {
    ($gelu:expr, |$value:ident, $slope:ident| $run:expr) => {
        match $gelu {
            Gelu::Exact => {
                let ($value, $slope) = (exact, exact_slope);
                $run
            }
            Gelu::Tanh => {
                let ($value, $slope) = (tanh, tanh_slope);
                $run
            }
            Gelu::Quick => {
                let ($value, $slope) = (quick, quick_slope);
                $run
            }
        }
    };
}

impl Gelu {
    /// Of every entry.
    pub fn forward(self, x: &Act) -> Act {
        with_spelling!(self, |value, _slope| map(x, value))
    }

    /// Gradient of the input `x`.
    pub fn backward(self, x: &Act, gy: &Act) -> Act {
        with_spelling!(self, |_value, slope| zip(
            x,
            gy,
            #[inline(always)]
            |x, gy| gy * slope(x)
        ))
    }

    /// `value·gelu(gate)`, of two activations of the same shape.
    pub fn gated(self, value: &Act, gate: &Act) -> Act {
        with_spelling!(self, |gelu, _slope| zip(
            value,
            gate,
            #[inline(always)]
            |value, gate| value * gelu(gate)
        ))
    }

    /// Gradients of [`gated`](Self::gated)'s value and gate.
    pub fn gated_backward(self, value: &Act, gate: &Act, gy: &Act) -> [Act; 2] {
        let gvalue = self.gated(gy, gate);
        let slope = self.backward(gate, gy);
        let ggate = zip(
            &slope,
            value,
            #[inline(always)]
            |slope, value| slope * value,
        );
        [gvalue, ggate]
    }

    /// [`gated`](Self::gated) with the value in the first half of the channels and the gate in the second.
    ///
    /// # Panics
    /// If the number of channels is odd.
    pub fn gated_halves(self, x: &Act) -> Act {
        let shape = x.shape().with_channels(half(x));
        let mut y = Act::stale(shape);
        with_spelling!(self, |gelu, _slope| each_token(
            &mut y,
            shape.c,
            #[inline(always)]
            |token, y| {
                let (value, gate) = x.data()[2 * token * shape.c..][..2 * y.len()].split_at(shape.c);
                for ((y, value), gate) in y.iter_mut().zip(value).zip(gate) {
                    *y = value * gelu(*gate);
                }
            }
        ));
        y
    }

    /// Gradient of [`gated_halves`](Self::gated_halves)' input `x`.
    pub fn gated_halves_backward(self, x: &Act, gy: &Act) -> Act {
        let c = half(x);
        assert_eq!(gy.shape(), x.shape().with_channels(c), "gradient of a gated activation");
        let mut gx = Act::stale(x.shape());
        with_spelling!(self, |gelu, slope| each_token(
            &mut gx,
            2 * c,
            #[inline(always)]
            |token, gx| {
                let (value, gate) = x.data()[2 * token * c..][..2 * c].split_at(c);
                let (gvalue, ggate) = gx.split_at_mut(c);
                let gradients = gvalue.iter_mut().zip(ggate).zip(&gy.data()[token * c..][..c]);
                for (((gvalue, ggate), gy), (value, gate)) in gradients.zip(value.iter().zip(gate)) {
                    *gvalue = gy * gelu(*gate);
                    *ggate = gy * value * slope(*gate);
                }
            }
        ));
        gx
    }
}

fn half(x: &Act) -> usize {
    let c = x.shape().c;
    assert!(c > 0 && c.is_multiple_of(2), "{c} channels in two halves");
    c / 2
}

/// `f(token, its channels of y)` for every token of every sample.
fn each_token(y: &mut Act, c: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    let (isa, total) = (Isa::active(), y.shape().len() / c);
    let per_task = (CHUNK / c).max(1);
    let shared = Disjoint::new(y.data_mut());
    for_each(total.div_ceil(per_task), |item| {
        let first = item * per_task;
        let count = per_task.min(total - first);
        // SAFETY: tasks have tokens of their own.
        let y = unsafe { shared.part(first * c, count * c) };
        isa.vectorize(
            #[inline(always)]
            || {
                for (token, y) in y.chunks_exact_mut(c).enumerate() {
                    f(first + token, y);
                }
            },
        );
    });
}

/// `Φ(x)` and `e^{−x²/2}`.
#[inline(always)]
fn normal(x: f32) -> (f32, f32) {
    // w(z) in powers of t, fitted for the smallest relative error over 0 ≤ z ≤ 9 (3e-8 before rounding).
    const W: [f32; 10] = [
        -1.026_725_6e-5,
        0.282_311_2,
        0.280_294_1,
        0.253_809_48,
        0.168_907_96,
        4.134_561_5e-2,
        0.190_578_67,
        -0.417_523_5,
        0.253_323_2,
        -5.303_643_6e-2,
    ];
    let bell = exp(-0.5 * x * x);
    let t = 1.0 / (1.0 + x.abs() * (0.5 * std::f32::consts::FRAC_1_SQRT_2));
    let mut w = W[9];
    for i in (0..9).rev() {
        w = w * t + W[i];
    }
    let tail = 0.5 * bell * w;
    (if x < 0.0 { tail } else { 1.0 - tail }, bell)
}

#[inline(always)]
fn exact(x: f32) -> f32 {
    x * normal(x).0
}

#[inline(always)]
fn exact_slope(x: f32) -> f32 {
    /// `1/√(2π)`.
    const PEAK: f32 = 0.398_942_3;
    let (phi, bell) = normal(x);
    phi + x * (PEAK * bell)
}

/// `2·√(2/π)`.
const TANH_SLOPE: f32 = 1.595_769;
const TANH_CUBIC: f32 = 0.044_715;

#[inline(always)]
fn tanh(x: f32) -> f32 {
    x * sigmoid(TANH_SLOPE * (x + TANH_CUBIC * x * x * x))
}

#[inline(always)]
fn tanh_slope(x: f32) -> f32 {
    let (s, rest) = both_sides(TANH_SLOPE * (x + TANH_CUBIC * x * x * x));
    s + x * s * rest * TANH_SLOPE * (1.0 + 3.0 * TANH_CUBIC * x * x)
}

/// `s(u)` and `1 − s(u)`, the latter without cancellation.
#[inline(always)]
fn both_sides(u: f32) -> (f32, f32) {
    let e = exp(-u);
    let s = 1.0 / (1.0 + e);
    (s, e * s)
}

const QUICK: f32 = 1.702;

#[inline(always)]
fn quick(x: f32) -> f32 {
    x * sigmoid(QUICK * x)
}

#[inline(always)]
fn quick_slope(x: f32) -> f32 {
    let (s, rest) = both_sides(QUICK * x);
    s * (1.0 + QUICK * x * rest)
}
