//! Models by name or file.
//!
//! A file is told by its content: a safetensors file with `model.mu` is a mixture, one with the tensors of a latent
//! diffusion model is that, everything else an EDM network. A folder is a latent diffusion model.

use crate::arithmetic::{self, Arithmetic, refuse_unused, require_available};
use crate::edm::{Config, Edm, EdmFile, conv_algo, published};
use crate::embedded;
use crate::hub::HubName;
use crate::latent::{self, Bundle, Family, FlowModel, ImageDecoder, LatentModel, Settings, Summary};
use crate::mixture_file::{fingerprint, mixture_file, mixture_of};
use crate::weights::TensorSet;
use dyweight_core::denoiser::{Model, ModelIdentity, SharedModel};
use dyweight_core::error::{Error, Result, shown};
use dyweight_core::mixture::Mixture;
use dyweight_core::option;
use dyweight_files::{Fingerprint, Format, SharedBytes, TensorFile, read_data, sniff};
use dyweight_nn::{ConvAlgo, Precision};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a user says about the model.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ModelSpec {
    /// A built-in name, `random:ARCHITECTURE`, a file or a folder, or `owner/name@revision` of the local Hugging Face
    /// cache.
    pub model: String,
    /// Sample shape of a mixture file or of a latent diffusion model's latents.
    pub shape: Option<[usize; 3]>,
    /// Configuration of a bare weights file.
    pub config: Option<PathBuf>,
    /// How 3×3 convolutions are computed: `winograd4`, `winograd2` or `direct`.
    pub conv: Option<String>,
    /// How exact products are: `f32`, or factors of 16 bits, `bf16`, where the processor has it.
    pub precision: Option<String>,
    /// Height of a latent diffusion model's images.
    pub height: Option<usize>,
    /// Width of a latent diffusion model's images.
    pub width: Option<usize>,
    /// Noise table a latent diffusion model was trained with.
    pub beta_table: Option<String>,
    /// Folder of the tokenizer of a text encoder that came without one.
    pub tokenizer: Option<PathBuf>,
    /// Tokens of a text for T5: 512, or 256 for a model without guidance.
    pub text_tokens: Option<usize>,
}

/// A model ready to use.
pub struct LoadedModel {
    /// How it was named.
    pub name: String,
    /// Fingerprint of the weights.
    pub sha256: String,
    /// What decides its numbers besides the weights: sample shape, configuration, how convolutions and products are
    /// computed.
    pub settings: serde_json::Value,
    /// The model.
    pub model: Arc<dyn Model>,
}

impl LoadedModel {
    /// What a solver file says of it.
    pub fn identity(&self) -> ModelIdentity {
        ModelIdentity { name: self.name.clone(), sha256: Some(self.sha256.clone()) }
    }

    /// How exact its products are.
    pub fn precision(&self) -> Precision {
        let name = self.settings.get("precision").and_then(serde_json::Value::as_str);
        name.and_then(|name| arithmetic::precision(name).ok()).unwrap_or_default()
    }

    /// Its name, with the precision where that is not the usual one.
    pub fn described(&self) -> String {
        match self.precision() {
            Precision::F32 => self.name.clone(),
            Precision::Bf16 => format!("{} in bf16", self.name),
        }
    }

    /// What its classes are called, in their order, where that is known.
    pub fn class_names(&self) -> &'static [&'static str] {
        if self.name == "fashion" { &embedded::FASHION_CLASSES } else { &[] }
    }
}

impl SharedModel for LoadedModel {
    fn share(&self) -> Arc<dyn Model> {
        self.model.clone()
    }

    fn identity(&self) -> ModelIdentity {
        self.identity()
    }
}

/// A model by its kind, for those who need more of it than every model has.
pub enum AnyModel {
    /// A closed form.
    Mixture(Mixture),
    /// An EDM network.
    Network(Box<Edm>),
    /// A latent diffusion model.
    Latent(Box<LatentModel>),
    /// A latent flow.
    Flow(Box<FlowModel>),
}

/// Built-in models with a line each.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("fashion", "28x28 grey images of clothes in 10 classes, a network of 2.0 million weights"),
    ("mixture", "a two-armed spiral of 32 Gaussians in the plane, with its exact denoiser"),
    ("mixture-flow", "the same data as a flow with its exact velocity"),
];

/// What stands before the name of a published architecture.
const RANDOM: &str = "random:";

impl ModelSpec {
    /// A model by name.
    pub fn named(name: &str) -> Self {
        Self { model: name.into(), ..Self::default() }
    }

    /// Loads it.
    pub fn build(&self) -> Result<LoadedModel> {
        let (model, sha256) = self.open()?;
        let (model, mut settings): (Arc<dyn Model>, _) = match model {
            AnyModel::Mixture(mixture) => {
                let settings = json!({ "shape": mixture.shape() });
                (Arc::new(mixture), settings)
            }
            AnyModel::Network(network) => {
                let config = Fingerprint::default().add(format!("{:?}", network.config()).as_bytes()).text();
                let conv = format!("{:?}", self.conv()?).to_lowercase();
                (Arc::from(network as Box<dyn Model>), json!({ "config": config, "conv": conv }))
            }
            AnyModel::Latent(model) => {
                let conv = format!("{:?}", self.conv()?).to_lowercase();
                let settings = json!({ "shape": model.shape(), "conv": conv, "config": model.configuration() });
                (Arc::from(model as Box<dyn Model>), settings)
            }
            AnyModel::Flow(model) => {
                let conv = format!("{:?}", self.conv()?).to_lowercase();
                let settings = json!({
                    "shape": model.shape(), "conv": conv, "text_tokens": model.text_tokens(), "config": model.configuration(),
                });
                (Arc::from(model as Box<dyn Model>), settings)
            }
        };
        // Not of the usual one: what was made before there was a choice stays valid.
        if self.precision()? != Precision::default() {
            settings["precision"] = json!(self.precision()?.name());
        }
        Ok(LoadedModel { name: self.model.clone(), sha256, settings, model })
    }

    /// Loads it by its kind, with the fingerprint of its weights.
    pub fn open(&self) -> Result<(AnyModel, String)> {
        // A wrong name is wrong even where nothing is convolved or multiplied.
        self.conv()?;
        self.precision()?;
        if let (Some(config), true) = (&self.config, self.is_built_in()) {
            return Err(Error::conflict(
                format!("'{}' is built in and has its configuration, not that of {}", self.model, shown(config)),
                "leave the configuration out, or name a file of weights",
            ));
        }
        match self.model.as_str() {
            "mixture" => return self.of_mixture(Mixture::spiral()),
            "mixture-flow" => return self.of_mixture(Mixture::spiral().as_flow()),
            "fashion" => return self.of_network(embedded::fashion()?),
            _ => {}
        }
        if let Some(name) = self.model.strip_prefix(RANDOM) {
            let sha256 = Fingerprint::default().add(self.model.as_bytes()).text();
            if let Some(family) = Family::named(name) {
                let model = LatentModel::random(&family, 0, &self.settings()?)?;
                return Ok((AnyModel::Latent(Box::new(model)), sha256));
            }
            self.refuse_latent_options()?;
            let network = Edm::random(architecture(name)?, 0, self.arithmetic()?)?;
            return Ok((AnyModel::Network(Box::new(network)), sha256));
        }
        self.open_file(&self.path()?)
    }

    fn is_built_in(&self) -> bool {
        self.model.starts_with(RANDOM) || BUILT_IN.iter().any(|(name, _)| *name == self.model)
    }

    fn open_file(&self, path: &Path) -> Result<(AnyModel, String)> {
        if let Some(problem) = no_model_file(path) {
            return Err(problem);
        }
        if !path.exists() {
            return Err(Error::unknown_name("model or file", self.model.clone(), BUILT_IN.map(|(name, _)| name)));
        }
        if path.is_dir() {
            return self.of_bundle(&Bundle::of_folder(path)?);
        }
        self.parse(path, read_data(path)?)
    }

    /// The file or folder; a name of the hub where there is none.
    pub fn path(&self) -> Result<PathBuf> {
        let path = PathBuf::from(&self.model);
        match HubName::parse(&self.model) {
            Some(name) if !path.exists() => name.find(),
            _ => Ok(path),
        }
    }

    /// The parts of the latent diffusion model that it names.
    pub fn bundle(&self) -> Result<Bundle> {
        let path = self.path()?;
        match path.is_dir() {
            true => Bundle::of_folder(&path),
            false => Bundle::of_file(TensorSet::read(&path)?, self.config.as_deref()),
        }
    }

    /// What makes images of a latent diffusion model's samples, without its denoiser; none of a model without such a
    /// part.
    pub fn decoder(&self) -> Result<Option<ImageDecoder>> {
        let settings = self.settings()?;
        match self.model.strip_prefix(RANDOM) {
            Some(name) => Family::named(name).map(|family| ImageDecoder::random(&family, 0, &settings)).transpose(),
            None if self.is_built_in() => Ok(None),
            None => ImageDecoder::of_bundle(&self.bundle()?, &settings),
        }
    }

    /// What a latent diffusion model is and will need, without reading its weights; none of a model of another kind.
    pub fn summary(&self) -> Result<Option<Summary>> {
        if let Some(name) = self.model.strip_prefix(RANDOM) {
            let settings = self.settings()?;
            return Family::named(name).map(|family| Summary::of_random(&self.model, &family, &settings)).transpose();
        }
        let path = self.path()?;
        if path.is_dir() {
            return Bundle::of_folder(&path)?.summary(&self.settings()?).map(Some);
        }
        let bytes = read_data(&path)?;
        if !matches!(sniff(&bytes), Format::Safetensors | Format::TorchZip | Format::TorchLegacy) {
            return Ok(None);
        }
        let set = TensorSet::parse(&path, bytes)?;
        if !Bundle::recognises(&set) {
            return Ok(None);
        }
        let bundle = Bundle::of_file(set, self.config.as_deref())?;
        if bundle.has_unet() || bundle.is_flow() { bundle.summary(&self.settings()?).map(Some) } else { Ok(None) }
    }

    fn of_bundle(&self, bundle: &Bundle) -> Result<(AnyModel, String)> {
        if bundle.is_flow() {
            let (model, sha256) = FlowModel::open(bundle, &self.settings()?)?;
            return Ok((AnyModel::Flow(Box::new(model)), sha256));
        }
        if self.text_tokens.is_some() {
            return Err(Error::no_effect("text-tokens", format!("'{}' is no FLUX model", self.model)));
        }
        let (model, sha256) = LatentModel::open(bundle, &self.settings()?)?;
        Ok((AnyModel::Latent(Box::new(model)), sha256))
    }

    fn settings(&self) -> Result<Settings> {
        let Arithmetic { conv, precision } = self.arithmetic()?;
        Ok(Settings {
            conv,
            precision,
            shape: self.shape,
            size: [self.height, self.width],
            beta_table: self.beta_table.clone(),
            tokenizer: self.tokenizer.clone(),
            text_tokens: self.text_tokens,
        })
    }

    /// Loads the bytes of a model file called `path`.
    pub fn parse(&self, path: &Path, bytes: SharedBytes) -> Result<(AnyModel, String)> {
        match mixture_file(path, &bytes)? {
            Some(file) => self.of_mixture(mixture_of(path, &file)?),
            None if matches!(sniff(&bytes), Format::Safetensors | Format::TorchZip | Format::TorchLegacy) => {
                let set = TensorSet::parse(path, bytes.clone())?;
                match Bundle::recognises(&set) {
                    true => self.of_bundle(&Bundle::of_file(set, self.config.as_deref())?),
                    false => self.of_network(EdmFile::parse(path, bytes, self.config.as_deref())?),
                }
            }
            None => self.of_network(EdmFile::parse(path, bytes, self.config.as_deref())?),
        }
    }

    /// Refuses options of latent diffusion models: who asks for a height and gets another is misled.
    fn refuse_latent_options(&self) -> Result<()> {
        let given = [
            ("height", self.height.is_some()),
            ("width", self.width.is_some()),
            ("tokenizer", self.tokenizer.is_some()),
            ("text-tokens", self.text_tokens.is_some()),
        ];
        option::refuse(&given, |option| {
            Error::no_effect(option, format!("'{}' is no latent diffusion model", self.model))
        })
    }

    fn of_mixture(&self, mixture: Mixture) -> Result<(AnyModel, String)> {
        refuse_unused(self.precision()?, &self.model)?;
        if self.conv.is_some() {
            return Err(Error::no_effect("conv", format!("'{}' is a closed form, without convolutions", self.model)));
        }
        self.refuse_latent_options()?;
        if let Some(config) = &self.config {
            return Err(Error::conflict(
                format!("'{}' is a mixture, which takes no configuration, not {}", self.model, shown(config)),
                "leave the configuration out, or name a file of weights",
            ));
        }
        let mixture = match self.shape {
            Some(shape) => mixture.shaped(shape)?,
            None => mixture,
        };
        let sha256 = fingerprint(&mixture);
        Ok((AnyModel::Mixture(mixture), sha256))
    }

    fn of_network(&self, file: EdmFile) -> Result<(AnyModel, String)> {
        self.refuse_latent_options()?;
        let network = file.build(self.arithmetic()?)?;
        let found = network.shape();
        match self.shape {
            Some(expected) if expected != found => {
                let what = format!("sample shape of {}", self.model);
                Err(Error::Shape { what, expected: expected.to_vec(), found: found.to_vec() })
            }
            _ => Ok((AnyModel::Network(Box::new(network)), file.sha256())),
        }
    }

    /// How networks are computed, if the processor can.
    pub fn arithmetic(&self) -> Result<Arithmetic> {
        let precision = self.precision()?;
        require_available(precision)?;
        Ok(Arithmetic { conv: self.conv()?, precision })
    }

    fn precision(&self) -> Result<Precision> {
        self.precision.as_deref().map_or(Ok(Precision::default()), arithmetic::precision)
    }

    /// How convolutions are computed.
    pub fn conv(&self) -> Result<ConvAlgo> {
        self.conv.as_deref().map_or(Ok(ConvAlgo::default()), conv_algo)
    }
}

/// A published EDM architecture; one that is not known is compared with those of latent diffusion models, too.
fn architecture(name: &str) -> Result<Config> {
    published(name).map_err(|error| match error {
        Error::UnknownName { kind, name, mut known } => {
            known.extend(latent::RANDOM.iter().map(|(name, _)| name.to_string()));
            Error::unknown_name(kind, name, known)
        }
        other => other,
    })
}

/// What is wrong with the name of a model that is told by the name alone: an address, a file that is not there.
fn no_model_file(path: &Path) -> Option<Error> {
    let (name, is_file_name) = (shown(path), path.components().count() > 1 || path.extension().is_some());
    let (problem, hint) = if name.contains("://") {
        (format!("'{name}' is an address"), "download the file, and name it with `model`".into())
    } else if !path.exists() && is_file_name {
        (
            format!("there is no file '{name}'"),
            format!("check the spelling; built in are {}", BUILT_IN.map(|(name, _)| name).join(", ")),
        )
    } else {
        return None;
    };
    Some(Error::conflict(problem, hint))
}

/// Networks others have published that cannot be run: the start of their tensors' names, and what they are.
const FOREIGN: &[(&str, &str)] = &[("model.diffusion_model.joint_blocks.", "a Stable Diffusion 3 checkpoint")];

/// Says what a file of someone else's network is.
pub(crate) fn refuse_foreign(path: &Path, file: &TensorFile) -> Result<()> {
    let starts = |start: &str| file.tensors.keys().any(|name| name.starts_with(start));
    let Some((_, what)) = FOREIGN.iter().find(|(start, _)| starts(start)) else { return Ok(()) };
    Err(Error::conflict(
        format!("'{}' is {what}, which cannot be run", shown(path)),
        "networks of EDM, Stable Diffusion 1.x and FLUX can be; its learned coefficients are read as presets",
    ))
}
