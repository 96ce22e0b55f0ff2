//! Pooling over windows, and its input gradients.

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
        let shape = from.with_size(self.windows.output_size(x.size()));
        per_window(
            &self.windows,
            x,
            shape,
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
        per_sample(
            from.with_size(input_size),
            #[inline(always)]
            |gx, n| {
                let gy = gy.sample(n);
                for (i, j) in pixels(0..from.h, 0..from.w) {
                    let rows = self.windows.range(0, i, input_size[0]);
                    let columns = self.windows.range(1, j, input_size[1]);
                    let weight = self.weight(rows.len() * columns.len());
                    let g = &gy[(i * from.w + j) * from.c..][..from.c];
                    for (u, v) in pixels(rows, columns) {
                        let to = &mut gx[(u * input_size[1] + v) * from.c..][..from.c];
                        axpy(to, weight, g);
                    }
                }
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
        let shape = from.with_size(self.windows.output_size(x.size()));
        per_window(
            &self.windows,
            x,
            shape,
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

    /// Gradient of the input `x`: all of it to the first maximum of each window, in row-major order.
    pub fn backward(&self, x: &Act, gy: &Act) -> Act {
        let (from, shape) = (gy.shape(), x.shape());
        assert_eq!(gy.size(), self.windows.output_size(x.size()), "size of a pooled gradient");
        per_sample(
            shape,
            #[inline(always)]
            |gx, n| {
                let (x, gy) = (x.sample(n), gy.sample(n));
                for (i, j) in pixels(0..from.h, 0..from.w) {
                    let (rows, columns) = (self.windows.range(0, i, shape.h), self.windows.range(1, j, shape.w));
                    for c in 0..shape.c {
                        let places =
                            pixels(rows.clone(), columns.clone()).map(|(u, v)| (u * shape.w + v) * shape.c + c);
                        let first = places.reduce(|best, at| if x[at] > x[best] { at } else { best });
                        gx[first.expect("windows hold at least one pixel")] += gy[(i * from.w + j) * shape.c + c];
                    }
                }
            },
        )
    }
}

/// All pairs, row-major.
fn pixels(rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    rows.flat_map(move |u| columns.clone().map(move |v| (u, v)))
}

/// Fills each output pixel from its window of the sample.
fn per_window(
    windows: &Windows,
    x: &Act,
    shape: Shape,
    f: impl Fn(&mut [f32], &[f32], std::ops::Range<usize>, std::ops::Range<usize>) + Sync,
) -> Act {
    let from = x.shape();
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

/// Adds into each sample of a gradient that starts as zeros.
fn per_sample(shape: Shape, f: impl Fn(&mut [f32], usize) + Sync) -> Act {
    let mut gx = Act::zeros(shape);
    let (isa, len) = (Isa::active(), shape.sample_len());
    let shared = Disjoint::new(gx.data_mut());
    for_each(shape.n, |n| {
        // SAFETY: one sample per item.
        let gx = unsafe { shared.part(n * len, len) };
        isa.vectorize(
            #[inline(always)]
            || f(gx, n),
        );
    });
    gx
}
