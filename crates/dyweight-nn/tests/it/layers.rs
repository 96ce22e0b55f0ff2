//! Normalisation, attention, resampling, pooling and element-wise operations against f64 references; gradients against
//! central differences of those references.

use crate::common::*;
use dyweight_nn::*;

fn silu64(z: f64) -> f64 {
    z / (1.0 + (-z).exp())
}

struct Norm {
    groups: usize,
    eps: f64,
    weight: Vec<f32>,
    bias: Vec<f32>,
    silu: bool,
}

/// `added` and `scale_shift` are per sample and channel.
fn norm_reference(norm: &Norm, x: &Exact, added: Option<&Exact>, scale_shift: Option<&Exact>) -> Exact {
    let Shape { n, c, .. } = x.shape;
    let (pixels, per_group) = (x.shape.pixels(), c / norm.groups);
    let mut y = x.clone();
    for (i, v) in y.data.iter_mut().enumerate() {
        *v += added.map_or(0.0, |p| p.data[i / (pixels * c) * c + i % c]);
    }
    for (sample, group) in (0..n).flat_map(|s| (0..norm.groups).map(move |g| (s, g))) {
        let channels = group * per_group..(group + 1) * per_group;
        let places: Vec<_> =
            (0..pixels).flat_map(|p| channels.clone().map(move |i| (sample * pixels + p) * c + i)).collect();
        let mean = places.iter().map(|i| y.data[*i]).sum::<f64>() / places.len() as f64;
        let variance = places.iter().map(|i| (y.data[*i] - mean).powi(2)).sum::<f64>() / places.len() as f64;
        for at in places {
            let i = at % c;
            let mut z = (y.data[at] - mean) / (variance + norm.eps).sqrt() * f64::from(norm.weight[i])
                + f64::from(norm.bias[i]);
            if let Some(p) = scale_shift {
                z = z * (1.0 + p.data[sample * 2 * c + i]) + p.data[sample * 2 * c + c + i];
            }
            y.data[at] = if norm.silu { silu64(z) } else { z };
        }
    }
    y
}

fn check_norm(random: &mut Random, [n, h, w, c]: [usize; 4], groups: usize, silu: bool, mean: f32) {
    let (weight, bias) = (random.vec(c, 1.0), random.vec(c, 0.5));
    let activation = if silu { Activation::Silu } else { Activation::None };
    let engine = GroupNorm::new(groups, 1e-5, &weight, &bias, activation).unwrap();
    let norm = Norm { groups, eps: f64::from(1e-5f32), weight, bias, silu };
    let mut x = random.act(n, h, w, c);
    x.data_mut().iter_mut().for_each(|v| *v += mean);
    let (added, scale_shift) = (random.act(n, 1, 1, c), random.act(n, 1, 1, 2 * c));
    let (gy, v, r) = (random.like(&x), random.like(&x), random.like(&x));
    for modulation in [Modulation::None, Modulation::Bias(&added), Modulation::ScaleShift(&scale_shift)] {
        let exact = |x: &Exact, p: Option<&Exact>| match modulation {
            Modulation::None => norm_reference(&norm, x, None, None),
            Modulation::Bias(a) => norm_reference(&norm, x, Some(p.unwrap_or(&Exact::of(a))), None),
            Modulation::ScaleShift(a) => norm_reference(&norm, x, None, Some(p.unwrap_or(&Exact::of(a)))),
        };
        let what =
            format!("norm {n}x{h}x{w}x{c} in {groups}, {silu}, {modulation:.0?}").chars().take(60).collect::<String>();
        let (y, stats) = engine.forward(&x, modulation);
        // A large mean costs digits of the input itself.
        let tolerance = 5e-6 * f64::from(1.0 + mean.abs());
        assert_close(&what, &y, &exact(&Exact::of(&x), None), tolerance);
        let gradient = engine.backward(&x, &stats, modulation, &gy, Some((&r, 0.5)));
        let scale = (dot(&gy, &gy) * dot(&v, &v)).sqrt() / (v.shape().len() as f64).sqrt();
        let wanted = slope(&x, &v, &gy, |x| exact(x, None)) + 0.5 * dot(&r, &v);
        assert_near(&what, dot(&gradient.x, &v), wanted, scale, 4.0 * tolerance);
        if let (Modulation::Bias(p) | Modulation::ScaleShift(p), Some(found)) = (modulation, gradient.modulation) {
            let direction = random.like(p);
            let wanted = slope(p, &direction, &gy, |p| exact(&Exact::of(&x), Some(p)));
            assert_near(&what, dot(&found, &direction), wanted, scale, 10.0 * tolerance);
        }
    }
}

#[test]
fn group_norm() {
    on_every_isa(|isa| {
        let mut random = Random(20 + isa as u64);
        for (shape, groups) in [
            ([2, 4, 4, 32], 8),
            ([1, 7, 7, 20], 5),
            ([3, 1, 1, 12], 3),
            ([2, 16, 16, 96], 24),
            ([1, 12, 5, 4], 1),
            ([1, 33, 31, 40], 10),
        ] {
            for silu in [false, true] {
                check_norm(&mut random, shape, groups, silu, 0.0);
            }
        }
        check_norm(&mut random, [2, 6, 6, 16], 4, true, 30.0);
    });
}

#[test]
fn norms_that_do_not_fit_are_errors() {
    assert!(GroupNorm::new(3, 1e-5, &[1.0; 16], &[0.0; 16], Activation::None).is_err());
    assert!(GroupNorm::new(4, 1e-5, &[1.0; 16], &[0.0; 15], Activation::None).is_err());
    assert!(GroupNorm::new(0, 1e-5, &[1.0; 16], &[0.0; 16], Activation::None).is_err());
}

fn attention_reference([q, k, v]: [&Exact; 3], heads: usize) -> Exact {
    let (d, queries, keys) = (q.shape.c / heads, q.shape.pixels(), k.shape.pixels());
    let mut out = Exact::zeros(q.shape);
    for (n, head, t) in (0..q.shape.n).flat_map(|n| (0..heads).flat_map(move |h| (0..queries).map(move |t| (n, h, t))))
    {
        let place = |tokens: usize, t: usize| (n * tokens + t) * q.shape.c + head * d;
        let score = |u: usize| {
            (0..d).map(|c| q.data[place(queries, t) + c] * k.data[place(keys, u) + c]).sum::<f64>() / (d as f64).sqrt()
        };
        let weights: Vec<f64> = (0..keys).map(|u| score(u).exp()).collect();
        let total: f64 = weights.iter().sum();
        for c in 0..d {
            out.data[place(queries, t) + c] = (0..keys).map(|u| weights[u] / total * v.data[place(keys, u) + c]).sum();
        }
    }
    out
}

#[test]
fn attention_of_queries_to_other_keys() {
    on_every_isa(|isa| {
        let mut random = Random(40 + isa as u64);
        for (n, queries, keys, c, heads) in [(2, 9, 5, 12, 3), (1, 49, 100, 20, 1), (1, 1, 1, 4, 2), (2, 64, 64, 64, 2)]
        {
            let (q, k, v) = (random.act(n, 1, queries, c), random.act(n, 1, keys, c), random.act(n, 1, keys, c));
            let exact = [&q, &k, &v].map(Exact::of);
            let [eq, ek, ev] = [&exact[0], &exact[1], &exact[2]];
            assert_close("attention", &attention(&q, &k, &v, heads), &attention_reference([eq, ek, ev], heads), 3e-6);
            let gy = random.like(&q);
            let [gq, gk, gv] = attention_backward(&q, &k, &v, heads, &gy);
            let scale = dot(&gy, &gy).sqrt();
            let (dq, dk, dv) = (random.like(&q), random.like(&k), random.like(&v));
            let wanted = slope(&q, &dq, &gy, |q| attention_reference([q, ek, ev], heads));
            assert_near("queries", dot(&gq, &dq), wanted, scale, 1e-5);
            let wanted = slope(&k, &dk, &gy, |k| attention_reference([eq, k, ev], heads));
            assert_near("keys", dot(&gk, &dk), wanted, scale, 1e-5);
            let wanted = slope(&v, &dv, &gy, |v| attention_reference([eq, ek, v], heads));
            assert_near("values", dot(&gv, &dv), wanted, scale, 1e-5);
        }
    });
}

#[test]
fn self_attention_is_attention_of_the_parts() {
    let mut random = Random(50);
    let qkv = random.act(2, 4, 4, 3 * 24);
    let parts = split(&qkv, &[24; 3]);
    let op = SelfAttention::new(24, 3).unwrap();
    assert_bits("value", op.forward(&qkv).data(), attention(&parts[0], &parts[1], &parts[2], 3).data());
    let gy = random.act(2, 4, 4, 24);
    let [gq, gk, gv] = attention_backward(&parts[0], &parts[1], &parts[2], 3, &gy);
    assert_bits("gradient", op.backward(&qkv, &gy).data(), concat(&[&gq, &gk, &gv]).data());
    assert!(SelfAttention::new(24, 5).is_err());
}

/// Down-sampling straight from its formula, both axes.
fn down_reference(taps: &[f32], x: &Exact, padding: usize) -> Exact {
    let (sum, len) = (taps.iter().sum::<f32>(), taps.len());
    let size = [x.shape.h, x.shape.w].map(|l| (l + 2 * padding - len) / 2 + 1);
    let mut y = Exact::zeros(x.shape.with_size(size));
    let Shape { n, h, w, c } = y.shape;
    for i in 0..n * h * w * c {
        let (s, u, v, channel) = (i / (h * w * c), i / (w * c) % h, i / c % w, i % c);
        for (a, b) in (0..len).flat_map(|a| (0..len).map(move |b| (a, b))) {
            let weight = f64::from(taps[a] / sum) * f64::from(taps[b] / sum);
            let at = |o: usize, k: usize| (2 * o + k) as isize - padding as isize;
            y.data[i] += weight * x.padded(s, at(u, a), at(v, b), channel);
        }
    }
    y
}

#[test]
fn resampling() {
    on_every_isa(|_| {
        let mut random = Random(60);
        for taps in [&[1.0, 1.0][..], &[1.0, 3.0, 3.0, 1.0], &[1.0, 2.0, 3.0, 4.0]] {
            let fir = Fir::new(taps).unwrap();
            for padding in [0, fir.padding()] {
                let x = random.act(2, 6, 10, 19);
                let y = fir.down_padded(&x, padding);
                assert_close("down", &y, &down_reference(taps, &Exact::of(&x), padding), 1e-6);
                let gy = random.like(&y);
                let gx = fir.down_padded_backward(&gy, padding, x.size());
                assert_near("down gradient", dot(&gx, &x), dot(&gy, &y), dot(&gy, &gy), 1e-6);
            }
            // Up-sampling is four times the adjoint of down-sampling.
            let (small, large) = (random.act(1, 5, 3, 7), random.act(1, 10, 6, 7));
            let down = down_reference(taps, &Exact::of(&large), fir.padding());
            assert_near("up", dot(&fir.up(&small), &large), 4.0 * down.dot(&small), dot(&small, &small), 1e-6);
            assert_near(
                "up gradient",
                dot(&fir.up_backward(&large), &small),
                4.0 * down.dot(&small),
                dot(&small, &small),
                1e-6,
            );
        }
        assert!(Fir::new(&[1.0, 2.0, 1.0]).is_err() && Fir::new(&[]).is_err());
    });
}

#[test]
fn up_sampling_by_hand() {
    let x = Act::from_nhwc(Shape { n: 1, h: 1, w: 3, c: 1 }, &[4.0, 8.0, 16.0]);
    let nearest = Fir::new(&[1.0, 1.0]).unwrap().up(&x);
    assert_eq!(&nearest.data()[..6], [4.0, 4.0, 8.0, 8.0, 16.0, 16.0]);
    // y[2m] = (3x[m] + x[m−1])/4, y[2m+1] = (3x[m] + x[m+1])/4 per axis; the one row counts 3/4.
    let smooth = Fir::new(&[1.0, 3.0, 3.0, 1.0]).unwrap().up(&x);
    assert_eq!(&smooth.data()[..6], [3.0, 5.0, 7.0, 10.0, 14.0, 12.0].map(|v| v * 0.75));
}

#[test]
fn pooling() {
    on_every_isa(|_| {
        let mut random = Random(70);
        for (kernel, stride, padding) in [(3, 2, 0), (2, 2, 0), (3, 1, 1), (5, 3, 2)] {
            let x = random.act(2, 9, 11, 5);
            for count_padding in [false, true] {
                let pool = AvgPool::new(kernel, stride, padding, count_padding);
                let y = pool.forward(&x);
                let gy = random.like(&y);
                assert_near("mean", dot(&pool.backward(&gy, x.size()), &x), dot(&gy, &y), dot(&gy, &gy), 1e-6);
                check_windows(&x, &y, [kernel, stride, padding], |window, found| {
                    let count = if count_padding { kernel * kernel } else { window.len() };
                    (window.iter().sum::<f32>() / count as f32 - found).abs() < 1e-5
                });
            }
            let pool = MaxPool::new(kernel, stride, padding);
            let y = pool.forward(&x);
            check_windows(&x, &y, [kernel, stride, padding], |window, found| {
                window.iter().copied().fold(f32::MIN, f32::max) == found
            });
            // Piecewise linear: the derivative along x itself gives the value back.
            let gy = random.like(&y);
            let (same, winners) = pool.forward_recorded(&x);
            assert_bits("recorded maximum", same.data(), y.data());
            assert_near("maximum", dot(&pool.backward(&winners, &gy), &x), dot(&gy, &y), dot(&gy, &gy), 1e-6);
            // And along any direction, against the maxima of moved images.
            let direction = random.like(&x);
            let wanted = slope(&x, &direction, &gy, |x| max_reference(x, y.shape(), [kernel, stride, padding]));
            assert_near("its slope", dot(&pool.backward(&winners, &gy), &direction), wanted, dot(&gy, &gy), 1e-6);
        }
    });
}

fn max_reference(x: &Exact, shape: Shape, [kernel, stride, padding]: [usize; 3]) -> Exact {
    let mut y = Exact::zeros(shape);
    let Shape { h, w, c, .. } = shape;
    let range = |o: usize, len: usize| (o * stride).saturating_sub(padding)..(o * stride + kernel - padding).min(len);
    for (i, y) in y.data.iter_mut().enumerate() {
        let (s, u, v, channel) = (i / (h * w * c), i / (w * c) % h, i / c % w, i % c);
        let places = range(u, x.shape.h).flat_map(|a| range(v, x.shape.w).map(move |b| (a, b)));
        *y = places.map(|(a, b)| x.at(s, a, b, channel)).fold(f64::MIN, f64::max);
    }
    y
}

fn check_windows(x: &Act, y: &Act, [kernel, stride, padding]: [usize; 3], fits: impl Fn(&[f32], f32) -> bool) {
    let (exact, out) = (Exact::of(x), Exact::of(y));
    let Shape { n, h, w, c } = y.shape();
    assert_eq!(h, (x.shape().h + 2 * padding - kernel) / stride + 1);
    for i in 0..n * h * w * c {
        let (s, u, v, channel) = (i / (h * w * c), i / (w * c) % h, i / c % w, i % c);
        let range =
            |o: usize, len: usize| (o * stride).saturating_sub(padding)..(o * stride + kernel - padding).min(len);
        let places = range(u, x.shape().h).flat_map(|a| range(v, x.shape().w).map(move |b| (a, b)));
        let window: Vec<f32> = places.map(|(a, b)| exact.at(s, a, b, channel) as f32).collect();
        assert!(fits(&window, out.data[i] as f32), "window {i}");
    }
}

#[test]
fn maximum_gradient_goes_to_the_first() {
    let x = Act::from_nhwc(Shape { n: 1, h: 2, w: 2, c: 1 }, &[1.0, 3.0, 3.0, 3.0]);
    let gy = Act::from_rows(1, &[5.0]);
    let pool = MaxPool::new(2, 2, 0);
    let (_, winners) = pool.forward_recorded(&x);
    assert_eq!(pool.backward(&winners, &gy).data(), [0.0, 5.0, 0.0, 0.0]);
    // Padding stands before the first maximum, and never wins: all four windows see the 3 at the upper right first.
    let pool = MaxPool::new(3, 1, 1);
    let (_, winners) = pool.forward_recorded(&x);
    let gy = Act::from_nhwc(x.shape(), &[1.0, 2.0, 4.0, 8.0]);
    assert_eq!(pool.backward(&winners, &gy).data(), [0.0, 15.0, 0.0, 0.0]);
}

#[test]
fn elementwise() {
    on_every_isa(|_| {
        let mut random = Random(80);
        let (x, gy, v, p) =
            (random.act(2, 5, 7, 9), random.act(2, 5, 7, 9), random.act(2, 5, 7, 9), random.act(2, 1, 1, 9));
        let map = |x: &Exact, f: fn(f64) -> f64| Exact { shape: x.shape, data: x.data.iter().map(|v| f(*v)).collect() };
        assert_close("silu", &silu(&x), &map(&Exact::of(&x), silu64), 1e-6);
        let wanted = slope(&x, &v, &gy, |x| map(x, silu64));
        assert_near("silu gradient", dot(&silu_backward(&x, &gy), &v), wanted, dot(&gy, &gy), 1e-6);
        assert_close("relu", &relu(&x), &map(&Exact::of(&x), |v| v.max(0.0)), 0.0);
        assert_near("relu gradient", dot(&relu_backward(&x, &gy), &x), dot(&relu(&x), &gy), dot(&gy, &gy), 1e-6);
        let mut masked = gy.clone();
        Positive::of(&relu(&x)).mask(&mut masked);
        assert_bits("masked gradient", masked.data(), relu_backward(&x, &gy).data());
        let sum = add_scaled(&x, &gy, 0.25);
        let mut other = x.clone();
        other.add_assign(&gy);
        other.scale_assign(0.25);
        assert_bits("sum", sum.data(), other.data());
        assert_bits("scaled", scaled(&x, 2.0).data(), add_scaled(&x, &x, 1.0).data());
        let moved = add_per_sample(&x, &p);
        assert_eq!(moved.sample(1)[9 * 3 + 4], x.sample(1)[9 * 3 + 4] + p.sample(1)[4]);
        assert_near(
            "vector gradient",
            dot(&spatial_sum(&gy), &p),
            dot(&gy, &moved) - dot(&gy, &x),
            dot(&gy, &gy),
            1e-6,
        );
    });
}

#[test]
fn joining_and_splitting() {
    let mut random = Random(90);
    let (a, b) = (random.act(2, 3, 4, 5), random.act(2, 3, 4, 11));
    let joined = concat(&[&a, &b]);
    let parts = split(&joined, &[5, 11]);
    assert_bits("first", parts[0].data(), a.data());
    assert_bits("second", parts[1].data(), b.data());
    assert_eq!(joined.sample(1)[16 + 5], b.sample(1)[11]);
}
