//! Sums and maxima in a fixed order: over a row in sixteen interleaved parts (vector code), over tokens by stretches.

use crate::act::{Act, Shape};

const PARTS: usize = 16;

/// Largest entry; −∞ of none.
#[inline(always)]
pub(crate) fn largest(row: &[f32]) -> f32 {
    let mut parts = [f32::NEG_INFINITY; PARTS];
    let (whole, rest) = row.as_chunks::<PARTS>();
    for row in whole {
        for i in 0..PARTS {
            parts[i] = if row[i] > parts[i] { row[i] } else { parts[i] };
        }
    }
    parts.iter().chain(rest).fold(f32::NEG_INFINITY, |m, x| if *x > m { *x } else { m })
}

/// `Σ x`.
#[inline(always)]
pub(crate) fn sum(row: &[f32]) -> f32 {
    dot(
        row,
        row,
        #[inline(always)]
        |x, _| x,
    )
}

/// `Σ f(a, b)`; `f` must be `#[inline(always)]`.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut parts = [0.0; PARTS];
    let (a_whole, a_rest) = a.as_chunks::<PARTS>();
    let (b_whole, b_rest) = b.as_chunks::<PARTS>();
    for (a, b) in a_whole.iter().zip(b_whole) {
        for i in 0..PARTS {
            parts[i] += f(a[i], b[i]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| f(*a, *b)).sum();
    parts.iter().sum::<f32>() + rest
}

/// Per sample, the totals of partial sums `[n, stretches, P, c]`, as `P` batches of vectors `[n, 1, 1, c]`.
pub(crate) fn total_by_sample<const P: usize>(sums: &[f32], n: usize, c: usize) -> [Act; P] {
    let per_sample = sums.len().checked_div(n).unwrap_or(0);
    std::array::from_fn(|part| {
        let mut total = Act::stale(Shape::tokens(n, 1, c));
        for (i, to) in total.data_mut().iter_mut().enumerate() {
            let sums = &sums[i / c * per_sample..][..per_sample];
            let stretches = sums.iter().skip(part * c + i % c).step_by(P * c);
            *to = stretches.map(|s| f64::from(*s)).sum::<f64>() as f32;
        }
        total
    })
}
