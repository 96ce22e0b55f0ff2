//! A U-Net of the EDM CIFAR-10 topology with random weights, made of engine operations: how a network is written on
//! this crate, and how fast it runs.
//!
//! `cargo run --release --example unet -p dyweight-nn [batch] [winograd4|winograd2|direct] [runs]` prints one JSON
//! line. The peer under `benches/peers/edm_unet.py` times the same in PyTorch.

use std::time::Instant;

use dyweight_nn::*;

const CHANNELS: usize = 256;
const EMBEDDING: usize = 512;
const HALF_ROOT: f32 = std::f32::consts::FRAC_1_SQRT_2;

/// Uniform numbers of a given standard deviation.
struct Noise(u64);

impl Noise {
    fn vec(&mut self, len: usize, deviation: f32) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..len).map(|_| next() * 12f32.sqrt() * deviation).collect()
    }

    fn conv(&mut self, i: usize, o: usize, kernel: usize, algo: ConvAlgo) -> Conv2d {
        let depth = i * kernel * kernel;
        let (weight, bias) = (self.vec(depth * o, (depth as f32).powf(-0.5)), self.vec(o, 0.1));
        Conv2d::new(ConvSpec::same(i, o, kernel, algo), &weight, Some(&bias)).expect("weights fit")
    }

    fn linear(&mut self, i: usize, o: usize) -> Linear {
        let (weight, bias) = (self.vec(i * o, (i as f32).powf(-0.5)), self.vec(o, 0.1));
        Linear::new(i, o, &weight, Some(&bias)).expect("weights fit")
    }

    fn norm(&mut self, c: usize, activation: Activation) -> GroupNorm {
        let bias = self.vec(c, 0.1);
        GroupNorm::new(32, 1e-6, &vec![1.0; c], &bias, activation).expect("weights fit")
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Same,
    Down,
    Up,
}

struct AttentionPart {
    norm: GroupNorm,
    qkv: Linear,
    attention: SelfAttention,
    projection: Linear,
}

struct Block {
    norm0: GroupNorm,
    conv0: Conv2d,
    affine: Linear,
    norm1: GroupNorm,
    conv1: Conv2d,
    skip: Option<Linear>,
    direction: Direction,
    attention: Option<AttentionPart>,
    fir: Fir,
}

/// What a block's pullback needs.
struct Kept {
    x: Act,
    stats0: NormStats,
    h: Act,
    p: Act,
    stats1: NormStats,
    attention: Option<(Act, NormStats, Act)>,
}

impl Block {
    fn new(noise: &mut Noise, i: usize, direction: Direction, attention: bool, algo: ConvAlgo) -> Self {
        let o = CHANNELS;
        Self {
            norm0: noise.norm(i, Activation::Silu),
            conv0: noise.conv(i, o, 3, algo),
            affine: noise.linear(EMBEDDING, o),
            norm1: noise.norm(o, Activation::Silu),
            conv1: noise.conv(o, o, 3, algo),
            skip: (i != o || direction != Direction::Same).then(|| noise.linear(i, o)),
            direction,
            attention: attention.then(|| AttentionPart {
                norm: noise.norm(o, Activation::None),
                qkv: noise.linear(o, 3 * o),
                attention: SelfAttention::new(o, 1).expect("one head"),
                projection: noise.linear(o, o),
            }),
            fir: Fir::new(&[1.0, 1.0]).expect("an even filter"),
        }
    }

    fn resample(&self, x: &Act) -> Option<Act> {
        match self.direction {
            Direction::Same => None,
            Direction::Down => Some(self.fir.down(x)),
            Direction::Up => Some(self.fir.up(x)),
        }
    }

    fn resample_backward(&self, gy: Act) -> Act {
        match self.direction {
            Direction::Same => gy,
            Direction::Down => self.fir.down_backward(&gy),
            Direction::Up => self.fir.up_backward(&gy),
        }
    }

    fn forward(&self, x: Act, e: &Act, keep: Option<&mut Vec<Kept>>) -> Act {
        let (a, stats0) = self.norm0.forward(&x, Modulation::None);
        let a = self.resample(&a).unwrap_or(a);
        let h = self.conv0.forward(&a);
        drop(a);
        let p = self.affine.forward(e);
        let (a, stats1) = self.norm1.forward(&h, Modulation::Bias(&p));
        let resampled = self.resample(&x);
        let raw = resampled.as_ref().unwrap_or(&x);
        let mut y = match &self.skip {
            Some(skip) => self.conv1.forward_residual(&a, &skip.forward(raw), HALF_ROOT),
            None => self.conv1.forward_residual(&a, raw, HALF_ROOT),
        };
        drop((a, resampled));
        let mut attended = None;
        if let Some(part) = &self.attention {
            let (a, stats) = part.norm.forward(&y, Modulation::None);
            let qkv = part.qkv.forward(&a);
            let z = part.projection.forward_residual(&part.attention.forward(&qkv), &y, HALF_ROOT);
            attended = Some((std::mem::replace(&mut y, z), stats, qkv));
        }
        if let Some(keep) = keep {
            keep.push(Kept { x, stats0, h, p, stats1, attention: attended });
        }
        y
    }

    /// Gradients of the block's input and of its embedding.
    fn backward(&self, kept: Kept, mut gy: Act) -> (Act, Act) {
        if let (Some(part), Some((y, stats, qkv))) = (&self.attention, kept.attention) {
            let ga = part.projection.backward_residual(&gy, None, HALF_ROOT);
            let ga = part.qkv.backward(&part.attention.backward(&qkv, &ga));
            gy = part.norm.backward(&y, &stats, Modulation::None, &ga, Some((&gy, HALF_ROOT))).x;
        }
        let size = kept.h.size();
        let ga = self.conv1.backward_residual(&gy, size, None, HALF_ROOT);
        let gh = self.norm1.backward(&kept.h, &kept.stats1, Modulation::Bias(&kept.p), &ga, None);
        drop((ga, kept.h));
        let ga = self.resample_backward(self.conv0.backward(&gh.x, size));
        let (residual, scale) = match &self.skip {
            Some(skip) => (self.resample_backward(skip.backward_residual(&gy, None, HALF_ROOT)), 1.0),
            None => (gy, HALF_ROOT),
        };
        let gx = self.norm0.backward(&kept.x, &kept.stats0, Modulation::None, &ga, Some((&residual, scale))).x;
        (gx, self.affine.backward(&gh.modulation.expect("a modulated normalisation")))
    }
}

struct Net {
    first: Conv2d,
    encoder: Vec<Block>,
    decoder: Vec<(Block, bool)>,
    norm: GroupNorm,
    last: Conv2d,
}

impl Net {
    fn new(algo: ConvAlgo) -> Self {
        let mut noise = Noise(1);
        let first = noise.conv(3, 128, 3, algo);
        let mut encoder = vec![];
        for level in 0..3 {
            if level > 0 {
                encoder.push(Block::new(&mut noise, CHANNELS, Direction::Down, false, algo));
            }
            for block in 0..4 {
                let i = if level + block == 0 { 128 } else { CHANNELS };
                encoder.push(Block::new(&mut noise, i, Direction::Same, level == 1, algo));
            }
        }
        let mut decoder: Vec<_> = [true, false]
            .map(|attends| (Block::new(&mut noise, CHANNELS, Direction::Same, attends, algo), false))
            .into();
        for level in (0..3).rev() {
            if level < 2 {
                decoder.push((Block::new(&mut noise, CHANNELS, Direction::Up, false, algo), false));
            }
            for block in 0..5 {
                let i = if level == 0 && block == 4 { 384 } else { 512 };
                decoder.push((Block::new(&mut noise, i, Direction::Same, level == 1 && block == 4, algo), true));
            }
        }
        Self {
            first,
            encoder,
            decoder,
            norm: noise.norm(CHANNELS, Activation::Silu),
            last: noise.conv(CHANNELS, 3, 3, algo),
        }
    }

    /// The output, and with `keep` what the pullback needs of it.
    fn forward(&self, x: &Act, e: &Act, mut keep: Option<&mut Vec<Kept>>) -> (Act, Act, NormStats) {
        let mut x = self.first.forward(x);
        let mut skips = vec![x.clone()];
        for block in &self.encoder {
            x = block.forward(x, e, keep.as_deref_mut());
            skips.push(x.clone());
        }
        for (block, joins) in &self.decoder {
            if *joins {
                x = concat(&[&x, &skips.pop().expect("as many skips as joins")]);
            }
            x = block.forward(x, e, keep.as_deref_mut());
        }
        let (a, stats) = self.norm.forward(&x, Modulation::None);
        (self.last.forward(&a), x, stats)
    }

    fn backward(&self, mut kept: Vec<Kept>, last: &Act, stats: &NormStats, gy: &Act) -> (Act, Act) {
        let ga = self.last.backward(gy, last.size());
        let mut gx = self.norm.backward(last, stats, Modulation::None, &ga, None).x;
        let mut ge = Act::zeros(Shape { n: gy.shape().n, h: 1, w: 1, c: EMBEDDING });
        let mut skips = vec![];
        let mut pull = |block: &Block, gy: Act| {
            let (gx, part) = block.backward(kept.pop().expect("one record per block"), gy);
            ge.add_assign(&part);
            gx
        };
        for (block, joins) in self.decoder.iter().rev() {
            gx = pull(block, gx);
            if *joins {
                let mut parts = split(&gx, &[CHANNELS, gx.shape().c - CHANNELS]);
                skips.push(parts.pop().expect("two parts"));
                gx = parts.pop().expect("two parts");
            }
        }
        for block in self.encoder.iter().rev() {
            gx.add_assign(&skips.pop().expect("one per block"));
            gx = pull(block, gx);
        }
        gx.add_assign(&skips.pop().expect("one for the first convolution"));
        let size = gx.size();
        (self.first.backward(&gx, size), ge)
    }
}

/// Best wall time and mean processor time per thread, in seconds.
fn time(runs: u32, mut f: impl FnMut()) -> (f64, f64) {
    f();
    let cpu = cpu_seconds();
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_secs_f64());
    }
    (best, (cpu_seconds() - cpu) / f64::from(runs) / rayon::current_num_threads() as f64)
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

/// A field of `/proc/self/status` in MB, where there is one.
fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).map_or(f64::NAN, |kb: f64| kb / 1024.0)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let n = arguments.next().map_or(8, |text| text.parse().expect("a batch size"));
    let name = arguments.next().unwrap_or_else(|| "winograd4".into());
    let runs = arguments.next().map_or(5, |text| text.parse().expect("a number of runs"));
    let algo = match name.as_str() {
        "winograd4" => ConvAlgo::Winograd4,
        "winograd2" => ConvAlgo::Winograd2,
        "direct" => ConvAlgo::Direct,
        other => panic!("no convolution algorithm {other}"),
    };
    let start = Instant::now();
    let net = Net::new(algo);
    let (load, loaded) = (start.elapsed().as_secs_f64(), memory("VmRSS"));
    let mut noise = Noise(2);
    let (pixels, e) = (n * 3 * 32 * 32, Act::from_rows(n, &noise.vec(n * EMBEDDING, 1.0)));
    let shape = Shape { n, h: 32, w: 32, c: 3 };
    let (x, gy) = (Act::from_nchw(shape, &noise.vec(pixels, 1.0)), Act::from_nchw(shape, &noise.vec(pixels, 1.0)));
    let forward = time(runs, || drop(net.forward(&x, &e, None)));
    let forward_peak = memory("VmHWM");
    let gradient = time(runs, || {
        let mut kept = vec![];
        let (_, last, stats) = net.forward(&x, &e, Some(&mut kept));
        drop(net.backward(kept, &last, &stats, &gy));
    });
    let per_image = |(wall, cpu): (f64, f64)| {
        format!("{{\"wall\": {:.1}, \"cpu\": {:.1}}}", wall * 1e3 / n as f64, cpu * 1e3 / n as f64)
    };
    println!(
        "{{\"engine\": \"dyweight-nn\", \"isa\": \"{:?}\", \"conv\": \"{name}\", \"batch\": {n}, \"threads\": {}, \
         \"forward_ms_per_image\": {}, \"gradient_ms_per_image\": {}, \"build_s\": {load:.2}, \"loaded_mb\": {loaded:.0}, \
         \"forward_peak_mb\": {forward_peak:.0}, \"gradient_peak_mb\": {:.0}}}",
        Isa::active(),
        rayon::current_num_threads(),
        per_image(forward),
        per_image(gradient),
        memory("VmHWM"),
    );
}
