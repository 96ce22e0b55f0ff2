//! A small convolution per step on each slope of the window and on the state.
//!
//! ```text
//! y[o][r][s] = Σ k[o][i][p][q]·x[i][r+p−⌊K/2⌋][s+q−⌊K/2⌋]       zeros outside the picture; per channel: i = o alone
//! ```

use crate::learned::{Block, require_len};
use dyweight_core::coeff::Coeff;
use dyweight_core::error::{Error, Result};
use dyweight_core::solver::Place;
use dyweight_core::tape::{LinearMap, Tape, Var};
use dyweight_core::tensor::dot;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Sizes a kernel can have.
pub const SIZES: [usize; 2] = [3, 5];
/// No model has as many channels.
const MOST_CHANNELS: usize = 4096;

/// Kernels of every step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator<T = f64> {
    /// Entries of a kernel's side.
    pub size: usize,
    /// Channels of the samples.
    pub channels: usize,
    /// True if a channel of the result takes from all channels, not from its own alone.
    pub mixed: bool,
    /// `[step][input]`: those of the slopes, newest last, then that of the state. Each is `[channel][row][column]`, or
    /// `[to][from][row][column]`.
    pub kernels: Vec<Vec<Vec<T>>>,
}

impl Operator {
    /// Kernels that do nothing, for rows of these widths.
    pub fn zero(size: usize, channels: usize, mixed: bool, widths: &[usize]) -> Self {
        let empty = Self { size, channels, mixed, kernels: Vec::new() };
        let step = |width: &usize| vec![vec![0.0; empty.taps()]; width + 1];
        Self { kernels: widths.iter().map(step).collect(), ..empty }
    }
}

impl<T> Operator<T> {
    pub(super) fn name(&self) -> String {
        format!("operator:{}{}", self.size, if self.mixed { ":mixed" } else { "" })
    }

    /// Numbers of one kernel.
    pub(super) fn taps(&self) -> usize {
        self.size * self.size * self.channels * if self.mixed { self.channels } else { 1 }
    }

    pub(super) fn block(&self) -> Block {
        Block::new("operator", &[self.kernels.iter().map(Vec::len).sum(), self.taps()])
    }

    /// An error unless the kernels go with rows of these widths.
    pub fn check(&self, widths: &[usize]) -> Result<()> {
        let bad = |value: String, expected: String| Err(Error::bad_value("span", value, expected));
        if !SIZES.contains(&self.size) {
            return bad(format!("operator of size {}", self.size), "an operator's size is 3 or 5".into());
        }
        if !(1..=MOST_CHANNELS).contains(&self.channels) {
            let expected = format!("samples have 1 to {MOST_CHANNELS} channels");
            return bad(format!("operator of {} channels", self.channels), expected);
        }
        require_len("span: kernels of the operator, a list per step", widths.len(), self.kernels.len())?;
        for (i, (inputs, width)) in self.kernels.iter().zip(widths).enumerate() {
            let what = format!("span: kernels of step {i}, one per slope and one of the state");
            require_len(&what, width + 1, inputs.len())?;
            for kernel in inputs {
                require_len(&format!("span: a kernel of step {i}"), self.taps(), kernel.len())?;
            }
        }
        Ok(())
    }
}

impl Operator<Coeff> {
    /// K∗d of every slope of the window, and K∗x.
    pub(super) fn convolved(&self, tape: &mut Tape<'_>, place: &Place<'_>) -> Result<(Vec<Var>, Var)> {
        let map: Arc<dyn LinearMap> = Arc::new(Convolution { size: self.size, mixed: self.mixed });
        let kernels = &self.kernels[place.step];
        let slopes = place.window.iter().zip(kernels).map(|(d, kernel)| tape.apply(&map, kernel, d)).collect();
        Ok((slopes, tape.apply(&map, &kernels[place.window.len()], place.x)))
    }
}

struct Convolution {
    size: usize,
    mixed: bool,
}

/// What one tap of a kernel reads and writes: a channel each, shifted.
struct Tap {
    number: usize,
    to: usize,
    from: usize,
    down: isize,
    right: isize,
}

impl Convolution {
    fn taps(&self, channels: usize) -> impl Iterator<Item = Tap> {
        let (size, half, mixed) = (self.size, (self.size / 2) as isize, self.mixed);
        let count = channels * size * size * if mixed { channels } else { 1 };
        (0..count).map(move |number| {
            let (kernel, at) = (number / (size * size), number % (size * size));
            let (to, from) = if mixed { (kernel / channels, kernel % channels) } else { (kernel, kernel) };
            let (down, right) = ((at / size) as isize - half, (at % size) as isize - half);
            Tap { number, to, from, down, right }
        })
    }
}

/// Stretches of a row of the result and of the row it reads, as (first of one, first of the other, length).
fn rows(tap: &Tap, [_, h, w]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    let stretch = |shift: isize, size: usize| {
        let first = (-shift).max(0) as usize;
        (first, (first as isize + shift) as usize, size.saturating_sub(shift.unsigned_abs()))
    };
    let ((row, source, count), (column, from, length)) = (stretch(tap.down, h), stretch(tap.right, w));
    let (to, of) = (tap.to * h * w, tap.from * h * w);
    let counted = if length == 0 { 0 } else { count };
    (0..counted).map(move |r| (to + (row + r) * w + column, of + (source + r) * w + from, length))
}

impl LinearMap for Convolution {
    fn apply(&self, kernel: &[f64], x: &[f64], shape: [usize; 3]) -> Vec<f64> {
        let mut y = vec![0.0; x.len()];
        for tap in self.taps(shape[0]) {
            let k = kernel[tap.number];
            for (to, from, length) in rows(&tap, shape) {
                y[to..to + length].iter_mut().zip(&x[from..from + length]).for_each(|(y, x)| *y += k * x);
            }
        }
        y
    }

    fn adjoint(&self, kernel: &[f64], cotangent: &[f64], shape: [usize; 3]) -> Vec<f64> {
        let mut x = vec![0.0; cotangent.len()];
        for tap in self.taps(shape[0]) {
            let k = kernel[tap.number];
            for (to, from, length) in rows(&tap, shape) {
                x[from..from + length].iter_mut().zip(&cotangent[to..to + length]).for_each(|(x, g)| *x += k * g);
            }
        }
        x
    }

    fn coefficient_adjoint(&self, x: &[f64], cotangent: &[f64], shape: [usize; 3]) -> Vec<f64> {
        let of = |tap: Tap| -> f64 {
            rows(&tap, shape).map(|(to, from, n)| dot(&cotangent[to..to + n], &x[from..from + n])).sum()
        };
        self.taps(shape[0]).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_core::noise::Stream;

    #[test]
    fn a_kernel_reads_its_neighbours_and_zeros_outside() {
        let map = Convolution { size: 3, mixed: false };
        // The entry to the right.
        let kernel = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
        assert_eq!(map.apply(&kernel, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1, 2, 3]), [2.0, 3.0, 0.0, 5.0, 6.0, 0.0]);
        // The entry below, of a picture of one column.
        let kernel = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        assert_eq!(map.apply(&kernel, &[1.0, 2.0, 3.0], [1, 3, 1]), [2.0, 3.0, 0.0]);
    }

    #[test]
    fn adjoints_are_adjoint_for_every_shape() {
        let mut z = Stream::new(8);
        for (shape, size, mixed) in [([2, 3, 4], 3, true), ([3, 2, 5], 5, false), ([1, 1, 1], 5, true)] {
            let map = Convolution { size, mixed };
            let len: usize = shape.iter().product();
            let (x, g) = (z.normals(len), z.normals(len));
            let kernel = z.normals(map.taps(shape[0]).count());
            let forward = dot(&map.apply(&kernel, &x, shape), &g);
            let by_kernel = dot(&map.coefficient_adjoint(&x, &g, shape), &kernel);
            assert!((forward - dot(&x, &map.adjoint(&kernel, &g, shape))).abs() < 1e-12);
            assert!((forward - by_kernel).abs() < 1e-12, "{shape:?} {size}");
        }
    }
}
