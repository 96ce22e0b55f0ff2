//! What the encoder is built from.

use crate::edm::kwargs::Kwargs;
use dyweight_files::Malformed;
use serde_json::{Map, Value};

const WIDEST: usize = 1 << 17;
const DEEPEST: usize = 256;
const MOST_ROWS: usize = 1 << 24;

/// Sizes of a T5 encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct T5Config {
    /// Number of tokens there are.
    pub vocabulary: usize,
    /// Width of a token.
    pub width: usize,
    /// Width of an attention head.
    pub head: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width inside the feed-forward layers.
    pub hidden: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Distances that are told apart, of both directions together.
    pub buckets: usize,
    /// From this distance on all are the same.
    pub farthest: usize,
    /// ε of the normalisations.
    pub eps: f64,
}

impl T5Config {
    /// T5 v1.1 XXL, FLUX's.
    pub fn xxl() -> Self {
        Self {
            vocabulary: 32128,
            width: 4096,
            head: 64,
            heads: 64,
            hidden: 10240,
            layers: 24,
            buckets: 32,
            farthest: 128,
            eps: 1e-6,
        }
    }

    /// From a transformers `T5Config`.
    pub(crate) fn from_transformers(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let options = Kwargs(map);
        // Only the gated kind has the layers asked for here.
        options.choice("feed_forward_proj", &[("gated-gelu", ())])?;
        if !map.contains_key("feed_forward_proj") {
            return Err(Malformed::Missing { name: "feed_forward_proj".into() });
        }
        let count = |name: &str, otherwise: usize| Ok(options.count(name, WIDEST)?.unwrap_or(otherwise));
        let config = Self {
            vocabulary: options.count("vocab_size", MOST_ROWS)?.unwrap_or(32128),
            width: count("d_model", 512)?,
            head: count("d_kv", 64)?,
            heads: count("num_heads", 8)?,
            hidden: count("d_ff", 2048)?,
            layers: options.count("num_layers", DEEPEST)?.unwrap_or(6),
            buckets: count("relative_attention_num_buckets", 32)?,
            farthest: count("relative_attention_max_distance", 128)?,
            eps: options.number("layer_norm_epsilon")?.unwrap_or(1e-6),
        };
        let Self { vocabulary, width, head, heads, hidden, layers, buckets, farthest, eps } = config;
        let sizes = [vocabulary, width, head, heads, hidden, layers];
        if sizes.contains(&0) || heads * head > WIDEST || buckets < 4 || farthest <= buckets / 4 || eps <= 0.0 {
            let problem = format!(
                "an encoder of {layers} layers, {heads} heads of {head}, width {width} and {hidden} inside, {buckets} buckets up to \
                 distance {farthest} cannot be"
            );
            return Err(Malformed::Inconsistent { problem });
        }
        Ok(config)
    }

    /// Width of all heads together; need not be that of a token.
    pub fn inner(&self) -> usize {
        self.heads * self.head
    }
}
