//! Where the unit noise of each sample comes from, and what it is conditioned on.

use super::DrawArgs;
use crate::args::{class_of, unknown};
use crate::files::batch;
use dyweight::denoiser::Condition;
use dyweight::files::{Fingerprint, TensorFile};
use dyweight::models::LoadedModel;
use dyweight::noise::Rng;
use dyweight::spec::Seeds;
use dyweight::{Error, Result, Tensor};

/// Unit noise by seed, or given.
pub enum NoiseSource {
    Seeds { seeds: Vec<u64>, rng: Rng },
    Given(Tensor),
}

impl NoiseSource {
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
                Ok(NoiseSource::Given(batch(path, "latents", latents)?))
            }
            None => Ok(NoiseSource::Seeds { seeds: Seeds::parse(&args.seeds)?.iter().collect(), rng }),
        }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        match self {
            NoiseSource::Seeds { seeds, .. } => seeds.len(),
            NoiseSource::Given(latents) => latents.samples(),
        }
    }

    /// The seed of a sample, or its number where the noise was given.
    pub fn name(&self, index: usize) -> u64 {
        match self {
            NoiseSource::Seeds { seeds, .. } => seeds[index],
            NoiseSource::Given(_) => index as u64,
        }
    }

    /// A fingerprint of given noise; seeds name theirs.
    pub fn fingerprint(&self) -> Option<String> {
        match self {
            NoiseSource::Seeds { .. } => None,
            NoiseSource::Given(latents) => Some(Fingerprint::default().add_numbers(latents.data()).text()),
        }
    }

    /// The sample shape given noise decides.
    pub fn sample_shape(&self) -> Option<[usize; 3]> {
        match self {
            NoiseSource::Seeds { .. } => None,
            NoiseSource::Given(latents) => {
                let [_, c, h, w] = latents.shape();
                Some([c, h, w])
            }
        }
    }

    /// The noise of some samples.
    pub fn batch(&self, indices: &[usize], shape: [usize; 3]) -> Result<Tensor> {
        match self {
            NoiseSource::Seeds { seeds, rng } => {
                let seeds: Vec<u64> = indices.iter().map(|i| seeds[*i]).collect();
                rng.latents(&seeds, shape)
            }
            NoiseSource::Given(latents) => {
                Tensor::concat(&indices.iter().map(|i| latents.slice(*i..i + 1)).collect::<Vec<_>>())
            }
        }
    }

    /// What some samples are conditioned on: the class asked for, or one drawn from each seed's stream.
    pub fn condition(&self, args: &DrawArgs, indices: &[usize], loaded: &LoadedModel) -> Result<Condition> {
        let model = &*loaded.model;
        let labels = match (args.class(loaded.class_names())?, model.classes()) {
            (Class::None, _) | (Class::Drawn, 0) => Vec::new(),
            (Class::One(class), _) => vec![class; indices.len()],
            (Class::Drawn, classes) => {
                let rng = if let NoiseSource::Seeds { rng, .. } = self { *rng } else { Rng::Native };
                indices.iter().map(|i| rng.class(self.name(*i), model.shape(), classes)).collect()
            }
        };
        Ok(Condition::classes(labels).guided(args.guidance))
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
    /// The class asked for, by its number or by one of these names.
    fn class(&self, names: &[&str]) -> Result<Class> {
        let Some(text) = self.class.as_deref() else { return Ok(Class::Drawn) };
        if text == "none" {
            return Ok(Class::None);
        }
        class_of(text, names, &["none"]).map(Class::One)
    }
}
