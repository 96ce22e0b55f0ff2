//! The view of a model that solvers have: a function of the state and the noise level.
//!
//! Labels, prompts and guidance are bound before a solver sees the model. A model predicts either the denoised sample
//! (the EDM view, x = x₀ + σn, α ≡ 1) or the velocity of a flow (x = (1−σ)x₀ + σn, v = n − x₀, α = 1−σ); everything
//! else a solver needs follows from that: [`Prediction`].

mod closure;
mod guided;
mod model;
mod prediction;
mod shared;
mod watched;

pub use closure::ClosureModel;
pub use model::{Condition, Context, Cost, Decoder, DecoderPullback, Density, Model, ModelIdentity, TextContext};
pub use prediction::Prediction;
pub use shared::SharedModel;
pub use watched::{Call, Watched};

use crate::coeff::Coeff;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Noise levels told to the network.
#[derive(Clone, Debug, PartialEq)]
pub enum Levels {
    /// The same for all samples.
    One(f64),
    /// One per sample.
    Each(Vec<f64>),
    /// The same, and what is added to the network's embedding of the level, number by number. Only networks that
    /// [offer it](Info::embedding) are told so.
    Shifted {
        /// The levels.
        level: Box<Levels>,
        /// What is added to each number of the embedding.
        by: Vec<Levels>,
    },
}

impl From<&Coeff> for Levels {
    fn from(level: &Coeff) -> Self {
        match level.per_sample() {
            Some(levels) => Levels::Each(levels.to_vec()),
            None => Levels::One(level.value()),
        }
    }
}

impl Levels {
    /// The level of a sample.
    pub fn of(&self, sample: usize) -> f64 {
        match self {
            Levels::One(level) => *level,
            Levels::Each(levels) => levels[sample],
            Levels::Shifted { level, .. } => level.of(sample),
        }
    }

    /// A level whose embedding is shifted by these numbers; if there are none, it is not.
    pub fn shifted(level: &Coeff, by: &[Coeff]) -> Self {
        match by.is_empty() {
            true => level.into(),
            false => Levels::Shifted { level: Box::new(level.into()), by: by.iter().map(Levels::from).collect() },
        }
    }

    /// The levels, and what is added to each number of their embedding.
    pub fn parts(&self) -> (&Levels, &[Levels]) {
        match self {
            Levels::Shifted { level, by } => (level, by),
            plain => (plain, &[]),
        }
    }

    /// An error unless there is a level for each of `samples` samples.
    pub fn require(&self, samples: usize) -> Result<()> {
        match self {
            Levels::Each(levels) if levels.len() != samples => {
                Err(Error::Shape { what: "levels".into(), expected: vec![samples], found: vec![levels.len()] })
            }
            Levels::Shifted { level, by } => {
                [&**level].into_iter().chain(by).try_for_each(|levels| levels.require(samples))
            }
            _ => Ok(()),
        }
    }
}

/// A frozen model with its conditioning bound.
pub trait Denoiser: Send + Sync {
    /// The network's prediction for each sample. Sample i depends on sample i alone.
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor>;

    /// The prediction, and for each sample `len` numbers of what the network knows in its narrowest place at that
    /// state. Models without such a place refuse.
    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        let _ = (x, levels);
        Err(no_feature(len, None))
    }

    /// What it is.
    fn info(&self) -> Info;
}

/// What is known of a bound model before it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Info {
    /// What the prediction is.
    pub prediction: Prediction,
    /// Network calls one prediction costs: two with classifier-free guidance.
    pub calls: usize,
    /// What can be added to the network's embedding of the noise level ([`Levels::Shifted`]).
    pub embedding: Embedding,
}

impl From<Prediction> for Info {
    fn from(prediction: Prediction) -> Self {
        Self { prediction, calls: 1, embedding: Embedding::Fixed }
    }
}

/// How many numbers can be added to the embedding of the noise level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedding {
    /// None: the model does not offer it.
    Fixed,
    /// As many as the embedding has.
    Of(usize),
    /// Any, of a model that only counts.
    Any,
}

impl Embedding {
    /// An error unless so many can be added.
    pub fn require(self, asked: usize) -> Result<()> {
        match self {
            Embedding::Fixed if asked > 0 => Err(no_embedding(asked, None)),
            Embedding::Of(has) if asked > 0 && asked != has => Err(no_embedding(asked, Some(has))),
            _ => Ok(()),
        }
    }
}

/// A feature was asked for that a model does not have.
pub fn no_feature(asked: usize, has: Option<usize>) -> Error {
    let problem = match has {
        Some(has) => format!("the method needs a bottleneck feature of {asked} numbers, and this model's has {has}"),
        None => "the method needs the bottleneck of a network, which this model does not offer".into(),
    };
    Error::conflict(problem, "use an EDM network or a mixture, or a method without a predictor")
}

/// A shift of the noise level's embedding was asked for that a model cannot take.
pub fn no_embedding(asked: usize, has: Option<usize>) -> Error {
    let problem = match has {
        Some(has) => {
            format!("the solver shifts {asked} numbers of the network's time embedding, and this model's has {has}")
        }
        None => "the solver shifts the network's time embedding, which this model does not offer".into(),
    };
    Error::conflict(problem, "use an EDM network, or leave 'embedding' out of `span`")
}

/// Carries ∂L/∂prediction to (∂L/∂x, ∂L/∂level for each sample). Where the levels are shifted, the second list goes on
/// with ∂L/∂shift: for each number of the embedding as many entries as samples. It may be asked more than once.
pub type Pullback<'m> = Box<dyn Fn(&Tensor) -> Result<(Tensor, Vec<f64>)> + Send + 'm>;

/// A denoiser whose prediction can be differentiated in state and level. Weights are frozen: there is never a weight
/// gradient.
///
/// One that cannot says `impl Differentiable for … {}`: it can be sampled, and learned for without gradients.
pub trait Differentiable: Denoiser {
    /// The prediction, and the way back.
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        let _ = (x, levels);
        Err(Error::conflict(
            "this model can be asked, but not differentiated",
            "learn without gradients: `optimiser = gauss-newton`; or give the model a pullback",
        ))
    }
}
