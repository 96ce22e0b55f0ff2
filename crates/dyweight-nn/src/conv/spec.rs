//! Sizes of a convolution, and the stride-1-or-more correlation that its forward pass or gradient comes down to.

use crate::error::{Error, Result, check_positive};

/// How a 3×3 convolution of stride 1 is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConvAlgo {
    /// Winograd F(4×4, 3×3): 4 times fewer multiplications, relative error about 1e-5 of a layer.
    #[default]
    Winograd4,
    /// Winograd F(2×2, 3×3): 2.25 times fewer multiplications, error about that of the direct sum.
    Winograd2,
    /// The sum as it is written.
    Direct,
}

/// Zeros around an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// Rows above.
    pub top: usize,
    /// Rows below.
    pub bottom: usize,
    /// Columns to the left.
    pub left: usize,
    /// Columns to the right.
    pub right: usize,
}

impl Padding {
    /// The same on all sides.
    pub fn all(by: usize) -> Self {
        Self { top: by, bottom: by, left: by, right: by }
    }

    /// Below and to the right only: what autoencoders put around an image before they halve it.
    pub fn after(by: usize) -> Self {
        Self { top: 0, bottom: by, left: 0, right: by }
    }

    /// `rows` above and below, `columns` to the left and right.
    pub fn symmetric(rows: usize, columns: usize) -> Self {
        Self { top: rows, bottom: rows, left: columns, right: columns }
    }
}

/// What a convolution is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvSpec {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Step from one output row (column) to the next.
    pub stride: [usize; 2],
    /// Zeros around the input; at most the kernel size less one on each side.
    pub padding: Padding,
    /// How to compute it where there is a choice.
    pub algo: ConvAlgo,
}

impl ConvSpec {
    /// Stride 1, padded by half a kernel so that sizes stay (for odd kernels).
    pub fn same(in_channels: usize, out_channels: usize, kernel: usize, algo: ConvAlgo) -> Self {
        let padding = Padding::all(kernel / 2);
        Self { in_channels, out_channels, kernel: [kernel; 2], stride: [1; 2], padding, algo }
    }

    /// The same with another padding.
    pub fn with_padding(self, padding: Padding) -> Self {
        Self { padding, ..self }
    }

    /// The same with another stride.
    pub fn with_stride(self, stride: usize) -> Self {
        Self { stride: [stride; 2], ..self }
    }

    /// Whether every output pixel depends on the one input pixel in its place.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 2] && self.stride == [1; 2] && self.padding == Padding::default()
    }

    pub(super) fn check(&self) -> Result<()> {
        check_positive("number of input channels", self.in_channels)?;
        check_positive("number of output channels", self.out_channels)?;
        check_positive("kernel size", self.kernel[0].min(self.kernel[1]))?;
        check_positive("stride", self.stride[0].min(self.stride[1]))?;
        let Padding { top, bottom, left, right } = self.padding;
        let fits = top.max(bottom) < self.kernel[0] && left.max(right) < self.kernel[1];
        if fits { Ok(()) } else { Err(Error::Size { what: "padding", found: top.max(bottom).max(left).max(right) }) }
    }

    pub(super) fn output_size(&self, [h, w]: [usize; 2]) -> [usize; 2] {
        let Padding { top, bottom, left, right } = self.padding;
        let [kh, kw] = self.kernel;
        assert!(h + top + bottom >= kh && w + left + right >= kw, "a {kh}x{kw} kernel on a {h}x{w} image");
        [(h + top + bottom - kh) / self.stride[0] + 1, (w + left + right - kw) / self.stride[1] + 1]
    }

    /// The algorithm the forward pass takes for an image of this size.
    pub fn algo_for(&self, input: [usize; 2]) -> ConvAlgo {
        self.forward_plan(input).algo_for(self.in_channels, self.output_size(input))
    }

    /// The forward pass on an image of this size.
    pub(super) fn forward_plan(&self, [h, w]: [usize; 2]) -> Plan {
        let Padding { top, bottom, left, right } = self.padding;
        let canvas = [h + top + bottom, w + left + right];
        Plan { kernel: self.kernel, stride: self.stride, origin: [top, left], spacing: [1; 2], canvas, algo: self.algo }
    }

    /// The gradient with respect to an image of this size, as a correlation of the output's gradient.
    pub(super) fn gradient_plan(&self, [h, w]: [usize; 2]) -> Plan {
        let [kh, kw] = self.kernel;
        let origin = [kh - 1 - self.padding.top, kw - 1 - self.padding.left];
        let canvas = [h + kh - 1, w + kw - 1];
        Plan { kernel: self.kernel, stride: [1; 2], origin, spacing: self.stride, canvas, algo: self.algo }
    }
}

/// A correlation of an image laid out on a canvas of zeros: pixel `(y, x)` stands at `origin + spacing·(y, x)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) origin: [usize; 2],
    pub(super) spacing: [usize; 2],
    pub(super) canvas: [usize; 2],
    pub(super) algo: ConvAlgo,
}

impl Plan {
    /// The algorithm for this many input channels and this output size: the wish, unless it does not apply or a simpler
    /// one needs no more multiplications (counted with what the transforms cost besides).
    pub(super) fn algo_for(&self, channels: usize, [h, w]: [usize; 2]) -> ConvAlgo {
        /// With fewer channels to sum over, transforms outweigh products.
        const FEWEST_CHANNELS: usize = 8;
        let applies = self.kernel == [3; 2] && self.stride == [1; 2] && self.spacing == [1; 2];
        if !applies || channels < FEWEST_CHANNELS {
            return ConvAlgo::Direct;
        }
        let cost = |algo: &ConvAlgo| match algo {
            ConvAlgo::Direct => 10 * 9 * h * w,
            ConvAlgo::Winograd2 => 12 * 16 * h.div_ceil(2) * w.div_ceil(2),
            ConvAlgo::Winograd4 => 13 * 36 * h.div_ceil(4) * w.div_ceil(4),
        };
        // From the most accurate on; an equal cost does not make up for a larger error.
        let candidates: &[ConvAlgo] = match self.algo {
            ConvAlgo::Direct => &[ConvAlgo::Direct],
            ConvAlgo::Winograd2 => &[ConvAlgo::Direct, ConvAlgo::Winograd2],
            ConvAlgo::Winograd4 => &[ConvAlgo::Direct, ConvAlgo::Winograd2, ConvAlgo::Winograd4],
        };
        *candidates.iter().min_by_key(|algo| cost(algo)).expect("at least one candidate")
    }

    /// Whether every output pixel depends on the one input pixel in its place.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 2] && self.stride == [1; 2] && self.spacing == [1; 2]
    }
}
