//! The second feature network of Fashion-MNIST: what was trained on one of the two is judged by the other.
//!
//! ```text
//! stem    5×5, stride 2, 1 → 48, ReLU            28×28 → 14×14
//! fine    x ↦ ReLU(x + 3×3(ReLU(3×3 x)))         48 channels       ──mean over the image──►  48 features
//! down    3×3, stride 2, 48 → 96, ReLU           14×14 → 7×7
//! coarse  as fine                                96 channels       ──mean over the image──►  96 features
//! ```
//!
//! Its training had batch normalisation, which is folded into the convolutions, and another augmentation than
//! `fashion-features` had (`tools/train_fashion_judge.py`).

use super::edm::fingerprint;
use super::exchange::to_tensor;
use super::features::{numbers, refused, shown};
use super::side_by_side::{parts, side_by_side};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::{FeatureMap, FeaturePullback};
use dyweight_core::tensor::Tensor;
use dyweight_files::TensorFile;
use dyweight_nn::{Act, AvgPool, Conv2d, ConvAlgo, ConvSpec, Linear, Positive, concat, relu, split};
use std::ops::RangeInclusive;
use std::path::Path;

const WEIGHTS: &[u8] = include_bytes!("../assets/fashion_judge.safetensors");

/// Images in one pass.
const AT_ONCE: RangeInclusive<usize> = 8..=32;

const SIZE: usize = 28;
const FINE: usize = 48;
const COARSE: usize = 96;
const CLASSES: usize = 10;

/// The classifier of Fashion-MNIST whose features judge.
pub struct FashionJudge {
    stem: Conv2d,
    fine: Block,
    down: Conv2d,
    coarse: Block,
    head: Linear,
    sha256: String,
}

/// `ReLU(x + second(ReLU(first(x))))`.
struct Block {
    first: Conv2d,
    second: Conv2d,
}

/// Signs of what a block's rectifiers let through.
struct BlockTape {
    inner: Positive,
    outer: Positive,
}

/// What the gradient needs.
struct Tape {
    stem: Positive,
    fine: BlockTape,
    down: Positive,
    coarse: BlockTape,
}

impl Block {
    fn forward(&self, x: &Act) -> (Act, BlockTape) {
        let inner = self.first.forward_relu(x);
        let y = relu(&self.second.forward_residual(&inner, x, 1.0));
        let tape = BlockTape { inner: Positive::of(&inner), outer: Positive::of(&y) };
        (y, tape)
    }

    fn backward(&self, tape: &BlockTape, mut g: Act) -> Act {
        let size = g.size();
        tape.outer.mask(&mut g);
        let mut inner = self.second.backward(&g, size);
        tape.inner.mask(&mut inner);
        self.first.backward_residual(&inner, size, Some(&g), 1.0)
    }
}

impl FashionJudge {
    /// The one built in.
    pub fn embedded() -> Result<Self> {
        let path = Path::new("fashion-judge");
        let file = TensorFile::parse(WEIGHTS.to_vec().into()).map_err(|p| Error::malformed(path, p))?;
        Self::from_file(path, &file)
    }

    /// From a file of tensors `stem.*`, `fine1.*`, `fine2.*`, `down.*`, `coarse1.*`, `coarse2.*` and `head.*`.
    pub fn from_file(path: &Path, file: &TensorFile) -> Result<Self> {
        let layer = |name: &str, [inputs, outputs]: [usize; 2], [kernel, stride]: [usize; 2]| {
            let weight = numbers(path, file, &format!("{name}.weight"), &[outputs, inputs, kernel, kernel])?;
            let bias = numbers(path, file, &format!("{name}.bias"), &[outputs])?;
            let spec = ConvSpec::same(inputs, outputs, kernel, ConvAlgo::default()).with_stride(stride);
            Conv2d::new(spec, &weight, Some(&bias)).map_err(|e| refused(path, &e))
        };
        let block = |name: &str, width: usize| -> Result<Block> {
            let half = |part: usize| layer(&format!("{name}{part}"), [width; 2], [3, 1]);
            Ok(Block { first: half(1)?, second: half(2)? })
        };
        let weight = numbers(path, file, "head.weight", &[CLASSES, FINE + COARSE])?;
        let bias = numbers(path, file, "head.bias", &[CLASSES])?;
        Ok(Self {
            stem: layer("stem", [1, FINE], [5, 2])?,
            fine: block("fine", FINE)?,
            down: layer("down", [FINE, COARSE], [3, 2])?,
            coarse: block("coarse", COARSE)?,
            head: Linear::new(FINE + COARSE, CLASSES, &weight, Some(&bias)).map_err(|e| refused(path, &e))?,
            sha256: fingerprint(&file.tensors),
        })
    }

    /// The classifier's scores of features, `[n, 10, 1, 1]`.
    pub fn class_scores(&self, features: &Tensor) -> Result<Tensor> {
        to_tensor(&self.head.forward(&self.rows("features", features)?))
    }

    /// A batch of features as rows.
    fn rows(&self, what: &str, features: &Tensor) -> Result<Act> {
        let n = features.samples();
        if features.shape() != [n, self.dims(), 1, 1] {
            let (expected, found) = (vec![n, self.dims(), 1, 1], features.shape().to_vec());
            return Err(Error::Shape { what: what.into(), expected, found });
        }
        Ok(Act::from_rows(n, &features.data().iter().map(|v| *v as f32).collect::<Vec<_>>()))
    }

    fn forward(&self, images: &Tensor) -> Result<(Act, Tape)> {
        let x = self.stem.forward_relu(&shown(images, self.shape())?);
        let stem = Positive::of(&x);
        let (fine, fine_tape) = self.fine.forward(&x);
        let x = self.down.forward_relu(&fine);
        let down = Positive::of(&x);
        let (coarse, coarse_tape) = self.coarse.forward(&x);
        let features = concat(&[&mean(SIZE / 2).forward(&fine), &mean(SIZE / 4).forward(&coarse)]);
        Ok((features, Tape { stem, fine: fine_tape, down, coarse: coarse_tape }))
    }

    fn backward(&self, tape: &Tape, gradient: &Act) -> Act {
        let mut parts = split(gradient, &[FINE, COARSE]);
        let (to_coarse, to_fine) = (parts.swap_remove(1), parts.swap_remove(0));
        let mut g = self.coarse.backward(&tape.coarse, mean(SIZE / 4).backward(&to_coarse, [SIZE / 4; 2]));
        tape.down.mask(&mut g);
        let to_fine = mean(SIZE / 2).backward(&to_fine, [SIZE / 2; 2]);
        let g = self.down.backward_residual(&g, [SIZE / 2; 2], Some(&to_fine), 1.0);
        let mut g = self.fine.backward(&tape.fine, g);
        tape.stem.mask(&mut g);
        self.stem.backward(&g, [SIZE; 2])
    }
}

/// Over the whole of an image.
fn mean(size: usize) -> AvgPool {
    AvgPool::new(size, size, 0, true)
}

impl FeatureMap for FashionJudge {
    fn name(&self) -> &str {
        "fashion-judge"
    }

    fn sha256(&self) -> &str {
        &self.sha256
    }

    fn shape(&self) -> [usize; 3] {
        [1, SIZE, SIZE]
    }

    fn dims(&self) -> usize {
        FINE + COARSE
    }

    fn features(&self, images: &Tensor) -> Result<Tensor> {
        if images.samples() == 0 {
            return Ok(Tensor::zeros([0, self.dims(), 1, 1]));
        }
        let pass = |range| to_tensor(&self.forward(&images.slice(range))?.0);
        Tensor::concat(&side_by_side(parts(images.samples(), AT_ONCE), pass)?)
    }

    fn with_pullback<'m>(&'m self, images: &Tensor) -> Result<(Tensor, FeaturePullback<'m>)> {
        if images.samples() == 0 {
            let empty = images.clone();
            return Ok((self.features(images)?, Box::new(move |_| Ok(empty))));
        }
        let (features, tape) = self.forward(images)?;
        let features = to_tensor(&features)?;
        let n = features.samples();
        let pullback = move |gradient: &Tensor| {
            let rows = self.rows("cotangent of features", gradient)?;
            if gradient.samples() != n {
                let (expected, found) = (vec![n, self.dims(), 1, 1], gradient.shape().to_vec());
                return Err(Error::Shape { what: "cotangent of features".into(), expected, found });
            }
            to_tensor(&self.backward(&tape, &rows))
        };
        Ok((features, Box::new(pullback)))
    }
}
