//! What must not change a result: how samples are batched, how many threads work, whether a gradient is asked for.

use crate::edm_common;

use crate::edm_common::{batch, every_kind, options, random};
use dyweight_core::Tensor;
use dyweight_core::denoiser::{Condition, Denoiser, Differentiable, Levels, Model};
use dyweight_models::edm::{Config, Edm};
use dyweight_models::embedded;
use dyweight_nn::ConvAlgo;
use serde_json::json;

const SIGMAS: [f64; 4] = [0.02, 0.5, 4.0, 60.0];

type Answer = (Tensor, Tensor, Vec<f64>);

fn answer(model: &dyn Differentiable, x: &Tensor, sigmas: &[f64], cotangent: &Tensor) -> Answer {
    let (value, pullback) = model.with_pullback(x, &Levels::Each(sigmas.to_vec())).unwrap();
    let (to_x, to_sigma) = pullback(cotangent).unwrap();
    (value, to_x, to_sigma)
}

fn labels(model: &Edm, range: std::ops::Range<usize>) -> Condition {
    Condition::classes(range.filter(|_| model.classes() > 0).map(|i| i % model.classes()))
}

#[test]
fn batches_do_not_matter() {
    for (name, differing) in every_kind() {
        let config = Config::from_map(&options(differing)).unwrap();
        let model = Edm::random(config, 1, ConvAlgo::Winograd4).unwrap();
        let [c, h, w] = model.shape();
        let (x, cotangent) = (batch(1, [4, c, h, w]), batch(2, [4, c, h, w]));
        let whole = answer(&*model.bind(&labels(&model, 0..4)).unwrap(), &x, &SIGMAS, &cotangent);
        for range in [0..1, 1..4] {
            let bound = model.bind(&labels(&model, range.clone())).unwrap();
            let part =
                answer(&*bound, &x.slice(range.clone()), &SIGMAS[range.clone()], &cotangent.slice(range.clone()));
            assert_eq!(part.0, whole.0.slice(range.clone()), "{name}");
            assert_eq!(part.1, whole.1.slice(range.clone()), "{name}");
            assert_eq!(part.2, whole.2[range], "{name}");
        }
    }
}

#[test]
fn large_batches_are_their_samples() {
    let model = random(json!({"label_dim": 3}));
    let x = batch(1, [19, 2, 8, 8]);
    let sigmas: Vec<f64> = (0..19).map(|i| 0.1 + i as f64).collect();
    let bound = model.bind(&labels(&model, 0..19)).unwrap();
    let whole = bound.predict(&x, &Levels::Each(sigmas.clone())).unwrap();
    // In parts or in one piece, on however many threads, with a gradient or without.
    let cotangent = batch(2, [19, 2, 8, 8]);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| answer(&*bound, &x, &sigmas, &cotangent))
    };
    let (value, to_x, to_sigma) = on(1);
    assert_eq!(value, whole);
    assert!([2, 3, 5].into_iter().all(|threads| on(threads) == (value.clone(), to_x.clone(), to_sigma.clone())));
    let last = model.bind(&labels(&model, 18..19)).unwrap();
    let alone = answer(&*last, &x.slice(18..19), &sigmas[18..], &cotangent.slice(18..19));
    assert_eq!((alone.0.data(), alone.1.data()), (whole.sample(18), to_x.sample(18)));
    assert_eq!(alone.2, to_sigma[18..]);
    let refused = bound.with_pullback(&x, &Levels::Each(sigmas.clone())).unwrap().1(&x.slice(0..18));
    assert!(refused.unwrap_err().to_string().contains("cotangent"));
}

/// So are derivatives in a shift of the embedding, which come number by number.
#[test]
fn shifts_of_large_batches_are_those_of_their_samples() {
    let model = random(json!({}));
    let (bound, numbers) = (model.bind_rows(None), model.embedding_len().unwrap());
    let (x, cotangent, shifts) = (batch(1, [19, 2, 8, 8]), batch(2, [19, 2, 8, 8]), batch(3, [numbers, 19, 1, 1]));
    let told = |range: std::ops::Range<usize>| {
        let by = (0..numbers).map(|k| Levels::Each(shifts.sample(k)[range.clone()].to_vec())).collect();
        let levels = Levels::Shifted { level: Box::new(Levels::One(0.7)), by };
        let (_, pullback) = bound.with_pullback(&x.slice(range.clone()), &levels).unwrap();
        pullback(&cotangent.slice(range)).unwrap().1
    };
    let whole = told(0..19);
    for i in [0, 8, 18] {
        let alone: Vec<f64> = whole.chunks(19).map(|number| number[i]).collect();
        assert_eq!(told(i..i + 1), alone);
    }
}

#[test]
fn threads_do_not_matter() {
    let model = embedded::fashion().unwrap().build(ConvAlgo::default()).unwrap();
    let (x, cotangent) = (batch(1, [4, 1, 28, 28]), batch(2, [4, 1, 28, 28]));
    let bound = model.bind(&labels(&model, 0..4)).unwrap();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| answer(&*bound, &x, &SIGMAS, &cotangent))
    };
    let alone = on(1);
    assert_eq!(on(2), alone);
    assert_eq!(on(3), alone);
}

#[test]
fn one_level_for_all_is_the_same_level_for_each() {
    let bound_to = random(json!({}));
    let bound = bound_to.bind_rows(None);
    let x = batch(1, [2, 2, 8, 8]);
    assert_eq!(bound.predict(&x, &Levels::One(0.7)).unwrap(), bound.predict(&x, &Levels::Each(vec![0.7; 2])).unwrap());
    assert_eq!(bound.predict(&batch(1, [0, 2, 8, 8]), &Levels::One(0.7)).unwrap().samples(), 0);
}

#[test]
fn guidance_goes_from_unconditional_to_conditional_and_beyond() {
    let model = random(json!({"label_dim": 3}));
    let (x, levels) = (batch(1, [2, 2, 8, 8]), Levels::One(0.7));
    let ask = |labels: Option<Vec<usize>>, guidance: Option<f64>| {
        let condition = Condition::classes(labels.unwrap_or_default()).guided(guidance);
        model.denoiser(&condition).unwrap().predict(&x, &levels).unwrap()
    };
    let (unconditional, conditional) = (ask(None, None), ask(Some(vec![1, 2]), None));
    assert_eq!(ask(Some(vec![1, 2]), Some(0.0)), unconditional);
    let at = |g: f64| ask(Some(vec![1, 2]), Some(g));
    for i in 0..x.data().len() {
        let (u, c) = (unconditional.data()[i], conditional.data()[i]);
        assert!((at_index(&at, 1.0, i) - c).abs() < 1e-12);
        assert!((at_index(&at, 3.0, i) - (u + 3.0 * (c - u))).abs() < 1e-12);
        if i > 4 {
            break;
        }
    }
    // A class is the row with a one; rows may be anything.
    let one_hot = model.bind_rows(Some(vec![0.0, 1.0, 0.0, 0.0, 0.0, 1.0])).predict(&x, &levels).unwrap();
    assert_eq!(one_hot, conditional);
    assert_eq!(model.bind_rows(Some(vec![0.0; 6])).predict(&x, &levels).unwrap(), unconditional);
}

fn at_index(at: &dyn Fn(f64) -> Tensor, guidance: f64, index: usize) -> f64 {
    at(guidance).data()[index]
}

#[test]
fn convolution_algorithms_agree() {
    let x = batch(1, [1, 3, 32, 32]);
    let answers: Vec<Tensor> = [ConvAlgo::Direct, ConvAlgo::Winograd2, ConvAlgo::Winograd4]
        .map(|conv| {
            let differing =
                json!({"img_resolution": 32, "img_channels": 3, "model_channels": 16, "attn_resolutions": []});
            let model = Edm::random(Config::from_map(&options(differing)).unwrap(), 1, conv).unwrap();
            model.bind_rows(None).predict(&x, &Levels::One(1.0)).unwrap()
        })
        .into();
    assert!(edm_common::error(answers[1].data(), answers[0].data()) < 1e-5);
    assert!(edm_common::error(answers[2].data(), answers[0].data()) < 5e-5);
    assert_ne!(answers[2], answers[0]);
}
