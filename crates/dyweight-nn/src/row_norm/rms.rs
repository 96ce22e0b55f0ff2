//! Root-mean-square norm; formulas at the head of the parent module.

use super::{map_rows, zip_rows};
use crate::act::Act;
use crate::error::{Result, check_positive};
use crate::reduce::dot;

/// A root-mean-square norm with frozen weights, over as many consecutive channels as it has weights.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    eps: f32,
    weight: Vec<f32>,
}

impl RmsNorm {
    /// `weight` has one entry per channel, or per channel of one head.
    pub fn new(eps: f32, weight: &[f32]) -> Result<Self> {
        check_positive("width of a normalisation", weight.len())?;
        Ok(Self { eps, weight: weight.to_vec() })
    }

    /// Channels normalised together.
    pub fn width(&self) -> usize {
        self.weight.len()
    }

    /// The normalised tokens.
    ///
    /// # Panics
    /// If the channels are not a multiple of the width.
    pub fn forward(&self, x: &Act) -> Act {
        self.check(x);
        map_rows(
            x,
            self.width(),
            #[inline(always)]
            |y, x| {
                let inverse = inverse(x, self.eps);
                for ((y, x), weight) in y.iter_mut().zip(x).zip(&self.weight) {
                    *y = x * inverse * weight;
                }
            },
        )
    }

    /// Gradient of the input `x`.
    pub fn backward(&self, x: &Act, gy: &Act) -> Act {
        self.check(x);
        zip_rows(
            x,
            gy,
            self.width(),
            #[inline(always)]
            |gx, x, gy| {
                let inverse = inverse(x, self.eps);
                for ((a, gy), weight) in gx.iter_mut().zip(gy).zip(&self.weight) {
                    *a = gy * weight;
                }
                let along = dot(
                    gx,
                    x,
                    #[inline(always)]
                    |a, x| a * (x * inverse),
                ) / x.len() as f32;
                for (gx, x) in gx.iter_mut().zip(x) {
                    *gx = (*gx - x * inverse * along) * inverse;
                }
            },
        )
    }

    fn check(&self, x: &Act) {
        let (c, width) = (x.shape().c, self.width());
        assert!(c.is_multiple_of(width), "{c} channels normalised by {width}");
    }
}

/// `1/√(mean(x²) + ε)`.
#[inline(always)]
fn inverse(x: &[f32], eps: f32) -> f32 {
    let square = dot(
        x,
        x,
        #[inline(always)]
        |x, _| x * x,
    ) / x.len() as f32;
    1.0 / (square + eps).sqrt()
}
