//! f64 becomes the engine's f32 here, and f32 becomes f64.

use dyweight_core::error::Result;
use dyweight_core::tensor::Tensor;
use dyweight_nn::{Act, Shape};

/// A batch times one factor per sample, with channels beyond its own left zero.
pub(crate) fn scaled_act(x: &Tensor, channels: usize, factor: impl Fn(usize) -> f64) -> Act {
    let [n, own, h, w] = x.shape();
    let mut data = Vec::with_capacity(n * channels * h * w);
    for i in 0..n {
        let factor = factor(i);
        data.extend(x.sample(i).iter().map(|v| (factor * v) as f32));
        data.resize(data.len() + (channels - own) * h * w, 0.0);
    }
    Act::from_nchw(Shape { n, h, w, c: channels }, &data)
}

/// The first channels of each sample, as many as `shape` has.
pub(crate) fn leading_channels(act: &Act, shape: [usize; 4]) -> Result<Tensor> {
    let (all, kept) = (act.shape().sample_len().max(1), shape[1..].iter().product());
    let data = act.to_nchw();
    Tensor::new(shape, data.chunks(all).flat_map(|sample| &sample[..kept]).map(|v| f64::from(*v)).collect())
}

/// An activation as a batch.
pub(crate) fn to_tensor(act: &Act) -> Result<Tensor> {
    let Shape { n, h, w, c } = act.shape();
    leading_channels(act, [n, c, h, w])
}
