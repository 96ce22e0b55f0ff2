//! The noise of training pairs: pair number i is the same whatever the batch it falls into.

use crate::Prompts;
use dyweight_core::denoiser::Condition;
use dyweight_core::error::{Error, Result};
use dyweight_core::noise::{Rng, Stream};
use dyweight_core::tensor::Tensor;
use std::ops::Range;
use std::sync::Arc;

/// Where the noise of pair i comes from.
#[derive(Clone, Debug)]
pub enum Noise {
    /// A stream per pair, under a seed and a purpose.
    Stream {
        /// The run's seed.
        seed: u64,
        /// What the pairs are for: training and validation must not share noise.
        purpose: &'static str,
    },
    /// Given noise, pair after pair.
    Given(Tensor),
    /// The noise and classes `sample` draws for these seeds.
    Seeds {
        /// One for each pair.
        seeds: Vec<u64>,
        /// Which stream a seed stands for.
        rng: Rng,
    },
}

impl Noise {
    /// How many pairs there are, where they are counted.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Noise::Stream { .. } => None,
            Noise::Given(all) => Some(all.samples()),
            Noise::Seeds { seeds, .. } => Some(seeds.len()),
        }
    }
}

/// Pairs before their targets are known.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// Where noise comes from.
    pub noise: Noise,
    /// Sample shape.
    pub shape: [usize; 3],
    /// Classes to draw labels from; 0 for none.
    pub classes: usize,
    /// A fixed class instead of a drawn one.
    pub class: Option<usize>,
    /// Texts to draw from instead of classes.
    pub prompts: Option<Arc<Prompts>>,
    /// Guidance.
    pub guidance: Option<f64>,
}

impl Pairs {
    /// Unit noise of pairs `range`.
    pub fn latents(&self, range: Range<usize>) -> Result<Tensor> {
        let [c, h, w] = self.shape;
        if let Some(given) = self.noise.len().filter(|given| range.end > *given) {
            let what = "training noise: pairs needed against pairs given".into();
            return Err(Error::Shape { what, expected: vec![range.end], found: vec![given] });
        }
        match &self.noise {
            Noise::Given(all) => Ok(all.slice(range)),
            Noise::Seeds { seeds, rng } => rng.latents(&seeds[range], self.shape),
            Noise::Stream { .. } => {
                let len = c * h * w;
                let data = range.clone().flat_map(|i| self.stream(i, "noise").normals(len)).collect();
                Tensor::new([range.len(), c, h, w], data)
            }
        }
    }

    /// What pairs `range` are conditioned on.
    pub fn condition(&self, range: Range<usize>) -> Condition {
        if let Some(prompts) = &self.prompts {
            let drawn = |i: usize| match &self.noise {
                // As `sample` shows them.
                Noise::Seeds { .. } => i,
                _ => (self.stream(i, "prompt").uniform() * prompts.texts().len() as f64) as usize,
            };
            return prompts.condition(range.map(drawn), self.guidance);
        }
        let drawn = |i: usize| match &self.noise {
            Noise::Seeds { seeds, rng } => rng.class(seeds[i], self.shape, self.classes),
            _ => (self.stream(i, "label").uniform() * self.classes as f64) as usize,
        };
        let label = |i: usize| self.class.unwrap_or_else(|| drawn(i));
        let labels = range.filter(|_| self.classes > 0).map(label);
        Condition::classes(labels).guided(self.guidance)
    }

    /// Random signs in a shape for each of the pairs `range`, others for every `which`.
    pub fn signs(&self, range: Range<usize>, [c, h, w]: [usize; 3], which: &str) -> Result<Tensor> {
        let signs = |pair: usize| {
            let mut stream = self.stream(pair, which);
            (0..c * h * w).map(move |_| if stream.bits() >> 63 == 0 { 1.0 } else { -1.0 })
        };
        Tensor::new([range.len(), c, h, w], range.flat_map(signs).collect())
    }

    fn stream(&self, pair: usize, what: &str) -> Stream {
        let (seed, purpose) = match &self.noise {
            Noise::Stream { seed, purpose } => (*seed, *purpose),
            Noise::Given(_) | Noise::Seeds { .. } => (0, "given"),
        };
        Stream::labelled(seed, &format!("{purpose} {what} {pair}"))
    }
}
