//! Linear layers on the channel axis: `y = x·Wᵀ + b`; of vectors, tokens or pixels alike.
//!
//! Ways to keep the weights, with the same bits in the results:
//!
//! * packed ([`Linear::new`]): a copy in the kernel's order, and another one after the first gradient. Fastest for few
//!   rows;
//! * stored ([`Linear::from_weights`]): as they lie in a file, f32 or half precision, not copied. Each task widens and
//!   packs the outputs it is to compute just before use, for the forward pass and the gradient alike;
//! * both ([`Linear::packed`]): a copy for the forward pass, where a call has so few rows that packing would be a good
//!   part of it, and the gradient as stored.
//!
//! Layers of stored weights can multiply in [`Precision::Bf16`]: input and weights are rounded for the product,
//! forwards and backwards.

use std::ops::Range;

use crate::act::Act;
use crate::conv::{Conv2d, ConvAlgo, ConvSpec};
use crate::error::{Error, Result, check_len, check_positive};
use crate::gemm::{Epilogue, Packed, Product, Rows, Span, matmul, tasks};
use crate::isa::Isa;
use crate::pairs::Pairs;
use crate::parallel::{Disjoint, for_each};
use crate::precision::Precision;
use crate::weights::Weights;

/// Floats of stored weights a task packs: part of a last-level cache,
const PACKED_AT_ONCE: usize = 1 << 20;
/// but no fewer columns than it takes to use a block of the input often enough.
const FEWEST_COLUMNS: usize = 256;

/// A linear layer with frozen weights.
pub struct Linear(Kind);

enum Kind {
    /// A 1×1 convolution under another name.
    Packed(Box<Conv2d>),
    Stored {
        isa: Isa,
        /// Whether products are of pairs of bf16.
        pairs: Option<Pairs>,
        weights: Weights,
        bias: Option<Vec<f32>>,
        /// The transpose, ready for the forward pass.
        packed: Option<Packed>,
    },
}

impl Linear {
    /// Packs `weight` (`[out, in]`, row-major) and `bias` (`[out]`).
    pub fn new(inputs: usize, outputs: usize, weight: &[f32], bias: Option<&[f32]>) -> Result<Self> {
        let spec = ConvSpec::same(inputs, outputs, 1, ConvAlgo::Direct);
        Conv2d::new(spec, weight, bias).map(|conv| Self(Kind::Packed(Box::new(conv))))
    }

    /// Keeps `weights` (`[out, in]`) as they are.
    pub fn from_weights(weights: Weights, bias: Option<&[f32]>) -> Result<Self> {
        check_positive("number of inputs", weights.columns())?;
        check_positive("number of outputs", weights.rows())?;
        if let Some(bias) = bias {
            check_len("linear bias", weights.rows(), bias.len())?;
        }
        let bias = bias.map(<[f32]>::to_vec);
        Ok(Self(Kind::Stored { isa: Isa::active(), pairs: None, weights, bias, packed: None }))
    }

    /// Keeps `weights` as they are, and multiplies in this precision.
    pub fn in_precision(precision: Precision, weights: Weights, bias: Option<&[f32]>) -> Result<Self> {
        Self::from_weights(weights, bias)?.with_precision(precision)
    }

    /// The same, multiplying in this precision, if its weights are stored.
    pub(crate) fn with_precision(mut self, precision: Precision) -> Result<Self> {
        if let (Precision::Bf16, Kind::Stored { pairs, .. }) = (precision, &mut self.0) {
            *pairs = Some(Pairs::available().ok_or(Error::Instructions { precision })?);
        }
        Ok(self)
    }

    /// The same with a copy of the weights, widened and packed, for the forward pass.
    pub fn packed(mut self) -> Self {
        if let Kind::Stored { isa, pairs, weights, packed, .. } = &mut self.0 {
            *packed = Some(Packed::of_weights_transposed(*isa, *pairs, weights, 0..weights.rows()));
        }
        self
    }

    /// Number of input channels.
    pub fn inputs(&self) -> usize {
        match &self.0 {
            Kind::Packed(conv) => conv.spec().in_channels,
            Kind::Stored { weights, .. } => weights.columns(),
        }
    }

    /// Number of output channels.
    pub fn outputs(&self) -> usize {
        match &self.0 {
            Kind::Packed(conv) => conv.spec().out_channels,
            Kind::Stored { weights, .. } => weights.rows(),
        }
    }

    /// `x·Wᵀ + b`.
    pub fn forward(&self, x: &Act) -> Act {
        match &self.0 {
            Kind::Packed(conv) => conv.forward(x),
            Kind::Stored { .. } => self.stored_forward(x, None, 1.0),
        }
    }

    /// `(x·Wᵀ + b + residual)·scale` in one pass.
    pub fn forward_residual(&self, x: &Act, residual: &Act, scale: f32) -> Act {
        match &self.0 {
            Kind::Packed(conv) => conv.forward_residual(x, residual, scale),
            Kind::Stored { .. } => self.stored_forward(x, Some(residual), scale),
        }
    }

    /// Gradient of the input, `gy·W`.
    pub fn backward(&self, gy: &Act) -> Act {
        self.backward_residual(gy, None, 1.0)
    }

    /// `(gy·W + residual)·scale` in one pass.
    pub fn backward_residual(&self, gy: &Act, residual: Option<&Act>, scale: f32) -> Act {
        match &self.0 {
            Kind::Packed(conv) => conv.backward_residual(gy, gy.size(), residual, scale),
            Kind::Stored { .. } => self.stored_backward(gy, residual, scale),
        }
    }

    /// Bytes of memory the weights take now: none if they only stay where they are stored.
    pub fn weight_bytes(&self) -> usize {
        match &self.0 {
            Kind::Packed(conv) => conv.weight_bytes(),
            Kind::Stored { packed, .. } => packed.as_ref().map_or(0, Packed::bytes),
        }
    }

    fn stored_forward(&self, x: &Act, residual: Option<&Act>, scale: f32) -> Act {
        let Kind::Stored { isa, pairs, weights, bias, packed } = &self.0 else {
            unreachable!("asked for stored weights")
        };
        assert_eq!(x.shape().c, weights.columns(), "channels of a linear layer's input");
        let mut y = Act::stale(x.shape().with_channels(weights.rows()));
        let residual = checked(residual, &y);
        let epilogue = Epilogue { bias: bias.as_deref(), residual, scale, relu: false };
        if let Some(packed) = packed {
            matmul(x.data(), packed, y.data_mut(), epilogue);
            return y;
        }
        let (a, of) = (Rows::new(x.data(), weights.columns(), *pairs), weights.rows());
        let out = Disjoint::new(y.data_mut());
        in_portions(weights.columns(), of, isa.panel_width(), |rows, tasks| {
            let b = &Packed::of_weights_transposed(*isa, *pairs, weights, rows.clone());
            let columns = Span { first: rows.start, of };
            Product { a: &a, b, columns, tasks, epilogue }.run(&out);
        });
        y
    }

    /// The rows of the weights are the depth of this product, and their columns those of the result.
    fn stored_backward(&self, gy: &Act, residual: Option<&Act>, scale: f32) -> Act {
        let Kind::Stored { isa, pairs, weights, .. } = &self.0 else { unreachable!("asked for stored weights") };
        assert_eq!(gy.shape().c, weights.rows(), "channels of a linear layer's output gradient");
        let mut gx = Act::stale(gy.shape().with_channels(weights.columns()));
        let epilogue = Epilogue { bias: None, residual: checked(residual, &gx), scale, relu: false };
        let (a, of) = (Rows::new(gy.data(), weights.rows(), *pairs), weights.columns());
        let out = Disjoint::new(gx.data_mut());
        in_portions(weights.rows(), of, isa.panel_width(), |columns, tasks| {
            let b = &Packed::of_weights(*isa, *pairs, weights, columns.clone());
            let columns = Span { first: columns.start, of };
            Product { a: &a, b, columns, tasks, epilogue }.run(&out);
        });
        gx
    }
}

/// Calls `f` with all `outputs`, as many at a time as weights of this depth are not too many to pack at once, in
/// multiples of `step`, and with how many tasks to make of it; on all threads, which help each other inside `f`.
fn in_portions(depth: usize, outputs: usize, step: usize, f: impl Fn(Range<usize>, usize) + Sync + Send) {
    let most = (PACKED_AT_ONCE / depth).max(FEWEST_COLUMNS).next_multiple_of(step);
    let portions = outputs.div_ceil(most);
    for_each(portions, |portion| f(portion * most..outputs.min((portion + 1) * most), tasks(portions)));
}

fn checked<'a>(residual: Option<&'a Act>, like: &Act) -> Option<&'a [f32]> {
    residual.map(|residual| {
        assert_eq!(residual.shape(), like.shape(), "residual of a linear layer");
        residual.data()
    })
}
