//! Random activations, plain f64 references, and comparisons.
#![allow(dead_code, reason = "each test file uses its part")]

use dyweight_nn::{Act, Isa, Shape};

/// A small deterministic generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// About standard normal: a sum of uniform numbers.
    pub fn normal(&mut self) -> f32 {
        let uniform = |r: &mut Self| (r.bits() >> 40) as f32 / (1u64 << 24) as f32;
        (0..12).map(|_| uniform(self)).sum::<f32>() - 6.0
    }

    pub fn vec(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.normal() * scale).collect()
    }

    pub fn act(&mut self, n: usize, h: usize, w: usize, c: usize) -> Act {
        let shape = Shape { n, h, w, c };
        Act::from_nhwc(shape, &self.vec(shape.len(), 1.0))
    }

    pub fn like(&mut self, act: &Act) -> Act {
        let Shape { n, h, w, c } = act.shape();
        self.act(n, h, w, c)
    }
}

/// An f64 activation, for references.
#[derive(Clone)]
pub struct Exact {
    pub shape: Shape,
    pub data: Vec<f64>,
}

impl Exact {
    pub fn zeros(shape: Shape) -> Self {
        Self { shape, data: vec![0.0; shape.len()] }
    }

    pub fn of(act: &Act) -> Self {
        Self { shape: act.shape(), data: act.data().iter().map(|v| f64::from(*v)).collect() }
    }

    pub fn index(&self, n: usize, y: usize, x: usize, c: usize) -> usize {
        ((n * self.shape.h + y) * self.shape.w + x) * self.shape.c + c
    }

    pub fn at(&self, n: usize, y: usize, x: usize, c: usize) -> f64 {
        self.data[self.index(n, y, x, c)]
    }

    /// 0 outside the image.
    pub fn padded(&self, n: usize, y: isize, x: isize, c: usize) -> f64 {
        let inside = (0..self.shape.h as isize).contains(&y) && (0..self.shape.w as isize).contains(&x);
        if inside { self.at(n, y as usize, x as usize, c) } else { 0.0 }
    }

    /// `self + step·direction`.
    pub fn moved(&self, direction: &Act, step: f64) -> Self {
        let data = self.data.iter().zip(direction.data()).map(|(a, b)| a + step * f64::from(*b)).collect();
        Self { shape: self.shape, data }
    }

    pub fn dot(&self, act: &Act) -> f64 {
        self.data.iter().zip(act.data()).map(|(a, b)| a * f64::from(*b)).sum()
    }
}

pub fn dot(a: &Act, b: &Act) -> f64 {
    Exact::of(a).dot(b)
}

/// Largest deviation, relative to the largest entry.
pub fn deviation(found: &Act, exact: &Exact) -> f64 {
    assert_eq!(found.shape(), exact.shape);
    let largest = exact.data.iter().fold(1e-30, |m: f64, v| m.max(v.abs()));
    found.data().iter().zip(&exact.data).fold(0.0, |m: f64, (a, b)| m.max((f64::from(*a) - b).abs())) / largest
}

pub fn assert_close(what: &str, found: &Act, exact: &Exact, tolerance: f64) {
    let deviation = deviation(found, exact);
    assert!(deviation <= tolerance, "{what}: deviates by {deviation:.2e} > {tolerance:.0e}");
}

pub fn assert_near(what: &str, found: f64, exact: f64, scale: f64, tolerance: f64) {
    assert!((found - exact).abs() <= tolerance * scale.abs().max(exact.abs()), "{what}: {found} instead of {exact}");
}

pub fn assert_bits(what: &str, a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{what}");
    let differing = a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
    assert_eq!(differing, None, "{what}: first differing entry");
}

/// Directional derivative of `⟨cotangent, f(x)⟩` along `direction` by central differences of an f64 reference.
pub fn slope(x: &Act, direction: &Act, cotangent: &Act, f: impl Fn(&Exact) -> Exact) -> f64 {
    let (x, step) = (Exact::of(x), 1e-5);
    (f(&x.moved(direction, step)).dot(cotangent) - f(&x.moved(direction, -step)).dot(cotangent)) / (2.0 * step)
}

/// Runs `f` under every instruction set of this machine.
pub fn on_every_isa(f: impl Fn(Isa)) {
    for isa in Isa::available() {
        isa.scope(|| f(isa));
    }
}

/// Samples `range` as a batch of their own.
pub fn samples(act: &Act, range: std::ops::Range<usize>) -> Act {
    let len = act.shape().sample_len();
    Act::from_nhwc(Shape { n: range.len(), ..act.shape() }, &act.data()[range.start * len..range.end * len])
}
