//! Rotary position embedding (Su et al. 2021, RoFormer) on adjacent pairs, with positions along several axes (FLUX).
//!
//! ```text
//! (a, b) → (a·cos φ − b·sin φ, b·cos φ + a·sin φ)        entries 2k and 2k+1 of a head, φ[token, k]
//! φ[token, ·] = one stretch per axis of width d:  position·θ^(−2k/d), k = 0 … d/2 − 1
//! ```
//!
//! The gradient is the rotation by −φ. Angles are formed in f64; cosines and sines are rounded to f32.

use crate::act::Act;
use crate::error::{Error, Result, check_len, check_positive};
use crate::isa::Isa;
use crate::parallel::{Disjoint, for_each};

/// Tokens a task rotates.
const TOKENS: usize = 16;

/// One rotation per token and pair, the same for all heads and samples.
#[derive(Clone, Debug)]
pub struct Rotary {
    width: usize,
    cosine: Vec<f32>,
    sine: Vec<f32>,
}

impl Rotary {
    /// From angles `[tokens, width/2]` for heads of an even `width`.
    pub fn new(width: usize, angles: &[f64]) -> Result<Self> {
        check_positive("head width", width)?;
        if !width.is_multiple_of(2) || !angles.len().is_multiple_of(width / 2) {
            return Err(Error::Size { what: "head width of a rotary embedding", found: width });
        }
        let rounded = |f: fn(f64) -> f64| angles.iter().map(|a| f(*a) as f32).collect();
        Ok(Self { width, cosine: rounded(f64::cos), sine: rounded(f64::sin) })
    }

    /// From each token's position on every axis (`[tokens, axes]`) and the even widths of the axes, whose sum is the
    /// head's width.
    pub fn along_axes(positions: &[f64], axes: &[usize], theta: f64) -> Result<Self> {
        check_positive("number of axes", axes.len())?;
        if let Some(odd) = axes.iter().find(|d| !d.is_multiple_of(2)) {
            return Err(Error::Size { what: "width of a rotary axis", found: *odd });
        }
        check_len("positions", positions.len() / axes.len() * axes.len(), positions.len())?;
        let angles: Vec<f64> = positions
            .chunks_exact(axes.len())
            .flat_map(|token| token.iter().zip(axes))
            .flat_map(|(at, d)| (0..d / 2).map(move |k| at * theta.powf(-2.0 * k as f64 / *d as f64)))
            .collect();
        Self::new(axes.iter().sum(), &angles)
    }

    /// Number of tokens it has angles for.
    pub fn tokens(&self) -> usize {
        2 * self.cosine.len() / self.width
    }

    /// Every head (`width` consecutive channels) of every token rotated.
    pub fn forward(&self, x: &Act) -> Act {
        self.rotate(x, 1.0)
    }

    /// Gradient of the input.
    pub fn backward(&self, gy: &Act) -> Act {
        self.rotate(gy, -1.0)
    }

    fn rotate(&self, x: &Act, direction: f32) -> Act {
        let (shape, half) = (x.shape(), self.width / 2);
        assert_eq!(shape.pixels(), self.tokens(), "tokens of a rotary embedding");
        assert!(shape.c.is_multiple_of(self.width), "{} channels in heads of {}", shape.c, self.width);
        let (isa, blocks) = (Isa::active(), shape.pixels().div_ceil(TOKENS));
        let mut y = Act::stale(shape);
        let shared = Disjoint::new(y.data_mut());
        for_each(shape.n * blocks, |item| {
            let (sample, first) = (item / blocks, item % blocks * TOKENS);
            let count = TOKENS.min(shape.pixels() - first);
            // SAFETY: blocks of tokens are disjoint.
            let to = unsafe { shared.part(sample * shape.sample_len() + first * shape.c, count * shape.c) };
            let from = &x.sample(sample)[first * shape.c..][..count * shape.c];
            isa.vectorize(
                #[inline(always)]
                || {
                    for (t, (to, from)) in to.chunks_exact_mut(shape.c).zip(from.chunks_exact(shape.c)).enumerate() {
                        let cosine = &self.cosine[(first + t) * half..][..half];
                        let sine = &self.sine[(first + t) * half..][..half];
                        for (to, from) in to.chunks_exact_mut(self.width).zip(from.chunks_exact(self.width)) {
                            rotate_head(to, from, cosine, sine, direction);
                        }
                    }
                },
            );
        });
        y
    }
}

#[inline(always)]
fn rotate_head(to: &mut [f32], from: &[f32], cosine: &[f32], sine: &[f32], direction: f32) {
    let pairs = to.as_chunks_mut::<2>().0.iter_mut().zip(from.as_chunks::<2>().0);
    for ((to, [a, b]), (c, s)) in pairs.zip(cosine.iter().zip(sine)) {
        let s = direction * s;
        *to = [a * c - b * s, b * c + a * s];
    }
}
