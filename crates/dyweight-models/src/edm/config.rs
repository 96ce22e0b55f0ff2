//! What an EDM network is built from, read from the options in its file.
//!
//! Names and defaults are those of the released training code's constructors (Karras et al., "Elucidating the Design
//! Space of Diffusion-Based Generative Models", 2022), so that the keyword arguments in a pickle, or a JSON copy of
//! them, are a complete description. Options that matter only in training (`dropout`, `label_dropout`, `use_fp16`) and
//! unknown ones are passed over: what decides the architecture is checked again against the tensors' names and shapes.

use super::kwargs::Kwargs;
use dyweight_files::Malformed;
use serde_json::{Map, Value};

/// A network and its preconditioning.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Rows and columns of an image.
    pub resolution: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Entries of a label row; 0 for an unconditional network.
    pub label_dim: usize,
    /// The wrapper.
    pub precond: PrecondConfig,
    /// The network inside.
    pub net: NetConfig,
}

/// Which preconditioning, with its own options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PrecondConfig {
    /// `EDMPrecond`.
    Edm {
        /// Standard deviation of the data.
        sigma_data: f64,
        /// Smallest supported level.
        sigma_min: f64,
        /// Largest supported level.
        sigma_max: f64,
    },
    /// `VPPrecond`.
    Vp {
        /// Extent of the linear noise schedule.
        beta_d: f64,
        /// Start of the linear noise schedule.
        beta_min: f64,
        /// Number of time steps in training.
        steps: usize,
        /// Smallest time in training.
        epsilon_t: f64,
    },
    /// `VEPrecond`.
    Ve {
        /// Smallest supported level.
        sigma_min: f64,
        /// Largest supported level.
        sigma_max: f64,
    },
    /// `iDDPMPrecond`.
    Iddpm {
        /// Number of time steps in training.
        steps: usize,
        /// Smallest ratio of successive ᾱ.
        c_1: f64,
        /// Offset of the cosine.
        c_2: f64,
    },
}

/// The two network families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// DDPM++ and NCSN++: `SongUNet`.
    Song,
    /// ADM: `DhariwalUNet`.
    Adm,
}

/// How the noise level is embedded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseEmbedding {
    /// Geometric frequencies.
    Positional,
    /// Random frequencies, stored in the file.
    Fourier,
}

/// How the input reaches lower resolutions of the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// Through the blocks alone.
    Standard,
    /// Also resampled and added.
    Skip,
    /// Also through a resampling convolution of its own.
    Residual,
}

/// How the output is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoder {
    /// From the last resolution.
    Standard,
    /// As a sum over all resolutions.
    Skip,
}

/// The network inside the preconditioning.
#[derive(Clone, Debug, PartialEq)]
pub struct NetConfig {
    /// Family.
    pub family: Family,
    /// Output channels.
    pub outputs: usize,
    /// Base of all channel counts.
    pub model_channels: usize,
    /// Factor of each resolution.
    pub channel_mult: Vec<usize>,
    /// Factor of the embedding's width.
    pub channel_mult_emb: usize,
    /// Factor of the noise embedding's width.
    pub channel_mult_noise: usize,
    /// Blocks per resolution.
    pub num_blocks: usize,
    /// Resolutions with attention.
    pub attn_resolutions: Vec<usize>,
    /// Width of the augmentation labels, which inference does not use.
    pub augment_dim: usize,
    /// Noise embedding.
    pub embedding: NoiseEmbedding,
    /// Encoder.
    pub encoder: Encoder,
    /// Decoder.
    pub decoder: Decoder,
    /// Unnormalised taps of the resampling filter.
    pub filter: Vec<f64>,
}

/// Larger numbers of channels, pixels or labels do not occur, and products of three of them can still be counted.
const MOST: usize = 1 << 16;
/// Numbers of one image's largest activation, 2 GB of them: images of 1024 x 1024 at 512 channels. Nothing in a file's
/// size bounds its resolution, so that a few bytes could ask for any amount of memory.
const MOST_ACTIVATION: usize = 1 << 29;
/// Resolutions of a network.
const MOST_LEVELS: usize = 12;
/// Blocks per resolution.
const MOST_BLOCKS: usize = 256;
/// Taps of a resampling filter.
const MOST_TAPS: usize = 16;
/// Time steps of a discrete schedule.
const MOST_STEPS: usize = 1 << 20;

impl Config {
    /// Places between encoder and decoder.
    pub(super) fn narrowest(&self) -> usize {
        (self.resolution >> (self.net.channel_mult.len() - 1)).pow(2)
    }

    /// Reads the options of a file; whatever they leave out has its default.
    pub fn from_map(map: &Map<String, Value>) -> Result<Self, Malformed> {
        let options = Kwargs(map);
        if !map.contains_key("cls") {
            return Err(Malformed::Missing { name: "cls".into() });
        }
        let classes = [("EDMPrecond", 0), ("VPPrecond", 1), ("VEPrecond", 2), ("iDDPMPrecond", 3)];
        let precond = PrecondConfig::read(&options, options.choice("cls", &classes)?)?;
        let channels = options.needed("img_channels", MOST)?;
        let config = Self {
            resolution: options.needed("img_resolution", MOST)?,
            channels,
            label_dim: options.count("label_dim", MOST)?.unwrap_or(0),
            precond,
            net: NetConfig::read(&options, &precond, channels)?,
        };
        config.check()?;
        Ok(config)
    }

    /// Rows and columns at a level of the network.
    pub fn size(&self, level: usize) -> usize {
        self.resolution >> level
    }

    fn check(&self) -> Result<(), Malformed> {
        let levels = self.net.channel_mult.len();
        require(self.channels > 0, || "img_channels is 0".into())?;
        require(self.resolution > 0 && self.resolution.is_multiple_of(1 << (levels - 1)), || {
            let halvings = levels - 1;
            format!("img_resolution {} cannot be halved {halvings} times, as channel_mult asks", self.resolution)
        })?;
        self.net.check()?;
        let area = |level: usize| self.size(level) * self.size(level);
        let largest = (0..levels).map(|level| self.net.width(level) * area(level)).max().unwrap_or(0);
        let largest = largest.max(self.channels * area(0));
        require(largest <= MOST_ACTIVATION, || {
            let size = self.resolution;
            format!("one image of {size} x {size} takes {largest} numbers in a layer, more than {MOST_ACTIVATION}")
        })
    }
}

impl PrecondConfig {
    fn read(options: &Kwargs<'_>, class: usize) -> Result<Self, Malformed> {
        let number = |name, default| options.number(name).map(|v| v.unwrap_or(default));
        let steps = || options.count("M", MOST_STEPS).map(|v| v.unwrap_or(1000));
        let precond = match class {
            0 => PrecondConfig::Edm {
                sigma_data: number("sigma_data", 0.5)?,
                sigma_min: number("sigma_min", 0.0)?,
                sigma_max: number("sigma_max", f64::INFINITY)?,
            },
            1 => PrecondConfig::Vp {
                beta_d: number("beta_d", 19.9)?,
                beta_min: number("beta_min", 0.1)?,
                steps: steps()?,
                epsilon_t: number("epsilon_t", 1e-5)?,
            },
            2 => PrecondConfig::Ve { sigma_min: number("sigma_min", 0.02)?, sigma_max: number("sigma_max", 100.0)? },
            _ => PrecondConfig::Iddpm { steps: steps()?, c_1: number("C_1", 0.001)?, c_2: number("C_2", 0.008)? },
        };
        precond.check()?;
        Ok(precond)
    }

    fn check(&self) -> Result<(), Malformed> {
        let positive = |name: &str, value: f64| require(value > 0.0, || format!("{name} is {value}, must be above 0"));
        let ordered = |low: f64, high: f64| {
            require(low < high && low >= 0.0, || format!("sigma_min {low} and sigma_max {high} are no range"))
        };
        match *self {
            PrecondConfig::Edm { sigma_data, sigma_min, sigma_max } => {
                positive("sigma_data", sigma_data)?;
                ordered(sigma_min, sigma_max)
            }
            PrecondConfig::Vp { beta_d, beta_min, steps, epsilon_t } => {
                positive("beta_d", beta_d)?;
                positive("beta_min", beta_min)?;
                positive("epsilon_t", epsilon_t)?;
                positive("M", steps as f64)
            }
            PrecondConfig::Ve { sigma_min, sigma_max } => ordered(sigma_min, sigma_max),
            PrecondConfig::Iddpm { steps, c_1, c_2 } => {
                positive("M", steps as f64)?;
                positive("C_1", c_1)?;
                positive("C_2", c_2)
            }
        }
    }
}

impl NetConfig {
    fn read(options: &Kwargs<'_>, precond: &PrecondConfig, channels: usize) -> Result<Self, Malformed> {
        let (song, adm) = (("SongUNet", Family::Song), ("DhariwalUNet", Family::Adm));
        let (families, outputs) = match precond {
            PrecondConfig::Vp { .. } | PrecondConfig::Ve { .. } => ([song, adm], channels),
            PrecondConfig::Edm { .. } => ([adm, song], channels),
            // The second half are variances, which sampling does not use.
            PrecondConfig::Iddpm { .. } => ([adm, song], 2 * channels),
        };
        let family = options.choice("model_type", &families)?;
        let common = Self {
            family,
            outputs,
            model_channels: options.count("model_channels", MOST)?.unwrap_or(family.pick(128, 192)),
            channel_mult: options
                .counts("channel_mult", MOST_LEVELS, MOST)?
                .unwrap_or(family.pick(vec![1, 2, 2, 2], vec![1, 2, 3, 4])),
            channel_mult_emb: options.count("channel_mult_emb", MOST)?.unwrap_or(4),
            channel_mult_noise: 1,
            num_blocks: options.count("num_blocks", MOST_BLOCKS)?.unwrap_or(family.pick(4, 3)),
            attn_resolutions: attention_sizes(options)?.unwrap_or(family.pick(vec![16], vec![32, 16, 8])),
            augment_dim: options.count("augment_dim", MOST)?.unwrap_or(0),
            embedding: NoiseEmbedding::Positional,
            encoder: Encoder::Standard,
            decoder: Decoder::Standard,
            filter: vec![1.0, 1.0],
        };
        if family == Family::Adm {
            return Ok(common);
        }
        let embeddings = [("positional", NoiseEmbedding::Positional), ("fourier", NoiseEmbedding::Fourier)];
        let encoders = [("standard", Encoder::Standard), ("skip", Encoder::Skip), ("residual", Encoder::Residual)];
        Ok(Self {
            channel_mult_noise: options.count("channel_mult_noise", MOST)?.unwrap_or(1),
            embedding: options.choice("embedding_type", &embeddings)?,
            encoder: options.choice("encoder_type", &encoders)?,
            decoder: options.choice("decoder_type", &[("standard", Decoder::Standard), ("skip", Decoder::Skip)])?,
            filter: options.numbers("resample_filter", MOST_TAPS)?.unwrap_or(vec![1.0, 1.0]),
            ..common
        })
    }

    /// Channels at a level.
    pub fn width(&self, level: usize) -> usize {
        self.model_channels * self.channel_mult[level]
    }

    /// Width of the embedding.
    pub(crate) fn embedding_width(&self) -> usize {
        self.model_channels * self.channel_mult_emb
    }

    /// Width of the noise embedding.
    pub(crate) fn noise_width(&self) -> usize {
        self.model_channels * self.channel_mult_noise
    }

    /// Attention heads of a block with this many channels; a narrow ADM block silently has none.
    pub fn heads(&self, channels: usize) -> usize {
        self.family.pick(1, channels / 64)
    }

    fn check(&self) -> Result<(), Malformed> {
        let widths: Vec<usize> = (0..self.channel_mult.len()).map(|l| self.width(l)).collect();
        require(self.num_blocks > 0, || "num_blocks is 0".into())?;
        require(widths.iter().all(|w| (4..=MOST).contains(w)), || {
            format!("model_channels and channel_mult give widths {widths:?}; each must lie between 4 and {MOST}")
        })?;
        let embedding = self.embedding_width();
        require((1..=MOST).contains(&embedding), || format!("the embedding has {embedding} channels"))?;
        let noise = self.noise_width();
        require(noise.is_multiple_of(2) && (4..=MOST).contains(&noise), || {
            format!("the noise embedding has {noise} channels; it needs an even number from 4 on")
        })?;
        self.check_filter()
    }

    fn check_filter(&self) -> Result<(), Malformed> {
        let taps = self.filter.len();
        require(taps.is_multiple_of(2), || format!("resample_filter has {taps} taps; only even numbers keep sizes"))?;
        let sum: f64 = self.filter.iter().sum();
        require(sum.abs() > 1e-6, || format!("resample_filter sums to {sum}"))?;
        require(taps <= 4 || self.encoder != Encoder::Residual, || {
            format!("resample_filter has {taps} taps; the residual encoder is supported up to 4")
        })
    }
}

/// An empty list is meant: no attention but at the lowest resolution.
fn attention_sizes(options: &Kwargs<'_>) -> Result<Option<Vec<usize>>, Malformed> {
    match options.0.get("attn_resolutions").and_then(Value::as_array) {
        Some(list) if list.is_empty() => Ok(Some(Vec::new())),
        _ => options.counts("attn_resolutions", MOST_TAPS, MOST),
    }
}

impl Family {
    /// One of two values.
    pub(super) fn pick<T>(self, song: T, adm: T) -> T {
        match self {
            Family::Song => song,
            Family::Adm => adm,
        }
    }

    /// What normalisations add to the variance.
    pub(super) fn eps(self) -> f32 {
        self.pick(1e-6, 1e-5)
    }
}

fn require(holds: bool, problem: impl FnOnce() -> String) -> Result<(), Malformed> {
    if holds { Ok(()) } else { Err(Malformed::Inconsistent { problem: problem() }) }
}

/// Groups of a normalisation; the channels must divide evenly.
pub(super) fn groups(channels: usize) -> usize {
    (channels / 4).min(32)
}
