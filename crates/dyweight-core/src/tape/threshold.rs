//! Dynamic thresholding and its derivative.
//!
//! ```text
//! q = 0.995-quantile of |x| over one sample, linear between order statistics;  s = max(q, 1)
//! y = clip(x, −s, s)/s
//! x̄ᵢ = ȳᵢ/s where |xᵢ| ≤ s;   s̄ = −Σ_{inside} ȳᵢxᵢ/s², which flows to the two order statistics while q > 1
//! ```

use crate::tensor::Tensor;

const QUANTILE: f64 = 0.995;

/// What the way back needs of each sample.
pub(super) struct Thresholded(Vec<SampleScale>);

struct SampleScale {
    s: f64,
    /// The entries that make the quantile, with their weights and signs; empty while s = 1.
    makers: Vec<(usize, f64)>,
}

pub(super) fn apply(x: &Tensor) -> (Tensor, Thresholded) {
    let mut out = x.clone();
    let len = x.sample_len().max(1);
    let scales: Vec<SampleScale> = out.data_mut().chunks_mut(len).map(clip_sample).collect();
    (out, Thresholded(scales))
}

fn clip_sample(sample: &mut [f64]) -> SampleScale {
    let scale = scale_of(sample);
    for v in sample {
        *v = v.clamp(-scale.s, scale.s) / scale.s;
    }
    scale
}

fn scale_of(sample: &[f64]) -> SampleScale {
    let mut order: Vec<usize> = (0..sample.len()).collect();
    // total_cmp sorts NaN last instead of panicking; the sampler reports NaN itself.
    order.sort_unstable_by(|a, b| sample[*a].abs().total_cmp(&sample[*b].abs()).then(a.cmp(b)));
    let position = QUANTILE * (sample.len() - 1) as f64;
    let (low, fraction) = (position.floor() as usize, position.fract());
    let high = (low + 1).min(sample.len() - 1);
    let (a, b) = (sample[order[low]], sample[order[high]]);
    let q = a.abs() + fraction * (b.abs() - a.abs());
    if !(q > 1.0 && q.is_finite()) {
        return SampleScale { s: 1.0, makers: Vec::new() };
    }
    let makers = vec![(order[low], (1.0 - fraction) * a.signum()), (order[high], fraction * b.signum())];
    SampleScale { s: q, makers }
}

pub(super) fn pull_back(how: &Thresholded, x: &Tensor, adjoint: &Tensor) -> Tensor {
    let mut out = adjoint.clone();
    let len = x.sample_len().max(1);
    for ((scale, x), g) in how.0.iter().zip(x.data().chunks(len)).zip(out.data_mut().chunks_mut(len)) {
        let mut to_scale = 0.0;
        for (g, x) in g.iter_mut().zip(x) {
            if x.abs() <= scale.s {
                to_scale -= *g * x / (scale.s * scale.s);
                *g /= scale.s;
            } else {
                *g = 0.0;
            }
        }
        for (index, weight) in &scale.makers {
            g[*index] += weight * to_scale;
        }
    }
    out
}
