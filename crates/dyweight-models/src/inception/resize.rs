//! From images to the network's input, in two ways that must not be mixed.
//!
//! An image x ∈ [−1, 1] stands for pixel values p = 127.5·x + 128 (the convention of EDM's PNG files; not rounded or
//! cut off here). Bilinear, never antialiased, each direction apart, the neighbour of the last pixel being itself:
//!
//! ```text
//! edm           source position  i·size/299                     then (p − 128)/128  =  127.5/128 · x
//! pytorch-fid   source position  max(0, (i + ½)·size/299 − ½)    then 2p/255 − 1     =  x + 1/255
//! ```
//!
//! Interpolation weights sum to 1, so both come down to `gain·resize(x) + offset`, which is computed in f64 and rounded
//! to the engine's f32 once.

use super::plan::SIZE;
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_nn::{Act, Shape};
use rayon::prelude::*;

/// How the network sees an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resize {
    /// As EDM and StyleGAN: TensorFlow 1's alignment. Published statistics of EDM belong to it.
    #[default]
    Edm,
    /// As pytorch-fid: pixel centres aligned.
    PytorchFid,
}

impl Resize {
    /// The names that may be typed.
    pub const NAMES: [&str; 2] = ["edm", "pytorch-fid"];

    /// The rule of a name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "edm" => Ok(Self::Edm),
            "pytorch-fid" => Ok(Self::PytorchFid),
            other => Err(Error::unknown_name("resize rule", other, Self::NAMES)),
        }
    }

    /// The name of a feature map with this rule: features of different rules are different features.
    pub(crate) fn map_name(self) -> &'static str {
        match self {
            Self::Edm => "inception-edm",
            Self::PytorchFid => "inception-pytorch-fid",
        }
    }

    fn gain_and_offset(self) -> (f64, f64) {
        match self {
            Self::Edm => (127.5 / 128.0, 0.0),
            Self::PytorchFid => (1.0, 1.0 / 255.0),
        }
    }

    fn position(self, index: usize, size: usize) -> f64 {
        let scale = size as f64 / SIZE as f64;
        match self {
            Self::Edm => index as f64 * scale,
            Self::PytorchFid => ((index as f64 + 0.5) * scale - 0.5).max(0.0),
        }
    }

    /// For each of the 299 positions along an axis: the pixel before it, the one after, and the weight of the latter.
    fn taps(self, size: usize) -> Vec<Tap> {
        let tap = |index| {
            let last = size - 1;
            let at = self.position(index, size).min(last as f64);
            let before = at as usize;
            Tap { before, after: (before + 1).min(last), weight: at - before as f64 }
        };
        (0..SIZE).map(tap).collect()
    }
}

#[derive(Clone, Copy)]
struct Tap {
    before: usize,
    after: usize,
    weight: f64,
}

/// The rule for images of one shape.
pub(super) struct Preprocess {
    shape: [usize; 3],
    rows: Vec<Tap>,
    columns: Vec<Tap>,
    gain: f64,
    offset: f64,
}

/// Channels the network reads.
const COLOURS: usize = 3;

impl Preprocess {
    /// One or three channels, of any size.
    pub(super) fn new(resize: Resize, shape: [usize; 3]) -> Result<Self> {
        let [c, h, w] = shape;
        if ![1, COLOURS].contains(&c) || h == 0 || w == 0 {
            return Err(Error::conflict(
                format!("Inception-v3 takes images of 1 or 3 channels, not {c}x{h}x{w}"),
                "features of Inception are for images; decode latents first",
            ));
        }
        let (gain, offset) = resize.gain_and_offset();
        Ok(Self { shape, rows: resize.taps(h), columns: resize.taps(w), gain, offset })
    }

    pub(super) fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// The network's input; one channel becomes three.
    pub(super) fn forward(&self, images: &Tensor) -> Act {
        let [c, h, w] = self.shape;
        let shape = Shape { n: images.samples(), h: SIZE, w: SIZE, c: COLOURS };
        let mut act = Act::stale(shape);
        act.data_mut().par_chunks_mut(SIZE * COLOURS).enumerate().for_each(|(line, to)| {
            let (image, row) = (images.sample(line / SIZE), self.rows[line % SIZE]);
            let mut blended = vec![0.0; w];
            for channel in 0..c {
                let plane = &image[channel * h * w..][..h * w];
                let (above, below) = (&plane[row.before * w..][..w], &plane[row.after * w..][..w]);
                for ((to, a), b) in blended.iter_mut().zip(above).zip(below) {
                    *to = a + row.weight * (b - a);
                }
                for (to, tap) in to[channel..].iter_mut().step_by(COLOURS).zip(&self.columns) {
                    let value = blended[tap.before] + tap.weight * (blended[tap.after] - blended[tap.before]);
                    *to = (self.gain * value + self.offset) as f32;
                }
            }
            if c == 1 {
                for pixel in to.as_chunks_mut::<COLOURS>().0 {
                    *pixel = [pixel[0]; COLOURS];
                }
            }
        });
        act
    }

    /// The images' gradient from that of the network's input: the transpose, summed in a fixed order per image.
    pub(super) fn backward(&self, gradient: &Act) -> Result<Tensor> {
        let [c, h, w] = self.shape;
        let mut images = Tensor::zeros([gradient.shape().n, c, h, w]);
        images.data_mut().par_chunks_mut(c * h * w).enumerate().for_each(|(n, image)| {
            for (line, row) in gradient.sample(n).chunks_exact(SIZE * COLOURS).zip(&self.rows) {
                for channel in 0..c {
                    let mut blended = vec![0.0; w];
                    for (pixel, tap) in line.as_chunks::<COLOURS>().0.iter().zip(&self.columns) {
                        let g = match c {
                            1 => pixel.iter().map(|g| f64::from(*g)).sum(),
                            _ => f64::from(pixel[channel]),
                        };
                        blended[tap.before] += (1.0 - tap.weight) * g;
                        blended[tap.after] += tap.weight * g;
                    }
                    let plane = &mut image[channel * h * w..][..h * w];
                    for (v, g) in blended.iter().enumerate() {
                        plane[row.before * w + v] += self.gain * (1.0 - row.weight) * g;
                        plane[row.after * w + v] += self.gain * row.weight * g;
                    }
                }
            }
        });
        Ok(images)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_stay_on_the_image() {
        for rule in [Resize::Edm, Resize::PytorchFid] {
            for size in [1, 2, 28, 299, 1000] {
                let taps = rule.taps(size);
                assert!(taps.iter().all(|t| t.after < size && t.before <= t.after && (0.0..=1.0).contains(&t.weight)));
            }
        }
        // 299 pixels are seen as they are.
        assert!(Resize::PytorchFid.taps(299).iter().enumerate().all(|(i, t)| t.before == i && t.weight < 1e-9));
    }

    #[test]
    fn the_gradient_is_the_transpose() {
        let number = |i: usize| ((i * 7919 + 13) % 1009) as f64 / 504.5 - 1.0;
        for (rule, shape) in [(Resize::Edm, [3, 5, 9]), (Resize::PytorchFid, [1, 7, 4]), (Resize::Edm, [1, 310, 301])] {
            let [c, h, w] = shape;
            let map = Preprocess::new(rule, shape).unwrap();
            let images = Tensor::new([2, c, h, w], (0..2 * c * h * w).map(number).collect()).unwrap();
            let (seen, blank) = (map.forward(&images), map.forward(&Tensor::zeros([2, c, h, w])));
            let cotangent: Vec<f32> = (0..seen.shape().len()).map(|i| number(3 * i + 1) as f32).collect();
            let pulled = map.backward(&Act::from_nhwc(seen.shape(), &cotangent)).unwrap();
            let dot = |a: &[f32]| a.iter().zip(&cotangent).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            let wanted = dot(seen.data()) - dot(blank.data());
            let found: f64 = pulled.data().iter().zip(images.data()).map(|(a, b)| a * b).sum();
            assert!((found - wanted).abs() < 1e-3 * wanted.abs().max(1.0), "{found} {wanted}");
        }
    }

    #[test]
    fn only_images_are_taken() {
        assert!(Preprocess::new(Resize::Edm, [4, 32, 32]).is_err());
        assert!(Preprocess::new(Resize::Edm, [3, 0, 32]).is_err());
        assert!(Resize::named("bicubic").is_err());
        assert_eq!(Resize::NAMES.map(|n| Resize::named(n).unwrap().map_name()).len(), 2);
    }
}
