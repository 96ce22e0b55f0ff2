//! Operations on sequences of tokens against f64 references; gradients against central differences of those.

use crate::common::*;
use dyweight_nn::*;

/// `f(row, output row)` for every `width` entries.
fn by_rows(x: &Exact, width: usize, f: impl Fn(usize, &[f64]) -> Vec<f64>) -> Exact {
    let rows = x.data.chunks_exact(width).enumerate();
    Exact { shape: x.shape, data: rows.flat_map(|(i, row)| f(i, row)).collect() }
}

fn layer_reference(x: &Exact, eps: f32, weight: &[f32], bias: &[f32]) -> Exact {
    by_rows(x, weight.len(), |_, row| {
        let count = row.len() as f64;
        let mean = row.iter().sum::<f64>() / count;
        let root = (row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count + f64::from(eps)).sqrt();
        let scaled = row.iter().zip(weight.iter().zip(bias));
        scaled.map(|(v, (w, b))| (v - mean) / root * f64::from(*w) + f64::from(*b)).collect()
    })
}

fn modulated(x: &Exact, scale: &Exact, shift: &Exact) -> Exact {
    let (c, len) = (x.shape.c, x.shape.sample_len());
    let at = |p: &Exact, i: usize| p.data[i / len * c + i % c];
    let data = x.data.iter().enumerate().map(|(i, v)| v * (1.0 + at(scale, i)) + at(shift, i)).collect();
    Exact { shape: x.shape, data }
}

/// The gradient `found` of `f` at `x`, along a random direction.
fn check_gradient(
    random: &mut Random,
    what: &str,
    [x, gy, found]: [&Act; 3],
    tolerance: f64,
    f: impl Fn(&Exact) -> Exact,
) {
    let direction = random.like(x);
    let scale = (dot(gy, gy) * dot(&direction, &direction) / direction.shape().len() as f64).sqrt();
    assert_near(what, dot(found, &direction), slope(x, &direction, gy, f), scale, tolerance);
}

#[test]
fn layer_norm() {
    on_every_isa(|isa| {
        let mut random = Random(200 + isa as u64);
        for ([n, tokens, c], eps, mean) in
            [([2, 5, 33], 1e-5, 0.0), ([1, 1, 7], 1e-6, 0.0), ([3, 40, 768], 1e-12, 2.0), ([1, 3, 16], 1e-5, 30.0)]
        {
            let (weight, bias) = (random.vec(c, 1.0), random.vec(c, 1.0));
            let mut x = random.act(n, 1, tokens, c);
            x.data_mut().iter_mut().for_each(|v| *v += mean);
            let gy = random.like(&x);
            let tolerance = 3e-6 * f64::from(1.0 + mean);
            for (norm, weight, bias) in [
                (LayerNorm::new(eps, &weight, &bias).unwrap(), weight, bias),
                (LayerNorm::plain(eps, c).unwrap(), vec![1.0; c], vec![0.0; c]),
            ] {
                let exact = |x: &Exact| layer_reference(x, eps, &weight, &bias);
                assert_close("layer norm", &norm.forward(&x), &exact(&Exact::of(&x)), tolerance);
                let gx = norm.backward(&x, &gy);
                check_gradient(&mut random, "layer norm", [&x, &gy, &gx], 4.0 * tolerance, exact);
                check_modulated(&mut random, &norm, &x, tolerance, exact);
            }
        }
        assert!(LayerNorm::new(1e-5, &[1.0; 4], &[1.0; 3]).is_err() && LayerNorm::plain(1e-5, 0).is_err());
    });
}

fn check_modulated(
    random: &mut Random,
    norm: &LayerNorm,
    x: &Act,
    tolerance: f64,
    reference: impl Fn(&Exact) -> Exact,
) {
    let Shape { n, c, .. } = x.shape();
    let (scale, shift, gy) = (random.act(n, 1, 1, c), random.act(n, 1, 1, c), random.like(x));
    let [ex, es, eb] = [x, &scale, &shift].map(Exact::of);
    let y = norm.forward_modulated(x, &scale, &shift);
    assert_close("modulated norm", &y, &modulated(&reference(&ex), &es, &eb), tolerance);
    let gradient = norm.backward_modulated(x, &scale, &gy);
    check_gradient(random, "tokens", [x, &gy, &gradient.x], 4.0 * tolerance, |x| modulated(&reference(x), &es, &eb));
    let normalised = reference(&ex);
    check_gradient(random, "scale", [&scale, &gy, &gradient.scale], 4.0 * tolerance, |s| {
        modulated(&normalised, s, &eb)
    });
    check_gradient(random, "shift", [&shift, &gy, &gradient.shift], 4.0 * tolerance, |b| {
        modulated(&normalised, &es, b)
    });
}

#[test]
fn rms_norm_of_tokens_and_heads() {
    on_every_isa(|isa| {
        let mut random = Random(220 + isa as u64);
        for (c, width, eps) in [(35, 35, 1e-6), (48, 12, 1e-6), (9, 1, 1e-3), (512, 128, 1e-6)] {
            let weight = random.vec(width, 1.0);
            let norm = RmsNorm::new(eps, &weight).unwrap();
            let x = random.act(2, 1, 7, c);
            let gy = random.like(&x);
            let exact = |x: &Exact| {
                by_rows(x, width, |_, row| {
                    let root = (row.iter().map(|v| v * v).sum::<f64>() / width as f64 + f64::from(eps)).sqrt();
                    row.iter().zip(&weight).map(|(v, w)| v / root * f64::from(*w)).collect()
                })
            };
            assert_close("rms norm", &norm.forward(&x), &exact(&Exact::of(&x)), 2e-6);
            check_gradient(&mut random, "rms norm", [&x, &gy, &norm.backward(&x, &gy)], 1e-5, exact);
        }
        assert!(RmsNorm::new(1e-6, &[]).is_err());
    });
}

#[test]
fn gated_residuals() {
    on_every_isa(|_| {
        let mut random = Random(230);
        let (x, y, gate) = (random.act(2, 1, 9, 21), random.act(2, 1, 9, 21), random.act(2, 1, 1, 21));
        let gz = random.like(&x);
        let [ex, ey, eg] = [&x, &y, &gate].map(Exact::of);
        let exact = |y: &Exact, gate: &Exact| {
            let data = ex.data.iter().enumerate().map(|(i, x)| x + gate.data[i / 189 * 21 + i % 21] * y.data[i]);
            Exact { shape: ex.shape, data: data.collect() }
        };
        assert_close("value", &gated_residual(&x, &gate, &y), &exact(&ey, &eg), 1e-6);
        let [gy, ggate] = gated_residual_backward(&gate, &y, &gz);
        check_gradient(&mut random, "branch", [&y, &gz, &gy], 1e-6, |y| exact(y, &eg));
        check_gradient(&mut random, "gate", [&gate, &gz, &ggate], 1e-6, |g| exact(&ey, g));
    });
}

/// `erfc` by its continued fraction or its series, to f64 accuracy.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    let root_pi = std::f64::consts::PI.sqrt();
    if x < 2.5 {
        let mut term = x;
        let mut sum = x;
        for k in 1..100 {
            term *= -x * x / f64::from(k);
            sum += term / f64::from(2 * k + 1);
        }
        return 1.0 - 2.0 / root_pi * sum;
    }
    let fraction = (1..200).rev().fold(0.0, |f, k| f64::from(k) / 2.0 / (x + f));
    (-x * x).exp() / root_pi / (x + fraction)
}

fn gelu64(gelu: Gelu, x: f64) -> f64 {
    match gelu {
        Gelu::Exact => 0.5 * x * erfc(-x / std::f64::consts::SQRT_2),
        Gelu::Tanh => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
        Gelu::Quick => x / (1.0 + (-1.702 * x).exp()),
    }
}

const SPELLINGS: [Gelu; 3] = [Gelu::Exact, Gelu::Tanh, Gelu::Quick];

#[test]
fn gelus() {
    on_every_isa(|_| {
        let points: Vec<f32> = (-1300..1300).map(|i| i as f32 * 0.01 + 0.003).collect();
        let (x, ones) = (Act::from_rows(1, &points), Act::from_rows(1, &vec![1.0; points.len()]));
        for gelu in SPELLINGS {
            let (y, slopes) = (gelu.forward(&x), gelu.backward(&x, &ones));
            for (i, x) in points.iter().map(|x| f64::from(*x)).enumerate() {
                let (y, slope, exact) = (f64::from(y.data()[i]), f64::from(slopes.data()[i]), gelu64(gelu, x));
                assert!((y - exact).abs() < 3e-7 * (1.0 + x.abs()), "{gelu:?}({x}) = {y}, not {exact}");
                let wanted = (gelu64(gelu, x + 1e-5) - gelu64(gelu, x - 1e-5)) / 2e-5;
                assert!((slope - wanted).abs() < 1e-6, "{gelu:?}'({x}) = {slope}, not {wanted}");
                // In the left tail digits are relative: where the exponential itself has them.
                if gelu == Gelu::Exact && (-9.0..0.0).contains(&x) {
                    assert!((y / exact - 1.0).abs() < 5e-6, "{gelu:?}({x}) = {y}, not {exact}");
                }
            }
            assert!(gelu.forward(&Act::from_rows(1, &[f32::NAN])).data()[0].is_nan(), "NaN stays NaN");
            let far = gelu.forward(&Act::from_rows(1, &[-1e4, 1e4]));
            assert!(far.data()[0].abs() < 1e-30 && far.data()[1] == 1e4, "{gelu:?} far out: {:?}", far.data());
        }
    });
}

#[test]
fn gates() {
    on_every_isa(|_| {
        let mut random = Random(240);
        for gelu in SPELLINGS {
            let (value, gate, gy) = (random.act(2, 1, 5, 19), random.act(2, 1, 5, 19), random.act(2, 1, 5, 19));
            let [ev, eg] = [&value, &gate].map(Exact::of);
            let exact = |v: &Exact, g: &Exact| {
                let data = v.data.iter().zip(&g.data).map(|(v, g)| v * gelu64(gelu, *g)).collect();
                Exact { shape: v.shape, data }
            };
            let y = gelu.gated(&value, &gate);
            assert_close("gated", &y, &exact(&ev, &eg), 1e-6);
            let [gvalue, ggate] = gelu.gated_backward(&value, &gate, &gy);
            check_gradient(&mut random, "value", [&value, &gy, &gvalue], 1e-6, |v| exact(v, &eg));
            check_gradient(&mut random, "gate", [&gate, &gy, &ggate], 1e-6, |g| exact(&ev, g));
            let halves = concat(&[&value, &gate]);
            assert_bits("halves", gelu.gated_halves(&halves).data(), y.data());
            let found = Exact::of(&gelu.gated_halves_backward(&halves, &gy));
            assert_close("halves' gradient", &concat(&[&gvalue, &ggate]), &found, 1e-6);
        }
    });
}

#[test]
fn rotations_by_axes() {
    on_every_isa(|_| {
        let mut random = Random(250);
        let (axes, theta, positions) = ([4, 6], 100.0, [0.0, 0.0, 1.0, 7.0, 3.0, 2.0]);
        let rotary = Rotary::along_axes(&positions, &axes, theta).unwrap();
        assert_eq!(rotary.tokens(), 3);
        let x = random.act(2, 1, 3, 20);
        let exact = |x: &Exact| {
            by_rows(x, 10, |row, x| {
                let at = &positions[row / 2 % 3 * 2..][..2];
                let angles = axes
                    .iter()
                    .zip(at)
                    .flat_map(|(d, at)| (0..d / 2).map(move |k| at * f64::powf(theta, -2.0 * k as f64 / *d as f64)));
                let pairs = angles.zip(x.chunks_exact(2));
                pairs.flat_map(|(a, p)| [p[0] * a.cos() - p[1] * a.sin(), p[1] * a.cos() + p[0] * a.sin()]).collect()
            })
        };
        assert_close("rotation", &rotary.forward(&x), &exact(&Exact::of(&x)), 1e-6);
        let gy = random.like(&x);
        check_gradient(&mut random, "rotation", [&x, &gy, &rotary.backward(&gy)], 1e-6, exact);
        assert!(Rotary::new(5, &[0.0; 5]).is_err() && Rotary::along_axes(&positions, &[3, 7], theta).is_err());
        assert!(Rotary::along_axes(&positions[1..], &axes, theta).is_err());
    });
}

#[test]
fn embeddings_by_number() {
    let table: Vec<f32> = (0..12).map(|v| v as f32).collect();
    let embedding = Embedding::new(4, 3, &table).unwrap();
    let y = embedding.forward(2, &[3, 0, 1, 1]).unwrap();
    assert_eq!(y.shape(), Shape::tokens(2, 2, 3));
    assert_eq!(y.data(), [9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 4.0, 5.0]);
    assert_eq!(embedding.forward(1, &[4]).unwrap_err().to_string(), "a table of 4 rows has no row 4");
    assert!(embedding.forward(2, &[0; 3]).is_err() && embedding.forward(0, &[]).is_err());
    assert!(Embedding::new(4, 3, &table[1..]).is_err());
}

#[test]
fn joining_sequences() {
    let mut random = Random(260);
    let (a, b, table) = (random.act(2, 1, 3, 5), random.act(2, 1, 4, 5), random.act(1, 1, 7, 5));
    let joined = concat_tokens(&[&a, &b]);
    assert_eq!(joined.sample(1)[15..20], b.sample(1)[..5]);
    let parts = split_tokens(&joined, &[3, 4]);
    assert_bits("first", parts[0].data(), a.data());
    assert_bits("second", parts[1].data(), b.data());
    let moved = add_to_each(&joined, &table);
    assert_eq!(moved.sample(1)[17], joined.sample(1)[17] + table.data()[17]);
    let picked = pick_tokens(&joined, &[6, 0]);
    assert_eq!((picked.sample(0), picked.sample(1)), (&b.sample(0)[15..], &a.sample(1)[..5]));
    let gy = random.like(&picked);
    let gx = pick_tokens_backward(&gy, &[6, 0], 7);
    assert_eq!(dot(&gx, &joined), dot(&gy, &picked));
    let image = a.clone().into_image([3, 1]);
    assert_eq!(image.shape(), Shape { n: 2, h: 3, w: 1, c: 5 });
}

#[test]
fn repeated_pixels() {
    on_every_isa(|_| {
        let mut random = Random(270);
        let x = random.act(2, 3, 5, 7);
        let y = upsample_nearest(&x);
        assert_eq!(y.size(), [6, 10]);
        for i in 0..6 * 10 * 7 {
            let (row, column, c) = (i / 70, i / 7 % 10, i % 7);
            assert_eq!(y.sample(1)[i], x.sample(1)[(row / 2 * 5 + column / 2) * 7 + c]);
        }
        let gy = random.like(&y);
        assert_near("gradient", dot(&upsample_nearest_backward(&gy), &x), dot(&gy, &y), dot(&gy, &gy), 1e-6);
    });
}
