//! Text encoders, opened when a text is to be encoded and let go before the denoiser is run: half a gigabyte of Stable
//! Diffusion's, ten of FLUX's, that are needed once.
//!
//! ```text
//! Stable Diffusion   CLIP, whose last state is the context
//! FLUX               T5 for the tokens, CLIP for the text as a whole
//! ```

use super::bundle::Bundle;
use super::on_demand::OnDemand;
use crate::clip::{Padding, TextConfig, TextTower, Tokenizer};
use crate::t5::{T5, UnigramTokenizer};
use dyweight_core::denoiser::TextContext;
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::Stream;
use dyweight_nn::Precision;
use std::path::PathBuf;
use std::sync::Arc;

/// What makes contexts of texts for a U-Net.
pub(super) enum UnetTexts {
    /// CLIP's text tower, its configuration and where both it and the tokenizer come from.
    Clip {
        tower: Box<OnDemand<(TextTower, Tokenizer)>>,
        config: TextConfig,
        bundle: Box<Bundle>,
        tokenizer: Option<PathBuf>,
    },
    /// Random numbers, the same for the same words.
    Random { width: usize },
}

/// Tokens of a context without a text tower: as many as CLIP's.
pub(super) const TOKENS: usize = 77;

impl UnetTexts {
    /// Those of a bundle that has a text encoder and a tokenizer, with the fingerprint of the weights. They are open:
    /// the empty text is encoded next.
    pub(super) fn open(bundle: &Bundle, tokenizer: Option<PathBuf>) -> Result<Option<(Self, String)>> {
        let Some(words) = bundle.tokenizer(tokenizer.as_deref())?.filter(|_| bundle.has_text()) else {
            return Ok(None);
        };
        let (tower, hash) = TextTower::load(&bundle.text()?)?;
        let config = tower.config().clone();
        let tower = Box::new(OnDemand::open((tower, words)));
        Ok(Some((UnetTexts::Clip { tower, config, bundle: Box::new(bundle.clone()), tokenizer }, hash)))
    }

    /// Width of a token.
    pub(super) fn width(&self) -> usize {
        match self {
            UnetTexts::Clip { config, .. } => config.stack.width,
            UnetTexts::Random { width } => *width,
        }
    }

    /// What the U-Net sees of a text.
    pub(super) fn encode(&self, prompt: &str) -> Result<TextContext> {
        let width = self.width();
        match self {
            UnetTexts::Clip { tower, bundle, tokenizer, .. } => {
                tower.with(clip(bundle, tokenizer), |(tower, tokenizer)| {
                    let encoded = tower.encode(1, &tokenizer.encode(prompt, Padding::Own)?)?;
                    let [tokens, pooled] = [encoded.last, encoded.pooled].map(|act| act.data().to_vec());
                    Ok(TextContext { width, tokens, pooled })
                })
            }
            UnetTexts::Random { width } => {
                let numbers = Stream::labelled(0, prompt).normals(TOKENS * width);
                let tokens = numbers.into_iter().map(|v| v as f32).collect();
                Ok(TextContext { width: *width, tokens, pooled: Vec::new() })
            }
        }
    }

    /// False if the encoder reads no more than the beginning.
    pub(super) fn reads_whole(&self, text: &str) -> Result<bool> {
        match self {
            UnetTexts::Clip { tower, bundle, tokenizer, .. } => {
                tower.with(clip(bundle, tokenizer), |(_, tokenizer)| Ok(!tokenizer.cut(text, tokenizer.length())?.1))
            }
            UnetTexts::Random { .. } => Ok(true),
        }
    }

    /// Lets the encoder go.
    pub(super) fn close(&self) {
        if let UnetTexts::Clip { tower, .. } = self {
            tower.close();
        }
    }

    /// What decides its numbers besides the weights.
    pub(super) fn configuration(&self, tokens: &str) -> String {
        match self {
            UnetTexts::Clip { config, .. } => format!("{config:?} {tokens}"),
            UnetTexts::Random { width } => width.to_string(),
        }
    }
}

/// How CLIP's tower and tokenizer are opened.
fn clip(bundle: &Bundle, tokenizer: &Option<PathBuf>) -> impl FnOnce() -> Result<(TextTower, Tokenizer)> {
    move || {
        let words = bundle.tokenizer(tokenizer.as_deref())?;
        Ok((TextTower::load(&bundle.text()?)?.0, words.ok_or_else(no_encoder)?))
    }
}

/// A text was given to a model that cannot read.
pub(super) fn no_encoder() -> Error {
    Error::conflict(
        "this model came without a text encoder or without its tokenizer",
        "give `tokenizer`: a folder with vocab.json and merges.txt",
    )
}

/// Encoders and tokenizers.
struct Encoders {
    clip: (TextTower, Tokenizer),
    t5: (T5, UnigramTokenizer),
}

/// FLUX's encoders.
pub(super) struct Texts {
    bundle: Bundle,
    tokenizer: Option<PathBuf>,
    precision: Precision,
    encoders: OnDemand<Encoders>,
    /// Widths of a token and of the vector for the whole text that the transformer takes.
    widths: [usize; 2],
    /// Tokens of a text.
    tokens: usize,
}

impl Texts {
    pub(super) fn new(
        bundle: &Bundle,
        (tokenizer, precision): (Option<PathBuf>, Precision),
        widths: [usize; 2],
        tokens: usize,
    ) -> Self {
        Self { bundle: bundle.clone(), tokenizer, precision, encoders: OnDemand::default(), widths, tokens }
    }

    /// Tokens of a text.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Fingerprints of the encoders' weights, of those that are there.
    pub(super) fn fingerprints(&self) -> Result<Vec<String>> {
        let (bundle, mut all) = (&self.bundle, Vec::new());
        if bundle.text.is_some() {
            all.push(TextTower::load(&bundle.text()?)?.1);
        }
        if bundle.text2.is_some() {
            all.push(T5::load(&bundle.text2()?, self.precision)?.1);
        }
        Ok(all)
    }

    /// Whether texts can be encoded.
    pub(super) fn is_complete(&self) -> bool {
        let named = self.tokenizer.is_some();
        let tokenizers = named || (self.bundle.tokenizer.is_some() && self.bundle.tokenizer2.is_some());
        tokenizers && self.bundle.text.is_some() && self.bundle.text2.is_some()
    }

    /// What the model sees of a text.
    pub(super) fn encode(&self, text: &str) -> Result<Arc<TextContext>> {
        if !self.is_complete() {
            return Err(Error::conflict(
                "this model came without its text encoders or without their tokenizers",
                "its folder must have text_encoder, text_encoder_2, tokenizer and tokenizer_2; `tokenizer` names a folder \
                       with the last two",
            ));
        }
        self.encoders.with(
            || self.open(),
            |Encoders { clip, t5 }| {
                let pooled = clip.0.encode(1, &clip.1.encode(text, Padding::Own)?)?.pooled.data().to_vec();
                let tokens = t5.0.encode(1, &t5.1.encode(text, self.tokens)?)?.data().to_vec();
                Ok(Arc::new(TextContext { width: self.widths[0], tokens, pooled }))
            },
        )
    }

    /// False if T5, whose tokens the transformer sees one by one, reads no more than the beginning. CLIP's vector for
    /// the text as a whole is of its first 77 tokens in every FLUX.
    pub(super) fn reads_whole(&self, text: &str) -> Result<bool> {
        self.encoders.with(|| self.open(), |encoders| Ok(!encoders.t5.1.cut(text, self.tokens)?.1))
    }

    /// What stands for no text: the empty one, or zeros for a model that came without encoders.
    pub(super) fn nothing(&self) -> Result<Arc<TextContext>> {
        if self.is_complete() {
            return self.encode("");
        }
        let [width, pooled] = self.widths;
        Ok(Arc::new(TextContext { width, tokens: vec![0.0; self.tokens * width], pooled: vec![0.0; pooled] }))
    }

    /// Lets the encoders go.
    pub(super) fn close(&self) {
        self.encoders.close();
    }

    fn open(&self) -> Result<Encoders> {
        let beside = |own: &Option<PathBuf>, name: &str| {
            let named = self.tokenizer.as_ref().map(|dir| dir.join(name));
            named.or_else(|| own.clone()).unwrap_or_default()
        };
        let encoders = Encoders {
            clip: (
                TextTower::load(&self.bundle.text()?)?.0,
                Tokenizer::read(&beside(&self.bundle.tokenizer, "tokenizer"))?,
            ),
            t5: (
                T5::load(&self.bundle.text2()?, self.precision)?.0,
                UnigramTokenizer::read(&beside(&self.bundle.tokenizer2, "tokenizer_2"))?,
            ),
        };
        let found = [encoders.t5.0.config().width, encoders.clip.0.config().stack.width];
        if found != self.widths {
            let what = "widths of the text encoders".into();
            return Err(Error::Shape { what, expected: self.widths.to_vec(), found: found.to_vec() });
        }
        Ok(encoders)
    }
}
