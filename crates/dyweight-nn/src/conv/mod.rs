//! Two-dimensional convolution (cross-correlation) of any kernel size, stride and padding.
//!
//! ```text
//! y[i, j, o] = bias[o] + Σ_{a,b,c} w[o, c, a, b] · x[s·i + a − top, s·j + b − left, c]
//! gx[u, v, c] = Σ over all (i, j, a, b, o) that read x[u, v, c] of w[o, c, a, b] · gy[i, j, o]
//! ```
//!
//! The input gradient is again a convolution: of `gy`, spread out by the stride, with the kernel turned by 180° and its
//! channel axes exchanged.
//!
//! Two ways to keep the weights, with the same bits in the results:
//!
//! * packed ([`Conv2d::new`]): a copy in the kernel's order, and another one after the first gradient;
//! * stored ([`Conv2d::from_weights`]): as they lie in a file, f32 or half precision, not copied. Panels are made of
//!   them just before use, for the forward pass and the gradient alike (`filters`).
//!
//! **Which algorithm.** [`ConvAlgo`] is a wish. Winograd applies to 3×3 kernels of stride 1 and is taken for a given
//! output size only where it saves multiplications ([`ConvSpec::algo_for`]); everything else is direct. The choice
//! depends on the layer and the image size, never on the batch.

mod direct;
mod filters;
mod integers;
mod spec;
mod winograd;

use std::sync::OnceLock;

use filters::Filters;
use integers::Integers;
use spec::Plan;
pub use spec::{ConvAlgo, ConvSpec, Padding};
use winograd::{F2, F4};

use crate::act::{Act, Shape};
use crate::activation::relu;
use crate::error::{Error, Result, check_len};
use crate::fixed::Fixed;
use crate::gemm::{Epilogue, Packed};
use crate::isa::Isa;
use crate::linear::Linear;
use crate::precision::Precision;
use crate::weights::Weights;

/// A convolution layer with frozen weights.
pub struct Conv2d {
    spec: ConvSpec,
    kept: Kept,
    bias: Option<Vec<f32>>,
    /// If factors are of 16 bits.
    integers: Option<Integers>,
}

/// How weights are kept.
enum Kept {
    Packed {
        weights: Packed,
        turned: OnceLock<Packed>,
    },
    Stored {
        isa: Isa,
        weights: Weights,
    },
    /// Stored, of a kernel of one pixel: a linear layer of every pixel, which has the bias.
    Pointwise(Box<Linear>),
}

impl Conv2d {
    /// Packs `weight` (`[out, in, kh, kw]`, row-major) and `bias` (`[out]`).
    pub fn new(spec: ConvSpec, weight: &[f32], bias: Option<&[f32]>) -> Result<Self> {
        check(&spec, weight.len(), bias)?;
        let order = Order::of(&spec);
        let weights = Packed::new(Isa::active(), order.depth(), spec.out_channels, |k, o| weight[order.place(k, o)]);
        let kept = Kept::Packed { weights, turned: OnceLock::new() };
        Ok(Self { spec, kept, bias: bias.map(<[f32]>::to_vec), integers: None })
    }

    /// Keeps `weights` (`[out, in·kh·kw]`) as they are.
    pub fn from_weights(spec: ConvSpec, weights: Weights, bias: Option<&[f32]>) -> Result<Self> {
        check(&spec, weights.rows() * weights.columns(), bias)?;
        check_len("convolution weight row", Order::of(&spec).depth(), weights.columns())?;
        if spec.is_pointwise() {
            return Ok(Self {
                spec,
                kept: Kept::Pointwise(Box::new(Linear::from_weights(weights, bias)?)),
                bias: None,
                integers: None,
            });
        }
        let kept = Kept::Stored { isa: Isa::active(), weights };
        Ok(Self { spec, kept, bias: bias.map(<[f32]>::to_vec), integers: None })
    }

    /// The same with products of this precision: of bf16 for a kernel of one pixel, where weights are stored; else of
    /// 16-bit fixed-point numbers, since bf16 has too few digits for Winograd's transforms. Either takes half as many
    /// multiplications as f32.
    pub fn in_precision(mut self, precision: Precision) -> Result<Self> {
        if precision == Precision::F32 {
            return Ok(self);
        }
        match self.kept {
            Kept::Pointwise(linear) => self.kept = Kept::Pointwise(Box::new(linear.with_precision(precision)?)),
            _ => self.integers = Some(Integers::new(Fixed::available().ok_or(Error::Instructions { precision })?)),
        }
        Ok(self)
    }

    /// What it was built from.
    pub fn spec(&self) -> &ConvSpec {
        &self.spec
    }

    /// Rows and columns of the output for an input's.
    pub fn output_size(&self, input: [usize; 2]) -> [usize; 2] {
        self.spec.output_size(input)
    }

    /// Bytes of memory the weights take now: none if they stay where they are stored, else twice as many after the
    /// first gradient.
    pub fn weight_bytes(&self) -> usize {
        match &self.kept {
            Kept::Packed { weights, turned } => weights.bytes() + turned.get().map_or(0, Packed::bytes),
            Kept::Stored { .. } => 0,
            Kept::Pointwise(linear) => linear.weight_bytes(),
        }
    }

    /// `conv(x) + bias`.
    pub fn forward(&self, x: &Act) -> Act {
        match &self.kept {
            Kept::Pointwise(linear) => linear.forward(x),
            _ => self.run_forward(x, Epilogue { bias: self.bias.as_deref(), ..Epilogue::NONE }),
        }
    }

    /// `max(conv(x) + bias, 0)` in one pass.
    pub fn forward_relu(&self, x: &Act) -> Act {
        match &self.kept {
            Kept::Pointwise(linear) => relu(&linear.forward(x)),
            _ => self.run_forward(x, Epilogue { bias: self.bias.as_deref(), relu: true, ..Epilogue::NONE }),
        }
    }

    /// `(conv(x) + bias + residual)·scale` in one pass.
    pub fn forward_residual(&self, x: &Act, residual: &Act, scale: f32) -> Act {
        if let Kept::Pointwise(linear) = &self.kept {
            return linear.forward_residual(x, residual, scale);
        }
        let residual = Some(residual);
        self.check_residual(
            residual,
            x.shape().with_size(self.output_size(x.size())).with_channels(self.spec.out_channels),
        );
        self.run_forward(
            x,
            Epilogue { bias: self.bias.as_deref(), residual: residual.map(Act::data), scale, relu: false },
        )
    }

    /// Gradient of the input from that of the output; needs the input's rows and columns, nothing else.
    pub fn backward(&self, gy: &Act, input_size: [usize; 2]) -> Act {
        self.backward_residual(gy, input_size, None, 1.0)
    }

    /// `(convᵀ(gy) + residual)·scale` in one pass.
    pub fn backward_residual(&self, gy: &Act, input_size: [usize; 2], residual: Option<&Act>, scale: f32) -> Act {
        assert_eq!(gy.shape().c, self.spec.out_channels, "channels of a convolution's output gradient");
        assert_eq!(gy.size(), self.output_size(input_size), "size of a convolution's output gradient");
        let shape = gy.shape().with_size(input_size).with_channels(self.spec.in_channels);
        self.check_residual(residual, shape);
        let epilogue = Epilogue { bias: None, residual: residual.map(Act::data), scale, relu: false };
        let filters = match &self.kept {
            Kept::Pointwise(linear) => return linear.backward_residual(gy, residual, scale),
            Kept::Packed { weights, turned } => Filters::Packed(self.turned_weights(weights, turned)),
            Kept::Stored { isa, weights } => Filters::stored(*isa, weights, &self.spec, true),
        };
        self.correlate((gy, &filters, true), &self.spec.gradient_plan(input_size), shape, epilogue)
    }

    fn check_residual(&self, residual: Option<&Act>, shape: Shape) {
        if let Some(residual) = residual {
            assert_eq!(residual.shape(), shape, "residual of a convolution");
        }
    }

    fn run_forward(&self, x: &Act, epilogue: Epilogue<'_>) -> Act {
        assert_eq!(x.shape().c, self.spec.in_channels, "channels of a convolution's input");
        let shape = x.shape().with_size(self.output_size(x.size())).with_channels(self.spec.out_channels);
        let filters = match &self.kept {
            Kept::Packed { weights, .. } => Filters::Packed(weights),
            Kept::Stored { isa, weights } => Filters::stored(*isa, weights, &self.spec, false),
            Kept::Pointwise(_) => unreachable!("a linear layer runs by itself"),
        };
        self.correlate((x, &filters, false), &self.spec.forward_plan(x.size()), shape, epilogue)
    }

    /// Runs a planned correlation by the algorithm that suits it.
    fn correlate(
        &self,
        operands: (&Act, &Filters<'_>, bool),
        plan: &Plan,
        shape: Shape,
        epilogue: Epilogue<'_>,
    ) -> Act {
        let (x, filters, _) = operands;
        if let Some(integers) = &self.integers {
            return integers.correlate(operands, plan, shape, epilogue);
        }
        match plan.algo_for(x.shape().c, [shape.h, shape.w]) {
            ConvAlgo::Winograd4 => winograd::convolve::<F4, 6, 4>(x, filters, plan, shape, epilogue),
            ConvAlgo::Winograd2 => winograd::convolve::<F2, 4, 2>(x, filters, plan, shape, epilogue),
            ConvAlgo::Direct => direct::convolve(x, filters, plan, shape, epilogue),
        }
    }

    /// Weights of the gradient, packed on first use.
    fn turned_weights<'c>(&self, weights: &Packed, turned: &'c OnceLock<Packed>) -> &'c Packed {
        if turned.get().is_none() {
            // Not inside `get_or_init`: packing is parallel, and a thread that waits for its parts may meanwhile take
            // up another gradient of this very layer and would then wait for itself.
            let _ = turned.set(self.turn(weights));
        }
        turned.get().expect("set just before, by this thread or another")
    }

    /// The kernel turned by 180° with channel axes exchanged.
    fn turn(&self, weights: &Packed) -> Packed {
        let ConvSpec { in_channels, out_channels, kernel: [kh, kw], .. } = self.spec;
        let taps = kh * kw;
        weights.rearranged(taps * out_channels, in_channels, |k, c| {
            let (tap, o) = (taps - 1 - k / out_channels, k % out_channels);
            (tap * in_channels + c, o)
        })
    }
}

fn check(spec: &ConvSpec, entries: usize, bias: Option<&[f32]>) -> Result<()> {
    spec.check()?;
    check_len("convolution weight", spec.out_channels * Order::of(spec).depth(), entries)?;
    bias.map_or(Ok(()), |bias| check_len("convolution bias", spec.out_channels, bias.len()))
}

/// From weights in the order `[out, in, kh, kw]` to the packed `[kh, kw, in]` by `out`.
struct Order {
    channels: usize,
    taps: usize,
}

impl Order {
    fn of(spec: &ConvSpec) -> Self {
        Self { channels: spec.in_channels, taps: spec.kernel[0] * spec.kernel[1] }
    }

    fn depth(&self) -> usize {
        self.channels * self.taps
    }

    fn place(&self, k: usize, o: usize) -> usize {
        (o * self.channels + k % self.channels) * self.taps + k / self.channels
    }
}
