//! Time of the operations that transformers and latent U-Nets are made of, at the sizes of SD 1.5 and FLUX.
//!
//! `cargo run --release --example tokens -p dyweight-nn [filter]`: best of several runs: wall time, processor time per
//! thread, and from the latter GFLOP/s and the share of what the same threads reach on multiply-adds in registers.

mod common;

use std::sync::Arc;

use common::{Bench, noise};
use dyweight_nn::*;

fn tokens(count: usize, c: usize) -> Act {
    let shape = Shape::tokens(1, count, c);
    Act::from_nhwc(shape, &noise(shape.len(), 2.0))
}

fn linears(bench: &Bench) {
    for (m, k, n) in [
        (4096, 320, 320),
        (4096, 320, 2560),
        (4096, 1280, 320),
        (1024, 640, 640),
        (1024, 640, 5120),
        (256, 1280, 1280),
        (256, 1280, 10240),
        (77, 768, 3072),
        (200, 768, 768),
        (200, 768, 3072),
        (200, 3072, 768),
        (1536, 3072, 3072),
        (1536, 3072, 12288),
        (1, 3072, 18432),
    ] {
        let flops = 2.0 * (m * k * n) as f64;
        let name = format!("linear {m}x{k}x{n}");
        if !bench.wants(&name) {
            continue;
        }
        let (x, gy) = (tokens(m, k), tokens(m, n));
        let layer = Linear::new(k, n, &noise(k * n, 0.05), Some(&noise(n, 1.0))).expect("weights fit");
        bench.run(&name, flops, || drop(layer.forward(&x)));
        bench.run(&format!("{name} gradient"), flops, || drop(layer.backward(&gy)));
        for dtype in [Dtype::F16, Dtype::Bf16] {
            let bytes: Owner = Arc::new(vec![0x2c; 2 * k * n]);
            let weights = Weights::new(dtype, [n, k], bytes, 0).expect("as many bytes as entries");
            let layer = Linear::from_weights(weights, Some(&noise(n, 1.0))).expect("weights fit");
            bench.run(&format!("{name} {dtype:?}"), flops, || drop(layer.forward(&x)));
            bench.run(&format!("{name} {dtype:?} gradient"), flops, || drop(layer.backward(&gy)));
        }
        in_bf16(bench, &name, flops, [&x, &gy]);
    }
}

/// Products of bf16, where there are; the share is of the peak of f32 still.
fn in_bf16(bench: &Bench, name: &str, flops: f64, [x, gy]: [&Act; 2]) {
    if !Precision::Bf16.is_available() {
        return;
    }
    let (k, n) = (x.shape().c, gy.shape().c);
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let bytes: Owner = Arc::new(vec![0x2c; dtype.size() * k * n]);
        let weights = Weights::new(dtype, [n, k], bytes, 0).expect("as many bytes as entries");
        let layer = Linear::in_precision(Precision::Bf16, weights, Some(&noise(n, 1.0))).expect("weights fit");
        bench.run(&format!("{name} {dtype:?} in bf16"), flops, || drop(layer.forward(x)));
        bench.run(&format!("{name} {dtype:?} in bf16 gradient"), flops, || drop(layer.backward(gy)));
    }
}

fn attentions(bench: &Bench) {
    for (queries, keys, heads, width) in [
        (4096, 4096, 8, 40),
        (1024, 1024, 8, 80),
        (256, 256, 8, 160),
        (4096, 77, 8, 40),
        (4096, 4096, 1, 512),
        (1536, 1536, 24, 128),
        (257, 257, 16, 64),
        (50, 50, 12, 64),
    ] {
        let name = format!("attention {queries}x{keys}, {heads} heads of {width}");
        if !bench.wants(&name) {
            continue;
        }
        let c = heads * width;
        let [q, k, v] = [queries, keys, keys].map(|count| tokens(count, c));
        let op = Attention::new(c, heads).expect("heads fit");
        let flops = 4.0 * (queries * keys * c) as f64;
        let (y, sums) = op.forward(&q, &k, &v, Bias::NONE);
        bench.run(&name, flops, || drop(op.forward(&q, &k, &v, Bias::NONE)));
        bench.run(&format!("{name} gradient"), 2.5 * flops, || {
            drop(op.backward([&q, &k, &v], Bias::NONE, &y, &sums, &q));
        });
        if let Ok(op) = op.in_precision(Precision::Bf16) {
            bench.run(&format!("{name} in bf16"), flops, || drop(op.forward(&q, &k, &v, Bias::NONE)));
            bench.run(&format!("{name} in bf16 gradient"), 2.5 * flops, || {
                drop(op.backward([&q, &k, &v], Bias::NONE, &y, &sums, &q));
            });
        }
    }
}

fn others(bench: &Bench) {
    for (count, c) in [(4096, 320), (1536, 3072)] {
        let (x, gy) = (tokens(count, c), tokens(count, c));
        let (scale, shift) = (tokens(1, c), tokens(1, c));
        let entries = x.shape().len() as f64;
        let norm = LayerNorm::plain(1e-6, c).expect("a width");
        let rms =
            RmsNorm::new(1e-6, &noise(128.min(c), 1.0)[..c.min(if c == 320 { 40 } else { 128 })]).expect("a width");
        bench.run(&format!("layer norm {count}x{c}"), 7.0 * entries, || drop(norm.forward(&x)));
        bench.run(&format!("layer norm {count}x{c} gradient"), 13.0 * entries, || drop(norm.backward(&x, &gy)));
        bench.run(&format!("modulated norm {count}x{c}"), 7.0 * entries, || {
            drop(norm.forward_modulated(&x, &scale, &shift));
        });
        bench.run(&format!("modulated norm {count}x{c} gradient"), 19.0 * entries, || {
            drop(norm.backward_modulated(&x, &scale, &gy));
        });
        bench.run(&format!("rms norm {count}x{c}"), 4.0 * entries, || drop(rms.forward(&x)));
        for gelu in [Gelu::Exact, Gelu::Tanh, Gelu::Quick] {
            bench.run(&format!("gelu {gelu:?} {count}x{c}"), 0.0, || drop(gelu.forward(&x)));
            bench.run(&format!("gelu {gelu:?} {count}x{c} gradient"), 0.0, || drop(gelu.backward(&x, &gy)));
        }
    }
}

fn main() {
    let bench = Bench::new(std::env::args().nth(1).unwrap_or_default());
    linears(&bench);
    attentions(&bench);
    others(&bench);
}
