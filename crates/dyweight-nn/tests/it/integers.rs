//! Convolutions with factors of 16 bits: against the same in f32, whose error is far smaller.

use crate::bf16::possible;
use crate::common::*;
use dyweight_nn::*;

const ALGOS: [ConvAlgo; 3] = [ConvAlgo::Winograd4, ConvAlgo::Winograd2, ConvAlgo::Direct];

/// A layer in f32 and with factors of 16 bits.
fn both(random: &mut Random, spec: ConvSpec) -> [Conv2d; 2] {
    let depth = spec.in_channels * spec.kernel[0] * spec.kernel[1];
    let weight = random.vec(spec.out_channels * depth, (depth as f32).powf(-0.5));
    let bias = random.vec(spec.out_channels, 1.0);
    [Precision::F32, Precision::Bf16]
        .map(|precision| Conv2d::new(spec, &weight, Some(&bias)).unwrap().in_precision(precision).unwrap())
}

/// Root mean square of the difference, relative.
fn error(found: &Act, exact: &Act) -> f64 {
    assert_eq!(found.shape(), exact.shape());
    let exact = Exact::of(exact);
    let difference: f64 =
        found.data().iter().zip(&exact.data).map(|(found, exact)| (f64::from(*found) - exact).powi(2)).sum();
    (difference / exact.data.iter().map(|v| v * v).sum::<f64>().max(1e-60)).sqrt()
}

/// Forward, gradient, and both with what is added, within a tolerance.
fn check(random: &mut Random, spec: ConvSpec, n: usize, size: [usize; 2], tolerance: f64) {
    let what = format!("{spec:?} on {n}x{size:?}");
    let [exact, rounded] = both(random, spec);
    let x = random.act(n, size[0], size[1], spec.in_channels);
    let y = exact.forward(&x);
    let gy = random.like(&y);
    let compared = [
        (rounded.forward(&x), y),
        (rounded.forward_relu(&x), exact.forward_relu(&x)),
        (rounded.forward_residual(&x, &gy, 0.5), exact.forward_residual(&x, &gy, 0.5)),
        (rounded.backward(&gy, size), exact.backward(&gy, size)),
        (rounded.backward_residual(&gy, size, Some(&x), 0.5), exact.backward_residual(&gy, size, Some(&x), 0.5)),
    ];
    for (i, (found, exact)) in compared.iter().enumerate() {
        let error = error(found, exact);
        assert!(error <= tolerance, "{what}, {i}: {error:.2e} > {tolerance:.0e}");
    }
}

/// bf16 rounds a number by up to 2⁻⁹: a direct sum of products of bf16 is off by about 2.3e-3.
#[test]
fn errors_are_smaller_than_those_of_bf16() {
    if !possible() {
        return;
    }
    let mut random = Random(900);
    for algo in ALGOS {
        for size in [[1, 1], [7, 7], [12, 12], [4, 9], [2, 3], [28, 28], [8, 8], [40, 33]] {
            let (i, o) = (1 + random.below(37), 1 + random.below(83));
            check(&mut random, ConvSpec::same(i, o, 3, algo), 1 + size[0] % 3, size, 8e-4);
        }
        check(&mut random, ConvSpec::same(64, 128, 3, algo), 2, [16, 16], 8e-4);
        check(&mut random, ConvSpec::same(257, 300, 3, algo), 1, [16, 12], 1.2e-3);
        check(&mut random, ConvSpec::same(1281, 65, 3, algo), 1, [8, 8], 2e-3);
    }
}

#[test]
fn any_kernel_stride_and_padding() {
    if !possible() {
        return;
    }
    let mut random = Random(901);
    for _ in 0..24 {
        let kernel = [1 + random.below(7), 1 + random.below(5)];
        let mut pad = |k: usize| random.below(k);
        let padding =
            Padding { top: pad(kernel[0]), bottom: pad(kernel[0]), left: pad(kernel[1]), right: pad(kernel[1]) };
        let spec = ConvSpec {
            in_channels: 1 + random.below(20),
            out_channels: 1 + random.below(90),
            kernel,
            stride: [1 + random.below(3), 1 + random.below(3)],
            padding,
            algo: ALGOS[random.below(3)],
        };
        let (size, n) = ([kernel[0] + random.below(9), kernel[1] + random.below(9)], 1 + random.below(3));
        check(&mut random, spec, n, size, 8e-4);
    }
}

/// Weights in any place and of any element type are rounded from the same floats.
#[test]
fn stored_weights_give_the_same_bits() {
    if !possible() {
        return;
    }
    let mut random = Random(902);
    for (algo, size) in ALGOS.into_iter().zip([[12, 8], [9, 9], [16, 16]]) {
        let spec = ConvSpec::same(70, 130, 3, algo);
        let halves: Vec<f32> =
            random.vec(130 * 70 * 9, 0.1).iter().map(|v| f32::from_bits(v.to_bits() & 0xffff_0000)).collect();
        let bytes: Vec<u8> = halves.iter().flat_map(|v| v.to_le_bytes()[2..].to_vec()).collect();
        let weights = Weights::new(Dtype::Bf16, [130, 630], std::sync::Arc::new(bytes), 0).unwrap();
        let packed = Conv2d::new(spec, &halves, None).unwrap().in_precision(Precision::Bf16).unwrap();
        let stored = Conv2d::from_weights(spec, weights, None).unwrap().in_precision(Precision::Bf16).unwrap();
        let x = random.act(2, size[0], size[1], 70);
        let gy = random.act(2, size[0], size[1], 130);
        assert_bits("forward", packed.forward(&x).data(), stored.forward(&x).data());
        assert_bits("gradient", packed.backward(&gy, size).data(), stored.backward(&gy, size).data());
    }
}

/// Zeros stay zeros, small and large numbers keep their digits, and what is no number stays none.
#[test]
fn any_size_of_numbers() {
    if !possible() {
        return;
    }
    for algo in ALGOS {
        let mut random = Random(903);
        let [exact, rounded] = both(&mut random, ConvSpec::same(32, 48, 3, algo));
        let x = random.act(1, 12, 12, 48);
        assert!(rounded.backward(&Act::zeros(x.shape()), [12, 12]).data().iter().all(|v| *v == 0.0), "{algo:?}");
        for scale in [1e-12, 1e12] {
            let data: Vec<f32> = x.data().iter().map(|v| v * scale).collect();
            let gy = Act::from_nhwc(x.shape(), &data);
            let error = error(&rounded.backward(&gy, [12, 12]), &exact.backward(&gy, [12, 12]));
            assert!(error < 1e-3, "{algo:?} at {scale}: {error:.1e}");
        }
        let mut broken = x.clone();
        broken.data_mut()[6 * 12 * 48 + 6 * 48] = f32::NAN;
        let found = rounded.backward(&broken, [12, 12]);
        assert!(found.sample(0)[(6 * 12 + 6) * 32].is_nan(), "{algo:?}");
    }
}

#[test]
fn lesser_instructions_refuse() {
    for isa in Isa::available().into_iter().filter(|isa| *isa != Isa::Avx512) {
        isa.scope(|| {
            let conv = || Conv2d::new(ConvSpec::same(1, 1, 3, ConvAlgo::Direct), &[0.0; 9], None).unwrap();
            let refused = conv().in_precision(Precision::Bf16).err();
            assert_eq!(refused, Some(Error::Instructions { precision: Precision::Bf16 }));
            assert!(conv().in_precision(Precision::F32).is_ok());
        });
    }
}
