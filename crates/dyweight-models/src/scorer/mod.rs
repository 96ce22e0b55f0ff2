//! How well an image fits its prompt, by the networks the field asks.
//!
//! ```text
//! clip           100·cos(image features, text features); any CLIP model       pil     no clamp
//! hps            cos of the same, HPSv2's weights (Wu et al. 2023)            float   0.2 to 0.35, not times 100
//! image-reward   the reward of ImageReward (Xu et al. 2023)                   pil     about −2 to 2
//! ```
//!
//! A score belongs to the weights it was made with: numbers of different models are not comparable.

mod spec;

pub use spec::ScorerSpec;

use crate::blip::{ImageReward, WordPiece};
use crate::clip::{Clip, Tokenizer, cosine};
use crate::preprocess::Preprocess;
use crate::side_by_side::{parts, side_by_side};
use dyweight_core::error::{Error, Result};
use dyweight_files::image::Image;
use dyweight_nn::{Act, Shape};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};

/// Images in one pass.
const AT_ONCE: RangeInclusive<usize> = 1..=8;
/// Texts of equally many tokens in one pass.
const TEXTS_AT_ONCE: usize = 16;
/// Texts whose features are kept: as many as a model may be asked for at once.
const MOST_TEXTS: usize = 8192;
/// Tokens ImageReward reads.
const REWARD_LENGTH: usize = 35;

/// Which score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScoreKind {
    /// 100·cos of CLIP's features.
    Clip,
    /// HPSv2.
    Hps,
    /// ImageReward.
    ImageReward,
}

impl ScoreKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Clip, Self::Hps, Self::ImageReward];

    /// Its name among flags, commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clip => "clip",
            Self::Hps => "hps",
            Self::ImageReward => "image-reward",
        }
    }

    /// Its name in running text.
    pub fn title(self) -> &'static str {
        match self {
            Self::Clip => "CLIP score",
            Self::Hps => "HPSv2 score",
            Self::ImageReward => "ImageReward",
        }
    }
}

enum Network {
    Clip { clip: Box<Clip>, tokenizer: Tokenizer, scale: f64, texts: Mutex<HashMap<String, Arc<[f32]>>> },
    Reward { reward: Box<ImageReward>, tokenizer: WordPiece },
}

/// A score with its network.
pub struct Scorer {
    kind: ScoreKind,
    model: String,
    sha256: String,
    preprocess: Preprocess,
    network: Network,
}

impl Scorer {
    /// Which score it is.
    pub fn kind(&self) -> ScoreKind {
        self.kind
    }

    /// What its network is called.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Fingerprint of its weights.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// How it sees pictures.
    pub fn preprocess(&self) -> &Preprocess {
        &self.preprocess
    }

    /// The tokens it reads of a prompt, and whether there were more.
    pub fn tokens(&self, prompt: &str) -> Result<(Vec<u32>, bool)> {
        match &self.network {
            Network::Clip { clip, tokenizer, .. } => tokenizer.cut(prompt, clip.config().text.positions),
            Network::Reward { tokenizer, .. } => tokenizer.cut(prompt, REWARD_LENGTH),
        }
    }

    /// The score of each image with its prompt. Pair i's depends on pair i alone.
    pub fn scores(&self, images: &[Image], prompts: &[&str]) -> Result<Vec<f64>> {
        if images.len() != prompts.len() {
            let what = "prompts for images".into();
            return Err(Error::Shape { what, expected: vec![images.len()], found: vec![prompts.len()] });
        }
        let found = match &self.network {
            Network::Clip { clip, tokenizer, scale, texts } => {
                let texts = self.texts(clip, tokenizer, texts, prompts)?;
                self.each(images, |range, pixels| {
                    let seen = clip.image_features(pixels)?;
                    let score = |(i, at): (usize, usize)| scale * cosine(seen.sample(i), &texts[at]).0;
                    Ok(range.enumerate().map(score).collect())
                })?
            }
            Network::Reward { reward, tokenizer } => self.each(images, |range, pixels| {
                let tokens = reward.image_tokens(pixels);
                let shape = Shape { n: 1, ..tokens.shape() };
                let score = |(i, at): (usize, usize)| {
                    let ids = tokenizer.cut(prompts[at], REWARD_LENGTH)?.0;
                    reward.reward(&ids, &Act::from_nhwc(shape, tokens.sample(i)))
                };
                range.enumerate().map(score).collect()
            })?,
        };
        match found.iter().position(|score| !score.is_finite()) {
            None => Ok(found),
            Some(index) => {
                let what = format!("{} of the network {}", self.kind.title(), self.model);
                Err(Error::NotFinite { what, index, value: found[index] })
            }
        }
    }

    /// Numbers of each image from its pixels, part by part.
    fn each(
        &self,
        images: &[Image],
        score: impl Fn(Range<usize>, &Act) -> Result<Vec<f64>> + Sync,
    ) -> Result<Vec<f64>> {
        let size = self.preprocess.size;
        let pass = |range: Range<usize>| {
            let mut pixels = Act::stale(Shape { n: range.len(), h: size, w: size, c: 3 });
            for (to, image) in pixels.data_mut().chunks_exact_mut(size * size * 3).zip(&images[range.clone()]) {
                to.copy_from_slice(&self.preprocess.pixels(image)?);
            }
            score(range, &pixels)
        };
        Ok(side_by_side(parts(images.len(), AT_ONCE), pass)?.concat())
    }

    /// Features of each prompt; those of prompts that were asked for before are kept.
    fn texts(
        &self,
        clip: &Clip,
        tokenizer: &Tokenizer,
        kept: &Mutex<HashMap<String, Arc<[f32]>>>,
        prompts: &[&str],
    ) -> Result<Vec<Arc<[f32]>>> {
        let mut known = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut new: BTreeMap<usize, Vec<(&str, Vec<u32>)>> = BTreeMap::new();
        for prompt in prompts {
            if !known.contains_key(*prompt) {
                known.insert(prompt.to_string(), Arc::from([]));
                let ids = tokenizer.cut(prompt, clip.config().text.positions)?.0;
                new.entry(ids.len()).or_default().push((prompt, ids));
            }
        }
        // Texts of one length go together: weights are then read less often.
        let groups: Vec<&[(&str, Vec<u32>)]> = new.values().flat_map(|all| all.chunks(TEXTS_AT_ONCE)).collect();
        let encoded = side_by_side(groups.clone(), |group| {
            let ids: Vec<u32> = group.iter().flat_map(|(_, ids)| ids).copied().collect();
            clip.text_features(group.len(), &ids)
        })?;
        for (group, features) in groups.iter().zip(&encoded) {
            for (i, (prompt, _)) in group.iter().enumerate() {
                known.insert(prompt.to_string(), Arc::from(features.sample(i)));
            }
        }
        let found = prompts.iter().map(|prompt| known[*prompt].clone()).collect();
        if known.len() <= MOST_TEXTS {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = known;
        }
        Ok(found)
    }
}
