//! The network.

use super::buckets::biases;
use super::config::T5Config;
use crate::weights::{Found, Layout, Pages, Scope, Source, TensorPlan, TensorSet};
use dyweight_core::error::{Error, Result};
use dyweight_nn::{Act, Attention, Bias, Embedding, Gelu, Linear, Precision, RmsNorm};

/// A T5 encoder with its weights.
pub struct T5 {
    config: T5Config,
    shared: Embedding,
    /// `[buckets, heads]`.
    table: Vec<f32>,
    blocks: Vec<(Block, Pages)>,
    norm: RmsNorm,
}

struct Block {
    norm1: RmsNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    out: Linear,
    norm2: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
    core: Attention,
}

const TABLE: &str = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

/// What stands before the names of an encoder's tensors in a set, if it holds one.
pub(crate) fn landmark(set: &TensorSet) -> Option<&str> {
    set.prefix_of(TABLE)
}

/// Where a file keeps the tensors: the table of tokens goes by either of two names, or both.
pub(crate) fn layout(set: &TensorSet) -> Option<Layout> {
    const NAMES: [&str; 2] = ["shared.weight", "encoder.embed_tokens.weight"];
    let prefix = landmark(set)?.to_string();
    let kept = NAMES.iter().find(|name| set.has(&format!("{prefix}{name}"))).copied().unwrap_or(NAMES[0]);
    let (owned, before) = (prefix.clone(), prefix);
    let locate = move |name: &str| {
        let name = if name == NAMES[0] { kept } else { name };
        format!("{before}{name}").into()
    };
    let owns = move |name: &str| {
        let rest = name.strip_prefix(&owned);
        rest.is_some_and(|rest| rest == kept || rest.starts_with("encoder.") && !NAMES.contains(&rest))
    };
    Some(Layout::new(locate, owns))
}

impl Block {
    fn new(scope: &Scope<'_>, config: &T5Config) -> Result<Self> {
        let (width, inner, hidden, eps) = (config.width, config.inner(), config.hidden, config.eps as f32);
        let (attend, feed) = (scope.at("layer.0.SelfAttention"), scope.at("layer.1.DenseReluDense"));
        let core = scope.attention("layer.0", inner, config.heads)?;
        Ok(Self {
            norm1: scope.rms_norm("layer.0.layer_norm", width, eps)?,
            q: attend.linear_without_bias("q", width, inner)?,
            k: attend.linear_without_bias("k", width, inner)?,
            v: attend.linear_without_bias("v", width, inner)?,
            out: attend.linear_without_bias("o", inner, width)?,
            norm2: scope.rms_norm("layer.1.layer_norm", width, eps)?,
            gate: feed.linear_without_bias("wi_0", width, hidden)?,
            up: feed.linear_without_bias("wi_1", width, hidden)?,
            down: feed.linear_without_bias("wo", hidden, width)?,
            core: core.with_scale(1.0),
        })
    }

    fn forward(&self, x: &Act, bias: Bias<'_>) -> Act {
        let y = self.norm1.forward(x);
        let (q, k, v) = (self.q.forward(&y), self.k.forward(&y), self.v.forward(&y));
        let (gathered, _) = self.core.forward(&q, &k, &v, bias);
        drop((q, k, v));
        let x = self.out.forward_residual(&gathered, x, 1.0);
        let y = self.norm2.forward(&x);
        let fed = Gelu::Tanh.gated(&self.up.forward(&y), &self.gate.forward(&y));
        self.down.forward_residual(&fed, &x, 1.0)
    }
}

impl T5 {
    /// Builds it from the tensors of a file, with their fingerprint.
    pub fn load(found: &Found<T5Config>, precision: Precision) -> Result<(Self, String)> {
        let Found { config, set, layout } = found;
        Source::build("T5 encoder", set, layout, |scope| Self::new(config, &scope.in_precision(precision)))
    }

    /// One with random weights, the same for the same seed.
    pub fn random(config: &T5Config, seed: u64) -> Result<Self> {
        Self::new(config, &Source::Random { seed, dtype: dyweight_nn::Dtype::F32 }.root())
    }

    /// The tensors of a configuration.
    pub fn plan(config: &T5Config) -> Result<Vec<TensorPlan>> {
        Source::plan(|scope| Self::new(config, scope))
    }

    fn new(config: &T5Config, scope: &Scope<'_>) -> Result<Self> {
        let shared = scope.embedding("shared", config.vocabulary, config.width)?;
        let table = scope.numbers(TABLE, &[config.buckets, config.heads])?;
        scope.pages();
        let block = |i: usize| {
            let at = scope.at("encoder.block").at(i);
            Ok((Block::new(&at, config)?, at.pages()))
        };
        Ok(Self {
            shared,
            table,
            blocks: (0..config.layers).map(block).collect::<Result<_>>()?,
            norm: scope.rms_norm("encoder.final_layer_norm", config.width, config.eps as f32)?,
            config: config.clone(),
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &T5Config {
        &self.config
    }

    /// Encodes `n` texts of equally many tokens: `[n, 1, tokens, width]`.
    pub fn encode(&self, n: usize, ids: &[u32]) -> Result<Act> {
        /// Scores of all pairs of tokens are held for every head.
        const LONGEST: usize = 4096;
        let tokens = ids.len() / n.max(1);
        if n == 0 || tokens == 0 || tokens > LONGEST || tokens * n != ids.len() {
            let (expected, found) = (vec![n, tokens.clamp(1, LONGEST)], vec![n, tokens]);
            return Err(Error::Shape { what: "token ids".into(), expected, found });
        }
        let mut x = self.shared.forward(n, ids).map_err(|_| {
            Error::bad_value(
                "prompt",
                format!("token {}", ids.iter().max().copied().unwrap_or(0)),
                format!("the text encoder knows tokens 0 to {}", self.config.vocabulary - 1),
            )
        })?;
        let pairs = biases(&self.table, self.config.heads, tokens, self.config.farthest);
        let bias = Bias { pairs: Some(&pairs), ..Bias::NONE };
        for (i, (block, pages)) in self.blocks.iter().enumerate() {
            self.blocks.get(i + 1).iter().for_each(|(_, next)| next.fetch());
            x = block.forward(&x, bias);
            pages.release();
        }
        Ok(self.norm.forward(&x))
    }
}
