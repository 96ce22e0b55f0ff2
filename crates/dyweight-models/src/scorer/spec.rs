//! Scores by the files of their networks.

use super::{Network, ScoreKind, Scorer};
use crate::blip::{ImageReward, RewardConfig, RewardFile, WordPiece};
use crate::clip::{Clip, ClipConfig, ClipFile, ClipOptions, Dialect, Tokenizer, gelu_named};
use crate::preprocess::{Crop, Preprocess, Resampling};
use dyweight_core::error::{Error, Result, shown};
use dyweight_files::Fingerprint;
use dyweight_nn::Gelu;
use std::path::{Path, PathBuf};

/// What stands before the name of a published architecture.
const RANDOM: &str = "random:";
/// ImageReward's, after it.
const RANDOM_REWARD: &str = "image-reward";

/// What a user says about a score.
#[derive(Clone, Debug)]
pub struct ScorerSpec {
    /// Which one.
    pub kind: ScoreKind,
    /// A folder, a file, or `random:` and the name of a published architecture.
    pub weights: PathBuf,
    /// Where the tokenizer is, if not beside the weights.
    pub tokenizer: Option<PathBuf>,
    /// The configuration, if not beside the weights.
    pub config: Option<PathBuf>,
    /// How pictures are resized: `pil`, `tv`, `float` or `float-noaa`.
    pub preprocess: Option<String>,
    /// The activation of CLIP's layers, where files do not tell or tell wrongly: `quick_gelu` or `gelu`.
    pub activation: Option<String>,
}

impl ScorerSpec {
    /// With nothing said but the weights.
    pub fn new(kind: ScoreKind, weights: impl Into<PathBuf>) -> Self {
        Self { kind, weights: weights.into(), tokenizer: None, config: None, preprocess: None, activation: None }
    }

    /// Opens everything.
    pub fn build(&self) -> Result<Scorer> {
        let resampling = self.preprocess.as_deref().map(Resampling::named).transpose()?;
        let gelu = self.activation.as_deref().map(gelu_named).transpose()?;
        let mut scorer = match self.kind {
            ScoreKind::Clip | ScoreKind::Hps => self.clip(gelu)?,
            ScoreKind::ImageReward if gelu.is_some() => {
                return Err(Error::no_effect("activation", "it is for CLIP's layers, and ImageReward has only one"));
            }
            ScoreKind::ImageReward => self.reward()?,
        };
        scorer.preprocess.resampling = resampling.unwrap_or(scorer.preprocess.resampling);
        Ok(scorer)
    }

    fn random(&self) -> Option<&str> {
        self.weights.to_str().and_then(|name| name.strip_prefix(RANDOM))
    }

    fn random_sha256(&self) -> String {
        Fingerprint::default().add(self.weights.to_string_lossy().as_bytes()).text()
    }

    fn clip(&self, gelu: Option<Gelu>) -> Result<Scorer> {
        let hps = self.kind == ScoreKind::Hps;
        let (clip, sha256, dialect, mut preprocess) = match self.random() {
            Some(name) => {
                let config = ClipConfig::published(name)?;
                let preprocess = Preprocess::new(Resampling::Pil, Crop::NearestEven, config.vision.size);
                (Clip::random(&config, 0)?, self.random_sha256(), Dialect::OpenClip, preprocess)
            }
            None => {
                let options = ClipOptions {
                    config: self.config.clone(),
                    gelu,
                    // Every released version of HPSv2 is a ViT-H of LAION's kind.
                    default_gelu: hps.then_some(Gelu::Exact),
                    // It may lie beside the model it was made from.
                    first: hps.then_some("HPS"),
                };
                let file = ClipFile::open(&self.weights, &options)?;
                // Before the long work.
                self.tokenizer_place(Tokenizer::is_in, CLIP_FILES)?;
                let (clip, sha256) = file.build()?;
                (clip, sha256, file.dialect, file.preprocess)
            }
        };
        let dialect = if hps { Dialect::OpenClip } else { dialect };
        if hps {
            (preprocess.resampling, preprocess.crop) = (Resampling::Float, Crop::NearestEven);
        }
        let config = clip.config();
        if config.vision.channels != 3 {
            let what = "channels of the images a CLIP model takes".into();
            return Err(Error::Shape { what, expected: vec![3], found: vec![config.vision.channels] });
        }
        let tokenizer = Tokenizer::read(&self.tokenizer_place(Tokenizer::is_in, CLIP_FILES)?)?.speaking(dialect);
        let (model, scale) = (config.label(), if hps { 1.0 } else { 100.0 });
        let network = Network::Clip { clip: Box::new(clip), tokenizer, scale, texts: Default::default() };
        Ok(Scorer { kind: self.kind, model, sha256, preprocess, network })
    }

    fn reward(&self) -> Result<Scorer> {
        let tokenizer = WordPiece::read(&self.tokenizer_place(WordPiece::is_in, BERT_FILES)?)?;
        let (reward, sha256) = match self.random() {
            Some(RANDOM_REWARD) => (ImageReward::random(&RewardConfig::published(), 0)?, self.random_sha256()),
            Some(name) => return Err(Error::unknown_name("ImageReward model", name, [RANDOM_REWARD])),
            None => RewardFile::open(&self.weights, self.config.as_deref())?.build()?,
        };
        let preprocess = Preprocess::new(Resampling::Pil, Crop::NearestEven, reward.config().vision.size);
        let stack = &reward.config().vision.stack;
        let model = match *reward.config() == RewardConfig::published() {
            true => "ImageReward-v1.0".into(),
            false => format!("ImageReward {}x{}", stack.width, stack.layers),
        };
        let network = Network::Reward { reward: Box::new(reward), tokenizer };
        Ok(Scorer { kind: self.kind, model, sha256, preprocess, network })
    }

    /// The folder the weights are in.
    fn folder(&self) -> &Path {
        match self.weights.is_dir() {
            true => &self.weights,
            false => self.weights.parent().unwrap_or(Path::new("")),
        }
    }

    fn tokenizer_place(&self, is_in: fn(&Path) -> bool, files: &str) -> Result<PathBuf> {
        if let Some(given) = &self.tokenizer {
            return Ok(given.clone());
        }
        let places = [self.folder().to_path_buf(), self.folder().join("tokenizer")];
        places.into_iter().find(|place| is_in(place)).ok_or_else(|| {
            Error::conflict(
                format!("no tokenizer lies beside {}", shown(&self.weights)),
                format!("give `tokenizer`, a folder with {files}"),
            )
        })
    }
}

const CLIP_FILES: &str = "vocab.json and merges.txt, tokenizer.json or bpe_simple_vocab_16e6.txt.gz";
const BERT_FILES: &str = "vocab.txt of bert-base-uncased";
