//! Normalisations of each token by itself: layer norm (Ba et al. 2016), also with scale and shift that depend on the
//! sample (Peebles & Xie 2023, adaptive layer norm), and root-mean-square norm (Zhang & Sennrich 2019).
//!
//! ```text
//! layer:  x̂ = (x − mean(x))/√(var(x) + ε)      y = x̂·γ + β          over the c channels of a token, biased variance
//! rms:    x̂ = x/√(mean(x²) + ε)                y = x̂·γ
//!                                                                    over γ's length: all channels, or those of a head
//! modulated:  γ = weight·(1 + scale),  β = bias·(1 + scale) + shift   per sample
//! ```
//!
//! Gradient, with a = gy·γ and σ the root:
//!
//! ```text
//! layer:  gx = (a − mean(a) − x̂·mean(a·x̂))/σ
//! rms:    gx = (a − x̂·mean(a·x̂))/σ
//! gscale = Σ_tokens gy·(x̂·weight + bias),   gshift = Σ_tokens gy
//! ```
//!
//! Statistics are computed again from the input: a token is in the first-level cache by then.

mod layer;
mod modulated;
mod rms;

pub use layer::LayerNorm;
pub use modulated::ModulatedGrad;
pub use rms::RmsNorm;

use crate::act::Act;
use crate::isa::Isa;
use crate::parallel::{CHUNK, Disjoint, for_each};

/// Rows of `width` floats per task.
fn rows_per_task(width: usize) -> usize {
    (CHUNK / width).max(1)
}

/// `row(output, input)` for every `width` floats of `x`; `row` must be `#[inline(always)]`.
fn map_rows(x: &Act, width: usize, row: impl Fn(&mut [f32], &[f32]) + Sync) -> Act {
    zip_rows(
        x,
        x,
        width,
        #[inline(always)]
        |y, x, _| row(y, x),
    )
}

/// `row(output, input, other input)` for every `width` floats of two activations of the same shape.
fn zip_rows(a: &Act, b: &Act, width: usize, row: impl Fn(&mut [f32], &[f32], &[f32]) + Sync) -> Act {
    assert_eq!(a.shape(), b.shape(), "shapes of a normalisation's input and output gradient");
    let mut y = Act::stale(a.shape());
    let (isa, chunk, total) = (Isa::active(), rows_per_task(width) * width, a.shape().len());
    let shared = Disjoint::new(y.data_mut());
    for_each(total.div_ceil(chunk), |item| {
        let range = item * chunk..total.min((item + 1) * chunk);
        // SAFETY: chunks are disjoint.
        let y = unsafe { shared.part(range.start, range.len()) };
        let inputs = a.data()[range.clone()].chunks_exact(width).zip(b.data()[range].chunks_exact(width));
        isa.vectorize(
            #[inline(always)]
            || {
                for (y, (a, b)) in y.chunks_exact_mut(width).zip(inputs) {
                    row(y, a, b);
                }
            },
        );
    });
    y
}
