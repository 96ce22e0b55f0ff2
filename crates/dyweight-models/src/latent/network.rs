//! What a denoiser of latents has to offer: a function of latents, time and contexts, with its gradient.

use crate::unet::{Unet, UnetTape};
use dyweight_core::denoiser::TextContext;
use dyweight_core::error::{Error, Result};
use dyweight_nn::{Act, Shape};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A network that predicts something of latents.
pub(crate) trait Network: Send + Sync {
    /// What the way back needs.
    type Tape: Clone + Send + Sync;

    /// Samples in one pass.
    fn at_once(&self) -> RangeInclusive<usize>;

    /// The prediction for latents and one time per sample; `contexts` has one for each sample, or is empty where the
    /// network takes none.
    fn forward(
        &self,
        x: Act,
        t: Vec<f32>,
        contexts: &[Arc<TextContext>],
        record: bool,
    ) -> Result<(Act, Option<Self::Tape>)>;

    /// Derivatives of a loss in the latents and in each sample's time, from its derivative in the prediction.
    fn backward(&self, tape: Self::Tape, gradient: Act) -> (Act, Vec<f64>);
}

impl Network for &Unet {
    type Tape = UnetTape;

    fn at_once(&self) -> RangeInclusive<usize> {
        // The two of guidance together, and no more than memory is for.
        2..=4
    }

    fn forward(
        &self,
        x: Act,
        t: Vec<f32>,
        contexts: &[Arc<TextContext>],
        record: bool,
    ) -> Result<(Act, Option<UnetTape>)> {
        let context = self.config().context.map(|width| joined(contexts, width)).transpose()?;
        Ok(Unet::forward(self, &x, t, context.as_ref(), record))
    }

    fn backward(&self, tape: UnetTape, gradient: Act) -> (Act, Vec<f64>) {
        Unet::backward(self, tape, &gradient)
    }
}

/// Contexts of equally many tokens as one activation, `[n, 1, tokens, width]`.
pub(crate) fn joined(contexts: &[Arc<TextContext>], width: usize) -> Result<Act> {
    let len = contexts.first().map_or(0, |context| context.tokens.len());
    for context in contexts {
        if context.width != width || context.tokens.len() != len || len == 0 {
            let tokens = context.tokens.len() / context.width.max(1);
            let (expected, found) = (vec![len / width.max(1), width], vec![tokens, context.width]);
            return Err(Error::Shape { what: "context".into(), expected, found });
        }
    }
    let all: Vec<f32> = contexts.iter().flat_map(|context| &context.tokens).copied().collect();
    Ok(Act::from_nhwc(Shape::tokens(contexts.len(), len / width.max(1), width), &all))
}
