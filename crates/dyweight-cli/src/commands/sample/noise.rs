//! Where the unit noise of each sample comes from, and what it is conditioned on.

use super::DrawArgs;
use crate::args::unknown;
use crate::files::batch;
use dyweight::checkpoint::{Fingerprint, TensorFile};
use dyweight::denoiser::{Condition, Model};
use dyweight::noise::Rng;
use dyweight::spec::Seeds;
use dyweight::{Error, Result, Tensor};

/// Unit noise by seed, or given.
pub enum Noise {
    Seeds { seeds: Vec<u64>, rng: Rng },
    Given(Tensor),
}

impl Noise {
    /// What the arguments say.
    pub fn open(args: &DrawArgs) -> Result<Self> {
        let rng = match args.rng.as_str() {
            "native" => Rng::Native,
            "torch" => Rng::Torch,
            other => return Err(unknown("noise stream", other, &["native", "torch"])),
        };
        match &args.latents {
            Some(path) => {
                let file = TensorFile::read(path)?;
                let latents = file.tensor("latents").map_err(|p| Error::malformed(path, p))?;
                Ok(Noise::Given(batch(path, "latents", latents)?))
            }
            None => Ok(Noise::Seeds { seeds: Seeds::parse(&args.seeds)?.iter().collect(), rng }),
        }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        match self {
            Noise::Seeds { seeds, .. } => seeds.len(),
            Noise::Given(latents) => latents.samples(),
        }
    }

    /// The seed of a sample, or its number where the noise was given.
    pub fn name(&self, index: usize) -> u64 {
        match self {
            Noise::Seeds { seeds, .. } => seeds[index],
            Noise::Given(_) => index as u64,
        }
    }

    /// A fingerprint of given noise; seeds name theirs.
    pub fn fingerprint(&self) -> Option<String> {
        match self {
            Noise::Seeds { .. } => None,
            Noise::Given(latents) => Some(Fingerprint::default().add_numbers(latents.data()).text()),
        }
    }

    /// The sample shape given noise decides.
    pub fn sample_shape(&self) -> Option<[usize; 3]> {
        match self {
            Noise::Seeds { .. } => None,
            Noise::Given(latents) => {
                let [_, c, h, w] = latents.shape();
                Some([c, h, w])
            }
        }
    }

    /// The noise of some samples.
    pub fn batch(&self, indices: &[usize], shape: [usize; 3]) -> Result<Tensor> {
        match self {
            Noise::Seeds { seeds, rng } => {
                let seeds: Vec<u64> = indices.iter().map(|i| seeds[*i]).collect();
                rng.latents(&seeds, shape)
            }
            Noise::Given(latents) => {
                Tensor::concat(&indices.iter().map(|i| latents.slice(*i..i + 1)).collect::<Vec<_>>())
            }
        }
    }

    /// What some samples are conditioned on: the class asked for, or one drawn from each seed's stream.
    pub fn condition(&self, args: &DrawArgs, indices: &[usize], model: &dyn Model) -> Result<Condition> {
        let labels = match (args.class()?, model.classes()) {
            (Class::None, _) => None,
            (Class::One(class), _) => Some(vec![class; indices.len()]),
            (Class::Drawn, 0) => None,
            (Class::Drawn, classes) => {
                let rng = if let Noise::Seeds { rng, .. } = self { *rng } else { Rng::Native };
                Some(indices.iter().map(|i| rng.class(self.name(*i), model.shape(), classes)).collect())
            }
        };
        let condition = Condition { labels, guidance: args.guidance };
        condition.check(model.classes())?;
        Ok(condition)
    }
}

/// Which class samples are asked to show.
#[derive(Clone, Copy)]
pub enum Class {
    /// A class drawn for each seed, where the model has classes.
    Drawn,
    /// No label, though the model has classes.
    None,
    /// This one.
    One(usize),
}

impl DrawArgs {
    /// The class asked for.
    pub fn class(&self) -> Result<Class> {
        match self.class.as_deref() {
            None => Ok(Class::Drawn),
            Some("none") => Ok(Class::None),
            Some(text) => text.parse().map(Class::One).map_err(|_| Error::BadValue {
                name: "class",
                value: text.into(),
                expected: "must be a class number or 'none'".into(),
            }),
        }
    }
}
