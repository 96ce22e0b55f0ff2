//! Features of images, gathered batch by batch.
//!
//! ```text
//! p = clip(127.5·x + 128, 0, 255), truncated;   x ← (p − 128)/127.5
//! ```
//!
//! Samples go through eight bits before their features are taken, as if they had been written as PNG and read again: so
//! features of a folder are those of the sampler, bit for bit, and numbers mean what they mean in the field.

use crate::linalg::Moments;
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;

/// Rows of features, in the order of the images. Four bytes a number: 10 000 images of 2048 features take 82 MB.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    dims: usize,
    rows: Vec<f32>,
}

impl Features {
    /// No rows yet, of `dims` features.
    pub fn new(dims: usize) -> Self {
        Self { dims: dims.max(1), rows: Vec::new() }
    }

    /// Takes rows, one after the other.
    pub fn from_rows(dims: usize, rows: Vec<f32>) -> Result<Self> {
        let mut features = Self::new(dims);
        if !rows.len().is_multiple_of(features.dims) {
            return Err(Error::Shape { what: "features".into(), expected: vec![dims], found: vec![rows.len()] });
        }
        features.check(&rows)?;
        features.rows = rows;
        Ok(features)
    }

    /// Adds the rows of a batch `[n, dims, 1, 1]`.
    pub fn push(&mut self, batch: &Tensor) -> Result<()> {
        let [n, dims, h, w] = batch.shape();
        if [dims, h, w] != [self.dims, 1, 1] {
            let (expected, found) = (vec![n, self.dims, 1, 1], batch.shape().to_vec());
            return Err(Error::Shape { what: "features".into(), expected, found });
        }
        let rows: Vec<f32> = batch.data().iter().map(|v| *v as f32).collect();
        self.check(&rows)?;
        self.rows.extend(rows);
        Ok(())
    }

    fn check(&self, rows: &[f32]) -> Result<()> {
        match rows.iter().position(|v| !v.is_finite()) {
            Some(at) => {
                let what = format!("features of image {}", self.len() + at / self.dims);
                Err(Error::NotFinite { what, index: at % self.dims, value: rows[at].into() })
            }
            None => Ok(()),
        }
    }

    /// Numbers in a row.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.rows.len() / self.dims
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All rows, one after the other.
    pub fn rows(&self) -> &[f32] {
        &self.rows
    }

    /// Their mean and scatter.
    pub fn moments(&self) -> Moments {
        Moments::of(&self.rows, self.dims)
    }

    /// That `other` has features of as many numbers.
    pub(super) fn require_like(&self, other: &Self) -> Result<()> {
        if self.dims == other.dims {
            return Ok(());
        }
        Err(Error::Shape { what: "features to compare".into(), expected: vec![self.dims], found: vec![other.dims] })
    }
}

/// Samples as they come back from eight-bit images. What is not a number becomes black, as in a PNG.
pub fn quantise(samples: &Tensor) -> Tensor {
    // `as u8` truncates, saturates at both ends and sends NaN to 0.
    samples.map(|x| (f64::from((x * 127.5 + 128.0) as u8) - 128.0) / 127.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::features::FeatureMap;
    use dyweight_core::noise::Rng;
    use dyweight_files::image::Image;
    use dyweight_models::features::FashionFeatures;

    #[test]
    fn a_png_folder_and_the_sampler_give_the_same_bits() {
        let samples = Rng::Native.latents(&[1, 2, 3, 4, 5], [1, 28, 28]).unwrap().map(|v| 0.7 * v);
        let files: Vec<Vec<u8>> = Image::from_batch(&samples).unwrap().iter().map(Image::to_png).collect();
        let read = |bytes: &Vec<u8>| Image::from_png(bytes).unwrap().to_sample();
        let folder = Tensor::concat(&files.iter().map(read).collect::<Vec<_>>()).unwrap();
        assert_eq!(folder, quantise(&samples));
        let map = FashionFeatures::embedded().unwrap();
        let (mut whole, mut parts) = (Features::new(map.dims()), Features::new(map.dims()));
        whole.push(&map.features(&quantise(&samples)).unwrap()).unwrap();
        for range in [0..2, 2..3, 3..5] {
            parts.push(&map.features(&folder.slice(range)).unwrap()).unwrap();
        }
        assert_eq!(whole, parts);
        assert_eq!((whole.len(), whole.dims()), (5, 128));
    }

    #[test]
    fn other_shapes_and_what_is_not_a_number_are_refused() {
        let mut features = Features::new(2);
        assert!(features.push(&Tensor::zeros([1, 3, 1, 1])).is_err());
        features.push(&Tensor::zeros([1, 2, 1, 1])).unwrap();
        let bad = Tensor::new([2, 2, 1, 1], vec![0.0, 0.0, 0.0, f64::NAN]).unwrap();
        let error = features.push(&bad).unwrap_err().to_string();
        assert!(error.contains("features of image 2 holds NaN at index 1"), "{error}");
        assert_eq!(features.len(), 1);
        assert!(Features::from_rows(2, vec![0.0; 3]).is_err());
    }
}
