//! Twice the rows and columns, each pixel repeated four times (nearest neighbour), and the gradient: sums of 2×2
//! blocks.

use crate::act::Act;
use crate::isa::Isa;
use crate::parallel::{Disjoint, for_each};

/// `y[i, j] = x[⌊i/2⌋, ⌊j/2⌋]`.
pub fn upsample_nearest(x: &Act) -> Act {
    let (shape, line) = (x.shape(), x.shape().w * x.shape().c);
    let mut y = Act::stale(shape.with_size([2 * shape.h, 2 * shape.w]));
    let shared = Disjoint::new(y.data_mut());
    for_each(shape.n * shape.h, |row| {
        // SAFETY: two output rows per item.
        let (upper, lower) = unsafe { shared.part(row * 4 * line, 4 * line) }.split_at_mut(2 * line);
        let pixels = x.data()[row * line..][..line].chunks_exact(shape.c.max(1));
        for (to, pixel) in upper.chunks_exact_mut(2 * shape.c.max(1)).zip(pixels) {
            let (left, right) = to.split_at_mut(shape.c);
            left.copy_from_slice(pixel);
            right.copy_from_slice(pixel);
        }
        lower.copy_from_slice(upper);
    });
    y
}

/// Gradient of [`upsample_nearest`]'s input.
///
/// # Panics
/// If rows or columns are odd.
pub fn upsample_nearest_backward(gy: &Act) -> Act {
    let from = gy.shape();
    assert!(from.h.is_multiple_of(2) && from.w.is_multiple_of(2), "{}x{} is not twice a size", from.h, from.w);
    let shape = from.with_size([from.h / 2, from.w / 2]);
    let (isa, line) = (Isa::active(), shape.w * shape.c);
    let mut gx = Act::stale(shape);
    let shared = Disjoint::new(gx.data_mut());
    for_each(shape.n * shape.h, |row| {
        // SAFETY: one row per item.
        let to = unsafe { shared.part(row * line, line) };
        let (upper, lower) = gy.data()[row * 4 * line..][..4 * line].split_at(2 * line);
        isa.vectorize(
            #[inline(always)]
            || {
                let c = shape.c.max(1);
                let blocks = upper.chunks_exact(2 * c).zip(lower.chunks_exact(2 * c));
                for (to, (upper, lower)) in to.chunks_exact_mut(c).zip(blocks) {
                    for i in 0..c {
                        to[i] = (upper[i] + upper[c + i]) + (lower[i] + lower[c + i]);
                    }
                }
            },
        );
    });
    gx
}
