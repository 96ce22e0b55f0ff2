//! The image tower as a map from samples to features, for training losses.
//!
//! ```text
//! x ∈ [−1, 1] ──bicubic, in real numbers──► pixels ──tower, projection──► e ──► e/‖e‖
//! ```
//!
//! The squared distance of two such features is 2(1 − cos): how differently CLIP sees two images.

use super::config::ClipConfig;
use super::file::{ClipFile, ClipOptions};
use super::score::{ImageTape, ImageTower};
use crate::preprocess::{Crop, Preprocess, Resampling};
use crate::side_by_side::{parts, side_by_side, with_way_back};
use dyweight_core::error::{Error, Result};
use dyweight_core::features::{FeatureMap, FeaturePullback};
use dyweight_core::tensor::Tensor;
use dyweight_files::Fingerprint;
use dyweight_nn::{Act, Shape};
use std::ops::RangeInclusive;
use std::path::Path;

/// Images in one pass.
const AT_ONCE: RangeInclusive<usize> = 2..=8;

/// Normalised features of images of one shape.
pub struct ClipFeatures {
    tower: ImageTower,
    preprocess: Preprocess,
    shape: [usize; 3],
    sha256: String,
}

impl ClipFeatures {
    /// For images of a shape `[c, h, w]`.
    pub fn new(file: ClipFile, shape: [usize; 3]) -> Result<Self> {
        let preprocess = file.preprocess.clone();
        let (tower, sha256) = file.build_image()?;
        Self::of_tower(tower, preprocess, shape, sha256)
    }

    /// By file or folder, or `random:` and the name of a released model, for images of the tower's own size.
    pub fn named(name: &str) -> Result<Self> {
        if let Some(random) = name.strip_prefix("random:") {
            let config = ClipConfig::published(random)?;
            let size = config.vision.size;
            let preprocess = Preprocess::new(Resampling::Pil, Crop::NearestEven, size);
            let sha256 = Fingerprint::default().add(name.as_bytes()).text();
            return Self::of_tower(ImageTower::random(&config, 0)?, preprocess, [3, size, size], sha256);
        }
        let file = ClipFile::open(Path::new(name), &ClipOptions::default())?;
        let size = file.preprocess.shorter;
        Self::new(file, [3, size, size])
    }

    /// A tower that is there already.
    pub(crate) fn of_tower(
        tower: ImageTower,
        preprocess: Preprocess,
        shape: [usize; 3],
        sha256: String,
    ) -> Result<Self> {
        let [c, h, w] = shape;
        if ![1, 3].contains(&c) || h == 0 || w == 0 || tower.config().channels != 3 {
            return Err(Error::conflict(
                format!("CLIP's image tower takes images of 1 or 3 channels, not {c}x{h}x{w}"),
                "features of CLIP are for images, not for latents",
            ));
        }
        // Before the long work.
        preprocess.of_sample(&vec![0.0; c * h * w], shape)?;
        Ok(Self { tower, preprocess, shape, sha256 })
    }

    fn forward(&self, images: &Tensor, record: bool) -> Result<(Act, Option<ImageTape>)> {
        let size = self.preprocess.size;
        let mut pixels = Act::stale(Shape { n: images.samples(), h: size, w: size, c: 3 });
        for (i, to) in pixels.data_mut().chunks_exact_mut(size * size * 3).enumerate() {
            to.copy_from_slice(&self.preprocess.of_sample(images.sample(i), self.shape)?);
        }
        Ok(self.tower.forward(&pixels, record))
    }

    fn check(&self, images: &Tensor) -> Result<()> {
        let [n, c, h, w] = images.shape();
        if [c, h, w] == self.shape {
            return Ok(());
        }
        let expected = [&[n][..], &self.shape].concat();
        Err(Error::Shape { what: "images".into(), expected, found: images.shape().to_vec() })
    }
}

fn norm(row: &[f32]) -> f64 {
    row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt()
}

/// Each row by its length.
fn normalised(rows: &Act) -> Result<Tensor> {
    let Shape { n, c, .. } = rows.shape();
    let unit = |i: usize| {
        let (row, norm) = (rows.sample(i), norm(rows.sample(i)));
        row.iter().map(move |v| f64::from(*v) / norm)
    };
    Tensor::new([n, c, 1, 1], (0..n).flat_map(unit).collect())
}

/// (g − û⟨û, g⟩)/‖u‖ for each row.
fn normalised_backward(rows: &Act, gradient: &Tensor) -> Act {
    let mut out = Act::stale(rows.shape());
    for (i, to) in out.data_mut().chunks_exact_mut(rows.shape().c).enumerate() {
        let (row, g, norm) = (rows.sample(i), gradient.sample(i), norm(rows.sample(i)));
        let along: f64 = row.iter().zip(g).map(|(u, g)| f64::from(*u) / norm * g).sum();
        let entries = to.iter_mut().zip(row).zip(g);
        entries.for_each(|((to, u), g)| *to = ((g - f64::from(*u) / norm * along) / norm) as f32);
    }
    out
}

impl FeatureMap for ClipFeatures {
    fn name(&self) -> &str {
        "clip-image"
    }

    fn sha256(&self) -> &str {
        &self.sha256
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn dims(&self) -> usize {
        self.tower.features()
    }

    fn features(&self, images: &Tensor) -> Result<Tensor> {
        self.check(images)?;
        match images.samples() {
            0 => Ok(Tensor::zeros([0, self.dims(), 1, 1])),
            n => {
                let pass = |range| normalised(&self.forward(&images.slice(range), false)?.0);
                Tensor::concat(&side_by_side(parts(n, AT_ONCE), pass)?)
            }
        }
    }

    fn with_pullback<'m>(&'m self, images: &Tensor) -> Result<(Tensor, FeaturePullback<'m>)> {
        self.check(images)?;
        let pass = |images: Tensor| {
            let (rows, tape) = self.forward(&images, true)?;
            Ok((normalised(&rows)?, (rows, tape)))
        };
        let back = |(rows, tape): (Act, Option<ImageTape>), gradient: Tensor| {
            let Some(tape) = tape else { return Ok(Tensor::zeros([0, 1, 1, 1])) };
            let to_pixels = self.tower.backward(tape, &normalised_backward(&rows, &gradient));
            let image = |i| self.preprocess.of_sample_backward(to_pixels.sample(i), self.shape);
            Tensor::concat(&(0..to_pixels.shape().n).map(image).collect::<Result<Vec<_>>>()?)
        };
        with_way_back((images, self.dims()), AT_ONCE, pass, back)
    }
}
