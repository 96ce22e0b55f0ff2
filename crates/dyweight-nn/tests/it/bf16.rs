//! Linear layers whose products are of bf16: against f64 sums of the rounded numbers.

use std::sync::Arc;

use crate::common::*;
use dyweight_nn::*;

/// Half an ulp of an f32 near 1.
const HALF_ULP: f64 = 1.0 / (1 << 24) as f64;

/// False, and says so, where the processor cannot.
pub fn possible() -> bool {
    let possible = Precision::Bf16.is_available();
    if !possible {
        dyweight_testing::skipped("this processor has no products of bf16 (avx512bf16)");
    }
    possible
}

/// The nearest number with 8 significant bits, ties to even, by its definition.
fn rounded(x: f32) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    let x = f64::from(x);
    let unit = 2f64.powi(x.abs().log2().floor() as i32 - 7);
    (x / unit).round_ties_even() * unit
}

fn layer(weights: &Weights, bias: Option<&[f32]>) -> Linear {
    Linear::in_precision(Precision::Bf16, weights.clone(), bias).unwrap()
}

/// Weights of an element type: of bf16 the upper halves of `entries`, of f16 positive numbers made of some of their
/// bits.
fn stored(dtype: Dtype, shape: [usize; 2], entries: &[f32], skipped: usize) -> Weights {
    let mut bytes = vec![0xff; skipped];
    for value in entries {
        match dtype {
            Dtype::F32 => bytes.extend(value.to_le_bytes()),
            Dtype::Bf16 => bytes.extend(&value.to_le_bytes()[2..]),
            Dtype::F16 => bytes.extend(((value.to_bits() >> 13 & 0x1fff | 0x2000) as u16).to_le_bytes()),
        }
    }
    Weights::new(dtype, shape, Arc::new(bytes), skipped).unwrap()
}

/// Sums and sums of magnitudes of `left·rightᵀ`, both by rows.
fn products(left: &[f64], right: &[f64], depth: usize) -> Vec<(f64, f64)> {
    let dot = |a: &[f64], b: &[f64]| {
        a.iter().zip(b).fold((0.0, 0.0), |(sum, size): (f64, f64), (a, b)| (sum + a * b, size + (a * b).abs()))
    };
    left.chunks_exact(depth).flat_map(|a| right.chunks_exact(depth).map(move |b| dot(a, b))).collect()
}

fn transposed(rows: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|j| rows.iter().skip(j).step_by(columns).copied()).collect()
}

fn assert_within(what: &str, found: &[f32], exact: &[(f64, f64)], roundings: usize) {
    assert_eq!(found.len(), exact.len(), "{what}");
    for (i, (found, (exact, size))) in found.iter().zip(exact).enumerate() {
        let (error, bound) = ((f64::from(*found) - exact).abs(), 1.01 * roundings as f64 * HALF_ULP * size);
        assert!(error <= bound, "{what}: entry {i} is {found}, {error:.2e} from {exact}, more than {bound:.2e}");
    }
}

/// Sizes with odd depths, part of a panel, depths that are cut into blocks, and rows that are kept apart.
const SIZES: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (1, 5, 3),
    (7, 64, 200),
    (130, 33, 65),
    (3, 1031, 530),
    (2, 4100, 301),
    (101, 1024, 70),
    (13, 2048, 2048),
];

/// Whole numbers up to 128 are bf16, and their sums here f32: nothing is rounded, whatever the order.
#[test]
fn whole_numbers_come_out_exactly() {
    if !possible() {
        return;
    }
    let mut random = Random(700);
    for (rows, inputs, outputs) in SIZES {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let mut whole = |len: usize| -> Vec<f32> { (0..len).map(|_| random.below(65) as f32 - 32.0).collect() };
            let (entries, x, gy) = (whole(outputs * inputs), whole(rows * inputs), whole(rows * outputs));
            let layer = layer(&stored(dtype, [outputs, inputs], &entries, 3), None);
            let [w, a, g] = [&entries, &x, &gy].map(|v| v.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
            let exact = |sums: Vec<(f64, f64)>| sums.into_iter().map(|(sum, _)| sum as f32).collect::<Vec<_>>();
            let [x, gy] = [(x, inputs), (gy, outputs)].map(|(v, c)| Act::from_nhwc(Shape::tokens(1, rows, c), &v));
            let what = format!("{dtype:?} {rows}x{inputs}x{outputs}");
            assert_eq!(layer.forward(&x).data(), exact(products(&a, &w, inputs)), "{what}");
            assert_eq!(layer.backward(&gy).data(), exact(products(&g, &transposed(&w, inputs), outputs)), "{what}");
        }
    }
}

/// Every product of two bf16 is an f32; each is added with one rounding, as are bias and residual.
#[test]
fn sums_of_rounded_numbers() {
    if !possible() {
        return;
    }
    let mut random = Random(710);
    for (rows, inputs, outputs) in SIZES {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            let entries = random.vec(outputs * inputs, 0.3);
            let weights = stored(dtype, [outputs, inputs], &entries, 1);
            let (x, gy) = (random.act(1, 1, rows, inputs), random.act(1, 1, rows, outputs));
            let bias = random.vec(outputs, 1.0);
            let layer = layer(&weights, Some(&bias));
            let round = |v: &[f32]| v.iter().map(|v| rounded(*v)).collect::<Vec<_>>();
            let [w, a, g] = [&weights.to_f32()[..], x.data(), gy.data()].map(round);
            let what = format!("{dtype:?} {rows}x{inputs}x{outputs}");
            let mut exact = products(&a, &w, inputs);
            let gradient = products(&g, &transposed(&w, inputs), outputs);
            for (i, (sum, size)) in exact.iter_mut().enumerate() {
                let bias = f64::from(bias[i % outputs]);
                (*sum, *size) = (*sum + bias, *size + bias.abs());
            }
            assert_within(&what, layer.forward(&x).data(), &exact, inputs + 1);
            assert_within(&what, layer.backward(&gy).data(), &gradient, outputs);
            let with = |exact: &[(f64, f64)], residual: &Act| -> Vec<_> {
                let all = exact.iter().zip(residual.data()).map(|(e, r)| (e, f64::from(*r)));
                all.map(|((sum, size), r)| (0.5 * (sum + r), 0.5 * (size + r.abs()))).collect()
            };
            let y = layer.forward_residual(&x, &gy, 0.5);
            assert_within(&what, y.data(), &with(&exact, &gy), inputs + 2);
            let gx = layer.backward_residual(&gy, Some(&x), 0.5);
            assert_within(&what, gx.data(), &with(&gradient, &x), outputs + 1);
            let packed = layer.packed();
            assert_eq!(packed.weight_bytes(), 4 * inputs.div_ceil(2) * outputs.next_multiple_of(16));
            assert_bits(&what, packed.forward_residual(&x, &gy, 0.5).data(), y.data());
            assert_bits(&what, packed.backward_residual(&gy, Some(&x), 0.5).data(), gx.data());
        }
    }
}

#[test]
fn numbers_are_rounded_to_the_nearest_and_ties_to_even() {
    if !possible() {
        return;
    }
    let ulp = 1.0 / 128.0;
    let cases = [
        (1.0 + 0.5 * ulp, 1.0),
        (1.0 + 0.5001 * ulp, 1.0 + ulp),
        (1.0 + 1.5 * ulp, 1.0 + 2.0 * ulp),
        (-1.0 - 0.5 * ulp, -1.0),
        (3.389e38, 3.389_531_4e38),
        (f32::MAX, f32::INFINITY),
        (f32::INFINITY, f32::INFINITY),
        // Smaller than any normal number.
        (1e-39, 0.0),
    ];
    for (x, expected) in cases {
        let one = Weights::from_f32([1, 1], &[1.0]).unwrap();
        let act = |x: f32| Act::from_nhwc(Shape::tokens(1, 1, 1), &[x]);
        assert_eq!(layer(&one, None).forward(&act(x)).data(), [expected], "input {x}");
        assert_eq!(layer(&one, None).backward(&act(x)).data(), [expected], "gradient {x}");
        let weight = Weights::from_f32([1, 1], &[x]).unwrap();
        assert_eq!(layer(&weight, None).forward(&act(1.0)).data(), [expected], "weight {x}");
        assert_eq!(layer(&weight, None).backward(&act(1.0)).data(), [expected], "weight of the gradient {x}");
    }
    let nan = layer(&Weights::from_f32([1, 2], &[1.0, 1.0]).unwrap(), None);
    let x = Act::from_nhwc(Shape::tokens(1, 1, 2), &[f32::from_bits(0x7fff_ffff), 1.0]);
    assert!(nan.forward(&x).data()[0].is_nan(), "what is no number stays none");
}

#[test]
fn lesser_instructions_refuse() {
    let weights = || Weights::from_f32([1, 1], &[1.0]).unwrap();
    for isa in Isa::available().into_iter().filter(|isa| *isa != Isa::Avx512) {
        isa.scope(|| {
            assert!(!Precision::Bf16.is_available());
            let refused = Linear::in_precision(Precision::Bf16, weights(), None).err();
            assert_eq!(refused, Some(Error::Instructions { precision: Precision::Bf16 }));
            assert!(Linear::in_precision(Precision::F32, weights(), None).is_ok());
            let attention = |precision| Attention::new(4, 1).unwrap().in_precision(precision);
            assert_eq!(attention(Precision::Bf16).err(), Some(Error::Instructions { precision: Precision::Bf16 }));
            assert!(attention(Precision::F32).is_ok());
        });
    }
}

/// Exact values and bounds of the error of attention's output and gradients, for queries, keys, values and an output
/// gradient that are bf16: the weights of the softmax, and the gradient of the scores, are rounded by at most one part
/// in 256.
struct Bounded([Vec<(f64, f64)>; 4]);

fn attention_reference([q, k, v, gy]: [&Act; 4], heads: usize) -> Bounded {
    const U: f64 = 1.02 / 256.0;
    /// What f32 adds.
    const SLACK: f64 = 1e-5;
    let (d, [queries, keys]) = (q.shape().c / heads, [q, k].map(|act| act.shape().pixels()));
    let scale = (d as f64).powf(-0.5);
    let mut out = [q, q, k, k].map(|act| vec![(0.0, 0.0); act.data().len()]);
    for head in 0..heads {
        let at = |act: &Act, t: usize, c: usize| f64::from(act.data()[(t * heads + head) * d + c]);
        let place = |t: usize, c: usize| (t * heads + head) * d + c;
        for t in 0..queries {
            let dot = |a: &Act, b: &Act, u: usize| (0..d).map(|c| at(a, t, c) * at(b, u, c)).sum::<f64>();
            let exps: Vec<f64> = (0..keys).map(|u| (scale * dot(q, k, u)).exp()).collect();
            let total: f64 = exps.iter().sum();
            let weights: Vec<f64> = exps.iter().map(|e| e / total).collect();
            let (mut pull_mean, mut mean_error) = (0.0, 0.0);
            for c in 0..d {
                let value: f64 = (0..keys).map(|u| weights[u] * at(v, u, c)).sum();
                let size: f64 = (0..keys).map(|u| weights[u] * at(v, u, c).abs()).sum();
                out[0][place(t, c)] = (value, (U + SLACK) * size);
                pull_mean += at(gy, t, c) * value;
                mean_error += at(gy, t, c).abs() * (U + SLACK) * size;
            }
            for (u, weight) in weights.iter().copied().enumerate() {
                let slope = weight * scale * (dot(gy, v, u) - pull_mean);
                let size: f64 = (0..d).map(|c| (at(gy, t, c) * at(v, u, c)).abs()).sum();
                let error = U * slope.abs() + weight * scale * (1.0 + U) * (mean_error + SLACK * size);
                for c in 0..d {
                    let mut add = |which: usize, t: usize, factor: f64, by: f64, error: f64| {
                        let (sum, bound) = &mut out[which][place(t, c)];
                        (*sum, *bound) = (*sum + factor * by, *bound + error * by.abs());
                    };
                    add(1, t, slope, at(k, u, c), error);
                    add(2, u, slope, at(q, t, c), error);
                    add(3, u, weight, at(gy, t, c), (U + SLACK) * weight);
                }
            }
        }
    }
    Bounded(out)
}

#[test]
fn attention_and_its_gradients() {
    if !possible() {
        return;
    }
    let mut random = Random(720);
    for (queries, keys, heads, d) in
        [(1, 1, 1, 1), (5, 7, 2, 5), (100, 301, 1, 40), (300, 257, 2, 16), (97, 515, 1, 64)]
    {
        let [q, k, v, gy] = [queries, keys, keys, queries].map(|tokens| {
            let mut act = random.act(1, 1, tokens, heads * d);
            act.data_mut().iter_mut().for_each(|v| *v = rounded(*v) as f32);
            act
        });
        let op = Attention::new(heads * d, heads).unwrap().in_precision(Precision::Bf16).unwrap();
        let (y, sums) = op.forward(&q, &k, &v, Bias::NONE);
        let [gq, gk, gv] = op.backward([&q, &k, &v], Bias::NONE, &y, &sums, &gy);
        let Bounded(exact) = attention_reference([&q, &k, &v, &gy], heads);
        for (what, found, exact) in ["output", "queries", "keys", "values"]
            .into_iter()
            .zip([&y, &gq, &gk, &gv])
            .zip(&exact)
            .map(|((what, found), exact)| (what, found, exact))
        {
            for (i, (found, (exact, bound))) in found.data().iter().zip(exact).enumerate() {
                let error = (f64::from(*found) - exact).abs();
                let case = format!("{what} of {queries}x{keys}, {heads} heads of {d}");
                assert!(
                    error <= *bound,
                    "{case}: entry {i} is {found}, {error:.2e} from {exact}, more than {bound:.2e}"
                );
            }
        }
    }
}
