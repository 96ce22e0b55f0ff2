//! The networks of EDM (Karras et al. 2022): DDPM++, NCSN++ and ADM U-Nets in their preconditioning wrappers.
//!
//! ```text
//! file             .pkl, .safetensors, .pt → options and tensors
//! options, config  options of a file → what is to be built
//! blueprint        layers in order
//! embedding, block, resample, layer, unet      the network F on the engine, forwards and backwards
//! precond          F → denoiser D
//! bound            D with labels, as solvers see it
//! published        architectures of the released checkpoints
//! ```
//!
//! Promises: weights are frozen and packed once; without a gradient no activation outlives its use; sample i gives the
//! same bits in every batch and on every number of threads; a file that does not fit its configuration is refused by
//! the tensor's name.

mod block;
mod blueprint;
mod bound;
mod config;
mod embedding;
mod file;
pub(crate) mod kwargs;
mod layer;
mod precond;
mod published;
mod resample;
mod unet;

pub use bound::Bound;
pub use config::{Config, Decoder, Encoder, Family, NetConfig, NoiseEmbedding, PrecondConfig};
pub use file::{EdmFile, fingerprint};
pub use published::{PUBLISHED, published};

use crate::arithmetic::Arithmetic;
use crate::side_by_side::at_work;
use crate::weights::{Scope, Source, TensorPlan};
use dyweight_core::denoiser::{Condition, Differentiable, Model, Prediction};
use dyweight_core::error::{Result, named};
use dyweight_files::Malformed;
use dyweight_nn::{ConvAlgo, Dtype};
use precond::Precond;
use serde_json::{Map, Value};
use unet::UNet;

/// The noise levels of iDDPM, which belong to the wrapper.
const TABLE: &str = "u";

/// A pretrained EDM network.
pub struct Edm {
    config: Config,
    precond: Precond,
    net: UNet,
}

impl Edm {
    fn new(config: &Config, scope: &Scope<'_>, arithmetic: Arithmetic) -> Result<Self> {
        let table = match config.precond {
            PrecondConfig::Iddpm { steps, .. } => scope.optional(TABLE, &[steps + 1])?,
            _ => None,
        };
        let net = UNet::new(config, scope, arithmetic)?;
        Ok(Self { precond: Precond::new(config.precond, table), net, config: config.clone() })
    }

    /// The tensors of the network in a configuration, in file order.
    pub fn plan(config: &Config) -> Result<Vec<TensorPlan>> {
        Source::plan(|scope| UNet::new(config, scope, ConvAlgo::Direct.into()))
    }

    /// How many trained weights they hold; what else a file may have are buffers.
    fn parameters(config: &Config) -> Result<usize> {
        let plan = Self::plan(config)?;
        let trained = plan.iter().filter(|t| t.name.ends_with(".weight") || t.name.ends_with(".bias"));
        Ok(trained.map(|t| t.shape.iter().product::<usize>()).sum())
    }

    /// A network of this architecture with random weights, the same for the same seed: for tests and speed
    /// measurements.
    pub fn random(config: Config, seed: u64, arithmetic: impl Into<Arithmetic>) -> Result<Self> {
        Self::new(&config, &Source::Random { seed, dtype: Dtype::F32 }.root(), arithmetic.into())
    }

    /// What it was built from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Binds arbitrary label rows, `label_dim` numbers for each sample; without rows all are zero, the unconditional
    /// model. A network without labels passes over them.
    pub fn bind_rows(&self, rows: Option<Vec<f32>>) -> Bound<'_> {
        Bound::new(self, rows.filter(|_| self.config.label_dim > 0))
    }

    fn one_hot(&self, labels: &[Option<usize>]) -> Vec<f32> {
        let classes = self.config.label_dim;
        labels.iter().flat_map(|label| (0..classes).map(move |k| if Some(k) == *label { 1.0 } else { 0.0 })).collect()
    }
}

impl Model for Edm {
    fn bind<'m>(&'m self, condition: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        let labels = condition.class_of_each(self.config.label_dim)?;
        let rows = (!labels.is_empty()).then(|| self.one_hot(&labels));
        Ok(Box::new(self.bind_rows(rows)))
    }

    fn shape(&self) -> [usize; 3] {
        [self.config.channels, self.config.resolution, self.config.resolution]
    }

    fn classes(&self) -> usize {
        self.config.label_dim
    }

    fn prediction(&self) -> Prediction {
        Prediction::Denoised
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.precond.sigma_range()
    }

    fn feature_len(&self) -> Option<usize> {
        Some(self.config.narrowest())
    }

    fn embedding_len(&self) -> Option<usize> {
        Some(self.config.net.embedding_width())
    }

    fn at_work(&self, samples: usize) -> usize {
        at_work(samples, bound::AT_ONCE)
    }
}

/// How many trained weights a network of these options has, or why there is none.
pub fn parameters(options: &Map<String, Value>) -> Result<usize, Malformed> {
    let config = Config::from_map(options)?;
    blueprint::steps(&config)?;
    Edm::parameters(&config).map_err(|e| Malformed::Inconsistent { problem: e.to_string() })
}

/// The convolution algorithm of a name.
pub(crate) fn conv_algo(name: &str) -> Result<ConvAlgo> {
    let known = [("winograd4", ConvAlgo::Winograd4), ("winograd2", ConvAlgo::Winograd2), ("direct", ConvAlgo::Direct)];
    named("convolution", name, &known)
}
