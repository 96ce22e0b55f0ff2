//! Residual connection with a gate per sample and channel (Peebles & Xie 2023, DiT):
//!
//! ```text
//! z = x + gate·y        gx = gz,  gy = gate·gz,  ggate = Σ_tokens gz·y
//! ```

use crate::act::Act;
use crate::buffer::Buffer;
use crate::isa::Isa;
use crate::norm::{chunk_pixels, chunk_range};
use crate::parallel::{Disjoint, for_each};
use crate::reduce::total_by_sample;

/// `x + gate·y`, with `gate` (`[n, 1, 1, c]`) one value per sample and channel.
pub fn gated_residual(x: &Act, gate: &Act, y: &Act) -> Act {
    let (shape, isa, tokens) = (x.shape(), Isa::active(), chunk_pixels(x.shape()));
    assert_eq!(y.shape(), shape, "branches of a residual");
    assert_eq!(gate.shape(), shape.with_size([1, 1]), "gate of a residual");
    let (c, chunks) = (shape.c, shape.pixels().div_ceil(tokens));
    let mut z = Act::stale(shape);
    let shared = Disjoint::new(z.data_mut());
    for_each(shape.n * chunks, |item| {
        let (start, len) = chunk_range(shape, tokens, item / chunks, item % chunks);
        // SAFETY: chunks are disjoint.
        let z = unsafe { shared.part(start, len) };
        let gate = gate.sample(item / chunks);
        let inputs = x.data()[start..start + len].chunks_exact(c).zip(y.data()[start..start + len].chunks_exact(c));
        isa.vectorize(
            #[inline(always)]
            || {
                for (z, (x, y)) in z.chunks_exact_mut(c).zip(inputs) {
                    for ((z, gate), (x, y)) in z.iter_mut().zip(gate).zip(x.iter().zip(y)) {
                        *z = x + gate * y;
                    }
                }
            },
        );
    });
    z
}

/// Gradients of [`gated_residual`]'s `y` and `gate`; that of its `x` is `gz` itself.
pub fn gated_residual_backward(gate: &Act, y: &Act, gz: &Act) -> [Act; 2] {
    let (shape, isa, tokens) = (y.shape(), Isa::active(), chunk_pixels(y.shape()));
    assert_eq!(gz.shape(), shape, "a residual's output gradient");
    assert_eq!(gate.shape(), shape.with_size([1, 1]), "gate of a residual");
    let (c, chunks) = (shape.c, shape.pixels().div_ceil(tokens));
    let mut gy = Act::stale(shape);
    let mut sums = Buffer::zeros(shape.n * chunks * c);
    let (to, to_sums) = (Disjoint::new(gy.data_mut()), Disjoint::new(&mut sums));
    for_each(shape.n * chunks, |item| {
        let (start, len) = chunk_range(shape, tokens, item / chunks, item % chunks);
        // SAFETY: chunks, and their sums, are disjoint.
        let (gy, sums) = unsafe { (to.part(start, len), to_sums.part(item * c, c)) };
        let gate = gate.sample(item / chunks);
        let inputs = y.data()[start..start + len].chunks_exact(c).zip(gz.data()[start..start + len].chunks_exact(c));
        isa.vectorize(
            #[inline(always)]
            || {
                for (gy, (y, gz)) in gy.chunks_exact_mut(c).zip(inputs) {
                    for (((gy, sum), gate), (y, gz)) in
                        gy.iter_mut().zip(sums.iter_mut()).zip(gate).zip(y.iter().zip(gz))
                    {
                        *gy = gate * gz;
                        *sum += gz * y;
                    }
                }
            },
        );
    });
    let [ggate] = total_by_sample(&sums, shape.n, c);
    [gy, ggate]
}
