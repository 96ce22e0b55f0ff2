//! Noise level and label as one vector.
//!
//! ```text
//! θ = c_noise·ω     ω_i = 10000^(−i/(half−1)) Song · 10000^(−i/half) ADM · 2π·freqs_i Fourier,  i = 0 … half−1
//! Song  v = [sin θ, cos θ] + map_label(√label_dim·labels),  e = silu(layer1(silu(layer0(v))))
//! ADM   v = [cos θ, sin θ],  e = silu(layer1(silu(layer0(v))) + map_label(labels))
//! ```
//!
//! ω, θ and their sines are f32, as where the networks were trained: |θ| reaches 10³ with Fourier frequencies, and a
//! more exact θ is another one. A missing label is an all-zero row.
//!
//! A solver may add a vector to e (the idea of MTEO): all that blocks know of the noise level they read there, each
//! through an affine map of its own, so that one vector reaches them all.

use super::config::{Config, Family, NoiseEmbedding};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Linear, silu, silu_backward};

/// The embedding layers.
pub(super) struct Embedding {
    family: Family,
    frequencies: Vec<f32>,
    label_dim: usize,
    label: Option<Linear>,
    layer0: Linear,
    layer1: Linear,
}

/// What the network is told beside the image.
pub(super) struct EmbeddingInputs<'l> {
    /// c_noise of each sample.
    pub noise: Vec<f32>,
    /// A label row for each sample, or nothing at all.
    pub labels: Option<&'l [f32]>,
    /// A row for each sample to be added to its embedding; empty for none.
    pub shift: Vec<f32>,
}

/// What the way back needs.
#[derive(Clone)]
pub(super) struct EmbeddingTape {
    noise: Vec<f32>,
    hidden: Act,
    sum: Act,
    shifted: bool,
}

impl Embedding {
    pub(super) fn new(config: &Config, scope: &Scope<'_>) -> Result<Self> {
        let (net, labels) = (&config.net, config.label_dim);
        let (noise, width) = (net.noise_width(), net.embedding_width());
        let frequencies = match net.embedding {
            NoiseEmbedding::Fourier => {
                let stored = scope.numbers("map_noise.freqs", &[noise / 2])?;
                stored.iter().map(|f| std::f32::consts::TAU * f).collect()
            }
            NoiseEmbedding::Positional => geometric(noise / 2, net.family),
        };
        if net.augment_dim > 0 {
            // Inference never augments.
            scope.optional("map_augment.weight", &[noise, net.augment_dim])?;
        }
        let label = || match net.family {
            Family::Song => scope.linear("map_label", labels, noise),
            Family::Adm => scope.linear_without_bias("map_label", labels, width),
        };
        Ok(Self {
            family: net.family,
            frequencies,
            label_dim: labels,
            label: (labels > 0).then(label).transpose()?,
            layer0: scope.linear("map_layer0", noise, width)?,
            layer1: scope.linear("map_layer1", width, width)?,
        })
    }

    /// The embedding of each sample.
    pub(super) fn forward(&self, told: EmbeddingInputs<'_>) -> (Act, EmbeddingTape) {
        let EmbeddingInputs { noise, labels, shift } = told;
        let samples = noise.len();
        let waves: Vec<f32> = noise.iter().flat_map(|c| self.waves(*c)).collect();
        let waves = Act::from_rows(samples, &waves);
        let v = match self.family {
            Family::Song => self.add_label(waves, labels, (self.label_dim as f32).sqrt()),
            Family::Adm => waves,
        };
        let hidden = self.layer0.forward(&v);
        let sum = self.layer1.forward(&silu(&hidden));
        let sum = match self.family {
            Family::Song => sum,
            Family::Adm => self.add_label(sum, labels, 1.0),
        };
        let mut e = silu(&sum);
        if !shift.is_empty() {
            e.add_assign(&Act::from_rows(samples, &shift));
        }
        (e, EmbeddingTape { noise, hidden, sum, shifted: !shift.is_empty() })
    }

    fn add_label(&self, v: Act, labels: Option<&[f32]>, factor: f32) -> Act {
        let Some(layer) = &self.label else { return v };
        let samples = v.shape().n;
        let rows: Vec<f32> = match labels {
            Some(rows) => rows.iter().map(|l| factor * l).collect(),
            None => vec![0.0; samples * self.label_dim],
        };
        layer.forward_residual(&Act::from_rows(samples, &rows), &v, 1.0)
    }

    /// Derivative of a loss in each sample's c_noise, and if there was a shift then in each of its numbers, from its
    /// derivative in the embedding.
    pub(super) fn backward(&self, saved: EmbeddingTape, to_e: &Act) -> Vec<f64> {
        let EmbeddingTape { noise, hidden, sum, shifted } = saved;
        let to_sum = silu_backward(&sum, to_e);
        let to_hidden = silu_backward(&hidden, &self.layer1.backward(&to_sum));
        let to_v = self.layer0.backward(&to_hidden);
        let to_noise = noise.iter().enumerate().map(|(i, c)| self.waves_backward(*c, to_v.sample(i)));
        let width = if shifted { to_e.shape().c } else { 0 };
        let to_shift = (0..width).flat_map(|k| (0..noise.len()).map(move |i| f64::from(to_e.sample(i)[k])));
        to_noise.chain(to_shift).collect()
    }

    fn waves(&self, noise: f32) -> Vec<f32> {
        let sines = self.frequencies.iter().map(|w| libm::sinf(noise * w));
        let cosines = self.frequencies.iter().map(|w| libm::cosf(noise * w));
        match self.family {
            Family::Song => sines.chain(cosines).collect(),
            Family::Adm => cosines.chain(sines).collect(),
        }
    }

    /// ⟨∂v/∂c_noise, g⟩, with d sin θ = ω cos θ and d cos θ = −ω sin θ.
    fn waves_backward(&self, noise: f32, g: &[f32]) -> f64 {
        let (first, second) = g.split_at(self.frequencies.len());
        let (to_sin, to_cos) = self.family.pick((first, second), (second, first));
        let term = |((w, s), c): ((&f32, &f32), &f32)| {
            let theta = noise * w;
            f64::from(*w)
                * (f64::from(*s) * f64::from(libm::cosf(theta)) - f64::from(*c) * f64::from(libm::sinf(theta)))
        };
        self.frequencies.iter().zip(to_sin).zip(to_cos).map(term).sum()
    }
}

/// Frequencies from 1 down to 1/10000, which the Song family includes and the ADM family just misses.
fn geometric(half: usize, family: Family) -> Vec<f32> {
    let intervals = family.pick(half - 1, half) as f64;
    (0..half).map(|i| libm::pow(10_000.0, -(i as f64) / intervals) as f32).collect()
}
