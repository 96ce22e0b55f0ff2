//! Unit noise, one stream per seed: a sample's noise depends on its seed and shape alone, never on the batch it
//! is drawn in, the number of threads or the rank.
//!
//! [`Rng::Native`] is this project's own stream (SplitMix64, Box–Muller in f64 on `libm`, so the same bits on
//! every platform). [`Rng::Torch`] gives the bits of `torch.Generator().manual_seed(seed)` on a CPU with AVX2:
//! its module says how.
//!
//! ```
//! use dyweight_core::noise::Rng;
//! let shape = [1, 8, 8];
//! let both = Rng::Native.latents(&[7, 8], shape)?;
//! assert_eq!(both.slice(1..2), Rng::Native.latents(&[8], shape)?);
//! # Ok::<(), dyweight_core::Error>(())
//! ```

mod native;
mod torch;

pub use native::Stream;
pub use torch::TorchGenerator;

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Which stream of unit noise a seed stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rng {
    /// Our own, the same on every platform.
    #[default]
    Native,
    /// PyTorch's CPU generator.
    Torch,
}

impl Rng {
    /// What the streams are called.
    pub const NAMES: [&str; 2] = ["native", "torch"];

    /// The stream of a name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "native" => Ok(Self::Native),
            "torch" => Ok(Self::Torch),
            other => Err(Error::unknown_name("noise stream", other, Self::NAMES)),
        }
    }

    /// The unit noise of each seed, as one batch.
    pub fn latents(self, seeds: &[u64], shape: [usize; 3]) -> Result<Tensor> {
        let len: usize = shape.iter().product();
        let mut data = Vec::with_capacity(len * seeds.len());
        for seed in seeds {
            match self {
                Rng::Native => data.extend(Stream::new(*seed).normals(len)),
                Rng::Torch => data.extend(TorchGenerator::new(*seed).normals(len).into_iter().map(f64::from)),
            }
        }
        let [c, h, w] = shape;
        Tensor::new([seeds.len(), c, h, w], data)
    }

    /// The class a seed stands for among `classes`: drawn after the seed's noise, from the same stream.
    pub fn class(self, seed: u64, shape: [usize; 3], classes: usize) -> usize {
        let len: usize = shape.iter().product();
        match self {
            Rng::Native => {
                let mut stream = Stream::new(seed);
                stream.normals(len);
                (stream.uniform() * classes as f64) as usize
            }
            Rng::Torch => {
                let mut generator = TorchGenerator::new(seed);
                generator.normals(len);
                generator.below(classes as u32) as usize
            }
        }
    }
}
