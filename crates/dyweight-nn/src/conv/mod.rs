//! Two-dimensional convolution (cross-correlation) of any kernel size, stride and padding.
//!
//! ```text
//! y[i, j, o] = bias[o] + Σ_{a,b,c} w[o, c, a, b] · x[s·i + a − top, s·j + b − left, c]
//! gx[u, v, c] = Σ over all (i, j, a, b, o) that read x[u, v, c] of w[o, c, a, b] · gy[i, j, o]
//! ```
//!
//! The input gradient is again a convolution: of `gy`, spread out by the stride, with the kernel turned by 180° and its
//! channel axes exchanged. Its weights are packed when a gradient is first asked for.
//!
//! **Which algorithm.** [`ConvAlgo`] is a wish. Winograd applies to 3×3 kernels of stride 1 and is taken for a given
//! output size only where it saves multiplications ([`ConvSpec::algo_for`]); everything else is direct. The choice
//! depends on the layer and the image size, never on the batch.

mod direct;
mod spec;
mod winograd;

use std::sync::OnceLock;

use spec::Plan;
pub use spec::{ConvAlgo, ConvSpec, Padding};
use winograd::{F2, F4};

use crate::act::{Act, Shape};
use crate::error::{Result, check_len};
use crate::gemm::{Epilogue, Packed};
use crate::isa::Isa;
use crate::weights::Weights;

/// A convolution layer with frozen weights.
pub struct Conv2d {
    spec: ConvSpec,
    weights: Packed,
    turned: OnceLock<Packed>,
    bias: Option<Vec<f32>>,
}

impl Conv2d {
    /// Packs `weight` (`[out, in, kh, kw]`, row-major) and `bias` (`[out]`).
    pub fn new(spec: ConvSpec, weight: &[f32], bias: Option<&[f32]>) -> Result<Self> {
        check(&spec, weight.len(), bias)?;
        let order = Order::of(&spec);
        let weights = Packed::new(Isa::active(), order.depth(), spec.out_channels, |k, o| weight[order.place(k, o)]);
        Ok(Self::with_packed(spec, weights, bias))
    }

    /// Packs stored weights (`[out, in·kh·kw]`), which stay in half precision if they are.
    pub fn from_weights(spec: ConvSpec, weights: &Weights, bias: Option<&[f32]>) -> Result<Self> {
        let Some(halves) = weights.halves() else { return Self::new(spec, &weights.to_f32(), bias) };
        check(&spec, halves.len(), bias)?;
        let order = Order::of(&spec);
        let entry = |k: usize, o: usize| halves[order.place(k, o)].to_le_bytes();
        let packed = Packed::halves(Isa::active(), weights.dtype(), order.depth(), spec.out_channels, entry);
        Ok(Self::with_packed(spec, packed, bias))
    }

    fn with_packed(spec: ConvSpec, weights: Packed, bias: Option<&[f32]>) -> Self {
        Self { spec, weights, turned: OnceLock::new(), bias: bias.map(<[f32]>::to_vec) }
    }

    /// What it was built from.
    pub fn spec(&self) -> &ConvSpec {
        &self.spec
    }

    /// Rows and columns of the output for an input's.
    pub fn output_size(&self, input: [usize; 2]) -> [usize; 2] {
        self.spec.output_size(input)
    }

    /// Bytes the packed weights take now (twice as many after the first gradient).
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes() + self.turned.get().map_or(0, Packed::bytes)
    }

    /// `conv(x) + bias`.
    pub fn forward(&self, x: &Act) -> Act {
        self.run_forward(x, Epilogue { bias: self.bias.as_deref(), ..Epilogue::NONE })
    }

    /// `max(conv(x) + bias, 0)` in one pass.
    pub fn forward_relu(&self, x: &Act) -> Act {
        self.run_forward(x, Epilogue { bias: self.bias.as_deref(), relu: true, ..Epilogue::NONE })
    }

    /// `(conv(x) + bias + residual)·scale` in one pass.
    pub fn forward_residual(&self, x: &Act, residual: &Act, scale: f32) -> Act {
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
        let weights = self.turned_weights();
        let plan = self.spec.gradient_plan(input_size);
        correlate(gy, weights, &plan, shape, epilogue)
    }

    fn check_residual(&self, residual: Option<&Act>, shape: Shape) {
        if let Some(residual) = residual {
            assert_eq!(residual.shape(), shape, "residual of a convolution");
        }
    }

    fn run_forward(&self, x: &Act, epilogue: Epilogue<'_>) -> Act {
        assert_eq!(x.shape().c, self.spec.in_channels, "channels of a convolution's input");
        let shape = x.shape().with_size(self.output_size(x.size())).with_channels(self.spec.out_channels);
        correlate(x, &self.weights, &self.spec.forward_plan(x.size()), shape, epilogue)
    }

    /// Weights of the gradient, packed on first use.
    fn turned_weights(&self) -> &Packed {
        if self.turned.get().is_none() {
            // Not inside `get_or_init`: packing is parallel, and a thread that waits for its parts may meanwhile take up
            // another gradient of this very layer and would then wait for itself.
            let _ = self.turned.set(self.turn_weights());
        }
        self.turned.get().expect("set just before, by this thread or another")
    }

    /// The kernel turned by 180° with channel axes exchanged.
    fn turn_weights(&self) -> Packed {
        let ConvSpec { in_channels, out_channels, kernel: [kh, kw], .. } = self.spec;
        let taps = kh * kw;
        self.weights.rearranged(taps * out_channels, in_channels, |k, c| {
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

/// Runs a planned correlation by the algorithm that suits it.
fn correlate(x: &Act, weights: &Packed, plan: &Plan, shape: Shape, epilogue: Epilogue<'_>) -> Act {
    match plan.algo_for(x.shape().c, [shape.h, shape.w]) {
        ConvAlgo::Winograd4 => winograd::convolve::<F4, 6, 4>(x, weights, plan, shape, epilogue),
        ConvAlgo::Winograd2 => winograd::convolve::<F2, 4, 2>(x, weights, plan, shape, epilogue),
        ConvAlgo::Direct => direct::convolve(x, weights, plan, shape, epilogue),
    }
}
