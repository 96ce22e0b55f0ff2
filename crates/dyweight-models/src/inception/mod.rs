//! Inception-v3, the network whose features the FID compares, with the gradient in the image.
//!
//! ```text
//! x ∈ [−1, 1], 1 or 3 channels ──Resize──► 3×299×299 ──94 units──► 2048×8×8 ──mean over pixels──► 2048 features
//! unit   max(0, γ·(conv(x) − μ)/√(v + 10⁻³) + β)   =   max(0, (s·w)∗x + (β − s·μ)),   s = γ/√(v + 10⁻³)
//! ```
//!
//! The normalisation is folded into the convolution when a file is opened, in f64. Derivatives: 0 at the corner of a
//! rectifier; to the first maximum of a window in row-major order.
//!
//! Features of the two [`Resize`] rules are different features, and have different names.

mod file;
mod net;
mod plan;
mod resize;

pub use file::InceptionFile;
pub use resize::Resize;

use super::exchange::to_tensor;
use super::side_by_side::{parts, side_by_side, with_way_back};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::{FeatureMap, FeaturePullback};
use dyweight_core::tensor::Tensor;
use dyweight_files::Malformed;
use dyweight_nn::{Act, Conv2d, ConvAlgo, ConvSpec, Padding};
use net::{Net, spatial_mean};
use plan::{FEATURES, Unit};
use resize::Preprocess;
use std::ops::RangeInclusive;
use std::path::Path;

/// Added to variances.
const EPS: f64 = 1e-3;

/// Images in one pass.
const AT_ONCE: RangeInclusive<usize> = 4..=8;

/// The feature network.
pub struct Inception {
    net: Net,
    preprocess: Preprocess,
    name: &'static str,
    sha256: String,
}

impl Inception {
    /// Opens a file of weights for images of a shape `[c, h, w]`.
    pub fn open(path: &Path, shape: [usize; 3], resize: Resize) -> Result<Self> {
        // Before the long work.
        Preprocess::new(resize, shape)?;
        Self::new(&InceptionFile::read(path)?, shape, resize)
    }

    /// From weights in memory.
    pub fn new(file: &InceptionFile, shape: [usize; 3], resize: Resize) -> Result<Self> {
        let preprocess = Preprocess::new(resize, shape)?;
        let net = Net::build(&plan::layers(), |unit| convolution(file, unit))?;
        Ok(Self { net, preprocess, name: resize.map_name(), sha256: file.sha256() })
    }

    /// What the network itself is shown of images, `[n, 3, 299, 299]`.
    pub fn preprocessed(&self, images: &Tensor) -> Result<Tensor> {
        self.check(images)?;
        to_tensor(&self.preprocess.forward(images))
    }

    /// The mean over the pixels after each stage, `[n, channels, 1, 1]`, by the stage's name: for comparison with other
    /// implementations.
    pub fn stage_means(&self, images: &Tensor) -> Result<Vec<(String, Tensor)>> {
        self.check(images)?;
        let mut means = Vec::new();
        self.net.forward(self.preprocess.forward(images), |name, x| {
            means.push((name.to_string(), spatial_mean(x)));
        });
        means.into_iter().map(|(name, mean)| Ok((name, to_tensor(&mean)?))).collect()
    }

    fn check(&self, images: &Tensor) -> Result<()> {
        let [n, c, h, w] = images.shape();
        if [c, h, w] == self.shape() {
            return Ok(());
        }
        let expected = [&[n][..], &self.shape()].concat();
        Err(Error::Shape { what: "images".into(), expected, found: images.shape().to_vec() })
    }
}

/// A unit's convolution with the normalisation folded in.
fn convolution(file: &InceptionFile, unit: &Unit) -> Result<Conv2d> {
    let numbers = |part: &str| {
        let name = format!("{}.{part}", unit.name);
        let tensor = file.tensors.get(&name).ok_or(Malformed::Missing { name });
        tensor.map(|t| t.to_f64()).map_err(|problem| Error::malformed(&file.path, problem))
    };
    let (mut weight, gain, bias) = (numbers("conv.weight")?, numbers("bn.weight")?, numbers("bn.bias")?);
    let (mean, variance) = (numbers("bn.running_mean")?, numbers("bn.running_var")?);
    if let Some((index, value)) = variance.iter().enumerate().find(|(_, v)| **v + EPS <= 0.0) {
        let problem = format!("'{}.bn.running_var' holds the variance {value} at index {index}", unit.name);
        return Err(Error::malformed(&file.path, Malformed::Inconsistent { problem }));
    }
    let scale: Vec<f64> = gain.iter().zip(&variance).map(|(g, v)| g / (v + EPS).sqrt()).collect();
    let depth = unit.inputs * unit.kernel[0] * unit.kernel[1];
    for (rows, scale) in weight.chunks_exact_mut(depth).zip(&scale) {
        rows.iter_mut().for_each(|w| *w *= scale);
    }
    let bias: Vec<f32> = (0..unit.outputs).map(|o| (bias[o] - mean[o] * scale[o]) as f32).collect();
    let weight: Vec<f32> = weight.into_iter().map(|w| w as f32).collect();
    let refused =
        |e: dyweight_nn::Error| Error::malformed(&file.path, Malformed::Inconsistent { problem: e.to_string() });
    Conv2d::new(spec(unit), &weight, Some(&bias)).map_err(refused)
}

fn spec(unit: &Unit) -> ConvSpec {
    let [kh, kw] = unit.kernel;
    let padding = if unit.padded { Padding::symmetric(kh / 2, kw / 2) } else { Padding::all(0) };
    ConvSpec {
        in_channels: unit.inputs,
        out_channels: unit.outputs,
        kernel: unit.kernel,
        stride: [unit.stride; 2],
        padding,
        algo: ConvAlgo::Winograd4,
    }
}

impl FeatureMap for Inception {
    fn name(&self) -> &str {
        self.name
    }

    fn sha256(&self) -> &str {
        &self.sha256
    }

    fn shape(&self) -> [usize; 3] {
        self.preprocess.shape()
    }

    fn dims(&self) -> usize {
        FEATURES
    }

    fn features(&self, images: &Tensor) -> Result<Tensor> {
        self.check(images)?;
        let pass = |range| {
            let x = self.preprocess.forward(&images.slice(range));
            to_tensor(&self.net.forward(x, |_, _| {}))
        };
        match images.samples() {
            0 => Ok(Tensor::zeros([0, FEATURES, 1, 1])),
            n => Tensor::concat(&side_by_side(parts(n, AT_ONCE), pass)?),
        }
    }

    fn with_pullback<'m>(&'m self, images: &Tensor) -> Result<(Tensor, FeaturePullback<'m>)> {
        self.check(images)?;
        let pass = |images: Tensor| {
            let (features, tape) = self.net.forward_recorded(self.preprocess.forward(&images));
            Ok((to_tensor(&features)?, tape))
        };
        let back = |tape: net::Tape, gradient: Tensor| {
            let rows: Vec<f32> = gradient.data().iter().map(|v| *v as f32).collect();
            self.preprocess.backward(&self.net.backward(tape, &Act::from_rows(gradient.samples(), &rows)))
        };
        with_way_back((images, FEATURES), AT_ONCE, pass, back)
    }
}
