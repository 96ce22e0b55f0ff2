//! The text tower: BERT's layers (Devlin et al. 2019), each with a look at an image's tokens between its two halves.

use super::config::ReaderConfig;
use crate::blocks::Attend;
use crate::weights::Scope;
use dyweight_core::error::{Error, Result};
use dyweight_nn::{Act, Embedding, Gelu, LayerNorm, Linear, Shape, add_to_each, pick_tokens};

/// A text tower with its weights.
pub(super) struct Reader {
    words: Embedding,
    /// Rows of positions.
    positions: Vec<f32>,
    norm: LayerNorm,
    layers: Vec<Layer>,
    gelu: Gelu,
    width: usize,
    vocabulary: usize,
}

struct Layer {
    own: Attend,
    own_norm: LayerNorm,
    cross: Attend,
    cross_norm: LayerNorm,
    wide: Linear,
    narrow: Linear,
    norm: LayerNorm,
}

impl Reader {
    /// `seen` is the width of the image's tokens.
    pub(super) fn new(config: &ReaderConfig, seen: usize, scope: &Scope<'_>) -> Result<Self> {
        let stack = &config.stack;
        let (width, eps) = (stack.width, stack.eps as f32);
        let layer = |i: usize| -> Result<Layer> {
            let at = scope.at("encoder.layer").at(i);
            let attend = |kind: &str, context: usize| {
                let names = ["self.query", "self.key", "self.value", "output.dense"];
                Attend::new(&at.at(kind), names, [width, context], stack.heads, true)
            };
            Ok(Layer {
                own: attend("attention", width)?,
                own_norm: at.layer_norm("attention.output.LayerNorm", width, eps)?,
                cross: attend("crossattention", seen)?,
                cross_norm: at.layer_norm("crossattention.output.LayerNorm", width, eps)?,
                wide: at.linear("intermediate.dense", width, stack.hidden)?,
                narrow: at.linear("output.dense", stack.hidden, width)?,
                norm: at.layer_norm("output.LayerNorm", width, eps)?,
            })
        };
        let at = scope.at("embeddings");
        Ok(Self {
            words: at.embedding("word_embeddings", config.vocabulary, width)?,
            positions: at.numbers("position_embeddings.weight", &[config.positions, width])?,
            norm: at.layer_norm("LayerNorm", width, eps)?,
            layers: (0..stack.layers).map(layer).collect::<Result<_>>()?,
            gelu: stack.gelu,
            width,
            vocabulary: config.vocabulary,
        })
    }

    /// All states of one text that looks at one image, `[1, 1, tokens, width]`.
    pub(super) fn states(&self, ids: &[u32], image: &Act) -> Result<Act> {
        let most = self.positions.len() / self.width;
        if ids.is_empty() || ids.len() > most {
            return Err(Error::Shape { what: "token ids".into(), expected: vec![most], found: vec![ids.len()] });
        }
        let embedded = self.words.forward(1, ids).map_err(|_| {
            Error::bad_value(
                "prompt",
                format!("token {}", ids.iter().max().copied().unwrap_or(0)),
                format!("the text tower knows tokens 0 to {}", self.vocabulary - 1),
            )
        })?;
        let places = &self.positions[..ids.len() * self.width];
        let places = Act::from_nhwc(Shape::tokens(1, ids.len(), self.width), places);
        let mut x = self.norm.forward(&add_to_each(&embedded, &places));
        for layer in &self.layers {
            x = layer.own_norm.forward(&layer.own.forward(&x, &x, &x, false).0);
            x = layer.cross_norm.forward(&layer.cross.forward(&x, image, &x, false).0);
            let wide = self.gelu.forward(&layer.wide.forward(&x));
            x = layer.norm.forward(&layer.narrow.forward_residual(&wide, &x, 1.0));
        }
        Ok(x)
    }

    /// The state of the first token.
    pub(super) fn first(&self, ids: &[u32], image: &Act) -> Result<Act> {
        Ok(pick_tokens(&self.states(ids, image)?, &[0]))
    }
}
