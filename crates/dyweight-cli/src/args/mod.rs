//! Arguments that several commands share. They are read as text and turned into the library's specs here, and nowhere
//! else.

mod picked;

pub use picked::{Conditions, Pick, Picked, on};

use crate::ui;
use clap::{Arg, Args};
use dyweight::error::named;
use dyweight::files::NamedPath;
use dyweight::metrics::{FeatureReference, reference};
use dyweight::models::{FeatureSpec, LoadedModel, ModelSpec, ScoreKind, Scorer, ScorerSpec};
use dyweight::solver::{LowerOrderFinal, Predict, Variant};
use dyweight::spec::{Budget, SolverSpec};
use dyweight::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which model.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Model", mut_arg("model_config", also_config))]
pub struct ModelArgs {
    /// Built-in name (see 'dyweight list models'), file, diffusers folder, or owner/name[@revision] of the local
    /// Hugging Face cache
    #[arg(long, value_name = "NAME|FILE|DIR")]
    pub model: String,
    #[command(flatten)]
    pub options: ModelOptions,
}

/// Where no other `--config` is, that is short for `--model-config`.
pub fn also_config(arg: Arg) -> Arg {
    arg.alias("config")
}

/// How a model is opened, whichever it is.
#[derive(Args, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ModelOptions {
    /// Sample shape of a mixture file, or of the latents of a model that has them
    #[arg(long, value_name = "C,H,W", value_delimiter = ',', num_args = 1)]
    pub shape: Option<Vec<usize>>,
    /// Configuration of a weights file that carries none
    #[arg(long, value_name = "FILE")]
    pub model_config: Option<PathBuf>,
    /// How networks compute 3x3 convolutions: winograd4, winograd2 or direct [winograd4]
    #[arg(long, value_name = "NAME")]
    pub conv: Option<String>,
    /// How exact the products of networks are: f32, or factors of 16 bits, bf16, where the processor has it [f32]
    #[arg(long, value_name = "NAME")]
    pub precision: Option<String>,
    /// Height of the images of a latent diffusion model [as trained]
    #[arg(long, value_name = "PIXELS")]
    pub height: Option<usize>,
    /// Width of the images of a latent diffusion model [as trained]
    #[arg(long, value_name = "PIXELS")]
    pub width: Option<usize>,
    /// Folder with vocab.json and merges.txt, for a text encoder that came without; with tokenizer and tokenizer_2 for
    /// FLUX
    #[arg(long, value_name = "DIR")]
    pub tokenizer: Option<PathBuf>,
    /// Tokens of a prompt that FLUX sees [512; 256 for a model that takes no guidance]
    #[arg(long, value_name = "N")]
    pub text_tokens: Option<usize>,
}

impl ModelArgs {
    /// The files the model may be made of.
    pub fn files(&self) -> Vec<NamedPath<'_>> {
        std::iter::once(("--model", Path::new(&self.model))).chain(self.options.files()).collect()
    }

    /// The library's description; `latents` is the sample shape of given latents, for models that take any.
    pub fn spec(&self, latents: Option<[usize; 3]>) -> Result<ModelSpec> {
        self.options.spec(&self.model, latents)
    }
}

impl ModelOptions {
    /// The files a model may be made of besides its own.
    pub fn files(&self) -> Vec<NamedPath<'_>> {
        let config = self.model_config.as_deref().map(|path| ("--model-config", path));
        config.into_iter().chain(self.tokenizer.as_deref().map(|path| ("--tokenizer", path))).collect()
    }

    /// The library's description of a model under its name.
    pub fn spec(&self, model: &str, latents: Option<[usize; 3]>) -> Result<ModelSpec> {
        let Self { model_config, conv, precision, height, width, tokenizer, text_tokens, .. } = self.clone();
        let shape = self.shape.as_deref().map(sample_shape).transpose()?.or(latents);
        let (model, config) = (model.into(), model_config);
        Ok(ModelSpec { model, shape, config, conv, precision, height, width, beta_table: None, tokenizer, text_tokens })
    }
}

fn sample_shape(given: &[usize]) -> Result<[usize; 3]> {
    let fits = given.len() == 3 && given.iter().all(|d| (1..=1 << 20).contains(d));
    match <[usize; 3]>::try_from(given) {
        Ok(shape) if fits => Ok(shape),
        _ => {
            let value = given.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            Err(Error::bad_value("shape", value, "three positive numbers: channels,height,width"))
        }
    }
}

/// Opens a model, and tells who wants to know what it is.
pub fn opened(spec: &ModelSpec) -> Result<LoadedModel> {
    let started = std::time::Instant::now();
    let model = spec.build()?;
    ui::detail(|| {
        let ([c, h, w], (low, high)) = (model.model.shape(), model.model.sigma_range());
        let (name, sha256) = (&model.name, &model.sha256[..model.sha256.len().min(16)]);
        let seconds = ui::duration(started.elapsed().as_secs_f64());
        let precision = model.precision().name();
        format!("model {name}: {c}x{h}x{w}, {precision}, levels {low} to {high}, sha256 {sha256}…, opened in {seconds}")
    });
    Ok(model)
}

/// Which solver.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Solver")]
pub struct SolverArgs {
    /// Name (see 'dyweight list solvers'), or as compare has it, unipc:3@karras:5+afs [dyweight with --weights, else
    /// ipndm]
    #[arg(long, value_name = "NAME")]
    pub solver: Option<String>,
    /// Order [ipndm 4, deis 3, dpmpp and unipc 2]
    #[arg(long, alias = "max_order")]
    pub order: Option<usize>,
    /// What dpmpp and unipc extrapolate: x0 or eps [x0]
    #[arg(long, value_name = "x0|eps")]
    pub predict: Option<String>,
    /// Lower the order of dpmpp and unipc towards the end [auto: dpmpp on fewer than 15 steps, unipc always]
    #[arg(long, alias = "lower_order_final", value_name = "auto|true|false")]
    pub lower_order_final: Option<LowerOrderFinal>,
    /// B(h) of unipc: bh1 or bh2 [bh2]
    #[arg(long, value_name = "bh1|bh2")]
    pub variant: Option<String>,
    /// Where dpm2 puts its middle [0.5]
    #[arg(long)]
    pub r: Option<f64>,
    /// Dynamic thresholding of dpmpp's and unipc's data predictions [true unless the model is a flow]
    #[arg(long, value_name = "BOOL")]
    pub threshold: Option<bool>,
}

impl SolverArgs {
    /// The options that were given, as text: what tells one setting from another.
    pub fn given(&self) -> Vec<String> {
        let texts = [
            self.order.map(|v| format!("order {v}")),
            self.predict.as_ref().map(|v| format!("predict {v}")),
            self.lower_order_final.map(|v| format!("lower-order-final {v}")),
            self.variant.as_ref().map(|v| format!("variant {v}")),
            self.r.map(|v| format!("r {v}")),
            self.threshold.map(|v| format!("threshold {v}")),
        ];
        texts.into_iter().flatten().collect()
    }

    /// The library's description under the name `solver`.
    pub fn spec(&self, solver: &str) -> Result<SolverSpec> {
        let predict = self.predict.as_deref();
        let predict = predict.map(|p| named("prediction", p, &[("x0", Predict::Data), ("eps", Predict::Noise)]));
        let variant = self.variant.as_deref();
        let variant = variant.map(|v| named("variant", v, &[("bh1", Variant::Bh1), ("bh2", Variant::Bh2)]));
        Ok(SolverSpec {
            solver: solver.into(),
            order: self.order,
            predict: predict.transpose()?,
            lower_order_final: self.lower_order_final,
            variant: variant.transpose()?,
            r: self.r,
            threshold: self.threshold,
        })
    }
}

/// Which features of images.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Features")]
pub struct FeatureArgs {
    /// Feature network: fashion, fashion-judge or inception [what fits]
    #[arg(long, value_name = "NAME")]
    pub features: Option<String>,
    /// Weights of Inception-v3
    #[arg(long, value_name = "FILE")]
    pub inception: Option<PathBuf>,
    /// How Inception sees an image: edm or pytorch-fid [edm]
    #[arg(long, value_name = "RULE")]
    pub resize: Option<String>,
}

impl FeatureArgs {
    /// The files they may be made of.
    pub fn files(&self) -> Vec<NamedPath<'_>> {
        self.inception.iter().map(|path| ("--inception", path.as_path())).collect()
    }

    /// The library's description.
    pub fn spec(&self) -> FeatureSpec {
        let (features, inception) = (self.features.clone(), self.inception.clone());
        FeatureSpec { features, inception, resize: self.resize.clone() }
    }
}

/// What a Fréchet distance is taken to, and in which features.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Fréchet distance")]
pub struct ReferenceArgs {
    /// Reference statistics: fashion, an .npz file with 'mu' and 'sigma', or none [fashion for the embedded model]
    #[arg(long, value_name = "NAME|FILE")]
    pub reference: Option<String>,
    #[command(flatten)]
    pub features: FeatureArgs,
}

impl ReferenceArgs {
    /// The files it may be made of.
    pub fn files(&self) -> Vec<NamedPath<'_>> {
        let reference = self.reference.iter().map(|name| ("--reference", Path::new(name)));
        reference.chain(self.features.files()).collect()
    }

    /// An error for features without anything to compare them with.
    pub fn refuse_idle(&self, has_reference: bool) -> Result<()> {
        let FeatureArgs { features, inception, resize } = &self.features;
        let given =
            [("features", features.is_some()), ("inception", inception.is_some()), ("resize", resize.is_some())];
        let given = given.map(|(option, given)| (option, given && !has_reference));
        dyweight::option::refuse(&given, |option| Error::needs(option, "reference"))
    }

    /// The reference for a model, if it has one.
    pub fn open(&self, model: &LoadedModel) -> Result<Option<FeatureReference>> {
        reference(model, self.reference.as_deref(), &self.features.spec())
    }
}

/// Scores of images and their prompts, by the weights of their networks.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Scores of prompts")]
pub struct ScorerArgs {
    /// CLIP score with this model: a file or a folder, its tokenizer beside it
    #[arg(long, value_name = "FILE|DIR", requires = "prompts")]
    pub clip: Option<PathBuf>,
    /// HPSv2 score with these weights, a tokenizer beside them
    #[arg(long, value_name = "FILE|DIR", requires = "prompts")]
    pub hps: Option<PathBuf>,
    /// ImageReward with these weights, vocab.txt beside them
    #[arg(long, value_name = "FILE|DIR", requires = "prompts")]
    pub image_reward: Option<PathBuf>,
    /// Where the tokenizer of CLIP and HPSv2 is [beside the weights]
    #[arg(long, value_name = "DIR|FILE", requires = "prompts")]
    pub score_tokenizer: Option<PathBuf>,
    /// Where ImageReward's vocab.txt is [beside the weights]
    #[arg(long, value_name = "DIR|FILE", requires = "image_reward")]
    pub reward_tokenizer: Option<PathBuf>,
}

impl ScorerArgs {
    fn given(&self) -> impl Iterator<Item = (ScoreKind, &PathBuf)> {
        let weights = [&self.clip, &self.hps, &self.image_reward];
        ScoreKind::ALL.into_iter().zip(weights).filter_map(|(kind, weights)| Some((kind, weights.as_ref()?)))
    }

    /// The files they may be made of.
    pub fn files(&self) -> Vec<NamedPath<'_>> {
        let flags = |kind| match kind {
            ScoreKind::Clip => "--clip",
            ScoreKind::Hps => "--hps",
            ScoreKind::ImageReward => "--image-reward",
        };
        let tokenizers = [("--score-tokenizer", &self.score_tokenizer), ("--reward-tokenizer", &self.reward_tokenizer)];
        let tokenizers = tokenizers.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
        self.given().map(|(kind, path)| (flags(kind), path.as_path())).chain(tokenizers).collect()
    }

    /// Opens those that were asked for.
    pub fn open(&self) -> Result<Vec<Arc<Scorer>>> {
        let open = |(kind, weights): (ScoreKind, &PathBuf)| {
            let tokenizer = match kind {
                ScoreKind::ImageReward => self.reward_tokenizer.clone(),
                _ => self.score_tokenizer.clone(),
            };
            ScorerSpec { tokenizer, ..ScorerSpec::new(kind, weights) }.build().map(Arc::new)
        };
        self.given().map(open).collect()
    }
}

/// Solver files of a list with commas, each of which may be a file's whole name.
pub fn sources(given: &[String]) -> Vec<String> {
    let split = |text: &String| match Path::new(text).exists() {
        true => vec![text.clone()],
        false => text.split(',').map(String::from).collect(),
    };
    given.iter().flat_map(split).collect()
}

/// A class by its number or by one of `names`; `others` is what else could have been said.
pub fn class_of(text: &str, names: &[&str], others: &[&str]) -> Result<usize> {
    let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    named.or_else(|| text.parse().ok()).ok_or_else(|| match (names, others) {
        ([], []) => Error::bad_value("class", text, "must be a class number"),
        ([], [other, ..]) => Error::bad_value("class", text, format!("must be a class number or '{other}'")),
        (names, others) => Error::unknown_name("class", text, [names, others].concat()),
    })
}

/// Numbers of the samples of a batch, 4 GB of them: more is a typing error, or does not fit.
const MOST_NUMBERS: usize = 1 << 29;

/// A batch of `samples` or fewer of this shape, unless it is empty or too large to be held.
pub fn check_batch(batch: usize, samples: usize, shape: [usize; 3]) -> Result<usize> {
    let bad = |expected| Err(Error::bad_value("batch", batch, expected));
    let (used, [c, h, w]) = (batch.min(samples), shape);
    match shape.iter().fold(used, |product, size| product.saturating_mul(*size)) {
        _ if batch == 0 => bad("at least one sample per batch".into()),
        numbers if numbers > MOST_NUMBERS => {
            bad(format!("{used} samples of {c}x{h}x{w} are {numbers} numbers, more than {MOST_NUMBERS}"))
        }
        _ => Ok(batch),
    }
}

/// How long the grid is.
#[derive(Args, Clone, Copy, Default)]
#[group(multiple = false)]
pub struct BudgetArgs {
    /// Network calls per sample; the grid follows
    #[arg(long)]
    pub nfe: Option<usize>,
    /// Intervals of the grid
    #[arg(long)]
    pub steps: Option<usize>,
}

impl BudgetArgs {
    /// The budget, if one was given.
    pub fn budget(self) -> Option<Budget> {
        self.nfe.map(Budget::Nfe).or(self.steps.map(Budget::Steps))
    }
}
