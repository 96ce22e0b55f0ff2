//! Streaming attention against the plain formula in f64; gradients against central differences of that.

use crate::common::*;
use dyweight_nn::*;

struct Case {
    n: usize,
    queries: usize,
    keys: usize,
    heads: usize,
    width: usize,
    scale: Option<f32>,
    causal: bool,
    key_bias: bool,
    pair_bias: bool,
}

const PLAIN: Case = Case {
    n: 1,
    queries: 5,
    keys: 5,
    heads: 1,
    width: 4,
    scale: None,
    causal: false,
    key_bias: false,
    pair_bias: false,
};

fn reference(case: &Case, [q, k, v]: [&Exact; 3], bias: Bias<'_>) -> Exact {
    let Case { n, queries, keys, heads, width: d, .. } = *case;
    let scale = case.scale.map_or((d as f64).powf(-0.5), f64::from);
    let mut out = Exact::zeros(q.shape);
    for (sample, head, t) in (0..n).flat_map(|n| (0..heads).flat_map(move |h| (0..queries).map(move |t| (n, h, t)))) {
        let place = |tokens: usize, t: usize| ((sample * tokens + t) * heads + head) * d;
        let score = |u: usize| {
            let product: f64 = (0..d).map(|c| q.data[place(queries, t) + c] * k.data[place(keys, u) + c]).sum();
            let keys_bias = bias.keys.map_or(0.0, |b| f64::from(b.sample(sample)[u]));
            let pairs_bias = bias.pairs.map_or(0.0, |b| f64::from(b[(head * queries + t) * keys + u]));
            let hidden = if case.causal && u > t { f64::NEG_INFINITY } else { 0.0 };
            product * scale + keys_bias + pairs_bias + hidden
        };
        let scores: Vec<f64> = (0..keys).map(score).collect();
        let largest = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        for c in 0..d {
            let sum: f64 = (0..keys).map(|u| weights[u] * v.data[place(keys, u) + c]).sum();
            out.data[place(queries, t) + c] = if total > 0.0 { sum / total } else { 0.0 };
        }
    }
    out
}

fn check(random: &mut Random, case: &Case) {
    let Case { n, queries, keys, heads, width, .. } = *case;
    let c = heads * width;
    let [q, k, v] = [queries, keys, keys].map(|tokens| random.act(n, 1, tokens, c));
    let mut key_bias = random.act(n, 1, 1, keys);
    // The last key of each sample is hidden.
    key_bias.data_mut().iter_mut().skip(keys - 1).step_by(keys).for_each(|b| *b = f32::NEG_INFINITY);
    let pair_bias = random.vec(heads * queries * keys, 1.0);
    let bias = Bias { keys: case.key_bias.then_some(&key_bias), pairs: case.pair_bias.then_some(&pair_bias[..]) };
    let mut op = Attention::new(c, heads).unwrap();
    op = case.scale.map_or(op, |scale| op.with_scale(scale));
    op = if case.causal { op.causal() } else { op };
    let exact = [&q, &k, &v].map(Exact::of);
    let [eq, ek, ev] = [&exact[0], &exact[1], &exact[2]];
    let (y, sums) = op.forward(&q, &k, &v, bias);
    assert_close("attention", &y, &reference(case, [eq, ek, ev], bias), 4e-6);
    let gy = random.like(&q);
    let [gq, gk, gv] = op.backward([&q, &k, &v], bias, &y, &sums, &gy);
    let scale = dot(&gy, &gy).sqrt();
    let (dq, dk, dv) = (random.like(&q), random.like(&k), random.like(&v));
    let wanted = slope(&q, &dq, &gy, |q| reference(case, [q, ek, ev], bias));
    assert_near("queries", dot(&gq, &dq), wanted, scale, 1e-5);
    let wanted = slope(&k, &dk, &gy, |k| reference(case, [eq, k, ev], bias));
    assert_near("keys", dot(&gk, &dk), wanted, scale, 1e-5);
    let wanted = slope(&v, &dv, &gy, |v| reference(case, [eq, ek, v], bias));
    assert_near("values", dot(&gv, &dv), wanted, scale, 1e-5);
}

#[test]
fn widths_and_counts() {
    on_every_isa(|isa| {
        let mut random = Random(300 + isa as u64);
        for (n, queries, keys, heads, width) in [
            (2, 9, 5, 3, 4),
            (1, 1, 1, 2, 7),
            (1, 130, 77, 2, 40),
            (2, 96, 256, 1, 64),
            (1, 97, 257, 1, 80),
            (1, 33, 300, 1, 128),
            (1, 20, 19, 1, 160),
        ] {
            check(&mut random, &Case { n, queries, keys, heads, width, ..PLAIN });
        }
    });
}

#[test]
fn scales_masks_and_biases() {
    on_every_isa(|isa| {
        let mut random = Random(320 + isa as u64);
        for tokens in [2, 16, 77, 300] {
            let case = |causal, key_bias, pair_bias| Case {
                queries: tokens,
                keys: tokens,
                heads: 2,
                scale: Some(0.7),
                n: 2,
                causal,
                key_bias,
                pair_bias,
                ..PLAIN
            };
            check(&mut random, &case(true, false, false));
            check(&mut random, &case(false, true, false));
            check(&mut random, &case(false, false, true));
            check(&mut random, &case(true, true, true));
        }
    });
}

#[test]
fn several_stretches_of_keys() {
    on_every_isa(|isa| {
        let mut random = Random(340 + isa as u64);
        check(&mut random, &Case { queries: 20, keys: 2500, heads: 2, width: 5, ..PLAIN });
        check(&mut random, &Case { queries: 1300, keys: 1300, width: 3, causal: true, ..PLAIN });
    });
}

#[test]
fn large_scores_do_not_overflow() {
    on_every_isa(|_| {
        let mut random = Random(350);
        let case = Case { queries: 40, keys: 700, width: 8, scale: Some(40.0), ..PLAIN };
        let [q, k, v] = [40, 700, 700].map(|tokens| random.act(1, 1, tokens, 8));
        let exact = [&q, &k, &v].map(Exact::of);
        let op = Attention::new(8, 1).unwrap().with_scale(40.0);
        let (y, _) = op.forward(&q, &k, &v, Bias::NONE);
        // Scores of about 300 have an error of 3e-5 each.
        assert_close("sharp attention", &y, &reference(&case, [&exact[0], &exact[1], &exact[2]], Bias::NONE), 2e-4);
    });
}

#[test]
fn a_query_without_keys_gathers_nothing() {
    on_every_isa(|_| {
        let mut random = Random(360);
        let (q, k, v) = (random.act(2, 1, 3, 4), random.act(2, 1, 300, 4), random.act(2, 1, 300, 4));
        let mut hidden = Act::zeros(Shape::tokens(2, 1, 300));
        hidden.data_mut()[300..].fill(f32::NEG_INFINITY);
        let bias = Bias { keys: Some(&hidden), pairs: None };
        let op = Attention::new(4, 2).unwrap();
        let (y, sums) = op.forward(&q, &k, &v, bias);
        assert!(y.sample(1).iter().all(|v| *v == 0.0) && y.sample(0).iter().all(|v| *v != 0.0));
        let gradients = op.backward([&q, &k, &v], bias, &y, &sums, &q);
        assert!(gradients.iter().all(|g| g.sample(1).iter().all(|v| *v == 0.0)));
        assert!(gradients.iter().all(|g| g.sample(0).iter().all(|v| v.is_finite() && *v != 0.0)));
    });
}

#[test]
fn heads_that_do_not_fit_are_errors() {
    assert!(Attention::new(10, 3).is_err() && Attention::new(10, 0).is_err());
}

#[test]
fn agrees_with_attention_in_one_go() {
    let mut random = Random(370);
    let (q, k, v) = (random.act(2, 8, 8, 48), random.act(2, 1, 50, 48), random.act(2, 1, 50, 48));
    let (y, _) = Attention::new(48, 3).unwrap().forward(&q, &k, &v, Bias::NONE);
    assert_close("value", &y, &Exact::of(&attention(&q, &k, &v, 3)), 2e-6);
}

#[test]
#[should_panic(expected = "keys in causal attention")]
fn causal_attention_needs_as_many_keys() {
    let mut random = Random(380);
    let (q, k) = (random.act(1, 1, 3, 4), random.act(1, 1, 2, 4));
    Attention::new(4, 1).unwrap().causal().forward(&q, &k, &k, Bias::NONE);
}
