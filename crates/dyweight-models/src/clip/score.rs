//! Both towers: features of images and texts, and how well they fit.

use super::config::{ClipConfig, VisionConfig};
use super::text::TextTower;
use super::vision::{VisionTape, VisionTower};
use crate::weights::{Layout, Scope, Source, TensorPlan, TensorSet};
use dyweight_core::error::{Error, Result};
use dyweight_nn::{Act, Dtype, Linear};

/// What a cosine is multiplied by.
const SCALE: f64 = 100.0;

/// The image tower and the projection of what it says.
pub struct ImageTower {
    vision: VisionTower,
    projection: Linear,
}

/// What the way back through it needs.
pub(super) type ImageTape = VisionTape;

impl ImageTower {
    /// Builds it from the tensors of a file, with their fingerprint.
    pub(crate) fn load(config: &ClipConfig, set: &TensorSet, layout: &Layout) -> Result<(Self, String)> {
        Source::build("CLIP image tower", set, layout, |scope| Self::new(config, scope))
    }

    /// One with random weights, the same for the same seed.
    pub fn random(config: &ClipConfig, seed: u64) -> Result<Self> {
        Self::new(config, &Source::Random { seed, dtype: Dtype::F32 }.root())
    }

    fn new(config: &ClipConfig, scope: &Scope<'_>) -> Result<Self> {
        let width = config.vision.stack.width;
        Ok(Self {
            vision: VisionTower::new(&config.vision, &scope.at("vision_model"))?,
            projection: scope.linear_without_bias("visual_projection", width, config.features)?,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &VisionConfig {
        self.vision.config()
    }

    /// Width of its features.
    pub fn features(&self) -> usize {
        self.projection.outputs()
    }

    /// Features of images, `[n, 1, 1, features]`, from normalised pixels of the configured size.
    pub(super) fn forward(&self, pixels: &Act, record: bool) -> (Act, Option<ImageTape>) {
        let (pooled, tape) = self.vision.forward(pixels, record);
        (self.projection.forward(&pooled), tape)
    }

    /// The gradient of the pixels.
    pub(super) fn backward(&self, tape: ImageTape, gradient: &Act) -> Act {
        self.vision.backward(tape, &self.projection.backward(gradient))
    }
}

/// Both towers with their weights.
pub struct Clip {
    config: ClipConfig,
    text: TextTower,
    text_projection: Linear,
    image: ImageTower,
}

/// Scores of pairs of an image and a text.
pub struct Scores {
    /// `[n, 1, 1, features]`.
    pub image_features: Act,
    /// `[n, 1, 1, features]`.
    pub text_features: Act,
    /// 100·cos of each pair.
    pub scores: Vec<f64>,
    /// The derivative of each score in its image's pixels.
    pub to_pixels: Act,
}

impl Clip {
    /// Builds it from the tensors of a file, with their fingerprint.
    pub(crate) fn load(config: &ClipConfig, set: &TensorSet, layout: &Layout) -> Result<(Self, String)> {
        Source::build("CLIP model", set, layout, |scope| Self::new(config, scope))
    }

    /// One with random weights, the same for the same seed.
    pub fn random(config: &ClipConfig, seed: u64) -> Result<Self> {
        Self::new(config, &Source::Random { seed, dtype: Dtype::F32 }.root())
    }

    /// Names and shapes of its tensors.
    pub fn plan(config: &ClipConfig) -> Result<Vec<TensorPlan>> {
        Source::plan(|scope| Self::new(config, scope))
    }

    fn new(config: &ClipConfig, scope: &Scope<'_>) -> Result<Self> {
        let width = config.text.stack.width;
        Ok(Self {
            text: TextTower::new(&config.text, &scope.at("text_model"))?,
            text_projection: scope.linear_without_bias("text_projection", width, config.features)?,
            image: ImageTower::new(config, scope)?,
            config: config.clone(),
        })
    }

    /// The text tower.
    pub fn text(&self) -> &TextTower {
        &self.text
    }

    /// What it was built from.
    pub fn config(&self) -> &ClipConfig {
        &self.config
    }

    /// Features of images, `[n, 1, 1, features]`, from normalised pixels of the configured size.
    pub fn image_features(&self, pixels: &Act) -> Result<Act> {
        self.check(pixels)?;
        Ok(self.image.forward(pixels, false).0)
    }

    /// Features of `n` texts, `[n, 1, 1, features]`.
    pub fn text_features(&self, n: usize, ids: &[u32]) -> Result<Act> {
        Ok(self.text_projection.forward(&self.text.encode(n, ids)?.pooled))
    }

    /// Scores of the images, each with its text, and how they change with the pixels.
    pub fn score(&self, pixels: &Act, ids: &[u32]) -> Result<Scores> {
        self.check(pixels)?;
        let n = pixels.shape().n;
        let text_features = self.text_features(n, ids)?;
        let (image_features, tape) = self.image.forward(pixels, true);
        let mut gradient = Act::zeros(image_features.shape());
        let width = self.config.features;
        let mut scores = Vec::with_capacity(n);
        for (i, to) in gradient.data_mut().chunks_exact_mut(width).enumerate() {
            let (score, slope) = cosine(image_features.sample(i), text_features.sample(i));
            scores.push(SCALE * score);
            to.iter_mut().zip(slope).for_each(|(to, slope)| *to = (SCALE * slope) as f32);
        }
        let to_pixels = tape.map(|tape| self.image.backward(tape, &gradient));
        let to_pixels = to_pixels.unwrap_or_else(|| Act::zeros(pixels.shape()));
        Ok(Scores { image_features, text_features, scores, to_pixels })
    }

    fn check(&self, pixels: &Act) -> Result<()> {
        let (shape, vision) = (pixels.shape(), &self.config.vision);
        let expected = vec![shape.n, vision.channels, vision.size, vision.size];
        let found = vec![shape.n, shape.c, shape.h, shape.w];
        if found == expected { Ok(()) } else { Err(Error::Shape { what: "images for CLIP".into(), expected, found }) }
    }
}

/// ⟨a, b⟩/(‖a‖‖b‖) and its derivative in a: (b̂ − cos·â)/‖a‖.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> (f64, Vec<f64>) {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let (norm_a, norm_b) = (dot(a, a).sqrt(), dot(b, b).sqrt());
    let cosine = dot(a, b) / (norm_a * norm_b);
    let slope = |(a, b): (&f32, &f32)| (f64::from(*b) / norm_b - cosine * f64::from(*a) / norm_a) / norm_a;
    (cosine, a.iter().zip(b).map(slope).collect())
}
