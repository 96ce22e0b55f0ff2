//! Resizing: columns first, then rows; a direction that keeps its size is left alone.
//!
//! ```text
//! fixed point    q = w·2ᵖ rounded half away from zero;  v = clip((Σ q·v + 2ᵖ⁻¹) ≫ p, 0, 255), eight bits after each
//!                direction
//!                pil  p = 22;   tv  the largest p < 23 for which every ⌊½ + w·2ᵖ⌋ < 2¹⁵
//! real numbers   Σ w·v, neither rounded nor cut off
//! ```

use super::Resampling;
use super::taps::{Tap, antialiased, plain};

/// Channels of a picture.
pub(super) const COLOURS: usize = 3;

/// Most bits of a fixed-point weight behind the point.
const PRECISION: u32 = 22;

/// From one size `[h, w]` to another.
pub(super) struct Resizer {
    from: [usize; 2],
    to: [usize; 2],
    rule: Resampling,
    /// Of a column of pixels and of a row of them; none where the size stays.
    down: Option<Vec<Tap>>,
    along: Option<Vec<Tap>>,
}

impl Resizer {
    pub(super) fn new(rule: Resampling, from: [usize; 2], to: [usize; 2]) -> Self {
        let taps = |axis: usize| {
            let make = if rule == Resampling::FloatPlain { plain } else { antialiased };
            (from[axis] != to[axis]).then(|| make(from[axis], to[axis]))
        };
        Self { from, to, rule, down: taps(0), along: taps(1) }
    }

    /// Eight bits to eight bits, rows of interleaved colours.
    pub(super) fn bytes(&self, pixels: &[u8]) -> Vec<u8> {
        let mut pixels = pixels.to_vec();
        if let Some(taps) = &self.along {
            let taps = Fixed::new(taps, self.rule);
            let line = self.from[1] * COLOURS;
            pixels = pixels.chunks_exact(line).flat_map(|row| taps.along(row)).collect();
        }
        if let Some(taps) = &self.down {
            pixels = Fixed::new(taps, self.rule).down(&pixels, self.to[1] * COLOURS);
        }
        pixels
    }

    /// Real numbers, one plane.
    pub(super) fn plane(&self, values: &[f64]) -> Vec<f64> {
        let mut values = values.to_vec();
        if let Some(taps) = &self.along {
            let pixel = |row: &[f64], tap: &Tap| sum(&row[tap.first..], &tap.weights);
            values = values
                .chunks_exact(self.from[1])
                .flat_map(|row| taps.iter().map(|tap| pixel(row, tap)).collect::<Vec<_>>())
                .collect();
        }
        if let Some(taps) = &self.down {
            let width = self.to[1];
            let mut out = vec![0.0; taps.len() * width];
            for (to, tap) in out.chunks_exact_mut(width).zip(taps) {
                for (row, weight) in values[tap.first * width..].chunks_exact(width).zip(&tap.weights) {
                    to.iter_mut().zip(row).for_each(|(to, v)| *to += weight * v);
                }
            }
            values = out;
        }
        values
    }

    /// The transpose of [`Self::plane`]: the gradient of its input.
    pub(super) fn plane_backward(&self, gradient: &[f64]) -> Vec<f64> {
        let mut gradient = gradient.to_vec();
        if let Some(taps) = &self.down {
            let width = self.to[1];
            let mut out = vec![0.0; self.from[0] * width];
            for (g, tap) in gradient.chunks_exact(width).zip(taps) {
                for (row, weight) in out[tap.first * width..].chunks_exact_mut(width).zip(&tap.weights) {
                    row.iter_mut().zip(g).for_each(|(to, g)| *to += weight * g);
                }
            }
            gradient = out;
        }
        if let Some(taps) = &self.along {
            let width = self.from[1];
            let mut out = vec![0.0; self.from[0] * width];
            for (to, row) in out.chunks_exact_mut(width).zip(gradient.chunks_exact(self.to[1])) {
                for (g, tap) in row.iter().zip(taps) {
                    to[tap.first..].iter_mut().zip(&tap.weights).for_each(|(to, w)| *to += w * g);
                }
            }
            gradient = out;
        }
        gradient
    }
}

fn sum(values: &[f64], weights: &[f64]) -> f64 {
    values.iter().zip(weights).map(|(v, w)| v * w).sum()
}

/// Taps with fixed-point weights.
struct Fixed {
    taps: Vec<(usize, Vec<i64>)>,
    precision: u32,
}

impl Fixed {
    fn new(taps: &[Tap], rule: Resampling) -> Self {
        let largest = taps.iter().flat_map(|tap| &tap.weights).fold(0.0f64, |m, w| m.max(*w));
        let fits = |p: u32| ((0.5 + largest * f64::from(1 << p)) as i64) < 1 << 15;
        let precision = match rule {
            Resampling::Torchvision => (0..=PRECISION).take_while(|p| *p == 0 || fits(*p)).last().unwrap_or(0),
            _ => PRECISION,
        };
        let scale = f64::from(1u32 << precision);
        let round = |w: &f64| (w * scale + 0.5f64.copysign(*w)) as i64;
        let taps = taps.iter().map(|tap| (tap.first, tap.weights.iter().map(round).collect())).collect();
        Self { taps, precision }
    }

    /// Half a unit, to begin a sum with.
    fn half(&self) -> i64 {
        (1 << self.precision) >> 1
    }

    fn byte(&self, sum: i64) -> u8 {
        (sum >> self.precision).clamp(0, 255) as u8
    }

    fn along(&self, row: &[u8]) -> Vec<u8> {
        let pixel = |(first, weights): &(usize, Vec<i64>)| {
            let mut sums = [self.half(); COLOURS];
            for (pixel, weight) in row[first * COLOURS..].as_chunks::<COLOURS>().0.iter().zip(weights) {
                sums.iter_mut().zip(pixel).for_each(|(sum, v)| *sum += weight * i64::from(*v));
            }
            sums.map(|sum| self.byte(sum))
        };
        self.taps.iter().flat_map(pixel).collect()
    }

    fn down(&self, pixels: &[u8], line: usize) -> Vec<u8> {
        let mut sums = vec![0; line];
        let mut out = Vec::with_capacity(self.taps.len() * line);
        for (first, weights) in &self.taps {
            sums.fill(self.half());
            for (row, weight) in pixels[first * line..].chunks_exact(line).zip(weights) {
                sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += weight * i64::from(*v));
            }
            out.extend(sums.iter().map(|sum| self.byte(*sum)));
        }
        out
    }
}
