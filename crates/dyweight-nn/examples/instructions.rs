//! Small calls of the engine's operations, for counting instructions: `instructions CASE COUNT` makes a call so many
//! times. `benches/instructions` counts; without arguments the names of all cases are printed.

#[allow(dead_code)]
mod common;

use common::noise;
use dyweight_nn::*;
use std::sync::Arc;

type Call = Box<dyn Fn() + Send + Sync>;

fn act(n: usize, side: usize, c: usize) -> Act {
    let shape = Shape { n, h: side, w: side, c };
    Act::from_nhwc(shape, &noise(shape.len(), 2.0))
}

fn tokens(count: usize, c: usize) -> Act {
    let shape = Shape::tokens(1, count, c);
    Act::from_nhwc(shape, &noise(shape.len(), 2.0))
}

/// A convolution whose weights are packed, or stay as they are stored.
fn conv(channels: usize, algo: ConvAlgo, stored: bool) -> Conv2d {
    let (spec, entries) = (ConvSpec::same(channels, channels, 3, algo), noise(9 * channels * channels, 0.05));
    let weights = Weights::from_f32([channels, 9 * channels], &entries);
    let built = if stored {
        Conv2d::from_weights(spec, weights.expect("they fit"), None)
    } else {
        Conv2d::new(spec, &entries, None)
    };
    built.expect("weights fit")
}

fn linear(inputs: usize, outputs: usize, dtype: Dtype) -> Linear {
    let bytes: Owner = Arc::new(vec![0x2c; dtype.size() * inputs * outputs]);
    let weights = Weights::new(dtype, [outputs, inputs], bytes, 0).expect("as many bytes as entries");
    Linear::from_weights(weights, Some(&noise(outputs, 1.0))).expect("weights fit")
}

fn cases() -> Vec<(&'static str, Call)> {
    let mut cases: Vec<(&'static str, Call)> = Vec::new();
    for (forward, backward, channels, algo, stored) in [
        ("winograd4", "winograd4.gradient", 64, ConvAlgo::Winograd4, false),
        ("winograd4.wide", "winograd4.wide.gradient", 256, ConvAlgo::Winograd4, false),
        ("winograd4.stored", "winograd4.stored.gradient", 64, ConvAlgo::Winograd4, true),
        ("direct", "direct.gradient", 64, ConvAlgo::Direct, false),
    ] {
        let (x, side) = (act(1, 16, channels), 16);
        let layer = Arc::new(conv(channels, algo, stored));
        let (first, input) = (layer.clone(), x.clone());
        cases.push((forward, Box::new(move || drop(first.forward(&input)))));
        cases.push((backward, Box::new(move || drop(layer.backward(&x, [side; 2])))));
    }
    for (forward, backward, dtype) in
        [("linear", "linear.gradient", Dtype::F32), ("linear.bf16", "linear.bf16.gradient", Dtype::Bf16)]
    {
        let (layer, x, gy) = (Arc::new(linear(256, 320, dtype)), tokens(96, 256), tokens(96, 320));
        let first = layer.clone();
        cases.push((forward, Box::new(move || drop(first.forward(&x)))));
        cases.push((backward, Box::new(move || drop(layer.backward(&gy)))));
    }
    let norm =
        Arc::new(GroupNorm::new(32, 1e-6, &noise(256, 1.0), &noise(256, 1.0), Activation::Silu).expect("weights fit"));
    let (x, gy) = (act(1, 16, 256), act(1, 16, 256));
    let stats = norm.forward(&x, Modulation::None).1;
    let (first, input) = (norm.clone(), x.clone());
    cases.push(("norm", Box::new(move || drop(first.forward(&input, Modulation::None)))));
    cases.push(("norm.gradient", Box::new(move || drop(norm.backward(&x, &stats, Modulation::None, &gy, None)))));
    let attention = Attention::new(160, 4).expect("four heads");
    let [q, k, v, g] = [0; 4].map(|_| tokens(256, 160));
    let (gathered, sums) = attention.forward(&q, &k, &v, Bias::NONE);
    let inputs = [q.clone(), k.clone(), v.clone()];
    cases
        .push(("attention", Box::new(move || drop(attention.forward(&inputs[0], &inputs[1], &inputs[2], Bias::NONE)))));
    let back = move || drop(attention.backward([&q, &k, &v], Bias::NONE, &gathered, &sums, &g));
    cases.push(("attention.gradient", Box::new(back)));
    let (fir, x) = (Fir::new(&[1.0, 1.0]).expect("an even filter"), act(1, 16, 256));
    cases.push(("resampling", Box::new(move || drop(fir.up(&fir.down(&x))))));
    cases
}

fn main() {
    let mut words = std::env::args().skip(1);
    let (Some(name), count) = (words.next(), words.next().map_or(1, |count| count.parse().expect("a count"))) else {
        cases().iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let cases = cases();
    let (_, call) = cases.iter().find(|(case, _)| *case == name).expect("the name of a case");
    // Inside the pool, whose one thread then waits for nobody.
    rayon::scope(|_| (0..count).for_each(|_: usize| call()));
}
