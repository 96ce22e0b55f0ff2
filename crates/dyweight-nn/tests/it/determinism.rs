//! Bits do not depend on the number of threads nor on how samples are split into batches.

use crate::common::*;
use dyweight_nn::*;

/// Every operation's value and gradient on a batch, one after the other, by sample.
fn everything(x: &Act, gy: &Act, p: &Act) -> Vec<Act> {
    let c = x.shape().c;
    let mut random = Random(7);
    let mut results = vec![];
    for algo in [ConvAlgo::Winograd4, ConvAlgo::Winograd2, ConvAlgo::Direct] {
        let weight = random.vec(c * c * 9, 0.1);
        for precision in [Precision::F32, Precision::Bf16].into_iter().filter(|precision| precision.is_available()) {
            for stride in [1, 2] {
                let spec = ConvSpec::same(c, c, 3, algo).with_stride(stride);
                let conv = Conv2d::new(spec, &weight, None).unwrap().in_precision(precision).unwrap();
                let y = conv.forward(x);
                results.extend([conv.backward(if stride == 1 { gy } else { &y }, x.size()), y]);
            }
        }
    }
    let linear = Linear::new(c, 3 * c, &random.vec(3 * c * c, 0.1), Some(&random.vec(3 * c, 1.0))).unwrap();
    let qkv = linear.forward(x);
    let attention = SelfAttention::new(c, 2).unwrap();
    results.extend([attention.forward(&qkv), attention.backward(&qkv, gy)]);
    let norm = GroupNorm::new(2, 1e-6, &random.vec(c, 1.0), &random.vec(c, 1.0), Activation::Silu).unwrap();
    for modulation in [Modulation::None, Modulation::Bias(p)] {
        let (y, stats) = norm.forward(x, modulation);
        let gradient = norm.backward(x, &stats, modulation, gy, None);
        results.extend([y, gradient.x]);
        results.extend(gradient.modulation);
    }
    let fir = Fir::new(&[1.0, 3.0, 3.0, 1.0]).unwrap();
    let tall =
        ConvSpec { kernel: [7, 1], padding: Padding::symmetric(3, 0), ..ConvSpec::same(c, c, 1, ConvAlgo::Direct) };
    let tall = Conv2d::new(tall, &random.vec(c * c * 7, 0.1), None).unwrap();
    let mut masked = gy.clone();
    Positive::of(x).mask(&mut masked);
    results.extend([tall.forward_relu(x), tall.backward(gy, x.size()), masked]);
    for pool in [MaxPool::new(3, 1, 1), MaxPool::new(3, 2, 0)] {
        let (y, winners) = pool.forward_recorded(x);
        let gradient = pool.backward(&winners, &y);
        results.extend([y, gradient]);
    }
    results.push(AvgPool::new(3, 1, 1, false).backward(gy, gy.size()));
    results.extend([fir.up(x), fir.up_backward(x), silu(x), spatial_sum(x), AvgPool::new(3, 1, 1, false).forward(x)]);
    results.extend(of_tokens(&mut random, x, gy, p));
    results
}

/// The same for operations on tokens.
fn of_tokens(random: &mut Random, x: &Act, gy: &Act, p: &Act) -> Vec<Act> {
    let c = x.shape().c;
    let norm = LayerNorm::new(1e-5, &random.vec(c, 1.0), &random.vec(c, 1.0)).unwrap();
    let modulated = norm.backward_modulated(x, p, gy);
    let mut results = vec![norm.forward(x), norm.backward(x, gy), norm.forward_modulated(x, p, p)];
    results.extend([modulated.x, modulated.scale, modulated.shift]);
    let rms = RmsNorm::new(1e-6, &random.vec(c / 2, 1.0)).unwrap();
    results.extend([rms.forward(x), rms.backward(x, gy), gated_residual(x, p, gy)]);
    results.extend(gated_residual_backward(p, x, gy));
    for gelu in [Gelu::Exact, Gelu::Tanh, Gelu::Quick] {
        results.extend([gelu.forward(x), gelu.backward(x, gy), gelu.gated_halves(x)]);
        results.extend(gelu.gated_backward(x, gy, gy));
        results.push(gelu.gated_halves_backward(x, &gelu.gated_halves(gy)));
    }
    let stored = Weights::from_f32([c, c], &random.vec(c * c, 0.1)).unwrap();
    let linear = Linear::from_weights(stored, Some(&random.vec(c, 1.0))).unwrap();
    results.extend([linear.forward(x), linear.backward(gy)]);
    if Precision::Bf16.is_available() {
        // More than one panel, and a depth that is cut into blocks on the way back.
        let (outputs, weight) = (3100, Weights::from_f32([3100, c], &random.vec(3100 * c, 0.1)).unwrap());
        let linear = Linear::in_precision(Precision::Bf16, weight, Some(&random.vec(outputs, 1.0))).unwrap();
        let y = linear.forward(x);
        results.extend([linear.backward(&y), y]);
        let (long, cross) = (upsample_nearest(x), Attention::new(c, 2).unwrap());
        let cross = cross.in_precision(Precision::Bf16).unwrap();
        let (gathered, sums) = cross.forward(gy, &long, &long, Bias::NONE);
        results.extend(cross.backward([gy, &long, &long], Bias::NONE, &gathered, &sums, x));
        results.push(gathered);
    }
    let patches = PatchEmbed::new(c, 2, 11, &random.vec(c * 4 * 11, 0.1), None).unwrap();
    let embedded = patches.forward(x);
    results.extend([patches.backward(&embedded, x.size()), embedded]);
    let attention = Attention::new(c, 2).unwrap().causal();
    let (y, sums) = attention.forward(x, gy, x, Bias::NONE);
    results.extend(attention.backward([x, gy, x], Bias::NONE, &y, &sums, gy));
    let (long, cross) = (upsample_nearest(&upsample_nearest(x)), Attention::new(c, 1).unwrap());
    let (gathered, sums) = cross.forward(gy, &long, &long, Bias::NONE);
    results.extend(cross.backward([gy, &long, &long], Bias::NONE, &gathered, &sums, x));
    results.extend([y, gathered]);
    let angles: Vec<f64> = (0..x.shape().pixels()).map(|t| t as f64).collect();
    let rotary = Rotary::new(2, &angles).unwrap();
    results.extend([rotary.forward(x), rotary.backward(gy), upsample_nearest(x), upsample_nearest_backward(gy)]);
    results
}

fn inputs(n: usize) -> [Act; 3] {
    let mut random = Random(1);
    [random.act(n, 18, 14, 38), random.act(n, 18, 14, 38), random.act(n, 1, 1, 38)]
}

fn threads(count: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap()
}

#[test]
fn thread_count_changes_nothing() {
    let [x, gy, p] = inputs(3);
    for isa in Isa::available() {
        let on = |count| threads(count).install(|| isa.scope(|| everything(&x, &gy, &p)));
        let one = on(1);
        for count in [2, 5] {
            for (i, (a, b)) in one.iter().zip(on(count)).enumerate() {
                assert_bits(&format!("{isa:?}, {count} threads, result {i}"), a.data(), b.data());
            }
        }
    }
}

#[test]
fn batch_split_changes_nothing() {
    let [x, gy, p] = inputs(5);
    on_every_isa(|isa| {
        let whole = everything(&x, &gy, &p);
        for range in [0..1, 1..3, 3..5] {
            let part = |a: &Act| samples(a, range.clone());
            for (i, (a, b)) in whole.iter().zip(everything(&part(&x), &part(&gy), &part(&p))).enumerate() {
                assert_bits(&format!("{isa:?}, samples {range:?}, result {i}"), part(a).data(), b.data());
            }
        }
    });
}
