//! From pictures to what an image tower sees, as the published tools do it.
//!
//! ```text
//! resize   the shorter side to S, the longer to ⌊S·long/short⌋;  bicubic, see `resample`
//! crop     the middle C × C; the odd pixel of an excess e:  ⌊e/2⌋ (transformers)  or e/2 to the nearest even (the
//!          others)
//! scale    (v/255 − mean)/deviation for each colour
//! ```
//!
//! | who | resampling | crop |
//! |---|---|---|
//! | transformers 4 (PIL) | `pil` | floor |
//! | transformers 5 (torchvision) | `tv` | floor |
//! | OpenAI, OpenCLIP, ImageReward | `pil` | nearest even |
//! | hpsv2, torchvision ≥ 0.17 | `float` | nearest even |
//! | hpsv2, older torchvision | `float-noaa` | nearest even |

mod config;
mod resample;
mod taps;

use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_files::image::Image;
use resample::{COLOURS, Resizer};

/// How a picture is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resampling {
    /// As PIL: fixed point of 22 bits.
    Pil,
    /// As torchvision on eight-bit tensors: fixed point of as many bits as 16-bit weights allow.
    Torchvision,
    /// As torchvision on real tensors: not rounded, not cut off.
    Float,
    /// The same without antialiasing, as torchvision before 0.17.
    FloatPlain,
}

impl Resampling {
    /// The names that may be typed.
    pub const NAMES: [&str; 4] = ["pil", "tv", "float", "float-noaa"];

    const ALL: [Self; 4] = [Self::Pil, Self::Torchvision, Self::Float, Self::FloatPlain];

    /// The rule of a name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().position(|known| *known == name);
        found.map(|index| Self::ALL[index]).ok_or_else(|| Error::unknown_name("preprocessing", name, Self::NAMES))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[Self::ALL.iter().position(|rule| *rule == self).unwrap_or(0)]
    }
}

/// Where the middle of an odd excess is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crop {
    /// Rounded down.
    Floor,
    /// Rounded to the nearest whole number, from the middle to the even one.
    NearestEven,
}

impl Crop {
    fn offset(self, excess: usize) -> usize {
        match self {
            Crop::Floor => excess / 2,
            Crop::NearestEven => (excess as f64 / 2.0).round_ties_even() as usize,
        }
    }
}

/// A longer side is not that of a picture.
const LONGEST: usize = 1 << 16;

/// What becomes of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocess {
    /// How it is resized.
    pub resampling: Resampling,
    /// How it is cut.
    pub crop: Crop,
    /// Its shorter side after resizing.
    pub shorter: usize,
    /// Rows and columns after cutting, no more than `shorter`.
    pub size: usize,
    /// Subtracted from each colour in [0, 1].
    pub mean: [f64; 3],
    /// Then divided by.
    pub deviation: [f64; 3],
}

impl Preprocess {
    /// With the colours of OpenAI's CLIP, which all released models here share.
    pub fn new(resampling: Resampling, crop: Crop, size: usize) -> Self {
        let (mean, deviation) = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]);
        Self { resampling, crop, shorter: size, size, mean, deviation }
    }

    /// Rows and columns of the resized picture.
    fn resized(&self, [h, w]: [usize; 2]) -> Result<[usize; 2]> {
        let (short, long) = (h.min(w).max(1), h.max(w));
        // The product first, as the tools do; sizes are exact in f64.
        let longer = (self.shorter * long) as f64 / short as f64;
        if longer > LONGEST as f64 {
            let found = format!("a picture of {w}x{h} pixels");
            return Err(Error::conflict(
                format!("{found} is too narrow: {} pixels across make it {longer:.0} long", self.shorter),
                "leave it out",
            ));
        }
        let longer = longer as usize;
        Ok(if h <= w { [self.shorter, longer] } else { [longer, self.shorter] })
    }

    /// The pixels a tower sees, `[size, size, 3]`.
    pub fn pixels(&self, image: &Image) -> Result<Vec<f32>> {
        let image = image.to_rgb();
        let from = [image.height(), image.width()];
        let to = self.resized(from)?;
        let resizer = Resizer::new(self.resampling, from, to);
        Ok(match self.resampling {
            Resampling::Pil | Resampling::Torchvision => {
                let bytes = resizer.bytes(image.data());
                self.cut(to, |channel, at| f64::from(bytes[at * COLOURS + channel]) / 255.0)
            }
            Resampling::Float | Resampling::FloatPlain => {
                let plane = |channel: usize| {
                    let values = image.data().iter().skip(channel).step_by(COLOURS);
                    resizer.plane(&values.map(|v| f64::from(*v) / 255.0).collect::<Vec<_>>())
                };
                let planes: [Vec<f64>; COLOURS] = std::array::from_fn(plane);
                self.cut(to, |channel, at| planes[channel][at])
            }
        })
    }

    /// The middle of a resized picture, scaled.
    fn cut(&self, [h, w]: [usize; 2], value: impl Fn(usize, usize) -> f64) -> Vec<f32> {
        let (top, left) = (self.crop.offset(h - self.size), self.crop.offset(w - self.size));
        let mut pixels = Vec::with_capacity(self.size * self.size * COLOURS);
        for y in top..top + self.size {
            for x in left..left + self.size {
                for channel in 0..COLOURS {
                    let scaled = (value(channel, y * w + x) - self.mean[channel]) / self.deviation[channel];
                    pixels.push(scaled as f32);
                }
            }
        }
        pixels
    }

    /// What a tower sees of a sample `[1 or 3, h, w]` with values in [−1, 1], v = (127.5·x + 128)/255: in real numbers,
    /// whatever the resampling, so that it can be differentiated.
    pub fn of_sample(&self, sample: &[f64], [c, h, w]: [usize; 3]) -> Result<Vec<f32>> {
        let to = self.resized([h, w])?;
        let resizer = Resizer::new(self.smooth(), [h, w], to);
        let planes: Vec<Vec<f64>> = sample.chunks_exact(h * w).map(|plane| resizer.plane(plane)).collect();
        // Weights sum to one: what is linear may come after.
        Ok(self.cut(to, |channel, at| (127.5 * planes[channel % c][at] + 128.0) / 255.0))
    }

    /// The gradient of a sample from that of [`Self::of_sample`]'s result.
    pub(crate) fn of_sample_backward(&self, gradient: &[f32], [c, h, w]: [usize; 3]) -> Result<Tensor> {
        let to = self.resized([h, w])?;
        let resizer = Resizer::new(self.smooth(), [h, w], to);
        let (top, left) = (self.crop.offset(to[0] - self.size), self.crop.offset(to[1] - self.size));
        let mut planes = vec![vec![0.0; to[0] * to[1]]; c];
        for (i, pixel) in gradient.as_chunks::<COLOURS>().0.iter().enumerate() {
            let at = (top + i / self.size) * to[1] + left + i % self.size;
            for (channel, g) in pixel.iter().enumerate() {
                planes[channel % c][at] += 0.5 * f64::from(*g) / self.deviation[channel];
            }
        }
        let data = planes.iter().flat_map(|plane| resizer.plane_backward(plane)).collect();
        Tensor::new([1, c, h, w], data)
    }

    fn smooth(&self) -> Resampling {
        if self.resampling == Resampling::FloatPlain { Resampling::FloatPlain } else { Resampling::Float }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(i: usize) -> f64 {
        ((i * 7919 + 13) % 1009) as f64 / 504.5 - 1.0
    }

    #[test]
    fn the_gradient_is_the_transpose() {
        for (shape, size) in [([3, 9, 14], 6), ([1, 20, 11], 6), ([3, 5, 4], 8), ([3, 6, 6], 6)] {
            let [c, h, w] = shape;
            for resampling in [Resampling::Pil, Resampling::FloatPlain] {
                let map = Preprocess::new(resampling, Crop::NearestEven, size);
                let sample: Vec<f64> = (0..c * h * w).map(number).collect();
                let blank = map.of_sample(&vec![0.0; c * h * w], shape).unwrap();
                let seen = map.of_sample(&sample, shape).unwrap();
                let cotangent: Vec<f32> = (0..seen.len()).map(|i| number(3 * i + 1) as f32).collect();
                let pulled = map.of_sample_backward(&cotangent, shape).unwrap();
                let changed = seen.iter().zip(&blank).map(|(a, b)| f64::from(*a) - f64::from(*b));
                let wanted: f64 = changed.zip(&cotangent).map(|(d, g)| d * f64::from(*g)).sum();
                let found: f64 = pulled.data().iter().zip(&sample).map(|(a, b)| a * b).sum();
                assert!((found - wanted).abs() < 1e-4 * wanted.abs().max(1.0), "{shape:?} {found} {wanted}");
            }
        }
    }

    #[test]
    fn samples_and_pictures_are_seen_alike() {
        let (h, w) = (13, 9);
        let bytes: Vec<u8> = (0..h * w * 3).map(|i| (i * 37 % 256) as u8).collect();
        let image = Image::new(w, h, 3, bytes).unwrap();
        let map = Preprocess::new(Resampling::Float, Crop::NearestEven, 7);
        let (a, b) = (map.pixels(&image).unwrap(), map.of_sample(image.to_sample().data(), [3, h, w]).unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn odd_excess_and_silly_shapes() {
        assert_eq!([0, 1, 3, 5, 6].map(|e| Crop::NearestEven.offset(e)), [0, 0, 2, 2, 3]);
        assert_eq!([0, 1, 3, 5, 6].map(|e| Crop::Floor.offset(e)), [0, 0, 1, 2, 3]);
        let map = Preprocess::new(Resampling::Pil, Crop::Floor, 224);
        assert_eq!(map.resized([257, 391]).unwrap(), [224, 340]);
        assert!(map.resized([1, 100_000]).is_err());
        let grey = Image::new(1, 2, 1, vec![0, 255]).unwrap();
        assert_eq!(map.pixels(&grey).unwrap().len(), 224 * 224 * 3);
    }

    #[test]
    fn names_lead_back() {
        for name in Resampling::NAMES {
            assert_eq!(Resampling::named(name).unwrap().name(), name);
        }
        assert!(Resampling::named("bicubic").is_err());
    }
}
