//! A latent flow: FLUX's transformer, autoencoder and text encoders.
//!
//! ```text
//! v(x, σ) on latents x = (1−σ)·data + σ·noise, packed into tokens;  the grid's shift follows the number of tokens
//! ```
//!
//! The strength of guidance is an input of a distilled model, at no cost; a model without that input is guided by two
//! predictions like any other.

use super::bound::{Bound, Contexts};
use super::bundle::Bundle;
use super::images::ImageDecoder;
use super::model::Settings;
use super::network::{Network, joined};
use super::precond::Flow;
use super::schedule::FlowShift;
use super::texts::Texts;
use crate::flux::{Flux, FluxConfig, FluxInput, FluxTape, pack, positions, unpack};
use crate::side_by_side::at_work;
use crate::weights::read_json;
use dyweight_core::denoiser::{Condition, Context, Cost, Decoder, Differentiable, Model, Prediction, TextContext};
use dyweight_core::error::{Error, Result};
use dyweight_core::schedule::{Schedule, Shift};
use dyweight_files::Fingerprint;
use dyweight_nn::Act;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

/// Strength of guidance where nothing is said, as released.
const GUIDANCE: f64 = 3.5;
/// Tokens of a text with guidance as an input, and without.
const TEXT_TOKENS: [usize; 2] = [512, 256];
/// The most tokens a text may have.
const MOST_TEXT_TOKENS: usize = 4096;
/// Rows and columns of latents that make a token.
pub(super) const PATCH: usize = 2;
/// Rows and columns of latents, where nothing is said: those of 1024 pixels.
const DEFAULT_SIZE: usize = 128;
/// From this width of tokens on, samples are better taken together than apart.
const WIDE: usize = 1024;

/// A latent flow.
pub struct FlowModel {
    flux: Flux,
    images: Option<ImageDecoder>,
    texts: Texts,
    /// What stands for no text; made when it is needed.
    nothing: Mutex<Option<Arc<TextContext>>>,
    shift: Shift,
    latents: [usize; 3],
    /// The fingerprint of the tokenizers.
    tokens: String,
}

/// The transformer with a strength of guidance.
struct At<'m> {
    flux: &'m Flux,
    guidance: f32,
}

impl FlowModel {
    /// Opens the parts of a bundle, with the fingerprint of their weights.
    pub fn open(bundle: &Bundle, settings: &Settings) -> Result<(Self, String)> {
        let (flux, flux_hash) = Flux::load(&bundle.transformer()?, settings.precision)?;
        let mut hash = Fingerprint::default();
        hash.add(flux_hash.as_bytes());
        let autoencoder = bundle.decoder(settings.conv, &mut hash)?;
        let config = flux.config();
        let shift = match &bundle.scheduler {
            Some(path) => FlowShift::of_diffusers(path, &read_json(path, None)?)?,
            None if config.guidance => FlowShift::DEV,
            None => FlowShift::Fixed(1.0),
        };
        let factor = autoencoder.as_ref().map(|a| a.config().factor());
        let latents = latent_shape(config, factor, settings)?;
        let images = autoencoder.map(|autoencoder| ImageDecoder::new(autoencoder, latents)).transpose()?;
        let texts = Texts::new(
            bundle,
            (settings.tokenizer.clone(), settings.precision),
            [config.context, config.pooled],
            text_tokens(config, settings.text_tokens)?,
        );
        texts.fingerprints()?.iter().fold(&mut hash, |hash, text| hash.add(text.as_bytes()));
        let shift = shift.of(latents[1] * latents[2] / (PATCH * PATCH))?;
        let tokens = bundle.tokenizer_files(settings.tokenizer.as_deref())?;
        Ok((Self { flux, images, texts, nothing: Mutex::default(), shift, latents, tokens }, hash.text()))
    }

    /// The fingerprint of everything but weights and shapes that decides its numbers: configurations, shift,
    /// tokenizers.
    pub fn configuration(&self) -> String {
        let images = self.images.as_ref().map(ImageDecoder::config);
        let text = format!("{:?}|{:?}|{images:?}|{}", self.flux.config(), self.shift, self.tokens);
        Fingerprint::default().add(text.as_bytes()).text()
    }

    /// The transformer.
    pub fn transformer(&self) -> &Flux {
        &self.flux
    }

    /// Tokens of a text.
    pub fn text_tokens(&self) -> usize {
        self.texts.tokens()
    }

    fn context(&self, context: &Context) -> Result<Arc<TextContext>> {
        let text = match context {
            Context::Text(text) => text.clone(),
            Context::Unconditional => self.nothing()?,
            Context::Class(class) => {
                return Err(Error::bad_value("class", class, "this model has no classes: give `prompt`"));
            }
        };
        if text.pooled.len() != self.flux.config().pooled {
            let (expected, found) = (vec![self.flux.config().pooled], vec![text.pooled.len()]);
            return Err(Error::Shape { what: "the vector for a whole text".into(), expected, found });
        }
        Ok(text)
    }

    fn nothing(&self) -> Result<Arc<TextContext>> {
        let mut nothing = self.nothing.lock().unwrap_or_else(PoisonError::into_inner);
        match &*nothing {
            Some(text) => Ok(text.clone()),
            None => Ok(nothing.insert(self.texts.nothing()?).clone()),
        }
    }

    fn contexts(&self, condition: &Condition) -> Result<Contexts> {
        match condition.contexts.as_slice() {
            [] => Ok(Contexts::All(self.context(&Context::Unconditional)?)),
            each => Ok(Contexts::Each(each.iter().map(|c| self.context(c)).collect::<Result<_>>()?)),
        }
    }
}

pub(super) fn text_tokens(config: &FluxConfig, asked: Option<usize>) -> Result<usize> {
    match asked {
        Some(tokens) if !(1..=MOST_TEXT_TOKENS).contains(&tokens) => {
            Err(Error::bad_value("text-tokens", tokens, format!("must lie between 1 and {MOST_TEXT_TOKENS}")))
        }
        Some(tokens) => Ok(tokens),
        None => Ok(TEXT_TOKENS[usize::from(!config.guidance)]),
    }
}

/// The shape of the latents: as given, or for images of the size asked for, or 1024 pixels high and wide.
pub(super) fn latent_shape(config: &FluxConfig, factor: Option<usize>, settings: &Settings) -> Result<[usize; 3]> {
    let channels = config.latent_channels().ok_or_else(|| {
        Error::conflict(
            format!("the transformer takes {} numbers per token and gives {}", config.inputs, config.outputs),
            "only networks that predict what they are given can be sampled: four pixels of latents a token",
        )
    })?;
    settings.latents(channels, DEFAULT_SIZE, PATCH, factor)
}

/// Samples in one pass.
fn at_once(flux: &Flux) -> RangeInclusive<usize> {
    if flux.config().width() < WIDE { 1..=4 } else { 4..=4 }
}

impl Network for At<'_> {
    type Tape = ([usize; 2], FluxTape);

    fn at_once(&self) -> RangeInclusive<usize> {
        at_once(self.flux)
    }

    fn forward(
        &self,
        x: Act,
        t: Vec<f32>,
        contexts: &[Arc<TextContext>],
        record: bool,
    ) -> Result<(Act, Option<Self::Tape>)> {
        let (size, tokens) = (x.size(), pack(&x));
        let context = joined(contexts, self.flux.config().context)?;
        let pooled: Vec<f32> = contexts.iter().flat_map(|context| &context.pooled).copied().collect();
        let input = FluxInput {
            tokens: &tokens,
            t: &t,
            guidance: &vec![self.guidance; t.len()],
            context: &context,
            pooled: &Act::from_rows(contexts.len(), &pooled),
            positions: &positions(context.shape().pixels(), size),
        };
        let (velocity, tape) = self.flux.forward(&input, record);
        Ok((unpack(&velocity, size), tape.map(|tape| (size, tape))))
    }

    fn backward(&self, (size, tape): Self::Tape, gradient: Act) -> (Act, Vec<f64>) {
        let (to_tokens, to_t) = self.flux.backward(tape, &pack(&gradient));
        (unpack(&to_tokens, size), to_t)
    }
}

impl Model for FlowModel {
    fn bind<'m>(&'m self, condition: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        if self.takes_guidance() && condition.negative != Context::Unconditional {
            let why = "the guidance of this model is an input of its network and leads away from nothing";
            return Err(Error::no_effect("negative", why));
        }
        let contexts = self.contexts(condition)?;
        self.texts.close();
        Ok(Box::new(Bound {
            network: At { flux: &self.flux, guidance: condition.guidance.unwrap_or(GUIDANCE) as f32 },
            precond: &Flow,
            contexts,
            channels: self.latents[0],
            granularity: PATCH,
        }))
    }

    fn shape(&self) -> [usize; 3] {
        self.latents
    }

    fn prediction(&self) -> Prediction {
        Prediction::Velocity
    }

    fn sigma_range(&self) -> (f64, f64) {
        (0.0, 1.0)
    }

    fn default_guidance(&self) -> Option<f64> {
        self.flux.config().guidance.then_some(GUIDANCE)
    }

    fn schedule(&self) -> Option<Schedule> {
        Some(Schedule::Flow { shift: self.shift })
    }

    fn decoder(&self) -> Option<&dyn Decoder> {
        self.images.as_ref().map(|images| images as &dyn Decoder)
    }

    fn cost(&self) -> Option<Cost> {
        let (texts, images) = (self.text_tokens(), self.latents[1] * self.latents[2] / (PATCH * PATCH));
        let [weights, resident] = self.flux.weight_bytes();
        Some(Cost {
            weights: weights as u64,
            resident: resident as u64,
            activations: self.flux.config().activation_bytes(texts + images) as u64,
            decoding: self.images.as_ref().map_or(0, ImageDecoder::memory),
            operations: self.flux.config().operations(texts, images),
        })
    }

    fn at_work(&self, samples: usize) -> usize {
        at_work(samples, at_once(&self.flux))
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn context_of(&self, text: &str) -> Result<Context> {
        self.texts.encode(text).map(Context::Text)
    }

    fn reads_whole(&self, text: &str) -> Result<bool> {
        self.texts.reads_whole(text)
    }
}
