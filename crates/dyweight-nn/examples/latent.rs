//! Time of convolutions at the sizes of SD 1.5's U-Net and decoder, by how their weights are kept.
//!
//! `cargo run --release --example latent -p dyweight-nn [filter]`: best of several runs: wall time, processor time per
//! thread, and from the latter GFLOP/s as the plain sums would need them (so Winograd may exceed the peak).

mod common;

use std::sync::Arc;

use common::{Bench, noise};
use dyweight_nn::*;

fn main() {
    let bench = Bench::new(std::env::args().nth(1).unwrap_or_default());
    for (size, inputs, outputs) in [
        (64, 320, 320),
        (64, 960, 320),
        (32, 640, 640),
        (32, 1920, 640),
        (16, 1280, 1280),
        (16, 2560, 1280),
        (8, 1280, 1280),
        (8, 2560, 1280),
        (128, 512, 512),
        (512, 128, 128),
    ] {
        let name = format!("conv {size}x{size}, {inputs} to {outputs}");
        if !bench.wants(&name) {
            continue;
        }
        let image = |c: usize| {
            let shape = Shape { n: 1, h: size, w: size, c };
            Act::from_nhwc(shape, &noise(shape.len(), 2.0))
        };
        let (x, gy) = (image(inputs), image(outputs));
        let spec = ConvSpec::same(inputs, outputs, 3, ConvAlgo::Winograd4);
        let (shape, bias) = ([outputs, 9 * inputs], noise(outputs, 1.0));
        let entries = noise(9 * inputs * outputs, 0.05);
        let flops = 18.0 * (size * size * inputs * outputs) as f64;
        let measure = |kept: &str, conv: Conv2d| {
            bench.run(&format!("{name}, {kept}"), flops, || drop(conv.forward(&x)));
            bench.run(&format!("{name}, {kept}, gradient"), flops, || drop(conv.backward(&gy, [size; 2])));
        };
        measure("packed", Conv2d::new(spec, &entries, Some(&bias)).expect("weights fit"));
        let stored = Weights::from_f32(shape, &entries).expect("as many entries as the shape has");
        measure("stored", Conv2d::from_weights(spec, stored, Some(&bias)).expect("weights fit"));
        let bytes: Owner = Arc::new(vec![0x2c; 2 * entries.len()]);
        let stored = Weights::new(Dtype::Bf16, shape, bytes, 0).expect("as many bytes as entries");
        measure("stored in bf16", Conv2d::from_weights(spec, stored, Some(&bias)).expect("weights fit"));
    }
}
