//! Time of 3×3 convolutions at the sizes of the embedded network `fashion`, and of two larger layers; 16 images.
//!
//! `cargo run --release --example small -p dyweight-nn [filter]`: best of several runs: wall time, processor time per
//! thread, and from the latter GFLOP/s as the plain sums would need them (so Winograd may exceed the peak).

mod common;

use common::{Bench, noise};
use dyweight_nn::*;

const IMAGES: usize = 16;

fn main() {
    let bench = Bench::new(std::env::args().nth(1).unwrap_or_default());
    for (size, inputs, outputs) in [
        (28, 32, 32),
        (28, 64, 64),
        (28, 96, 32),
        (14, 64, 64),
        (14, 96, 96),
        (14, 160, 64),
        (7, 96, 96),
        (7, 192, 96),
        (32, 128, 128),
        (16, 256, 256),
    ] {
        let name = format!("conv {size}x{size}, {inputs} to {outputs}");
        if !bench.wants(&name) {
            continue;
        }
        let shape = Shape { n: IMAGES, h: size, w: size, c: inputs };
        let x = Act::from_nhwc(shape, &noise(shape.len(), 2.0));
        let spec = ConvSpec::same(inputs, outputs, 3, ConvAlgo::Winograd4);
        let entries = noise(9 * inputs * outputs, 0.05);
        let conv = Conv2d::new(spec, &entries, Some(&noise(outputs, 1.0))).expect("weights fit");
        let flops = 18.0 * (IMAGES * size * size * inputs * outputs) as f64;
        bench.run(&name, flops, || drop(conv.forward(&x)));
    }
}
