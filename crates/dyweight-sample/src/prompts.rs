//! What samples are asked for by text.

use dyweight_core::denoiser::{Condition, Context, Model};
use dyweight_core::error::{Error, Result};
use dyweight_files::read_prompts;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Encoded texts are kept in memory, a quarter of a megabyte each of Stable Diffusion's,
const MOST: usize = 8192;
/// eight megabytes each of FLUX's.
const MOST_BYTES: usize = 8 << 30;

/// Texts, as given and as a model's encoder sees them.
#[derive(Clone, Debug)]
pub struct Prompts {
    texts: Vec<String>,
    negative: Option<String>,
    contexts: Vec<Context>,
    negative_context: Context,
    /// Those of which the encoder reads the beginning alone.
    cut: Vec<String>,
}

impl Prompts {
    /// Encodes texts, and the one guidance leads away from: the model's answer to nothing if there is none.
    pub fn new(texts: Vec<String>, negative: Option<String>, model: &dyn Model) -> Result<Self> {
        if texts.is_empty() || texts.len() > MOST {
            return Err(Error::bad_value("prompts", texts.len(), format!("must be 1 to {MOST}")));
        }
        // A text that comes again is not encoded again.
        let mut known = BTreeMap::new();
        let mut encoded = |text: &str| match known.get(text) {
            Some(context) => Ok(Context::clone(context)),
            None => model.context_of(text).inspect(|context| drop(known.insert(text.to_owned(), context.clone()))),
        };
        let mut contexts = Vec::with_capacity(texts.len());
        for text in &texts {
            contexts.push(encoded(text)?);
            // All are of one size: the first says what they will take.
            let each = contexts.first().map_or(0, bytes_of);
            if each.saturating_mul(texts.len()) > MOST_BYTES {
                let expected =
                    format!("at most {} of {} MB each, as this model encodes them", MOST_BYTES / each, each >> 20);
                return Err(Error::bad_value("prompts", texts.len(), expected));
            }
        }
        let negative_context = negative.as_deref().map_or(Ok(Context::Unconditional), &mut encoded)?;
        let mut cut = Vec::new();
        for text in texts.iter().chain(&negative) {
            if !model.reads_whole(text)? {
                cut.push(text.clone());
            }
        }
        Ok(Self { texts, negative, contexts, negative_context, cut })
    }

    /// The same texts as `known`, which are encoded already, or encoded now.
    pub fn known_or_new(
        texts: Vec<String>,
        negative: Option<String>,
        model: &dyn Model,
        known: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>> {
        match known.filter(|known| known.texts == texts && known.negative == negative) {
            Some(known) => Ok(known.clone()),
            None => Self::new(texts, negative, model).map(Arc::new),
        }
    }

    /// The prompts of a file, whatever kind of list it is.
    pub fn lines(path: &Path) -> Result<Vec<String>> {
        read_prompts(path, None)
    }

    /// The text a number stands for: they begin again after the last.
    pub fn text(&self, number: usize) -> &str {
        &self.texts[number % self.texts.len()]
    }

    /// All texts.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// What is to be said of texts that are longer than the encoder reads.
    pub fn warning(&self) -> Option<String> {
        let first: String = self.cut.first()?.chars().take(40).collect();
        let all = self.texts.len() + usize::from(self.negative.is_some());
        Some(format!(
            "{} of {all} prompts, '{first}…' first, are longer than the model's encoder reads: it sees their beginning alone",
            self.cut.len()
        ))
    }

    /// What guidance leads away from, where it was said.
    pub fn negative(&self) -> Option<&str> {
        self.negative.as_deref()
    }

    /// What samples with these parameters are conditioned on.
    pub fn condition(&self, params: impl Iterator<Item = usize>, guidance: Option<f64>) -> Condition {
        let contexts = params.map(|number| self.contexts[number % self.contexts.len()].clone()).collect();
        Condition { contexts, negative: self.negative_context.clone(), guidance }
    }
}

/// Bytes of an encoded text.
fn bytes_of(context: &Context) -> usize {
    match context {
        Context::Text(text) => size_of::<f32>() * (text.tokens.len() + text.pooled.len()),
        Context::Unconditional | Context::Class(_) => 0,
    }
}
