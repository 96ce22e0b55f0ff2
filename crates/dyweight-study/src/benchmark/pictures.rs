//! What is shown of an entry: its first samples, and the way some of them took.

use dyweight_core::denoiser::Model;
use dyweight_core::error::Result;
use dyweight_core::sample::State;
use dyweight_core::tensor::Tensor;
use dyweight_files::image::{Image, contact_sheet, is_image};
use dyweight_models::LoadedModel;
use dyweight_report::{Figure, samples_in_plane};
use dyweight_sample::comm::{Reader, Wire};
use std::path::{Path, PathBuf};

/// Samples on a contact sheet, in rows of eight.
const SHOWN: usize = 64;
/// The same of samples that have to be decoded, which takes as long as a network call.
const DECODED: usize = 16;
/// Samples whose states are kept.
const WAYS: usize = 3;
/// Points drawn of a model in the plane, and ways.
const POINTS: usize = 2000;
const PLANE_WAYS: usize = 12;

/// States of the first samples, `[sample][state]`, with their levels.
#[derive(Default)]
pub(super) struct Pictures {
    first: usize,
    shape: [usize; 3],
    decoded: bool,
    latest: Vec<Vec<f64>>,
    ways: Vec<Vec<(f64, Vec<f64>)>>,
}

/// True if samples are points in the plane.
fn is_plane(shape: [usize; 3]) -> bool {
    shape == [2, 1, 1]
}

impl Pictures {
    /// For the samples from number `first` on.
    pub fn begin(first: usize, model: &dyn Model) -> Self {
        Self { first, shape: model.shape(), decoded: model.decoder().is_some(), ..Self::default() }
    }

    /// Finished samples, without their ways.
    pub fn of(samples: &Tensor, model: &dyn Model) -> Self {
        let latest = (0..samples.samples()).map(|i| samples.sample(i).to_vec()).collect();
        Self { latest, ..Self::begin(0, model) }
    }

    /// How many samples of a model are shown.
    pub fn many(model: &dyn Model) -> usize {
        Self::shown(model.shape(), model.decoder().is_some())
    }

    fn shown(shape: [usize; 3], decoded: bool) -> usize {
        match shape {
            _ if decoded => DECODED,
            shape if is_plane(shape) => POINTS,
            shape if is_image(shape) => SHOWN,
            _ => 0,
        }
    }

    /// Keeps what is wanted of a state.
    pub fn see(&mut self, state: &State<'_>) {
        let shown = Self::shown(self.shape, self.decoded);
        // What a decoder makes of noisy states is nothing to look at.
        let ways = if is_plane(self.shape) { PLANE_WAYS } else { WAYS.min(shown) };
        let ways = if self.decoded { 0 } else { ways };
        let x = state.x.tensor();
        let keep = |limit: usize| limit.saturating_sub(self.first).min(x.samples());
        self.latest = (0..keep(shown)).map(|i| x.sample(i).to_vec()).collect();
        let ways = keep(ways);
        self.ways.resize(ways, Vec::new());
        for (i, way) in self.ways.iter_mut().enumerate() {
            way.push((state.sigma, x.sample(i).to_vec()));
        }
    }

    /// Adds those of later samples.
    pub fn append(&mut self, other: Self) {
        self.shape = other.shape;
        self.latest.extend(other.latest);
        self.ways.extend(other.ways);
    }

    /// Writes `KEY.png`, and for images `KEY-way.png`, where there is something to show.
    pub fn write(&self, directory: &Path, key: &str, model: &LoadedModel) -> Result<()> {
        let (sheet, way) = files(directory, key);
        if self.latest.is_empty() {
            return Ok(());
        }
        if let Some(decoder) = model.model.decoder() {
            let [c, h, w] = self.shape;
            let image = |x: &Vec<f64>| {
                let image = decoder.decode(&Tensor::new([1, c, h, w], x.clone())?)?;
                Image::from_sample(image.sample(0), decoder.shape())
            };
            let images: Vec<Image> = self.latest.iter().map(image).collect::<Result<_>>()?;
            return contact_sheet(&images, 4, 1)?.write(&sheet);
        }
        if is_plane(self.shape) {
            let png = self.plane(model).draw()?.to_png(2.0)?;
            return dyweight_files::image::write(&sheet, &png);
        }
        let images: Vec<Image> =
            self.latest.iter().map(|x| Image::from_sample(x, self.shape)).collect::<Result<_>>()?;
        contact_sheet(&images, 8, 1)?.write(&sheet)?;
        if self.ways.is_empty() {
            return Ok(());
        }
        let shown = |(sigma, x): &(f64, Vec<f64>)| {
            // Noisy states at the contrast of images: data have a standard deviation of about one half.
            let contrast = 0.5 / (sigma * sigma + 0.25).sqrt();
            Image::from_sample(&x.iter().map(|v| contrast * v).collect::<Vec<_>>(), self.shape)
        };
        let states: Vec<Image> = self.ways.iter().flatten().map(shown).collect::<Result<_>>()?;
        let columns = self.ways.first().map_or(1, Vec::len);
        contact_sheet(&states, columns, 1)?.write(&way)
    }

    fn plane(&self, model: &LoadedModel) -> Figure {
        let points = self.latest.iter().map(|x| (x[0], x[1])).collect();
        let ways = self.ways.iter().map(|way| way.iter().map(|(_, x)| (x[0], x[1])).collect()).collect();
        samples_in_plane("", &*model.model, points, ways)
    }
}

impl Wire for Pictures {
    fn put(&self, out: &mut Vec<u8>) {
        (self.first, self.shape.to_vec()).put(out);
        self.latest.put(out);
        self.ways.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let (first, shape): (_, Vec<usize>) = Wire::take(from)?;
        let shape = shape.try_into().ok()?;
        Some(Self { first, shape, decoded: false, latest: Wire::take(from)?, ways: Wire::take(from)? })
    }
}

/// Where the pictures of an entry are: its samples, and their ways.
pub(super) fn files(directory: &Path, key: &str) -> (PathBuf, PathBuf) {
    let file = |suffix: &str| directory.join("pictures").join(format!("{key}{suffix}.png"));
    (file(""), file("-way"))
}
