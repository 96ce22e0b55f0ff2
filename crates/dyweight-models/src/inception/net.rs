//! The layers on the engine: forward, and the gradient of the input.
//!
//! A mean over windows and a 1×1 convolution act on different axes, so they may change places; the mean of a constant
//! over real pixels is that constant, so the bias may too:
//!
//! ```text
//! max(0, W·mean(x) + b)  =  max(0, mean(W·x + b))        a quarter of the channels, or fewer, to average
//! ```
//!
//! What is kept for the gradient is one bit per rectifier and one byte per maximum: 2 MB for an image.

use super::plan::{FEATURES, Op, Unit};
use dyweight_nn::{Act, AvgPool, Conv2d, MaxPool, Positive, Shape, Winners, concat, relu, spatial_sum, split};

/// The network with its weights.
pub(super) struct Net {
    stages: Vec<(String, Op<Conv2d>)>,
}

/// What a forward pass leaves for the way back.
pub(super) struct Tape {
    layers: Vec<LayerTape>,
    /// What the mean over the image was taken of.
    last: Shape,
}

enum LayerTape {
    Unit { positive: Positive, size: [usize; 2] },
    Max(Winners),
    Fork { branches: Vec<Vec<LayerTape>>, channels: Vec<usize> },
}

fn mean() -> AvgPool {
    AvgPool::new(3, 1, 1, false)
}

fn maximum(stride: usize) -> MaxPool {
    MaxPool::new(3, stride, if stride == 1 { 1 } else { 0 })
}

impl Net {
    /// Makes the layer of each unit.
    pub(super) fn build<E>(
        plan: &[(String, Op<Unit>)],
        mut unit: impl FnMut(&Unit) -> Result<Conv2d, E>,
    ) -> Result<Self, E> {
        let stages = plan.iter().map(|(name, layer)| Ok((name.clone(), layer.try_map(&mut unit)?)));
        Ok(Self { stages: stages.collect::<Result<_, E>>()? })
    }

    /// The features of prepared images, `[n, 1, 1, 2048]`; `seen` is shown the result of every stage.
    pub(super) fn forward(&self, x: Act, seen: impl FnMut(&str, &Act)) -> Act {
        self.run(x, None, seen)
    }

    fn run(&self, mut x: Act, mut tape: Option<&mut Vec<LayerTape>>, mut seen: impl FnMut(&str, &Act)) -> Act {
        for (name, layer) in &self.stages {
            x = forward(layer, &x, tape.as_deref_mut());
            seen(name, &x);
        }
        spatial_mean(&x)
    }

    /// The features, and what the way back needs.
    pub(super) fn forward_recorded(&self, x: Act) -> (Act, Tape) {
        let (mut layers, mut last) = (Vec::new(), x.shape());
        let features = self.run(x, Some(&mut layers), |_, x| last = x.shape());
        (features, Tape { layers, last })
    }

    /// The input's gradient from that of the features.
    pub(super) fn backward(&self, tape: Tape, gradient: &Act) -> Act {
        let pixels = tape.last.pixels();
        let mut g = Act::stale(tape.last);
        for (to, from) in g.data_mut().chunks_exact_mut(pixels * FEATURES).zip(gradient.data().chunks_exact(FEATURES)) {
            to.chunks_exact_mut(FEATURES).for_each(|pixel| pixel.copy_from_slice(from));
        }
        g.scale_assign(1.0 / pixels as f32);
        for ((_, layer), saved) in self.stages.iter().zip(tape.layers).rev() {
            g = backward(layer, saved, g);
        }
        g
    }
}

/// The mean over the pixels, `[n, 1, 1, c]`.
pub(super) fn spatial_mean(x: &Act) -> Act {
    let mut mean = spatial_sum(x);
    mean.scale_assign(1.0 / x.shape().pixels() as f32);
    mean
}

fn forward(layer: &Op<Conv2d>, x: &Act, tape: Option<&mut Vec<LayerTape>>) -> Act {
    let (y, saved) = match layer {
        Op::Unit(conv) => rectified(conv.forward_relu(x), x, tape.is_some()),
        Op::MeanUnit(conv) => rectified(relu(&mean().forward(&conv.forward(x))), x, tape.is_some()),
        Op::Max { stride } if tape.is_some() => {
            let (y, winners) = maximum(*stride).forward_recorded(x);
            (y, Some(LayerTape::Max(winners)))
        }
        Op::Max { stride } => (maximum(*stride).forward(x), None),
        Op::Fork(branches) => fork(branches, x, tape.is_some()),
    };
    if let (Some(tape), Some(saved)) = (tape, saved) {
        tape.push(saved);
    }
    y
}

fn rectified(y: Act, x: &Act, record: bool) -> (Act, Option<LayerTape>) {
    let saved = record.then(|| LayerTape::Unit { positive: Positive::of(&y), size: x.size() });
    (y, saved)
}

fn fork(branches: &[Vec<Op<Conv2d>>], x: &Act, record: bool) -> (Act, Option<LayerTape>) {
    let (mut parts, mut saved) = (Vec::new(), Vec::new());
    for branch in branches {
        let mut tape = Vec::new();
        let mut y: Option<Act> = None;
        for layer in branch {
            y = Some(forward(layer, y.as_ref().unwrap_or(x), record.then_some(&mut tape)));
        }
        parts.extend(y);
        saved.push(tape);
    }
    let channels = parts.iter().map(|part| part.shape().c).collect();
    let joined = concat(&parts.iter().collect::<Vec<_>>());
    (joined, record.then_some(LayerTape::Fork { branches: saved, channels }))
}

fn backward(layer: &Op<Conv2d>, saved: LayerTape, mut g: Act) -> Act {
    match (layer, saved) {
        (Op::Unit(conv), LayerTape::Unit { positive, size }) => {
            positive.mask(&mut g);
            conv.backward(&g, size)
        }
        (Op::MeanUnit(conv), LayerTape::Unit { positive, size }) => {
            positive.mask(&mut g);
            conv.backward(&mean().backward(&g, size), size)
        }
        (Op::Max { stride }, LayerTape::Max(winners)) => maximum(*stride).backward(&winners, &g),
        (Op::Fork(branches), LayerTape::Fork { branches: saved, channels }) => {
            let parts = split(&g, &channels);
            drop(g);
            let gradients = branches.iter().zip(saved).zip(parts).map(|((branch, saved), part)| {
                branch.iter().zip(saved).rev().fold(part, |g, (layer, saved)| backward(layer, saved, g))
            });
            gradients.reduce(sum).expect("a fork has branches")
        }
        _ => unreachable!("a tape is read by the layers that wrote it"),
    }
}

fn sum(mut a: Act, b: Act) -> Act {
    a.add_assign(&b);
    a
}
