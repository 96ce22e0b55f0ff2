//! A model before its conditioning is bound.

use super::guided::Guided;
use super::{Denoiser, Differentiable, Info, Levels, Prediction, Pullback};
use crate::error::{Error, Result, number};
use crate::schedule::Schedule;
use crate::tensor::Tensor;
use std::sync::Arc;

/// What one sample is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Context {
    /// Nothing: the model's unconditional answer.
    #[default]
    Unconditional,
    /// A class.
    Class(usize),
    /// A text, as the model's text encoders see it.
    Text(Arc<TextContext>),
}

/// An encoded text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextContext {
    /// Numbers of each token.
    pub width: usize,
    /// Token after token.
    pub tokens: Vec<f32>,
    /// One vector for the whole text, where the model takes one.
    pub pooled: Vec<f32>,
}

/// What a batch is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    /// A context for each sample; none at all asks every sample without one.
    pub contexts: Vec<Context>,
    /// What guidance leads away from.
    pub negative: Context,
    /// Strength of guidance; none is plain conditioning.
    pub guidance: Option<f64>,
}

/// What a prediction takes, known before it is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Bytes of the weights.
    pub weights: u64,
    /// Bytes of them that must be in memory at a time; fewer where they are read as they are used.
    pub resident: u64,
    /// Bytes of activations for one sample.
    pub activations: u64,
    /// Bytes that decoding an image takes, where samples are decoded.
    pub decoding: u64,
    /// Multiplications and additions for one sample.
    pub operations: f64,
}

/// A density on the entries of one sample.
pub type Density<'m> = Box<dyn Fn(&[f64]) -> f64 + 'm>;

/// Turns samples into images, for models that work on something else.
pub trait Decoder: Send + Sync {
    /// Image shape `[c, h, w]`.
    fn shape(&self) -> [usize; 3];

    /// Images with values in [−1, 1]. Image i depends on sample i alone.
    fn decode(&self, samples: &Tensor) -> Result<Tensor>;

    /// The images, and the way from their gradient to that of the samples.
    fn with_pullback<'d>(&'d self, _samples: &Tensor) -> Result<(Tensor, DecoderPullback<'d>)> {
        Err(Error::conflict(
            "the gradient of this model's images is not known",
            "use a loss of samples: l2, l1 or huber",
        ))
    }
}

/// Carries ∂L/∂images to ∂L/∂samples.
pub type DecoderPullback<'d> = Box<dyn FnOnce(&Tensor) -> Result<Tensor> + Send + 'd>;

/// A pretrained model.
pub trait Model: Send + Sync {
    /// Binds what the samples of a batch are asked for. Guidance arrives here only at a model that takes it as an input
    /// ([`Model::takes_guidance`]).
    fn bind<'m>(&'m self, condition: &Condition) -> Result<Box<dyn Differentiable + 'm>>;

    /// Sample shape `[c, h, w]`.
    fn shape(&self) -> [usize; 3];

    /// What the network predicts.
    fn prediction(&self) -> Prediction;

    /// Noise levels the model was trained for.
    fn sigma_range(&self) -> (f64, f64);

    /// Number of classes; 0 for a model without.
    fn classes(&self) -> usize {
        0
    }

    /// True if the strength of guidance is an input of the network, not a second prediction.
    fn takes_guidance(&self) -> bool {
        self.default_guidance().is_some()
    }

    /// The strength of guidance such a network is told where nothing is said.
    fn default_guidance(&self) -> Option<f64> {
        None
    }

    /// The rule for its grids, where it has one of its own: a flow whose shift follows the size of its samples.
    fn schedule(&self) -> Option<Schedule> {
        None
    }

    /// From samples to images; none if samples are images, or are not meant to be seen.
    fn decoder(&self) -> Option<&dyn Decoder> {
        None
    }

    /// Shape of the images samples become; that of samples where they are not decoded.
    fn image_shape(&self) -> [usize; 3] {
        self.decoder().map_or(self.shape(), Decoder::shape)
    }

    /// What a sample is asked for by a text.
    fn context_of(&self, _text: &str) -> Result<Context> {
        Err(Error::bad_value("prompt", "given", "this model takes no text"))
    }

    /// False if the model's encoder reads no more than the beginning of a text.
    fn reads_whole(&self, _text: &str) -> Result<bool> {
        Ok(true)
    }

    /// What a prediction takes, where that can be said beforehand.
    fn cost(&self) -> Option<Cost> {
        None
    }

    /// True if data lie in [−1, 1], so that data predictions may be thresholded.
    fn is_bounded(&self) -> bool {
        self.prediction() == Prediction::Denoised && self.decoder().is_none()
    }

    /// How many numbers the bottleneck feature of [`Denoiser::predict_with_feature`] has, where there is one.
    fn feature_len(&self) -> Option<usize> {
        None
    }

    /// How many numbers the network's embedding of the noise level has, where it can be shifted ([`Info::embedding`]).
    fn embedding_len(&self) -> Option<usize> {
        None
    }

    /// The density of the data, up to a factor, where it is known in closed form.
    fn density(&self) -> Option<Density<'_>> {
        None
    }

    /// True if one prediction is too little work for more than one thread, so that batches are better spread over
    /// threads.
    fn is_light(&self) -> bool {
        false
    }

    /// Samples whose activations are in memory at once in a call of so many: fewer where a call is made in passes.
    fn at_work(&self, samples: usize) -> usize {
        samples
    }

    /// True if a sample's answer has the same bits in whatever batch it is asked for. Where kernels are chosen by the
    /// size of a batch it has not: then work is shared in whole batches, so that every call is the same whoever makes
    /// it.
    fn is_exact_in_batches(&self) -> bool {
        true
    }

    /// The model as solvers see it, guidance included. Not to be overridden.
    fn denoiser<'m>(&'m self, condition: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        condition.check(self.takes_guidance())?;
        match condition.guidance {
            Some(guidance) if !self.takes_guidance() => {
                let both = Condition { guidance: None, ..condition.with_negatives() };
                Ok(Box::new(Guided::new(self.bind(&both)?, guidance)))
            }
            _ => self.bind(condition),
        }
    }
}

impl Condition {
    /// Classes without guidance.
    pub fn classes(labels: impl IntoIterator<Item = usize>) -> Self {
        Self { contexts: labels.into_iter().map(Context::Class).collect(), ..Self::default() }
    }

    /// The same with guidance.
    pub fn guided(self, guidance: Option<f64>) -> Self {
        Self { guidance, ..self }
    }

    fn check(&self, is_input: bool) -> Result<()> {
        let bad = |g: f64, expected: &str| Err(Error::bad_value("guidance", number(g), expected));
        match self.guidance {
            Some(g) if !g.is_finite() => bad(g, "must be finite"),
            Some(g) if !is_input && self.contexts.iter().all(|c| *c == self.negative) => {
                bad(g, "guidance needs a class or a prompt to guide to")
            }
            // Nobody would hear of what is led away from.
            guidance if (guidance.is_none() || is_input) && self.negative != Context::Unconditional => {
                Err(match is_input {
                    true => Error::no_effect("negative", "the guidance of this model leads away from nothing"),
                    false => Error::needs("negative", "guidance"),
                })
            }
            _ => Ok(()),
        }
    }

    fn with_negatives(&self) -> Self {
        let negatives = self.contexts.iter().map(|_| self.negative.clone());
        Self { contexts: self.contexts.iter().cloned().chain(negatives).collect(), ..self.clone() }
    }

    /// The class of each sample, for a model of `classes` classes that knows no other context. Empty if no sample has
    /// one.
    pub fn class_of_each(&self, classes: usize) -> Result<Vec<Option<usize>>> {
        let bad = |name, value: String, expected: String| Err(Error::bad_value(name, value, expected));
        let class = |context: &Context| match context {
            Context::Unconditional => Ok(None),
            Context::Class(_) if classes == 0 => bad("class", "given".into(), "this model has no classes".into()),
            Context::Class(class) if *class >= classes => {
                bad("class", class.to_string(), format!("this model has classes 0 to {}", classes - 1))
            }
            Context::Class(class) => Ok(Some(*class)),
            Context::Text(_) => bad("prompt", "given".into(), "this model takes no text".into()),
        };
        let each: Vec<Option<usize>> = self.contexts.iter().map(class).collect::<Result<_>>()?;
        Ok(if each.iter().all(Option::is_none) { Vec::new() } else { each })
    }
}

impl<T: Denoiser + ?Sized> Denoiser for &T {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        (**self).predict(x, levels)
    }

    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        (**self).predict_with_feature(x, levels, len)
    }

    fn info(&self) -> Info {
        (**self).info()
    }
}

impl<T: Differentiable + ?Sized> Differentiable for &T {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        (**self).with_pullback(x, levels)
    }
}

/// Which model a learned solver belongs to.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ModelIdentity {
    /// Its name.
    pub name: String,
    /// Fingerprint of its weights, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}
