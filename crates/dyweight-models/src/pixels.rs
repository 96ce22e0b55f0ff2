//! Grey levels, sharpness, specks and faint texture of 28×28 images: what a classifier's features hardly show.
//!
//! ```text
//! x   a pixel as eight bits show it, within [−128, 127]/127.5
//! h   x − the mean of its eight neighbours, 0 at the border
//! levels      mean of x over blocks of 4×4                     49 features
//! sharpness   (mean of h² over blocks of 7×7 + ε)^½            16
//! specks      (mean of h⁴ over blocks of 7×7 + ε²)^¼           16, larger the fewer pixels stand out
//! texture     mean of h²/(h² + δ²) over blocks of 7×7          16, the share that is not flat: noise on black counts
//! ```

use dyweight_core::error::{Error, Result};
use dyweight_core::features::{FeatureMap, FeaturePullback};
use dyweight_core::tensor::Tensor;

const SIZE: usize = 28;
/// Sides of the blocks.
const LEVEL: usize = 4;
const REGION: usize = 7;
const LEVELS: usize = (SIZE / LEVEL) * (SIZE / LEVEL);
const REGIONS: usize = (SIZE / REGION) * (SIZE / REGION);
/// ε: a flat block has a derivative, too.
const EPS: f64 = 1e-3;
/// δ, four grey levels of 256.
const FAINT: f64 = 1.0 / 32.0;
/// What eight bits can show.
const SHOWN: (f64, f64) = (-128.0 / 127.5, 127.0 / 127.5);

/// The map.
pub struct Pixels;

impl Pixels {
    /// The features of one image.
    fn of(image: &[f64]) -> Vec<f64> {
        let x: Vec<f64> = image.iter().map(|v| v.clamp(SHOWN.0, SHOWN.1)).collect();
        let (h, mut levels) = (detail(&x), vec![0.0; LEVELS]);
        let [mut squares, mut fourths, mut texture] = [[0.0; REGIONS]; 3];
        for at in 0..SIZE * SIZE {
            levels[block(at, LEVEL)] += x[at] / (LEVEL * LEVEL) as f64;
            let (region, square, share) = (block(at, REGION), h[at] * h[at], 1.0 / (REGION * REGION) as f64);
            squares[region] += share * square;
            fourths[region] += share * square * square;
            texture[region] += share * square / (square + FAINT * FAINT);
        }
        let sharpness = squares.iter().map(|v| (v + EPS).sqrt());
        let specks = fourths.iter().map(|v| (v + EPS * EPS).sqrt().sqrt());
        levels.into_iter().chain(sharpness).chain(specks).chain(texture).collect()
    }

    /// ∂L/∂image from the image and ∂L/∂features.
    fn back(image: &[f64], gradient: &[f64]) -> Vec<f64> {
        let x: Vec<f64> = image.iter().map(|v| v.clamp(SHOWN.0, SHOWN.1)).collect();
        let (h, features, many) = (detail(&x), Self::of(image), (REGION * REGION) as f64);
        // ∂L/∂h by the roots, then to the pixel itself and to its neighbours.
        let to_detail = |at: usize| {
            let region = block(at, REGION);
            let [sharp, speck, texture] = [0, 1, 2].map(|kind| LEVELS + kind * REGIONS + region);
            let by_root = |index: usize, power: i32| gradient[index] / (many * features[index].powi(power));
            let flat = 2.0 * FAINT * FAINT / (h[at] * h[at] + FAINT * FAINT).powi(2);
            h[at] * (by_root(sharp, 1) + gradient[texture] * flat / many) + h[at].powi(3) * by_root(speck, 3)
        };
        let mut found: Vec<f64> =
            (0..SIZE * SIZE).map(|at| gradient[block(at, LEVEL)] / (LEVEL * LEVEL) as f64).collect();
        for at in inner() {
            let slope = to_detail(at);
            found[at] += slope;
            neighbours(at).for_each(|near| found[near] -= slope / 8.0);
        }
        found.iter_mut().zip(image).filter(|(_, v)| **v <= SHOWN.0 || **v >= SHOWN.1).for_each(|(g, _)| *g = 0.0);
        found
    }
}

/// Which block of a side a pixel is in.
fn block(at: usize, side: usize) -> usize {
    (at / SIZE / side) * (SIZE / side) + at % SIZE / side
}

/// Pixels with eight neighbours.
fn inner() -> impl Iterator<Item = usize> {
    let within = |k: usize| (1..SIZE - 1).contains(&k);
    (0..SIZE * SIZE).filter(move |at| within(at / SIZE) && within(at % SIZE))
}

fn neighbours(at: usize) -> impl Iterator<Item = usize> {
    let rows = [at - SIZE, at, at + SIZE];
    rows.into_iter().flat_map(|middle| middle - 1..=middle + 1).filter(move |near| *near != at)
}

/// h of every pixel.
fn detail(x: &[f64]) -> Vec<f64> {
    let mut h = vec![0.0; x.len()];
    inner().for_each(|at| h[at] = x[at] - neighbours(at).map(|near| x[near]).sum::<f64>() / 8.0);
    h
}

impl FeatureMap for Pixels {
    fn name(&self) -> &str {
        "pixels"
    }

    /// It has no weights: its formula's version.
    fn sha256(&self) -> &str {
        "pixels of 28x28, first version"
    }

    fn shape(&self) -> [usize; 3] {
        [1, SIZE, SIZE]
    }

    fn dims(&self) -> usize {
        LEVELS + 3 * REGIONS
    }

    fn features(&self, images: &Tensor) -> Result<Tensor> {
        let [n, c, h, w] = images.shape();
        if [c, h, w] != self.shape() {
            let expected = [&[n][..], &self.shape()].concat();
            return Err(Error::Shape { what: "images".into(), expected, found: images.shape().to_vec() });
        }
        Tensor::new([n, self.dims(), 1, 1], (0..n).flat_map(|i| Self::of(images.sample(i))).collect())
    }

    fn with_pullback<'m>(&'m self, images: &Tensor) -> Result<(Tensor, FeaturePullback<'m>)> {
        let (features, images) = (self.features(images)?, images.clone());
        let pullback = move |gradient: &Tensor| {
            let each = (0..images.samples()).flat_map(|i| Self::back(images.sample(i), gradient.sample(i)));
            Tensor::new(images.shape(), each.collect())
        };
        Ok((features, Box::new(pullback)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Stream;
    use dyweight_core::tensor::dot;

    #[test]
    fn the_gradient_is_that_of_differences() {
        let mut stream = Stream::new(4);
        let image = Tensor::new([1, 1, SIZE, SIZE], stream.normals(SIZE * SIZE)).unwrap().map(|v| 0.4 * v);
        let weights = stream.normals(Pixels.dims());
        let (features, back) = Pixels.with_pullback(&image).unwrap();
        assert_eq!(features.samples(), 1);
        let found = back(&Tensor::new([1, Pixels.dims(), 1, 1], weights.clone()).unwrap()).unwrap();
        for at in [0, 1, 29, 30, 200, 391, 783] {
            let value = |by: f64| {
                let mut moved = image.clone();
                moved.data_mut()[at] += by;
                dot(Pixels.features(&moved).unwrap().data(), &weights)
            };
            let difference = (value(1e-6) - value(-1e-6)) / 2e-6;
            assert!((difference - found.data()[at]).abs() < 1e-6, "{at}: {} {difference}", found.data()[at]);
        }
    }

    /// One bright pixel on black, or the same brightness over its block.
    #[test]
    fn a_speck_stands_out() {
        let image = |bright: &[usize], by: f64| {
            let mut pixels = vec![-1.0; SIZE * SIZE];
            bright.iter().for_each(|at| pixels[*at] += by);
            Pixels.features(&Tensor::new([1, 1, SIZE, SIZE], pixels).unwrap()).unwrap()
        };
        let region: Vec<usize> = (0..SIZE * SIZE).filter(|at| block(*at, REGION) == 5).collect();
        let (speck, grey) = (image(&[10 * SIZE + 10], 0.98), image(&region, 0.02));
        let at = LEVELS + REGIONS + 5;
        assert!(speck.data()[at] > 5.0 * grey.data()[at], "{} {}", speck.data()[at], grey.data()[at]);
    }
}
