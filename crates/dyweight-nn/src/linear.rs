//! Linear layers on the channel axis: `y = x·Wᵀ + b`; of vectors, tokens or pixels alike.

use crate::act::Act;
use crate::conv::{Conv2d, ConvAlgo, ConvSpec};
use crate::error::Result;

/// A linear layer with frozen weights: a 1×1 convolution under another name.
pub struct Linear(Conv2d);

impl Linear {
    /// Packs `weight` (`[out, in]`, row-major) and `bias` (`[out]`).
    pub fn new(inputs: usize, outputs: usize, weight: &[f32], bias: Option<&[f32]>) -> Result<Self> {
        Conv2d::new(ConvSpec::same(inputs, outputs, 1, ConvAlgo::Direct), weight, bias).map(Self)
    }

    /// `x·Wᵀ + b`.
    pub fn forward(&self, x: &Act) -> Act {
        self.0.forward(x)
    }

    /// `(x·Wᵀ + b + residual)·scale` in one pass.
    pub fn forward_residual(&self, x: &Act, residual: &Act, scale: f32) -> Act {
        self.0.forward_residual(x, residual, scale)
    }

    /// Gradient of the input, `gy·W`.
    pub fn backward(&self, gy: &Act) -> Act {
        self.0.backward(gy, gy.size())
    }

    /// `(gy·W + residual)·scale` in one pass.
    pub fn backward_residual(&self, gy: &Act, residual: Option<&Act>, scale: f32) -> Act {
        self.0.backward_residual(gy, gy.size(), residual, scale)
    }

    /// Bytes the packed weights take now.
    pub fn weight_bytes(&self) -> usize {
        self.0.weight_bytes()
    }
}
