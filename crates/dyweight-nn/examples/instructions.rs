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

/// Makes a call ready: only what is counted is built.
type Case = Box<dyn Fn() -> Call>;

fn cases() -> Vec<(&'static str, Case)> {
    let mut cases: Vec<(&'static str, Case)> = Vec::new();
    for (forward, backward, channels, algo, stored) in [
        ("winograd4", "winograd4.gradient", 64, ConvAlgo::Winograd4, false),
        ("winograd4.wide", "winograd4.wide.gradient", 256, ConvAlgo::Winograd4, false),
        ("winograd4.stored", "winograd4.stored.gradient", 64, ConvAlgo::Winograd4, true),
        ("direct", "direct.gradient", 64, ConvAlgo::Direct, false),
    ] {
        let made = move || (act(1, 16, channels), conv(channels, algo, stored));
        cases.push((forward, call(made, |(x, layer)| drop(layer.forward(x)))));
        cases.push((backward, call(made, |(gy, layer)| drop(layer.backward(gy, [16; 2])))));
    }
    for (forward, backward, dtype) in
        [("linear", "linear.gradient", Dtype::F32), ("linear.bf16", "linear.bf16.gradient", Dtype::Bf16)]
    {
        let made = move |c: usize| (tokens(96, c), linear(256, 320, dtype));
        cases.push((forward, call(move || made(256), |(x, layer)| drop(layer.forward(x)))));
        cases.push((backward, call(move || made(320), |(gy, layer)| drop(layer.backward(gy)))));
    }
    let norm = || {
        let norm = GroupNorm::new(32, 1e-6, &noise(256, 1.0), &noise(256, 1.0), Activation::Silu);
        (act(1, 16, 256), norm.expect("weights fit"))
    };
    cases.push(("norm", call(norm, |(x, norm)| drop(norm.forward(x, Modulation::None)))));
    let recorded = move || {
        let (x, norm) = norm();
        let stats = norm.forward(&x, Modulation::None).1;
        (x, norm, stats)
    };
    let back =
        |(x, norm, stats): &(Act, GroupNorm, NormStats)| drop(norm.backward(x, stats, Modulation::None, x, None));
    cases.push(("norm.gradient", call(recorded, back)));
    let attention = || (Attention::new(160, 4).expect("four heads"), tokens(256, 160));
    cases.push(("attention", call(attention, |(attention, x)| drop(attention.forward(x, x, x, Bias::NONE)))));
    let recorded = move || {
        let (attention, x) = attention();
        let (y, sums) = attention.forward(&x, &x, &x, Bias::NONE);
        (attention, x, y, sums)
    };
    let back = |(attention, x, y, sums): &(Attention, Act, Act, LogSums)| {
        drop(attention.backward([x, x, x], Bias::NONE, y, sums, x));
    };
    cases.push(("attention.gradient", call(recorded, back)));
    let resampling = || (Fir::new(&[1.0, 1.0]).expect("an even filter"), act(1, 16, 256));
    cases.push(("resampling", call(resampling, |(fir, x)| drop(fir.up(&fir.down(x))))));
    cases
}

/// What is made once, and a call of it.
fn call<T: Send + Sync + 'static>(
    made: impl Fn() -> T + 'static,
    f: impl Fn(&T) + Copy + Send + Sync + 'static,
) -> Case {
    Box::new(move || {
        let made = made();
        Box::new(move || f(&made))
    })
}

fn main() {
    let mut words = std::env::args().skip(1);
    let (Some(name), count) = (words.next(), words.next().map_or(1, |count| count.parse().expect("a count"))) else {
        cases().iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let cases = cases();
    let (_, ready) = cases.iter().find(|(case, _)| *case == name).expect("the name of a case");
    let call = ready();
    // Inside the pool, whose one thread then waits for nobody.
    rayon::scope(|_| (0..count).for_each(|_: usize| call()));
}
