//! Feature maps of images, for distances between sets of them, and the one built in.
//!
//! ```text
//! fashion-features   5 × [conv 3×3 → GroupNorm(8) → SiLU], widths 32 32 64 64 128, mean over 2×2 after layers 1 and 3,
//!                    mean over the image → 128 features;  linear → 10 class scores
//! ```
//!
//! Differentiable in the image, so that a feature distance can be a training loss.

use super::edm::fingerprint;
use super::exchange::to_tensor;
use super::side_by_side::{parts, side_by_side};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::{FeatureMap, FeaturePullback};
use dyweight_core::tensor::Tensor;
use dyweight_files::Malformed;
use dyweight_files::TensorFile;
use dyweight_nn::{
    Act, Activation, AvgPool, Conv2d, ConvAlgo, ConvSpec, GroupNorm, Linear, Modulation, NormStats, Shape,
};
use std::ops::RangeInclusive;
use std::path::Path;

const FASHION: &[u8] = include_bytes!("../assets/fashion_features.safetensors");

/// Images in one pass of the built-in map.
const AT_ONCE: RangeInclusive<usize> = 8..=32;

const SIZE: usize = 28;
const WIDTHS: [usize; 5] = [32, 32, 64, 64, 128];
const POOLED: [usize; 2] = [1, 3];
const GROUPS: usize = 8;
const EPS: f32 = 1e-5;
const CLASSES: usize = 10;

/// The classifier of Fashion-MNIST whose pooled features are used.
pub struct FashionFeatures {
    layers: Vec<(Conv2d, GroupNorm)>,
    head: Linear,
    sha256: String,
}

/// Output of a convolution, and the statistics of the normalisation after it.
type LayerTape = (Act, NormStats);

impl FashionFeatures {
    /// The one built in.
    pub fn embedded() -> Result<Self> {
        let path = Path::new("fashion-features");
        let file = TensorFile::parse(FASHION.to_vec().into()).map_err(|p| Error::malformed(path, p))?;
        Self::from_file(path, &file)
    }

    /// From a file of tensors `conv{i}.*`, `norm{i}.*` and `head.*`.
    pub fn from_file(path: &Path, file: &TensorFile) -> Result<Self> {
        let numbers = |name: &str, shape: &[usize]| numbers(path, file, name, shape);
        let refused = |e: dyweight_nn::Error| refused(path, &e);
        let layer = |i: usize| -> Result<(Conv2d, GroupNorm)> {
            let (inputs, outputs) = (if i == 0 { 1 } else { WIDTHS[i - 1] }, WIDTHS[i]);
            let weight = numbers(&format!("conv{i}.weight"), &[outputs, inputs, 3, 3])?;
            let vector = |name: String| numbers(&name, &[outputs]);
            let bias = vector(format!("conv{i}.bias"))?;
            let (gain, shift) = (vector(format!("norm{i}.weight"))?, vector(format!("norm{i}.bias"))?);
            let spec = ConvSpec::same(inputs, outputs, 3, ConvAlgo::default());
            let norm = GroupNorm::new(GROUPS, EPS, &gain, &shift, Activation::Silu).map_err(refused)?;
            Ok((Conv2d::new(spec, &weight, Some(&bias)).map_err(refused)?, norm))
        };
        let (weight, bias) = (numbers("head.weight", &[CLASSES, WIDTHS[4]])?, numbers("head.bias", &[CLASSES])?);
        Ok(Self {
            layers: (0..WIDTHS.len()).map(layer).collect::<Result<_>>()?,
            head: Linear::new(WIDTHS[4], CLASSES, &weight, Some(&bias)).map_err(refused)?,
            sha256: fingerprint(&file.tensors),
        })
    }

    /// The classifier's scores of features, `[n, 10, 1, 1]`.
    pub fn class_scores(&self, features: &Tensor) -> Result<Tensor> {
        let n = features.samples();
        if features.shape() != [n, WIDTHS[4], 1, 1] {
            let (expected, found) = (vec![n, WIDTHS[4], 1, 1], features.shape().to_vec());
            return Err(Error::Shape { what: "features".into(), expected, found });
        }
        let rows: Vec<f32> = features.data().iter().map(|v| *v as f32).collect();
        to_tensor(&self.head.forward(&Act::from_rows(n, &rows)))
    }

    fn forward(&self, images: &Tensor, record: bool) -> Result<(Act, Vec<LayerTape>)> {
        let (mut x, mut tape) = (shown(images, self.shape())?, Vec::new());
        for (i, (conv, norm)) in self.layers.iter().enumerate() {
            let z = conv.forward(&x);
            let (active, stats) = norm.forward(&z, Modulation::None);
            x = if POOLED.contains(&i) { halving().forward(&active) } else { active };
            if record {
                tape.push((z, stats));
            }
        }
        Ok((whole_image().forward(&x), tape))
    }

    fn backward(&self, tape: Vec<LayerTape>, gradient: &Tensor) -> Result<Tensor> {
        let n = gradient.samples();
        let rows: Vec<f32> = gradient.data().iter().map(|v| *v as f32).collect();
        let mut g = whole_image().backward(&Act::from_rows(n, &rows), [SIZE / 4; 2]);
        for ((i, (conv, norm)), (z, stats)) in self.layers.iter().enumerate().zip(tape).rev() {
            if POOLED.contains(&i) {
                g = halving().backward(&g, z.size());
            }
            g = norm.backward(&z, &stats, Modulation::None, &g, None).x;
            g = conv.backward(&g, z.size());
        }
        to_tensor(&g)
    }
}

/// The numbers of a tensor, whose shape must be the one given.
pub(super) fn numbers(path: &Path, file: &TensorFile, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let tensor = file.tensor(name).map_err(|p| Error::malformed(path, p))?;
    if tensor.shape() != shape {
        let (expected, found) = (shape.to_vec(), tensor.shape().to_vec());
        return Err(Error::Shape { what: format!("tensor '{name}' in {}", path.display()), expected, found });
    }
    Ok(tensor.to_f32())
}

/// What the engine does not take of a file.
pub(super) fn refused(path: &Path, error: &dyweight_nn::Error) -> Error {
    Error::malformed(path, Malformed::Inconsistent { problem: error.to_string() })
}

/// Images as the engine takes them, which must be of one shape.
pub(super) fn shown(images: &Tensor, shape: [usize; 3]) -> Result<Act> {
    let [n, c, h, w] = images.shape();
    if [c, h, w] != shape {
        let expected = [&[n][..], &shape].concat();
        return Err(Error::Shape { what: "images".into(), expected, found: images.shape().to_vec() });
    }
    let data: Vec<f32> = images.data().iter().map(|v| *v as f32).collect();
    Ok(Act::from_nchw(Shape { n, h, w, c }, &data))
}

fn halving() -> AvgPool {
    AvgPool::new(2, 2, 0, true)
}

/// What is left of the image after two halvings.
fn whole_image() -> AvgPool {
    AvgPool::new(SIZE / 4, SIZE / 4, 0, true)
}

impl FeatureMap for FashionFeatures {
    fn name(&self) -> &str {
        "fashion-features"
    }

    fn sha256(&self) -> &str {
        &self.sha256
    }

    fn shape(&self) -> [usize; 3] {
        [1, SIZE, SIZE]
    }

    fn dims(&self) -> usize {
        WIDTHS[4]
    }

    fn features(&self, images: &Tensor) -> Result<Tensor> {
        if images.samples() == 0 {
            return Ok(Tensor::zeros([0, self.dims(), 1, 1]));
        }
        let pass = |range| to_tensor(&self.forward(&images.slice(range), false)?.0);
        Tensor::concat(&side_by_side(parts(images.samples(), AT_ONCE), pass)?)
    }

    fn with_pullback<'m>(&'m self, images: &Tensor) -> Result<(Tensor, FeaturePullback<'m>)> {
        if images.samples() == 0 {
            let empty = images.clone();
            return Ok((self.features(images)?, Box::new(move |_| Ok(empty))));
        }
        let (features, tape) = self.forward(images, true)?;
        let features = to_tensor(&features)?;
        let expected = features.shape();
        let pullback = move |gradient: &Tensor| {
            if gradient.shape() != expected {
                let (expected, found) = (expected.to_vec(), gradient.shape().to_vec());
                return Err(Error::Shape { what: "cotangent of features".into(), expected, found });
            }
            self.backward(tape, gradient)
        };
        Ok((features, Box::new(pullback)))
    }
}
