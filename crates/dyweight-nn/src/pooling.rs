//! Pooling over windows, and its input gradients.

use rayon::prelude::*;

use crate::act::{Act, Shape};
use crate::conv::Padding;
use crate::elementwise::axpy;
use crate::isa::Isa;
use crate::parallel::{Disjoint, for_each};

/// Windows of a pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Windows {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: Padding,
}

impl Windows {
    fn square(kernel: usize, stride: usize, padding: usize) -> Self {
        assert!(kernel > 0 && stride > 0 && padding < kernel, "pooling {kernel} by {stride}, padded {padding}");
        Self { kernel: [kernel; 2], stride: [stride; 2], padding: Padding::all(padding) }
    }

    fn output_size(&self, [h, w]: [usize; 2]) -> [usize; 2] {
        let Padding { top, bottom, left, right } = self.padding;
        [
            (h + top + bottom - self.kernel[0]) / self.stride[0] + 1,
            (w + left + right - self.kernel[1]) / self.stride[1] + 1,
        ]
    }

    /// The existing input rows (or columns) of window `index` along `axis`.
    fn range(&self, axis: usize, index: usize, len: usize) -> std::ops::Range<usize> {
        let before = [self.padding.top, self.padding.left][axis];
        let start = index * self.stride[axis];
        start.saturating_sub(before)..(start + self.kernel[axis] - before).min(len)
    }

    /// The windows, of `count` along `axis`, that see input row (or column) `at`.
    fn seeing(&self, axis: usize, at: usize, count: usize) -> std::ops::Range<usize> {
        let place = at + [self.padding.top, self.padding.left][axis];
        let first = (place + 1).saturating_sub(self.kernel[axis]).div_ceil(self.stride[axis]);
        first..(place / self.stride[axis] + 1).min(count)
    }

    /// The number, within window `(i, j)`, of the input pixel `(u, v)`.
    fn place(&self, (i, j): (usize, usize), (u, v): (usize, usize)) -> usize {
        let (row, column) = (u + self.padding.top - i * self.stride[0], v + self.padding.left - j * self.stride[1]);
        row * self.kernel[1] + column
    }
}

/// Mean over windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvgPool {
    windows: Windows,
    count_padding: bool,
}

impl AvgPool {
    /// Square windows. With `count_padding` the zeros around the image count as entries of the mean.
    pub fn new(kernel: usize, stride: usize, padding: usize, count_padding: bool) -> Self {
        Self { windows: Windows::square(kernel, stride, padding), count_padding }
    }

    /// The means.
    pub fn forward(&self, x: &Act) -> Act {
        let from = x.shape();
        per_window(
            &self.windows,
            x,
            #[inline(always)]
            |to, sample, rows, columns| {
                to.fill(0.0);
                let weight = self.weight(rows.len() * columns.len());
                for (u, v) in pixels(rows, columns) {
                    let pixel = &sample[(u * from.w + v) * from.c..][..from.c];
                    axpy(to, weight, pixel);
                }
            },
        )
    }

    /// Gradient of an input that had rows and columns `input_size`.
    pub fn backward(&self, gy: &Act, input_size: [usize; 2]) -> Act {
        let from = gy.shape();
        assert_eq!(gy.size(), self.windows.output_size(input_size), "size of a pooled gradient");
        per_input_pixel(
            &self.windows,
            from.with_size(input_size),
            gy,
            #[inline(always)]
            |gx, n, window, _| {
                let rows = self.windows.range(0, window.0, input_size[0]);
                let columns = self.windows.range(1, window.1, input_size[1]);
                let g = &gy.sample(n)[(window.0 * from.w + window.1) * from.c..][..from.c];
                axpy(gx, self.weight(rows.len() * columns.len()), g);
            },
        )
    }

    fn weight(&self, existing: usize) -> f32 {
        let [kh, kw] = self.windows.kernel;
        1.0 / if self.count_padding { kh * kw } else { existing } as f32
    }
}

/// Maximum over windows; padding never wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool {
    windows: Windows,
}

impl MaxPool {
    /// Square windows.
    pub fn new(kernel: usize, stride: usize, padding: usize) -> Self {
        Self { windows: Windows::square(kernel, stride, padding) }
    }

    /// The maxima.
    pub fn forward(&self, x: &Act) -> Act {
        let from = x.shape();
        per_window(
            &self.windows,
            x,
            #[inline(always)]
            |to, sample, rows, columns| {
                to.fill(f32::NEG_INFINITY);
                for (u, v) in pixels(rows, columns) {
                    let pixel = &sample[(u * from.w + v) * from.c..][..from.c];
                    for (to, x) in to.iter_mut().zip(pixel) {
                        *to = if *x > *to || x.is_nan() { *x } else { *to };
                    }
                }
            },
        )
    }

    /// The maxima, and where they are.
    ///
    /// # Panics
    /// If a window has more than 256 places.
    pub fn forward_recorded(&self, x: &Act) -> (Act, Winners) {
        let from = x.shape();
        let shape = from.with_size(self.windows.output_size(x.size()));
        let [kh, kw] = self.windows.kernel;
        assert!(kh * kw <= 256, "{kh}x{kw} places in one byte");
        let (mut y, mut places) = (Act::stale(shape), vec![0; shape.len()]);
        let (isa, line) = (Isa::active(), (shape.w * shape.c).max(1));
        let lines = y.data_mut().par_chunks_mut(line).zip(places.par_chunks_mut(line)).enumerate();
        lines.for_each(|(item, (y, places))| {
            let (sample, i) = (x.sample(item / shape.h), item % shape.h);
            let rows = self.windows.range(0, i, from.h);
            isa.vectorize(
                #[inline(always)]
                || {
                    let pairs = y.chunks_exact_mut(shape.c).zip(places.chunks_exact_mut(shape.c));
                    for (j, (y, places)) in pairs.enumerate() {
                        y.fill(f32::NEG_INFINITY);
                        for (u, v) in pixels(rows.clone(), self.windows.range(1, j, from.w)) {
                            let pixel = &sample[(u * from.w + v) * from.c..][..from.c];
                            let place = self.windows.place((i, j), (u, v)) as u8;
                            for ((y, at), x) in y.iter_mut().zip(places.iter_mut()).zip(pixel) {
                                let wins = *x > *y || x.is_nan();
                                (*y, *at) = if wins { (*x, place) } else { (*y, *at) };
                            }
                        }
                    }
                },
            );
        });
        (y, Winners { input: from, places })
    }

    /// Gradient of the input: all of it to the first maximum of each window, in row-major order.
    pub fn backward(&self, winners: &Winners, gy: &Act) -> Act {
        let (from, shape) = (gy.shape(), winners.input);
        assert_eq!(gy.size(), self.windows.output_size([shape.h, shape.w]), "size of a pooled gradient");
        assert_eq!(gy.shape().len(), winners.places.len(), "entries of a pooled gradient");
        per_input_pixel(
            &self.windows,
            shape,
            gy,
            #[inline(always)]
            |gx, n, window, place| {
                let at = n * from.sample_len() + (window.0 * from.w + window.1) * from.c;
                let (g, places) = (&gy.data()[at..][..from.c], &winners.places[at..][..from.c]);
                for ((gx, g), winner) in gx.iter_mut().zip(g).zip(places) {
                    *gx += if *winner == place as u8 { *g } else { 0.0 };
                }
            },
        )
    }
}

/// Where in its window each maximum was found.
#[derive(Clone, Debug)]
pub struct Winners {
    input: Shape,
    places: Vec<u8>,
}

/// All pairs, row-major.
fn pixels(rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    rows.flat_map(move |u| columns.clone().map(move |v| (u, v)))
}

/// Fills each output pixel from its window of the sample.
fn per_window(
    windows: &Windows,
    x: &Act,
    f: impl Fn(&mut [f32], &[f32], std::ops::Range<usize>, std::ops::Range<usize>) + Sync,
) -> Act {
    let from = x.shape();
    let shape = from.with_size(windows.output_size(x.size()));
    let mut y = Act::stale(shape);
    let (isa, line) = (Isa::active(), shape.w * shape.c);
    let shared = Disjoint::new(y.data_mut());
    for_each(shape.n * shape.h, |item| {
        // SAFETY: one image row per item.
        let to = unsafe { shared.part(item * line, line) };
        let rows = windows.range(0, item % shape.h, from.h);
        isa.vectorize(
            #[inline(always)]
            || {
                for (j, to) in to.chunks_exact_mut(shape.c).enumerate() {
                    f(to, x.sample(item / shape.h), rows.clone(), windows.range(1, j, from.w));
                }
            },
        );
    });
    y
}

/// Adds, to each pixel of a gradient that starts as zeros, what the windows that see it bring, in row-major order:
/// `f(pixel, sample, window, place of the pixel in the window)`.
fn per_input_pixel(
    windows: &Windows,
    shape: Shape,
    gy: &Act,
    f: impl Fn(&mut [f32], usize, (usize, usize), usize) + Sync,
) -> Act {
    let [rows, columns] = gy.size();
    let mut gx = Act::zeros(shape);
    let (isa, line) = (Isa::active(), shape.w * shape.c);
    let shared = Disjoint::new(gx.data_mut());
    for_each(shape.n * shape.h, |item| {
        // SAFETY: one image row per item.
        let to = unsafe { shared.part(item * line, line) };
        let (n, u) = (item / shape.h, item % shape.h);
        isa.vectorize(
            #[inline(always)]
            || {
                for (v, gx) in to.chunks_exact_mut(shape.c).enumerate() {
                    for window in pixels(windows.seeing(0, u, rows), windows.seeing(1, v, columns)) {
                        f(gx, n, window, windows.place(window, (u, v)));
                    }
                }
            },
        );
    });
    gx
}
