//! The text tower.

use super::config::TextConfig;
use super::layers::Stack;
use crate::weights::{Found, Pages, Scope, Source, TensorPlan};
use dyweight_core::error::{Error, Result};
use dyweight_nn::{Act, Embedding, LayerNorm, Shape, add_to_each, pick_tokens};

/// A text tower with its weights.
pub struct TextTower {
    config: TextConfig,
    tokens: Embedding,
    positions: Act,
    stack: Stack,
    norm: LayerNorm,
    /// Where its weights lie.
    pages: Pages,
}

/// What the tower makes of texts.
pub struct EncodedText {
    /// `[n, 1, tokens, width]`.
    pub last: Act,
    /// The vector at each text's end, `[n, 1, 1, width]`.
    pub pooled: Act,
}

impl TextTower {
    /// Builds it from the tensors of a file, with their fingerprint.
    pub fn load(found: &Found<TextConfig>) -> Result<(Self, String)> {
        let Found { config, set, layout } = found;
        Source::build("text encoder", set, layout, |scope| Self::new(config, scope))
    }

    /// The tensors of a configuration.
    pub fn plan(config: &TextConfig) -> Result<Vec<TensorPlan>> {
        Source::plan(|scope| Self::new(config, scope))
    }

    pub(super) fn new(config: &TextConfig, scope: &Scope<'_>) -> Result<Self> {
        let (width, at) = (config.stack.width, scope.at("embeddings"));
        let positions = at.numbers("position_embedding.weight", &[config.positions, width])?;
        Ok(Self {
            tokens: at.embedding("token_embedding", config.vocabulary, width)?,
            positions: Act::from_nhwc(Shape::tokens(1, config.positions, width), &positions),
            stack: Stack::new(scope, &config.stack, true)?,
            norm: scope.layer_norm("final_layer_norm", width, config.stack.eps as f32)?,
            pages: scope.pages(),
            config: config.clone(),
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &TextConfig {
        &self.config
    }

    /// Encodes `n` texts of equally many tokens.
    pub fn encode(&self, n: usize, ids: &[u32]) -> Result<EncodedText> {
        let count = ids.len() / n.max(1);
        if n == 0 || count == 0 || count > self.config.positions || count * n != ids.len() {
            let (expected, found) = (vec![n, self.config.positions], vec![n, count]);
            return Err(Error::Shape { what: "token ids".into(), expected, found });
        }
        let vocabulary = self.config.vocabulary;
        let embedded = self.tokens.forward(n, ids).map_err(|_| {
            Error::bad_value(
                "prompt",
                format!("token {}", ids.iter().max().copied().unwrap_or(0)),
                format!("the text encoder knows tokens 0 to {}", vocabulary - 1),
            )
        })?;
        let width = self.config.stack.width;
        let table = &self.positions.data()[..count * width];
        let x = add_to_each(&embedded, &Act::from_nhwc(Shape::tokens(1, count, width), table));
        let last = self.norm.forward(&self.stack.forward(x, false).0);
        self.pages.release();
        let ends: Vec<usize> = ids.chunks_exact(count).map(|ids| self.end(ids)).collect();
        Ok(EncodedText { pooled: pick_tokens(&last, &ends), last })
    }

    /// Where a text ends: at the first end-of-text token, or, not knowing which that is, the first of the largest.
    fn end(&self, ids: &[u32]) -> usize {
        let end = match self.config.end {
            Some(end) => end as u32,
            None => ids.iter().max().copied().unwrap_or(0),
        };
        ids.iter().position(|id| *id == end).unwrap_or(0)
    }
}
