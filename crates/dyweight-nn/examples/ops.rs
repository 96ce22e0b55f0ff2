//! Time of the engine's operations at the sizes of the EDM CIFAR-10 network.
//!
//! `cargo run --release --example ops -p dyweight-nn [batch] [filter]`: best of several runs, arithmetic as the plain
//! sums would need it (so Winograd may exceed the peak), processor time per thread on average, fraction of
//! `DYWEIGHT_PEAK` GFLOP/s per thread (default 117).

use std::time::Instant;

use dyweight_nn::*;

struct Bench {
    filter: String,
    peak: f64,
}

impl Bench {
    /// Prints the best time of `f`, which does `flops` multiplications and additions.
    fn run(&self, name: &str, flops: f64, mut f: impl FnMut()) {
        if !name.contains(&self.filter) {
            return;
        }
        f();
        let mut best = f64::INFINITY;
        let cpu = cpu_seconds();
        let start = Instant::now();
        let mut runs = 0u32;
        while runs < 5 || (start.elapsed().as_secs_f64() < 0.6 && runs < 200) {
            let start = Instant::now();
            f();
            best = best.min(start.elapsed().as_secs_f64());
            runs += 1;
        }
        let rate = flops / best / 1e9;
        let cpu = (cpu_seconds() - cpu) / f64::from(runs) / rayon::current_num_threads() as f64;
        let (wall, cpu, share) = (best * 1e3, cpu * 1e3, 100.0 * rate / self.peak);
        println!("{name:<40} {wall:9.3} ms  cpu {cpu:9.3} ms {rate:8.1} GFLOP/s {share:6.1} % of peak");
    }
}

/// Processor time of all threads so far, where the system tells (Linux): it shows how much of a time is other
/// programs'.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = |task: std::fs::DirEntry| -> Option<f64> {
        std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    tasks.filter_map(nanoseconds).sum::<f64>() / 1e9
}

fn noise(len: usize, scale: f32) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(|_| next() * scale).collect()
}

fn act(n: usize, side: usize, c: usize) -> Act {
    let shape = Shape { n, h: side, w: side, c };
    Act::from_nhwc(shape, &noise(shape.len(), 2.0))
}

fn convolutions(bench: &Bench, batch: usize) {
    for (i, o, side) in [
        (256, 256, 32),
        (512, 256, 32),
        (128, 256, 32),
        (256, 256, 16),
        (512, 256, 16),
        (256, 256, 8),
        (3, 128, 32),
        (256, 3, 32),
    ] {
        let (x, gy) = (act(batch, side, i), act(batch, side, o));
        let flops = 2.0 * (batch * side * side * 9 * i * o) as f64;
        for algo in [ConvAlgo::Winograd4, ConvAlgo::Winograd2, ConvAlgo::Direct] {
            let conv = Conv2d::new(ConvSpec::same(i, o, 3, algo), &noise(9 * i * o, 0.05), None).expect("weights fit");
            let name = format!("3x3 {i}->{o} {side}x{side} {algo:?}");
            bench.run(&name, flops, || drop(conv.forward(&x)));
            bench.run(&format!("{name} gradient"), flops, || drop(conv.backward(&gy, [side; 2])));
        }
        let conv = Linear::new(i, o, &noise(i * o, 0.05), None).expect("weights fit");
        bench.run(&format!("1x1 {i}->{o} {side}x{side}"), flops / 9.0, || drop(conv.forward(&x)));
    }
}

fn others(bench: &Bench, batch: usize) {
    for (c, side) in [(256, 32), (512, 32), (256, 16), (256, 8)] {
        let (x, gy, p) = (act(batch, side, c), act(batch, side, c), act(batch, 1, c));
        let entries = x.shape().len() as f64;
        let norm = GroupNorm::new(32, 1e-6, &noise(c, 1.0), &noise(c, 1.0), Activation::Silu).expect("weights fit");
        let (_, stats) = norm.forward(&x, Modulation::Bias(&p));
        let name = format!("norm+silu {c} {side}x{side}");
        bench.run(&name, 12.0 * entries, || drop(norm.forward(&x, Modulation::Bias(&p))));
        bench.run(&format!("{name} gradient"), 20.0 * entries, || {
            drop(norm.backward(&x, &stats, Modulation::Bias(&p), &gy, None));
        });
        bench.run(&format!("concat 2x{c} {side}x{side}"), 0.0, || drop(concat(&[&x, &gy])));
        bench.run(&format!("split 2x{} {side}x{side}", c / 2), 0.0, || drop(split(&x, &[c / 2; 2])));
        let fir = Fir::new(&[1.0, 1.0]).expect("an even filter");
        bench.run(&format!("down {c} {side}x{side}"), 0.0, || drop(fir.down(&x)));
        bench.run(&format!("up {c} {side}x{side}"), 0.0, || drop(fir.up(&x)));
        if side <= 16 {
            let (qkv, attention) = (act(batch, side, 3 * c), SelfAttention::new(c, 1).expect("one head"));
            let flops = 4.0 * (batch * side.pow(4) * c) as f64;
            bench.run(&format!("attention {c} {side}x{side}"), flops, || drop(attention.forward(&qkv)));
            bench.run(&format!("attention {c} {side}x{side} gradient"), 2.5 * flops, || {
                drop(attention.backward(&qkv, &gy))
            });
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let batch = arguments.next().map_or(8, |text| text.parse().expect("a batch size"));
    let per_thread = std::env::var("DYWEIGHT_PEAK").map_or(117.0, |text| text.parse().expect("GFLOP/s of one thread"));
    let threads = rayon::current_num_threads();
    let bench = Bench { filter: arguments.next().unwrap_or_default(), peak: per_thread * threads as f64 };
    println!("{:?}, {threads} threads, batch {batch}", Isa::active());
    convolutions(&bench, batch);
    others(&bench, batch);
}
