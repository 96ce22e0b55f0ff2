//! Activations: batches of images with the channel index fastest (NHWC), f32.

use std::sync::Arc;

use rayon::prelude::*;

use crate::buffer::Buffer;

/// Sizes of an activation. A batch of plain vectors has `h = w = 1`, a batch of token sequences `h = 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Samples.
    pub n: usize,
    /// Rows.
    pub h: usize,
    /// Columns.
    pub w: usize,
    /// Channels.
    pub c: usize,
}

impl Shape {
    /// Number of entries.
    pub fn len(self) -> usize {
        self.n * self.sample_len()
    }

    /// Whether there are no entries.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Pixels of one sample.
    pub fn pixels(self) -> usize {
        self.h * self.w
    }

    /// Entries of one sample.
    pub fn sample_len(self) -> usize {
        self.pixels() * self.c
    }

    /// The same with another number of channels.
    pub fn with_channels(self, c: usize) -> Self {
        Self { c, ..self }
    }

    /// The same with other rows and columns.
    pub fn with_size(self, [h, w]: [usize; 2]) -> Self {
        Self { h, w, ..self }
    }
}

/// A batch of images, or of vectors, in reusable memory. Clones share it until one of them is written to.
#[derive(Clone, Debug)]
pub struct Act {
    shape: Shape,
    data: Arc<Buffer>,
}

impl Act {
    /// Arbitrary contents: for results every entry of which is about to be written.
    pub fn stale(shape: Shape) -> Self {
        Self { shape, data: Buffer::stale(shape.len()).into() }
    }

    /// All zeros.
    pub fn zeros(shape: Shape) -> Self {
        Self { shape, data: Buffer::zeros(shape.len()).into() }
    }

    /// A copy of entries already in NHWC order.
    ///
    /// # Panics
    /// If their number does not fit the shape.
    pub fn from_nhwc(shape: Shape, data: &[f32]) -> Self {
        assert_eq!(shape.len(), data.len(), "entries of a {shape:?}");
        let mut act = Self::stale(shape);
        act.data_mut().copy_from_slice(data);
        act
    }

    /// Vectors, one per sample: `[n, 1, 1, c]`.
    ///
    /// # Panics
    /// If the number of entries is not a multiple of `n`.
    pub fn from_rows(n: usize, data: &[f32]) -> Self {
        let c = data.len().checked_div(n).unwrap_or(0);
        Self::from_nhwc(Shape { n, h: 1, w: 1, c }, data)
    }

    /// A copy of entries in NCHW order; `shape` names the sizes.
    ///
    /// # Panics
    /// If their number does not fit the shape.
    pub fn from_nchw(shape: Shape, data: &[f32]) -> Self {
        assert_eq!(shape.len(), data.len(), "entries of a {shape:?}");
        let mut act = Self::stale(shape);
        transpose_samples(data, act.data_mut(), shape.c, shape.pixels());
        act
    }

    /// The entries in NCHW order.
    pub fn to_nchw(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.shape.len()];
        transpose_samples(&self.data, &mut out, self.shape.pixels(), self.shape.c);
        out
    }

    /// Its sizes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Rows and columns.
    pub fn size(&self) -> [usize; 2] {
        [self.shape.h, self.shape.w]
    }

    /// The same entries under other sizes.
    ///
    /// # Panics
    /// If the number of entries changes.
    pub(crate) fn reshaped(self, shape: Shape) -> Self {
        assert_eq!(shape.len(), self.shape.len(), "{:?} as {shape:?}", self.shape);
        Self { shape, data: self.data }
    }

    /// All entries, NHWC.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// All entries, NHWC, to write.
    pub fn data_mut(&mut self) -> &mut [f32] {
        Arc::<Buffer>::make_mut(&mut self.data)
    }

    /// One sample's entries.
    pub fn sample(&self, index: usize) -> &[f32] {
        let len = self.shape.sample_len();
        &self.data[index * len..(index + 1) * len]
    }
}

/// Per sample, `[rows, columns]` to `[columns, rows]`, in square blocks that stay in cache.
fn transpose_samples(from: &[f32], to: &mut [f32], rows: usize, columns: usize) {
    const SIDE: usize = 16;
    if from.is_empty() {
        return;
    }
    to.par_chunks_mut(rows * columns).zip(from.par_chunks(rows * columns)).for_each(|(to, from)| {
        for top in (0..rows).step_by(SIDE) {
            for left in (0..columns).step_by(SIDE) {
                for j in left..columns.min(left + SIDE) {
                    for i in top..rows.min(top + SIDE) {
                        to[j * rows + i] = from[i * columns + j];
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_round_trip() {
        let shape = Shape { n: 2, h: 3, w: 5, c: 19 };
        let data: Vec<f32> = (0..shape.len()).map(|i| i as f32).collect();
        let act = Act::from_nchw(shape, &data);
        // Entry (n=1, y=2, x=4, c=7) of NCHW.
        let nchw = ((19 + 7) * 3 + 2) * 5 + 4;
        assert_eq!(act.sample(1)[(2 * 5 + 4) * 19 + 7], nchw as f32);
        assert_eq!(act.to_nchw(), data);
    }

    #[test]
    fn a_clone_that_is_written_to_is_a_copy() {
        let act = Act::from_rows(1, &[1.0, 2.0]);
        let mut clone = act.clone();
        assert_eq!(clone.data().as_ptr(), act.data().as_ptr());
        clone.data_mut()[0] = 3.0;
        assert_eq!((act.data(), clone.data()), (&[1.0, 2.0][..], &[3.0, 2.0][..]));
    }
}
