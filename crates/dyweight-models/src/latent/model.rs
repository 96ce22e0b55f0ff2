//! A latent diffusion model: denoiser, autoencoder, text encoder.

use super::bound::{Bound, Contexts};
use super::bundle::{Bundle, Part};
use super::images::ImageDecoder;
use super::network::Network;
use super::precond::{Precond, Scaling};
use super::schedule;
use super::texts::{TOKENS, UnetTexts, no_encoder};
use crate::arithmetic::Arithmetic;
use crate::autoencoder::Autoencoder;
use crate::memory::unet_numbers;
use crate::preconditioned::Target;
use crate::side_by_side::at_work;
use crate::unet::{Unet, UnetConfig};
use crate::weights::read_json;
use dyweight_core::denoiser::{Condition, Context, Cost, Decoder, Differentiable, Model, Prediction, TextContext};
use dyweight_core::error::{Error, Result};
use dyweight_core::schedule::BetaTable;
use dyweight_files::Fingerprint;
use dyweight_nn::{ConvAlgo, Precision};
use std::path::PathBuf;
use std::sync::Arc;

/// What is said of a model besides where it is.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How 3×3 convolutions are computed.
    pub conv: ConvAlgo,
    /// How exact products are.
    pub precision: Precision,
    /// Shape of the latents.
    pub shape: Option<[usize; 3]>,
    /// Height and width of the images.
    pub size: [Option<usize>; 2],
    /// Name of the noise table it was trained with.
    pub beta_table: Option<String>,
    /// Folder of the tokenizer, or of both of a model that has two.
    pub tokenizer: Option<PathBuf>,
    /// Tokens of a text, of a model that takes any number.
    pub text_tokens: Option<usize>,
}

/// A latent diffusion model.
pub struct LatentModel {
    unet: Unet,
    precond: Precond,
    images: Option<ImageDecoder>,
    texts: Option<UnetTexts>,
    /// The empty text, for samples that are asked for nothing.
    empty: Option<Arc<TextContext>>,
    latents: [usize; 3],
    /// The fingerprint of the tokenizer.
    tokens: String,
}

impl LatentModel {
    /// Builds the parts of a bundle, with the fingerprint of their weights.
    pub fn open(bundle: &Bundle, settings: &Settings) -> Result<(Self, String)> {
        let (unet, unet_hash) = Unet::load(&bundle.unet()?, settings.arithmetic())?;
        let mut hash = Fingerprint::default();
        hash.add(unet_hash.as_bytes());
        let autoencoder = bundle.decoder(settings.conv, &mut hash)?;
        let texts = match unet.config().context {
            Some(_) => UnetTexts::open(bundle, settings.tokenizer.clone())?,
            // A tokenizer that cannot be read is named even where it is not needed.
            None => bundle.tokenizer(settings.tokenizer.as_deref()).map(|_| None)?,
        };
        let texts = texts.map(|(texts, text_hash)| {
            hash.add(text_hash.as_bytes());
            texts
        });
        let precond = precond(bundle, settings, unet.config())?;
        let tokens = bundle.tokenizer_files(settings.tokenizer.as_deref())?;
        let model = Self { tokens, ..Self::new(unet, precond, autoencoder, texts, settings)? };
        Ok((model, hash.text()))
    }

    pub(super) fn new(
        unet: Unet,
        precond: Precond,
        autoencoder: Option<Autoencoder>,
        texts: Option<UnetTexts>,
        settings: &Settings,
    ) -> Result<Self> {
        let config = unet.config();
        if config.inputs != config.outputs {
            return Err(Error::conflict(
                format!("the U-Net takes {} channels and gives {}", config.inputs, config.outputs),
                "only networks that predict what they are given can be sampled: no inpainting or upscaling",
            ));
        }
        if let (Some(width), Some(texts)) = (config.context, &texts)
            && texts.width() != width
        {
            let what = "width of the text encoder".into();
            return Err(Error::Shape { what, expected: vec![width], found: vec![texts.width()] });
        }
        let factor = autoencoder.as_ref().map(|a| a.config().factor());
        let latents = latent_shape(config, factor, settings)?;
        let images = autoencoder.map(|autoencoder| ImageDecoder::new(autoencoder, latents)).transpose()?;
        let images = images.map(|images| images.instead_of(unet.pages()));
        let empty = texts.as_ref().map(|texts| texts.encode("").map(Arc::new)).transpose()?;
        Ok(Self { unet, precond, images, texts, empty, latents, tokens: String::new() })
    }

    /// The fingerprint of everything but weights and shapes that decides its numbers: configurations, noise table,
    /// tokenizer.
    pub fn configuration(&self) -> String {
        let texts = self.texts.as_ref().map(|texts| texts.configuration(&self.tokens));
        let images = self.images.as_ref().map(ImageDecoder::config);
        let text = format!("{:?}|{:?}|{images:?}|{texts:?}", self.unet.config(), self.precond);
        Fingerprint::default().add(text.as_bytes()).text()
    }

    /// The U-Net.
    pub fn unet(&self) -> &Unet {
        &self.unet
    }

    fn encode(&self, prompt: &str) -> Result<Arc<TextContext>> {
        self.texts.as_ref().ok_or_else(no_encoder)?.encode(prompt).map(Arc::new)
    }

    fn context(&self, context: &Context) -> Result<Arc<TextContext>> {
        match context {
            Context::Text(text) => Ok(text.clone()),
            Context::Unconditional => self.empty.clone().ok_or_else(|| {
                Error::conflict(
                    "this model must be asked for something",
                    "give `prompts` (one alone to sample: `prompt`), and `tokenizer` if the model came without one",
                )
            }),
            Context::Class(class) => Err(Error::bad_value("class", class, "this model has no classes: give `prompt`")),
        }
    }

    fn contexts(&self, condition: &Condition) -> Result<Contexts> {
        if self.unet.config().context.is_none() {
            condition.class_of_each(0)?;
            return Ok(Contexts::None);
        }
        match condition.contexts.as_slice() {
            [] => Ok(Contexts::All(self.context(&Context::Unconditional)?)),
            each => Ok(Contexts::Each(each.iter().map(|c| self.context(c)).collect::<Result<_>>()?)),
        }
    }
}

pub(super) fn precond(bundle: &Bundle, settings: &Settings, config: &UnetConfig) -> Result<Precond> {
    let otherwise = if config.context.is_some() { BetaTable::stable_diffusion() } else { BetaTable::lsun_ldm() };
    let found = match (&bundle.scheduler, &bundle.unet) {
        (Some(path), _) => schedule::of_diffusers(path, &read_json(path, None)?)?,
        (None, Some(Part::Stored { set, .. })) => {
            schedule::of_compvis(&bundle.path, &bundle.parameters, set, otherwise)?
        }
        _ => Precond { table: otherwise, target: Target::Noise },
    };
    match &settings.beta_table {
        Some(name) => Ok(Precond { table: BetaTable::named(name)?, ..found }),
        None => Ok(found),
    }
}

/// The shape of the latents: as given, or for images of the size asked for, or as trained.
pub(super) fn latent_shape(config: &UnetConfig, factor: Option<usize>, settings: &Settings) -> Result<[usize; 3]> {
    settings.latents(config.inputs, config.size.unwrap_or(64), config.granularity(), factor)
}

impl Settings {
    /// How its networks are computed.
    pub(super) fn arithmetic(&self) -> Arithmetic {
        Arithmetic { conv: self.conv, precision: self.precision }
    }

    /// The name of the precision, where it is not the usual one.
    pub(super) fn stated_precision(&self) -> Option<&'static str> {
        (self.precision != Precision::default()).then_some(self.precision.name())
    }

    /// The shape of latents whose sides are multiples of `step`: as given, or for images of the size asked for, or of
    /// the usual side.
    pub(super) fn latents(
        &self,
        channels: usize,
        usual: usize,
        step: usize,
        factor: Option<usize>,
    ) -> Result<[usize; 3]> {
        let bad = |name, value: usize, expected| Err(Error::bad_value(name, value, expected));
        let side = |name: &'static str, pixels: Option<usize>| -> Result<usize> {
            let Some(pixels) = pixels else { return Ok(usual) };
            let Some(factor) = factor else {
                return bad(name, pixels, "this model has no autoencoder: give `shape` of the latents".into());
            };
            let unit = factor * step;
            if pixels == 0 || pixels % unit != 0 {
                return bad(name, pixels, format!("must be a multiple of {unit} pixels"));
            }
            Ok(pixels / factor)
        };
        let shape = match self.shape {
            Some(shape) => {
                for (name, pixels, latent) in [("height", self.size[0], shape[1]), ("width", self.size[1], shape[2])] {
                    let Some(pixels) = pixels else { continue };
                    if side(name, Some(pixels))? != latent {
                        let expected = format!("the latents given are {}x{}, of another {name}", shape[1], shape[2]);
                        return Err(Error::bad_value(name, pixels, expected));
                    }
                }
                shape
            }
            None => [channels, side("height", self.size[0])?, side("width", self.size[1])?],
        };
        if shape[0] != channels || shape[1] % step != 0 || shape[2] % step != 0 || shape.contains(&0) {
            let up = |size: usize| size.div_ceil(step).max(1) * step;
            let (expected, found) = (vec![channels, up(shape[1]), up(shape[2])], shape.to_vec());
            return Err(Error::Shape { what: "latents".into(), expected, found });
        }
        Ok(shape)
    }
}

impl Model for LatentModel {
    fn bind<'m>(&'m self, condition: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        let contexts = self.contexts(condition)?;
        // All texts are encoded before.
        self.texts.iter().for_each(UnetTexts::close);
        Ok(Box::new(Bound {
            network: &self.unet,
            precond: &self.precond,
            contexts,
            channels: self.latents[0],
            granularity: self.unet.config().granularity(),
        }))
    }

    fn shape(&self) -> [usize; 3] {
        self.latents
    }

    fn prediction(&self) -> Prediction {
        Prediction::Denoised
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.precond.range()
    }

    fn decoder(&self) -> Option<&dyn Decoder> {
        self.images.as_ref().map(|images| images as &dyn Decoder)
    }

    fn cost(&self) -> Option<Cost> {
        let (config, size, weights) =
            (self.unet.config(), [self.latents[1], self.latents[2]], self.unet.weight_bytes());
        Some(Cost {
            weights,
            resident: weights,
            activations: unet_numbers(config, size).0 * size_of::<f32>() as u64,
            decoding: self.images.as_ref().map_or(0, ImageDecoder::memory),
            operations: config.operations(size, TOKENS),
        })
    }

    fn at_work(&self, samples: usize) -> usize {
        at_work(samples, (&self.unet).at_once())
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn context_of(&self, text: &str) -> Result<Context> {
        if self.unet.config().context.is_none() {
            return Err(Error::bad_value("prompt", "given", "this model takes no text"));
        }
        self.encode(text).map(Context::Text)
    }

    fn reads_whole(&self, text: &str) -> Result<bool> {
        self.texts.as_ref().map_or(Ok(true), |texts| texts.reads_whole(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Half a gigabyte of a text encoder is not held while the U-Net runs; a text that comes later reads the same.
    #[test]
    fn the_text_encoder_is_open_only_while_texts_are_encoded() -> Result<()> {
        let bundle = Bundle::of_folder(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/latent")))?;
        let settings = Settings { shape: Some([4, 4, 4]), ..Settings::default() };
        let (model, _) = LatentModel::open(&bundle, &settings)?;
        let is_open = || match &model.texts {
            Some(UnetTexts::Clip { tower, .. }) => tower.is_open(),
            _ => unreachable!("the folder has a text encoder"),
        };
        let context = model.context_of("the cat")?;
        assert!(is_open());
        model.bind(&Condition { contexts: vec![context.clone()], ..Condition::default() })?;
        assert!(!is_open());
        assert_eq!(model.context_of("the cat")?, context);
        assert!(is_open());
        Ok(())
    }
}
