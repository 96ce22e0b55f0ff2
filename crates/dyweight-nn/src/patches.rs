//! Patch embedding of vision transformers (Dosovitskiy et al. 2021): a convolution whose stride is its kernel, as one
//! linear layer on the pixels of each patch.

use crate::act::{Act, Shape};
use crate::error::{Result, check_len, check_positive};
use crate::linear::Linear;
use crate::parallel::{Disjoint, for_each};

/// A patch embedding with frozen weights.
pub struct PatchEmbed {
    channels: usize,
    patch: usize,
    linear: Linear,
}

impl PatchEmbed {
    /// Square patches of `channels` channels; `weight` is `[out, channels, patch, patch]`, `bias` `[out]`.
    pub fn new(channels: usize, patch: usize, outputs: usize, weight: &[f32], bias: Option<&[f32]>) -> Result<Self> {
        check_positive("patch size", patch)?;
        let (taps, depth) = (patch * patch, patch * patch * channels);
        check_len("patch embedding weight", outputs * depth, weight.len())?;
        // Channels last, as pixels lie in memory.
        let place = |i: usize| i / depth * depth + i % channels * taps + i % depth / channels;
        let turned: Vec<f32> = (0..weight.len()).map(|i| weight[place(i)]).collect();
        Ok(Self { channels, patch, linear: Linear::new(depth, outputs, &turned, bias)? })
    }

    /// One token per patch, row-major: `[n, 1, patches, out]`.
    ///
    /// # Panics
    /// If the image is not cut into whole patches.
    pub fn forward(&self, image: &Act) -> Act {
        self.linear.forward(&self.cut(image))
    }

    /// Gradient of an image of this size.
    pub fn backward(&self, gy: &Act, input_size: [usize; 2]) -> Act {
        let shape = Shape { n: gy.shape().n, h: input_size[0], w: input_size[1], c: self.channels };
        assert_eq!(gy.shape().pixels(), self.patches(shape), "patches of an image's gradient");
        let cut = self.linear.backward(gy);
        let mut image = Act::stale(shape);
        let (piece, line) = (self.patch * self.channels, shape.w * shape.c);
        let shared = Disjoint::new(image.data_mut());
        for_each(shape.n * shape.h, |row| {
            // SAFETY: one image row per item.
            let to = unsafe { shared.part(row * line, line) };
            for (column, to) in to.chunks_exact_mut(piece).enumerate() {
                to.copy_from_slice(&cut.data()[self.place(shape, row, column)..][..piece]);
            }
        });
        image
    }

    fn cut(&self, image: &Act) -> Act {
        let shape = image.shape();
        assert_eq!(shape.c, self.channels, "channels of an image in patches");
        let mut cut = Act::stale(Shape::tokens(shape.n, self.patches(shape), self.patch * self.patch * self.channels));
        let (piece, line) = (self.patch * self.channels, shape.w * shape.c);
        let to = cut.data_mut();
        for row in 0..shape.n * shape.h {
            for (column, from) in image.data()[row * line..][..line].chunks_exact(piece).enumerate() {
                to[self.place(shape, row, column)..][..piece].copy_from_slice(from);
            }
        }
        cut
    }

    /// Where, among the cut patches, the piece of image row `row` (counted through all samples) in patch column
    /// `column` starts.
    fn place(&self, shape: Shape, row: usize, column: usize) -> usize {
        let (patch_row, within) = (row / self.patch, row % self.patch);
        let piece = self.patch * self.channels;
        ((patch_row * (shape.w / self.patch) + column) * self.patch + within) * piece
    }

    fn patches(&self, shape: Shape) -> usize {
        let (p, [h, w]) = (self.patch, [shape.h, shape.w]);
        assert!(h.is_multiple_of(p) && w.is_multiple_of(p), "a {h}x{w} image in patches of {p}");
        h / p * (w / p)
    }
}
