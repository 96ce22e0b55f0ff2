//! The network inside the preconditioning: one list of layers, walked forwards and, with what was kept, backwards.

use super::blueprint::steps;
use super::config::Config;
use super::embedding::{self, Embedding, EmbeddingInputs};
use super::layer::{Backward, Forward, Layer, LayerTape};
use crate::arithmetic::Arithmetic;
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::Act;
use rayon::prelude::*;
use std::sync::Arc;

/// A network with its weights.
pub(super) struct UNet {
    embedding: Embedding,
    layers: Vec<Layer>,
    /// The last layer of the encoder.
    bottleneck: usize,
}

/// What the layers kept on the way forward.
#[derive(Clone)]
pub struct Tape {
    embedding: embedding::EmbeddingTape,
    layers: Vec<LayerTape>,
}

impl UNet {
    pub(super) fn new(config: &Config, scope: &Scope<'_>, arithmetic: Arithmetic) -> Result<Self> {
        let steps = steps(config).map_err(|problem| scope.malformed(problem))?;
        let scope = &scope.packed_alone().in_precision(arithmetic.precision);
        let embedding = Embedding::new(config, &scope.exact())?;
        let build = |step| Layer::new(step, config, scope, arithmetic.conv);
        // Packing is half of the time to load. A plan lists its tensors in order.
        let layers: Result<Vec<Layer>> = match scope.planning() {
            true => steps.iter().map(build).collect(),
            false => steps.par_iter().map(build).collect(),
        };
        let layers = layers?;
        let bottleneck = layers.iter().rposition(|layer| matches!(layer, Layer::Push)).unwrap_or(0);
        Ok(Self { embedding, layers, bottleneck })
    }

    /// The output for image `x` and what the network is told; with a tape if it is to be differentiated.
    /// The activation between encoder and decoder is handed over too: it is on the stack anyway.
    pub(super) fn forward(&self, x: Act, told: EmbeddingInputs<'_>, record: bool) -> (Act, Option<Tape>, Arc<Act>) {
        let (embedding, saved) = self.embedding.forward(told);
        let x = Arc::new(x);
        let mut state = Forward { aux: x.clone(), x, out: None, stack: Vec::new(), embedding };
        let (mut tape, mut narrowest) = (Vec::new(), state.x.clone());
        for (i, layer) in self.layers.iter().enumerate() {
            let saved = layer.forward(&mut state, record);
            if record {
                tape.push(saved);
            }
            if i == self.bottleneck {
                narrowest = state.x.clone();
            }
        }
        let out = state.out.expect("every plan ends with a head");
        (out, record.then_some(Tape { embedding: saved, layers: tape }), narrowest)
    }

    /// Derivatives of a loss in the image and in each sample's c_noise, then in the shift if there was one, from its
    /// derivative in the output.
    pub(super) fn backward(&self, tape: Tape, gradient: Act) -> (Act, Vec<f64>) {
        let Tape { embedding, layers } = tape;
        let mut state = Backward { x: None, aux: None, out: gradient, stack: Vec::new(), embedding: None };
        for (layer, saved) in self.layers.iter().zip(layers).rev() {
            layer.backward(&mut state, saved);
        }
        let mut to_x = state.x.expect("every plan has a head");
        if let Some(aux) = state.aux {
            to_x.add_assign(&aux);
        }
        let to_embedding = state.embedding.expect("every plan has blocks");
        (to_x, self.embedding.backward(embedding, &to_embedding))
    }
}
