//! Timing for the examples that measure.
#![allow(clippy::needless_range_loop, reason = "one index names a lane in several arrays")]

use std::time::Instant;

use dyweight_nn::Isa;

/// Runs what a filter lets through.
pub struct Bench {
    filter: String,
    peak: f64,
}

impl Bench {
    /// Measures the peak, and says what it measures on.
    pub fn new(filter: String) -> Self {
        let (threads, peak) = (rayon::current_num_threads(), measured_peak());
        println!("{:?}, {threads} threads, peak {peak:.0} GFLOP/s", Isa::active());
        #[cfg(target_arch = "x86_64")]
        if dyweight_nn::Precision::Bf16.is_available() {
            println!("of bf16 {:.0} GFLOP/s", measured_peak_of_pairs());
        }
        Self { filter, peak }
    }

    /// Whether the filter lets this through.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Prints the best time of `f`, which does `flops` multiplications and additions.
    pub fn run(&self, name: &str, flops: f64, f: impl FnMut()) {
        if self.wants(name) {
            let Best { wall, processor } = best_of(f);
            let rate = flops / processor / 1e9;
            let share = 100.0 * rate / self.peak;
            let (wall, processor) = (wall * 1e3, processor * 1e3);
            println!("{name:<46} {wall:10.3} ms, busy {processor:10.3} ms {rate:8.1} GFLOP/s {share:6.1} % of peak");
        }
    }
}

/// Seconds of the fastest of several runs.
struct Best {
    wall: f64,
    /// Processor time, shared evenly among the threads: unlike the other, hardly longer when other programs run.
    processor: f64,
}

fn best_of(mut f: impl FnMut()) -> Best {
    f();
    let threads = rayon::current_num_threads() as f64;
    let (start, mut runs, mut best) = (Instant::now(), 0, Best { wall: f64::INFINITY, processor: f64::INFINITY });
    while runs < 4 || (start.elapsed().as_secs_f64() < 1.0 && runs < 300) {
        let (start, busy) = (Instant::now(), processor_seconds());
        f();
        let wall = start.elapsed().as_secs_f64();
        let busy = processor_seconds().zip(busy).map_or(wall, |(now, then)| (now - then) / threads);
        best = Best { wall: best.wall.min(wall), processor: best.processor.min(busy) };
        runs += 1;
    }
    best
}

/// Processor time of all threads so far, where the system tells (Linux).
fn processor_seconds() -> Option<f64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    let nanoseconds = |task: std::fs::DirEntry| -> Option<f64> {
        std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    Some(tasks.filter_map(nanoseconds).sum::<f64>() / 1e9)
}

/// GFLOP/s of all threads at once on multiply-adds that stay in registers.
fn measured_peak() -> f64 {
    const STEPS: usize = 20_000_000;
    let threads = rayon::current_num_threads();
    let lanes = match Isa::active() {
        Isa::Avx512 => 16,
        Isa::Avx2 => 8,
        Isa::Portable => 4,
    };
    let flops = (2 * CHAINS * lanes * STEPS * threads) as f64;
    let best = best_of(|| {
        rayon::broadcast(|_| std::hint::black_box(chains(std::hint::black_box(STEPS))));
    });
    flops / best.processor / 1e9
}

/// Independent sums: enough to hide the latency of a multiply-add.
const CHAINS: usize = 12;

fn chains(steps: usize) -> f32 {
    match Isa::active() {
        // SAFETY: the active instruction set is one the processor has.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { chains_avx512(steps) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { chains_avx2(steps) },
        _ => chains_portable(steps),
    }
}

// With intrinsics, and no closure: the compiler does not make vectors of plain multiply-adds, nor inline into a
// closure.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn chains_avx512(steps: usize) -> f32 {
    use std::arch::x86_64::*;
    let (a, b) = (_mm512_set1_ps(0.999), _mm512_set1_ps(0.001));
    let mut sums = std::hint::black_box([a; CHAINS]);
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, a, b);
        }
    }
    sums.into_iter().map(|sum| _mm512_reduce_add_ps(sum)).sum()
}

/// The same of products of bf16, two pairs at a time.
#[cfg(target_arch = "x86_64")]
fn measured_peak_of_pairs() -> f64 {
    const STEPS: usize = 20_000_000;
    let flops = (4 * CHAINS * 16 * STEPS * rayon::current_num_threads()) as f64;
    let best = best_of(|| {
        // SAFETY: only called where the processor has them.
        rayon::broadcast(|_| std::hint::black_box(unsafe { chains_of_pairs(std::hint::black_box(STEPS)) }));
    });
    flops / best.processor / 1e9
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
fn chains_of_pairs(steps: usize) -> f32 {
    use std::arch::x86_64::*;
    let one = std::hint::black_box(_mm512_set1_ps(0.001));
    let (a, b) = (_mm512_cvtne2ps_pbh(one, one), _mm512_cvtne2ps_pbh(one, one));
    let mut sums = std::hint::black_box([one; CHAINS]);
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_dpbf16_ps(*sum, a, b);
        }
    }
    sums.into_iter().map(|sum| _mm512_reduce_add_ps(sum)).sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn chains_avx2(steps: usize) -> f32 {
    use std::arch::x86_64::*;
    let (a, b) = (_mm256_set1_ps(0.999), _mm256_set1_ps(0.001));
    let mut sums = std::hint::black_box([a; CHAINS]);
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, a, b);
        }
    }
    sums.into_iter().map(|sum| _mm256_cvtss_f32(sum)).sum()
}

fn chains_portable(steps: usize) -> f32 {
    let mut sums = [[1.0f32; 4]; CHAINS];
    let (a, b) = std::hint::black_box((0.999, 0.001));
    for _ in 0..steps {
        sums.iter_mut().flatten().for_each(|sum| *sum = *sum * a + b);
    }
    sums.iter().flatten().sum()
}

/// Uniform numbers, always the same.
pub fn noise(len: usize, scale: f32) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(|_| next() * scale).collect()
}
