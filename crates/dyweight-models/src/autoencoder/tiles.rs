//! Large images in overlapping tiles, so that memory does not grow with the image.
//!
//! The coarse part of a decoder, with its attention, sees the whole image. What follows its first doubling is done tile
//! by tile, and where tiles overlap their images are blended:
//!
//! ```text
//! w_k(i) ∝ min(1, (i − start_k + ½)/overlap, (end_k − i − ½)/overlap),  Σ_k w_k(i) = 1
//!                                                                                           along each axis, i a pixel
//! ```
//!
//! An overlap is wider than what a pixel of the image depends on, so that a blended image differs from the whole one
//! only in the statistics of the normalisations behind the coarse part, which are those of a tile.

use super::decoder::Decoder;
use dyweight_nn::{Act, Shape};

/// How an image is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiling {
    /// Rows and columns of a tile, in pixels of the coarse part.
    pub(crate) side: usize,
    /// Least overlap of neighbours, likewise.
    pub(crate) overlap: usize,
}

impl Tiling {
    /// Tiles of 64 latents.
    const USUAL: Self = Self { side: 128, overlap: 32 };
    /// No more latents than this are decoded in one go: images of 768 by 768 pixels.
    const LARGEST: usize = 96 * 96;

    /// How latents of this size are decoded: in one go if there are few.
    pub(crate) fn of([h, w]: [usize; 2]) -> Option<Self> {
        (h * w > Self::LARGEST).then_some(Self::USUAL)
    }
}

/// Tiles along one axis.
struct Axis {
    starts: Vec<usize>,
    side: usize,
    len: usize,
    overlap: usize,
}

impl Axis {
    fn new(len: usize, tiling: Tiling) -> Self {
        let Tiling { side, overlap } = tiling;
        let side = side.min(len);
        let count = 1 + (len - side).div_ceil((side - overlap.min(side - 1)).max(1));
        let starts = (0..count).map(|k| if count > 1 { k * (len - side) / (count - 1) } else { 0 }).collect();
        Self { starts, side, len, overlap }
    }

    /// How much a tile counts at each of its pixels, of which there are `scale` along one of the coarse part's.
    fn weights(&self, tile: usize, scale: usize) -> Vec<f32> {
        let weight = |start: usize, i: usize| -> f64 {
            let end = start + self.side;
            let (first, last) = (start * scale, end * scale);
            let inside = i >= first && i < last;
            // The edges of the image have no neighbour.
            let distance = |edge: bool, pixels: f64| if edge { 1.0 } else { pixels / (self.overlap * scale) as f64 };
            let before = distance(start == 0, i as f64 + 0.5 - first as f64);
            let after = distance(end == self.len, last as f64 - i as f64 - 0.5);
            if inside { before.min(after).min(1.0) } else { 0.0 }
        };
        let start = self.starts[tile];
        let of = |i: usize| weight(start, i) / self.starts.iter().map(|start| weight(*start, i)).sum::<f64>();
        (start * scale..(start + self.side) * scale).map(|i| of(i) as f32).collect()
    }
}

impl Decoder {
    /// The image of one sample's latents, in tiles; its pixels are `factor` along one of the latents'.
    pub(super) fn forward_tiled(&self, z: &Act, factor: usize, tiling: Tiling) -> Act {
        assert_eq!(z.shape().n, 1, "samples of a tiled image");
        let scale = factor / self.coarse_factor();
        let coarse = self.coarse(z);
        let Shape { h, w, .. } = coarse.shape();
        let (rows, columns) = (Axis::new(h, tiling), Axis::new(w, tiling));
        let mut image: Option<Act> = None;
        for (i, top) in rows.starts.iter().enumerate() {
            let down = rows.weights(i, scale);
            for (j, left) in columns.starts.iter().enumerate() {
                let across = columns.weights(j, scale);
                let tile = self.fine(cut(&coarse, [*top, *left], [rows.side, columns.side]));
                let whole = Shape { n: 1, h: h * scale, w: w * scale, c: tile.shape().c };
                let image = image.get_or_insert_with(|| Act::zeros(whole));
                blend(image, &tile, [top * scale, left * scale], &down, &across);
            }
        }
        image.expect("at least one tile")
    }
}

/// Some rows and columns of an activation.
fn cut(x: &Act, [top, left]: [usize; 2], [h, w]: [usize; 2]) -> Act {
    let Shape { w: width, c, .. } = x.shape();
    let mut part = Act::stale(Shape { n: 1, h, w, c });
    for (row, to) in part.data_mut().chunks_exact_mut(w * c).enumerate() {
        to.copy_from_slice(&x.data()[((top + row) * width + left) * c..][..w * c]);
    }
    part
}

/// Adds a tile, weighted.
fn blend(image: &mut Act, tile: &Act, [top, left]: [usize; 2], down: &[f32], across: &[f32]) {
    let Shape { w: width, c, .. } = image.shape();
    let line = tile.shape().w * c;
    for ((row, from), down) in tile.data().chunks_exact(line).enumerate().zip(down) {
        let to = &mut image.data_mut()[((top + row) * width + left) * c..][..line];
        for ((to, from), across) in to.chunks_exact_mut(c).zip(from.chunks_exact(c)).zip(across) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += down * across * from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autoencoder::{Autoencoder, AutoencoderConfig};
    use dyweight_core::noise::Stream;
    use dyweight_nn::{ConvAlgo, Dtype};

    #[test]
    fn weights_sum_to_one_and_tiles_cover() {
        for (len, side, overlap) in
            [(7, 128, 32), (128, 128, 32), (129, 128, 32), (300, 128, 32), (50, 16, 5), (9, 4, 3)]
        {
            let axis = Axis::new(len, Tiling { side, overlap });
            let mut sums = vec![0.0; 2 * len];
            for (k, start) in axis.starts.iter().enumerate() {
                let weights = axis.weights(k, 2);
                sums[2 * start..][..weights.len()].iter_mut().zip(&weights).for_each(|(sum, w)| *sum += w);
            }
            assert!(sums.iter().all(|sum: &f32| (sum - 1.0).abs() < 1e-6), "{len} in {side}: {sums:?}");
            let apart = axis.starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
            assert!(apart <= axis.side - overlap.min(axis.side - 1), "{len} in {side}: {:?}", axis.starts);
        }
    }

    fn difference(tiling: Tiling, [h, w]: [usize; 2]) -> (f64, f64) {
        let config = AutoencoderConfig { widths: vec![32, 64, 64], groups: 8, ..AutoencoderConfig::sd15() };
        let autoencoder = Autoencoder::random(&config, (3, Dtype::F32), ConvAlgo::Winograd4).unwrap();
        let numbers: Vec<f32> = Stream::labelled(1, "latents").normals(h * w * 4).iter().map(|v| *v as f32).collect();
        let z = Act::from_nhwc(Shape { n: 1, h, w, c: 4 }, &numbers);
        let whole = autoencoder.decode(&z, false).0;
        let tiled = autoencoder.decode_tiled(&z, tiling);
        assert_eq!(whole.shape(), tiled.shape());
        let mean_square = |f: &dyn Fn(usize) -> f32| {
            (0..whole.data().len()).map(|i| f64::from(f(i)).powi(2)).sum::<f64>() / whole.data().len() as f64
        };
        let error = mean_square(&|i| whole.data()[i] - tiled.data()[i]).sqrt();
        (error / mean_square(&|i| whole.data()[i]).sqrt(), error)
    }

    #[test]
    fn one_tile_is_the_whole_image() {
        assert_eq!(difference(Tiling { side: 64, overlap: 8 }, [12, 20]).1, 0.0);
    }

    #[test]
    fn tiles_agree_with_the_whole_image() {
        let (relative, _) = difference(Tiling { side: 64, overlap: 24 }, [48, 72]);
        assert!(relative > 0.0 && relative < BOUND, "{relative}");
    }

    /// Of latents that are noise, in tiles of 32 latents. The usual tiles have four times as many pixels to take
    /// statistics of.
    const BOUND: f64 = 0.05;
}
