//! Layer norm; formulas at the head of the parent module.

use super::{map_rows, zip_rows};
use crate::act::Act;
use crate::error::{Result, check_len, check_positive};
use crate::reduce::{dot, sum};

/// A layer norm with frozen weights.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    pub(super) eps: f32,
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl LayerNorm {
    /// With weight and bias, one entry per channel.
    pub fn new(eps: f32, weight: &[f32], bias: &[f32]) -> Result<Self> {
        check_positive("width of a normalisation", weight.len())?;
        check_len("normalisation bias", weight.len(), bias.len())?;
        Ok(Self { eps, weight: weight.to_vec(), bias: bias.to_vec() })
    }

    /// Without: weight 1, bias 0.
    pub fn plain(eps: f32, width: usize) -> Result<Self> {
        Self::new(eps, &vec![1.0; width], &vec![0.0; width])
    }

    /// Number of channels.
    pub fn width(&self) -> usize {
        self.weight.len()
    }

    /// The normalised tokens.
    pub fn forward(&self, x: &Act) -> Act {
        self.check(x);
        map_rows(
            x,
            self.width(),
            #[inline(always)]
            |y, x| normalise(y, x, self.eps, &self.weight, &self.bias),
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
            |gx, x, gy| pull(gx, x, gy, self.eps, &self.weight),
        )
    }

    pub(super) fn check(&self, x: &Act) {
        assert_eq!(x.shape().c, self.width(), "channels of a normalisation's input");
    }
}

/// Mean and `1/√(var + ε)` of a row, in two passes.
#[inline(always)]
pub(super) fn moments(x: &[f32], eps: f32) -> (f32, f32) {
    let count = x.len() as f32;
    let mean = sum(x) / count;
    let variance = dot(
        x,
        x,
        #[inline(always)]
        |x, _| (x - mean) * (x - mean),
    ) / count;
    (mean, 1.0 / (variance + eps).sqrt())
}

/// `y = x̂·gain + shift`.
#[inline(always)]
pub(super) fn normalise(y: &mut [f32], x: &[f32], eps: f32, gain: &[f32], shift: &[f32]) {
    let (mean, inverse) = moments(x, eps);
    for ((y, x), (gain, shift)) in y.iter_mut().zip(x).zip(gain.iter().zip(shift)) {
        *y = (x - mean) * inverse * gain + shift;
    }
}

/// Gradient of one row.
#[inline(always)]
pub(super) fn pull(gx: &mut [f32], x: &[f32], gy: &[f32], eps: f32, gain: &[f32]) {
    let (mean, inverse) = moments(x, eps);
    for ((a, gy), gain) in gx.iter_mut().zip(gy).zip(gain) {
        *a = gy * gain;
    }
    let count = x.len() as f32;
    let plain = sum(gx) / count;
    let along = dot(
        gx,
        x,
        #[inline(always)]
        |a, x| a * ((x - mean) * inverse),
    ) / count;
    for (gx, x) in gx.iter_mut().zip(x) {
        *gx = (*gx - plain - (x - mean) * inverse * along) * inverse;
    }
}
