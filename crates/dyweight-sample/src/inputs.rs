//! What samples begin with and what they are asked to show: number i is the same whatever the batch it falls into.

use crate::Prompts;
use dyweight_core::denoiser::{Condition, Context};
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::{Rng, Stream};
use dyweight_core::tensor::Tensor;
use dyweight_files::Fingerprint;
use std::ops::Range;
use std::sync::Arc;

/// Where the noise of sample i comes from.
#[derive(Clone, Debug)]
pub enum Noise {
    /// A stream for each sample, under a seed and a purpose.
    Stream {
        /// The run's seed.
        seed: u64,
        /// What the samples are for: training and validation must not share noise.
        purpose: &'static str,
    },
    /// Given noise of training pairs.
    Given(Tensor),
    /// A seed for each sample.
    Seeds {
        /// The seeds.
        seeds: Vec<u64>,
        /// Which stream a seed stands for.
        rng: Rng,
    },
    /// Given noise, sample i being what seed i would be.
    Latents(Tensor),
}

impl Noise {
    /// How many samples there are, where they are counted.
    pub fn count(&self) -> Option<usize> {
        match self {
            Noise::Stream { .. } => None,
            Noise::Given(all) | Noise::Latents(all) => Some(all.samples()),
            Noise::Seeds { seeds, .. } => Some(seeds.len()),
        }
    }

    /// The seed of a sample, or its number where it has none.
    pub fn seed(&self, index: usize) -> u64 {
        match self {
            Noise::Seeds { seeds, .. } => seeds[index],
            _ => index as u64,
        }
    }

    /// A fingerprint of given noise; seeds name theirs.
    pub fn fingerprint(&self) -> Option<String> {
        match self {
            Noise::Given(all) | Noise::Latents(all) => Some(Fingerprint::default().add_numbers(all.data()).text()),
            _ => None,
        }
    }

    /// The sample shape that given noise decides.
    pub fn shape(&self) -> Option<[usize; 3]> {
        match self {
            Noise::Given(all) | Noise::Latents(all) => {
                let [_, c, h, w] = all.shape();
                Some([c, h, w])
            }
            _ => None,
        }
    }
}

/// What samples are asked to show.
#[derive(Clone, Debug, Default)]
pub enum Show {
    /// A class drawn for each, where the model has classes.
    #[default]
    Drawn,
    /// Nothing, though the model may have classes.
    Anything,
    /// One class.
    Class(usize),
    /// A class for each sample; none asks without one.
    Each(Vec<Option<usize>>),
    /// Texts: line i for sample i, beginning again after the last; a training pair draws one.
    Prompts(Arc<Prompts>),
}

impl Show {
    /// One class, or one drawn for each sample.
    pub fn class(class: Option<usize>) -> Self {
        class.map_or(Self::Drawn, Self::Class)
    }

    /// The texts, where it is texts.
    pub fn prompts(&self) -> Option<&Arc<Prompts>> {
        if let Self::Prompts(prompts) = self { Some(prompts) } else { None }
    }

    /// What tells it from every other, as text.
    pub fn identity(&self) -> String {
        match self {
            Self::Prompts(prompts) => format!("{:?}|{:?}", prompts.texts(), prompts.negative()),
            other => format!("{other:?}"),
        }
    }
}

/// What samples begin with, and what they are asked to show.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Where noise comes from.
    pub noise: Noise,
    /// Sample shape.
    pub shape: [usize; 3],
    /// Classes to draw labels from; 0 for none.
    pub classes: usize,
    /// What is shown.
    pub show: Show,
    /// Guidance.
    pub guidance: Option<f64>,
}

impl Inputs {
    /// Unit noise of some samples.
    pub fn latents(&self, samples: impl IntoIterator<Item = usize>) -> Result<Tensor> {
        let indices: Vec<usize> = samples.into_iter().collect();
        let [c, h, w] = self.noise.shape().unwrap_or(self.shape);
        let needed = indices.iter().max().map_or(0, |last| last + 1);
        if let Some(given) = self.noise.count().filter(|given| needed > *given) {
            let what = "training noise: pairs needed against pairs given".into();
            return Err(Error::Shape { what, expected: vec![needed], found: vec![given] });
        }
        let numbers = |i: &usize| match &self.noise {
            Noise::Given(all) | Noise::Latents(all) => all.sample(*i).to_vec(),
            _ => self.stream(*i, "noise").normals(c * h * w),
        };
        match &self.noise {
            Noise::Seeds { seeds, rng } => {
                rng.latents(&indices.iter().map(|i| seeds[*i]).collect::<Vec<_>>(), self.shape)
            }
            _ => Tensor::new([indices.len(), c, h, w], indices.iter().flat_map(numbers).collect()),
        }
    }

    /// What some samples are conditioned on.
    pub fn condition(&self, samples: impl IntoIterator<Item = usize>) -> Condition {
        let (samples, guidance) = (samples.into_iter(), self.guidance);
        match &self.show {
            Show::Prompts(prompts) => {
                let count = prompts.texts().len();
                prompts.condition(samples.map(|i| self.draw(i, "prompt", count).unwrap_or(i)), guidance)
            }
            Show::Drawn if self.classes > 0 => Condition::classes(samples.map(|i| self.class_of(i))).guided(guidance),
            Show::Class(class) => Condition::classes(samples.map(|_| *class)).guided(guidance),
            Show::Each(all) => {
                let context = |i: usize| all[i].map_or(Context::Unconditional, Context::Class);
                Condition { contexts: samples.map(context).collect(), ..Condition::default() }.guided(guidance)
            }
            Show::Drawn | Show::Anything => Condition::default().guided(guidance),
        }
    }

    fn class_of(&self, i: usize) -> usize {
        let rng = if let Noise::Seeds { rng, .. } = self.noise { rng } else { Rng::Native };
        let drawn = self.draw(i, "label", self.classes);
        drawn.unwrap_or_else(|| rng.class(self.noise.seed(i), self.shape, self.classes))
    }

    /// What a training pair draws among so many; a sample with a seed draws nothing here.
    fn draw(&self, i: usize, what: &str, count: usize) -> Option<usize> {
        match self.noise {
            Noise::Seeds { .. } | Noise::Latents(_) => None,
            _ => Some((self.stream(i, what).uniform() * count as f64) as usize),
        }
    }

    /// Random signs in a shape for each of some samples, others for every `which`.
    pub fn signs(&self, samples: Range<usize>, [c, h, w]: [usize; 3], which: &str) -> Result<Tensor> {
        let signs = |i: usize| {
            let mut stream = self.stream(i, which);
            (0..c * h * w).map(move |_| if stream.bits() >> 63 == 0 { 1.0 } else { -1.0 })
        };
        Tensor::new([samples.len(), c, h, w], samples.flat_map(signs).collect())
    }

    fn stream(&self, i: usize, what: &str) -> Stream {
        let (seed, purpose) = match &self.noise {
            Noise::Stream { seed, purpose } => (*seed, *purpose),
            _ => (0, "given"),
        };
        Stream::labelled(seed, &format!("{purpose} {what} {i}"))
    }
}
