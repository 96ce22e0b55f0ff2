//! FLUX's two text encoders: T5 for the tokens, CLIP for the text as a whole. They are opened when a text is to be
//! encoded and let go before the transformer is run: ten gigabytes that are needed once.

use super::bundle::Bundle;
use crate::clip::{Padding, TextTower, Tokenizer};
use crate::t5::{T5, UnigramTokenizer};
use dyweight_core::denoiser::TextContext;
use dyweight_core::error::{Error, Result};
use dyweight_nn::Precision;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Encoders and tokenizers.
struct Encoders {
    clip: (TextTower, Tokenizer),
    t5: (T5, UnigramTokenizer),
}

/// Encoders that are open only while they are used.
pub(super) struct Texts {
    bundle: Bundle,
    tokenizer: Option<PathBuf>,
    precision: Precision,
    open: Mutex<Option<Encoders>>,
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
        Self { bundle: bundle.clone(), tokenizer, precision, open: Mutex::default(), widths, tokens }
    }

    /// Tokens of a text.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Fingerprints of the encoders' weights, of those that are there.
    pub(super) fn fingerprints(&self) -> Result<Vec<String>> {
        let clip = self.bundle.text.is_some().then(|| self.bundle.text().map(|(_, hash)| hash)).transpose()?;
        let t5 =
            self.bundle.text2.is_some().then(|| self.bundle.text2(self.precision).map(|(_, hash)| hash)).transpose()?;
        Ok(clip.into_iter().chain(t5).collect())
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
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let encoders = match &mut *open {
            Some(encoders) => encoders,
            closed => closed.insert(self.encoders()?),
        };
        let (clip, t5) = (&encoders.clip, &encoders.t5);
        let pooled = clip.0.encode(1, &clip.1.encode(text, Padding::Own)?)?.pooled.data().to_vec();
        let tokens = t5.0.encode(1, &t5.1.encode(text, self.tokens)?)?.data().to_vec();
        Ok(Arc::new(TextContext { width: self.widths[0], tokens, pooled }))
    }

    /// False if T5, whose tokens the transformer sees one by one, reads no more than the beginning. CLIP's vector for
    /// the text as a whole is of its first 77 tokens in every FLUX.
    pub(super) fn reads_whole(&self, text: &str) -> Result<bool> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let encoders = match &mut *open {
            Some(encoders) => encoders,
            closed => closed.insert(self.encoders()?),
        };
        Ok(!encoders.t5.1.cut(text, self.tokens)?.1)
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
    pub(super) fn release(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        dyweight_nn::buffer::release();
    }

    fn encoders(&self) -> Result<Encoders> {
        let beside = |own: &Option<PathBuf>, name: &str| {
            let named = self.tokenizer.as_ref().map(|dir| dir.join(name));
            named.or_else(|| own.clone()).unwrap_or_default()
        };
        let encoders = Encoders {
            clip: (self.bundle.text()?.0, Tokenizer::read(&beside(&self.bundle.tokenizer, "tokenizer"))?),
            t5: (
                self.bundle.text2(self.precision)?.0,
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
