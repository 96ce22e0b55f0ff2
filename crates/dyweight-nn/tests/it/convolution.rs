//! Convolutions and linear layers against the plain sum in f64, and their gradients against the adjoint identity.

use crate::common::*;
use dyweight_nn::{Act, Conv2d, ConvAlgo, ConvSpec, Linear, Padding, PatchEmbed, Shape};

const ALGOS: [ConvAlgo; 3] = [ConvAlgo::Winograd4, ConvAlgo::Winograd2, ConvAlgo::Direct];

struct Case {
    conv: Conv2d,
    weight: Vec<f32>,
    bias: Vec<f32>,
}

fn case(random: &mut Random, spec: ConvSpec) -> Case {
    let depth = spec.in_channels * spec.kernel[0] * spec.kernel[1];
    let weight = random.vec(spec.out_channels * depth, (depth as f32).powf(-0.5));
    let bias = random.vec(spec.out_channels, 1.0);
    Case { conv: Conv2d::new(spec, &weight, Some(&bias)).unwrap(), weight, bias }
}

fn reference(case: &Case, x: &Act) -> Exact {
    let spec = case.conv.spec();
    let size = case.conv.output_size(x.size());
    let (x, [kh, kw]) = (Exact::of(x), spec.kernel);
    let mut y = Exact::zeros(x.shape.with_size(size).with_channels(spec.out_channels));
    let Shape { n, h, w, c } = y.shape;
    for (sample, i, j) in (0..n).flat_map(|s| (0..h).flat_map(move |i| (0..w).map(move |j| (s, i, j)))) {
        for o in 0..c {
            let mut sum = f64::from(case.bias[o]);
            for (k, weight) in
                case.weight[o * spec.in_channels * kh * kw..][..spec.in_channels * kh * kw].iter().enumerate()
            {
                let (channel, a, b) = (k / (kh * kw), k / kw % kh, k % kw);
                let u = (i * spec.stride[0] + a) as isize - spec.padding.top as isize;
                let v = (j * spec.stride[1] + b) as isize - spec.padding.left as isize;
                sum += f64::from(*weight) * x.padded(sample, u, v, channel);
            }
            let at = y.index(sample, i, j, o);
            y.data[at] = sum;
        }
    }
    y
}

/// Forward against the reference, gradient against `⟨gy, J v⟩ = ⟨Jᵀ gy, v⟩` with `J v` the forward pass less its bias.
fn check(random: &mut Random, spec: ConvSpec, n: usize, size: [usize; 2], tolerance: f64) {
    let case = case(random, spec);
    let x = random.act(n, size[0], size[1], spec.in_channels);
    let what = format!("{spec:?} on {n}x{size:?}");
    let exact = reference(&case, &x);
    assert_close(&what, &case.conv.forward(&x), &exact, tolerance);
    let gy = random.act(n, exact.shape.h, exact.shape.w, exact.shape.c);
    let biases: f64 =
        gy.data().iter().enumerate().map(|(i, g)| f64::from(*g) * f64::from(case.bias[i % exact.shape.c])).sum();
    let scale = dot(&gy, &gy).sqrt() * dot(&x, &x).sqrt() / (x.shape().len() as f64).sqrt();
    let gx = case.conv.backward(&gy, size);
    assert_near(&what, dot(&gx, &x), exact.dot(&gy) - biases, scale, tolerance);
}

fn tolerance(algo: ConvAlgo) -> f64 {
    if algo == ConvAlgo::Winograd4 { 2e-5 } else { 3e-6 }
}

#[test]
fn three_by_three_of_odd_sizes() {
    on_every_isa(|isa| {
        let mut random = Random(isa as u64);
        for algo in ALGOS {
            for size in [[1, 1], [7, 7], [12, 12], [4, 9], [2, 3], [28, 28], [8, 8]] {
                let (i, o) = (1 + random.below(37), 1 + random.below(83));
                check(&mut random, ConvSpec::same(i, o, 3, algo), 1 + size[0] % 3, size, tolerance(algo));
            }
        }
    });
}

#[test]
fn three_by_three_of_whole_vectors() {
    on_every_isa(|_| {
        for algo in ALGOS {
            check(&mut Random(5), ConvSpec::same(64, 128, 3, algo), 2, [16, 16], tolerance(algo));
        }
    });
}

#[test]
fn three_by_three_of_any_padding() {
    on_every_isa(|_| {
        let mut random = Random(11);
        for algo in ALGOS {
            for padding in [Padding::all(0), Padding::all(2), Padding { top: 0, bottom: 1, left: 2, right: 0 }] {
                let spec = ConvSpec::same(20, 17, 3, algo).with_padding(padding);
                check(&mut random, spec, 2, [10, 13], tolerance(algo));
            }
        }
    });
}

#[test]
fn kernels_strides_and_paddings() {
    on_every_isa(|isa| {
        let mut random = Random(100 + isa as u64);
        for _ in 0..24 {
            let kernel = [1 + random.below(7), 1 + random.below(5)];
            let mut pad = |k: usize| random.below(k);
            let padding =
                Padding { top: pad(kernel[0]), bottom: pad(kernel[0]), left: pad(kernel[1]), right: pad(kernel[1]) };
            let spec = ConvSpec {
                in_channels: 1 + random.below(20),
                out_channels: 1 + random.below(30),
                kernel,
                stride: [1 + random.below(3), 1 + random.below(3)],
                padding,
                algo: ConvAlgo::Direct,
            };
            let size = [kernel[0] + random.below(9), kernel[1] + random.below(9)];
            let n = 1 + random.below(3);
            check(&mut random, spec, n, size, 3e-6);
        }
    });
}

/// The halving convolutions of U-Nets (padded all around) and of autoencoders (below and to the right).
#[test]
fn halving() {
    on_every_isa(|_| {
        let mut random = Random(12);
        for padding in [Padding::all(1), Padding::after(1)] {
            for size in [[8, 8], [9, 6], [2, 3]] {
                let spec = ConvSpec::same(19, 35, 3, ConvAlgo::Winograd4).with_stride(2).with_padding(padding);
                check(&mut random, spec, 2, size, 3e-6);
            }
        }
        let spec = ConvSpec::same(1, 1, 3, ConvAlgo::Direct).with_stride(2).with_padding(Padding::after(1));
        assert_eq!(Conv2d::new(spec, &[0.0; 9], None).unwrap().output_size([8, 6]), [4, 3]);
    });
}

#[test]
fn patches_are_a_convolution() {
    on_every_isa(|_| {
        let mut random = Random(13);
        for (channels, patch, outputs, size) in [(3, 7, 33, [14, 21]), (3, 16, 20, [32, 16]), (1, 1, 5, [2, 3])] {
            let spec = ConvSpec {
                kernel: [patch; 2],
                stride: [patch; 2],
                ..ConvSpec::same(channels, outputs, 1, ConvAlgo::Direct)
            };
            let case = case(&mut random, spec);
            let embed = PatchEmbed::new(channels, patch, outputs, &case.weight, Some(&case.bias)).unwrap();
            let x = random.act(2, size[0], size[1], channels);
            let mut exact = reference(&case, &x);
            exact.shape = Shape::tokens(2, exact.shape.pixels(), outputs);
            let y = embed.forward(&x);
            assert_close("patches", &y, &exact, 3e-6);
            let gy = random.like(&y);
            let wanted = case.conv.backward(&gy.clone().into_image(case.conv.output_size(size)), size);
            assert_close("gradient", &embed.backward(&gy, size), &Exact::of(&wanted), 3e-6);
        }
        assert!(PatchEmbed::new(3, 4, 5, &[0.0; 239], None).is_err() && PatchEmbed::new(3, 0, 5, &[], None).is_err());
    });
}

#[test]
fn residual_and_scale_are_fused() {
    on_every_isa(|_| {
        let mut random = Random(3);
        for algo in ALGOS {
            let case = case(&mut random, ConvSpec::same(18, 35, 3, algo));
            let (x, r, gr) = (random.act(2, 9, 9, 18), random.act(2, 9, 9, 35), random.act(2, 9, 9, 18));
            let mut exact = reference(&case, &x);
            exact.data.iter_mut().zip(r.data()).for_each(|(y, r)| *y = (*y + f64::from(*r)) * 0.7);
            assert_close("forward", &case.conv.forward_residual(&x, &r, 0.7), &exact, tolerance(algo));
            let mut plain = Exact::of(&case.conv.backward(&r, [9, 9]));
            plain.data.iter_mut().zip(gr.data()).for_each(|(g, r)| *g = (*g + f64::from(*r)) * 0.7);
            assert_close("backward", &case.conv.backward_residual(&r, [9, 9], Some(&gr), 0.7), &plain, 1e-6);
        }
    });
}

#[test]
fn the_rectifier_is_fused() {
    on_every_isa(|_| {
        let mut random = Random(6);
        for algo in ALGOS {
            for (kernel, padding) in [([3, 3], [1, 1]), ([1, 7], [0, 3]), ([7, 1], [3, 0]), ([1, 1], [0, 0])] {
                let padding = Padding::symmetric(padding[0], padding[1]);
                let spec = ConvSpec { kernel, padding, ..ConvSpec::same(21, 70, 3, algo) };
                let case = case(&mut random, spec);
                let x = random.act(2, 9, 11, 21);
                let apart = dyweight_nn::relu(&case.conv.forward(&x));
                let fused = case.conv.forward_relu(&x);
                assert!(fused.data().iter().zip(apart.data()).all(|(a, b)| a == b), "{spec:?}");
                let mut bad = x.clone();
                bad.data_mut()[0] = f32::NAN;
                assert!(case.conv.forward_relu(&bad).data()[0].is_nan(), "NaN stays NaN");
            }
        }
    });
}

#[test]
fn linear_layers() {
    on_every_isa(|_| {
        let mut random = Random(4);
        for (rows, inputs, outputs) in [(1, 5, 3), (7, 64, 200), (130, 33, 65)] {
            let weight = random.vec(inputs * outputs, 0.2);
            let layer = Linear::new(inputs, outputs, &weight, None).unwrap();
            let x = random.act(rows, 1, 1, inputs);
            let mut exact = Exact::zeros(Shape { c: outputs, ..x.shape() });
            for (i, y) in exact.data.iter_mut().enumerate() {
                let (x, w) = (x.sample(i / outputs), &weight[i % outputs * inputs..][..inputs]);
                *y = x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
            }
            assert_close("linear", &layer.forward(&x), &exact, 3e-6);
            let gy = random.act(rows, 1, 1, outputs);
            let scale = dot(&gy, &gy).sqrt() * dot(&x, &x).sqrt();
            assert_near("linear gradient", dot(&layer.backward(&gy), &x), exact.dot(&gy), scale, 1e-6);
        }
    });
}

#[test]
fn weights_that_do_not_fit_are_errors() {
    let spec = ConvSpec::same(4, 4, 3, ConvAlgo::Direct);
    assert!(Conv2d::new(spec, &[0.0; 143], None).is_err());
    assert!(Conv2d::new(spec, &[0.0; 144], Some(&[0.0; 3])).is_err());
    assert!(Conv2d::new(spec.with_padding(Padding::all(3)), &[0.0; 144], None).is_err());
    assert!(Conv2d::new(ConvSpec { in_channels: 0, ..spec }, &[], None).is_err());
}

/// Largest error of a 256-channel layer relative to its largest output: what each algorithm costs in accuracy.
#[test]
fn errors_of_the_algorithms_are_bounded() {
    on_every_isa(|isa| {
        for (algo, bound) in [(ConvAlgo::Winograd4, 1e-5), (ConvAlgo::Winograd2, 2e-6), (ConvAlgo::Direct, 2e-6)] {
            let mut random = Random(9);
            let case = case(&mut random, ConvSpec::same(256, 32, 3, algo));
            let x = random.act(1, 12, 12, 256);
            let error = deviation(&case.conv.forward(&x), &reference(&case, &x));
            println!("{isa:?} {algo:?}: {error:.1e}");
            assert!(error < bound, "{isa:?} {algo:?}: {error:.1e}");
        }
    });
}

#[test]
fn winograd_is_taken_where_it_saves() {
    let algo = |size, wish| ConvSpec::same(64, 64, 3, wish).algo_for(size);
    assert_eq!(algo([32, 32], ConvAlgo::Winograd4), ConvAlgo::Winograd4);
    assert_eq!(algo([7, 7], ConvAlgo::Winograd4), ConvAlgo::Winograd4);
    assert_eq!(algo([2, 2], ConvAlgo::Winograd4), ConvAlgo::Winograd2);
    assert_eq!(algo([1, 1], ConvAlgo::Winograd4), ConvAlgo::Direct);
    assert_eq!(algo([32, 32], ConvAlgo::Winograd2), ConvAlgo::Winograd2);
    assert_eq!(algo([32, 32], ConvAlgo::Direct), ConvAlgo::Direct);
    assert_eq!(ConvSpec::same(3, 64, 3, ConvAlgo::Winograd4).algo_for([32, 32]), ConvAlgo::Direct);
    assert_eq!(ConvSpec::same(64, 64, 3, ConvAlgo::Winograd4).with_stride(2).algo_for([32, 32]), ConvAlgo::Direct);
}
