//! What a level that attends does to its pixels.

use super::config::UnetConfig;
use super::transformer::{Transformer, TransformerSize, TransformerTape};
use crate::blocks::{SelfAttend, SelfAttendSize, SelfAttendTape};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::Act;
use std::sync::Arc;

/// ε of the attention's normalisation.
const EPS: f32 = 1e-5;

/// With a context, or without.
pub(super) enum Mixer {
    Transformer(Transformer),
    Attention(SelfAttend),
}

/// What the way back needs.
#[derive(Clone)]
pub(super) enum MixerTape {
    Transformer(TransformerTape),
    Attention(SelfAttendTape),
}

impl Mixer {
    pub(super) fn new(scope: &Scope<'_>, config: &UnetConfig, level: usize) -> Result<Self> {
        let (channels, heads, groups) = (config.widths[level], config.heads[level], config.groups);
        match config.context {
            Some(context) => {
                let size = TransformerSize { channels, context, heads, depth: config.depths[level], groups };
                Transformer::new(scope, &size).map(Mixer::Transformer)
            }
            None => {
                let size = SelfAttendSize { channels, heads, stored: heads, norm: (groups, EPS), scale: 1.0 };
                SelfAttend::new(scope, ["norm", "qkv", "proj_out"], size).map(Mixer::Attention)
            }
        }
    }

    pub(super) fn forward(&self, x: Act, context: Option<&Act>, record: bool) -> (Act, Option<MixerTape>) {
        let x = Arc::new(x);
        match self {
            Mixer::Transformer(transformer) => {
                let context = context.expect("a network with a context is never run without one");
                let (y, tape) = transformer.forward(x, context, record);
                (y, tape.map(MixerTape::Transformer))
            }
            Mixer::Attention(attention) => {
                let (y, tape) = attention.forward(x, record);
                (y, tape.map(MixerTape::Attention))
            }
        }
    }

    pub(super) fn backward(&self, tape: MixerTape, gy: &Act) -> Act {
        match (self, tape) {
            (Mixer::Transformer(transformer), MixerTape::Transformer(tape)) => transformer.backward(tape, gy),
            (Mixer::Attention(attention), MixerTape::Attention(tape)) => attention.backward(tape, gy),
            _ => unreachable!("a tape of another kind of mixer"),
        }
    }
}
