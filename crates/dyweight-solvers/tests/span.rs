//! A wider span: gradients of every number, DyWeight's bits at the start, and what is refused.

use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::{Denoiser, Differentiable, Embedding, Info, Levels, Prediction, Pullback};
use dyweight_core::mixture::Mixture;
use dyweight_core::noise::Stream;
use dyweight_core::sample::{Plan, integrate};
use dyweight_core::schedule::Schedule;
use dyweight_core::solver::Initial;
use dyweight_core::tape::{Cotangent, Memory, Tape};
use dyweight_core::tensor::dot;
use dyweight_core::{Error, Result, Tensor};
use dyweight_solvers::Weights;
use dyweight_solvers::learned::{Built, Frame, LearnedSolver};
use dyweight_solvers::span::{Bands, EmbeddingShift, Operator, Span, StateWeights};

const STEPS: usize = 4;
/// Two channels of pictures of 3 × 4.
const SHAPE: [usize; 3] = [2, 3, 4];
const LEN: usize = 24;

/// Numbers of the embedding.
const NUMBERS: usize = 3;

/// A mixture that offers an embedding: its parameters move the state along directions of their own.
struct Embedded(Mixture);

impl Embedded {
    fn direction(k: usize) -> Vec<f64> {
        Stream::new(70 + k as u64).normals(LEN)
    }

    fn moved(x: &Tensor, levels: &Levels) -> Tensor {
        let (by, mut moved) = (levels.parts().1, x.clone());
        for (k, by) in by.iter().enumerate() {
            let direction = Self::direction(k);
            let samples = moved.data_mut().chunks_mut(LEN).enumerate();
            samples.for_each(|(i, x)| x.iter_mut().zip(&direction).for_each(|(x, d)| *x += by.of(i) * d));
        }
        moved
    }
}

impl Denoiser for Embedded {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        self.0.predict(&Self::moved(x, levels), levels.parts().0)
    }

    fn info(&self) -> Info {
        Info { embedding: Embedding::Of(NUMBERS), ..self.0.info() }
    }
}

impl Differentiable for Embedded {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        let ((level, by), moved) = (levels.parts(), Self::moved(x, levels));
        let (value, back) = self.0.with_pullback(&moved, level)?;
        let params = by.len();
        let back = move |cotangent: &Tensor| {
            let (to_x, mut told) = back(cotangent)?;
            for direction in (0..params).map(Self::direction) {
                told.extend((0..to_x.samples()).map(|i| dot(to_x.sample(i), &direction)));
            }
            Ok((to_x, told))
        };
        Ok((value, Box::new(back)))
    }
}

fn model(flow: bool) -> Embedded {
    Embedded(mixture(flow))
}

fn mixture(flow: bool) -> Mixture {
    let mut z = Stream::new(11);
    let components = (0..3).map(|k| (z.normals(LEN), 0.25 + 0.1 * k as f64, 1.0 + k as f64)).collect();
    let mixture = Mixture::new(components).unwrap();
    if flow { mixture.as_flow() } else { mixture }
}

fn frame(flow: bool, afs: bool) -> Frame {
    let (schedule, range, prediction) = match flow {
        false => (Schedule::Karras { rho: 5.0 }, (0.1, 10.0), Prediction::Denoised),
        true => {
            let sigmas: Vec<f64> = (0..=STEPS).map(|i| 0.97 - 0.9 * i as f64 / STEPS as f64).collect();
            (Schedule::Explicit { sigmas }, (0.07, 0.97), Prediction::Velocity)
        }
    };
    Frame { afs, shape: Some(SHAPE), ..Frame::new(schedule, STEPS, range, prediction).unwrap() }
}

fn batch(seed: u64) -> Tensor {
    let [c, h, w] = SHAPE;
    Tensor::new([2, c, h, w], Stream::new(seed).normals(2 * LEN)).unwrap()
}

fn weights(span: impl Fn(&[usize]) -> Span, afs: bool) -> Weights {
    let rows = Initial::Ab.rows(STEPS, 3);
    let span = span(&rows.iter().map(Vec::len).collect::<Vec<_>>());
    Weights { span, ..Weights::new(rows, vec![0.95; STEPS - usize::from(afs)]) }
}

fn run(tape: &mut Tape<'_>, built: &Built, afs: bool) -> Result<Tensor> {
    let plan = Plan { solver: &*built.solver, times: built.times.clone(), afs, denoise_to_zero: false };
    let start = tape.start(batch(5));
    integrate(tape, &plan, &start, &mut |_| Ok(())).map(|x| x.tensor().clone())
}

fn sampled(weights: &Weights, flow: bool, afs: bool) -> Result<Tensor> {
    let built = (weights as &dyn LearnedSolver).fixed(&frame(flow, afs))?;
    run(&mut Tape::sampling(&model(flow)).analytic_first(afs), &built, afs)
}

type Make = fn(&[usize]) -> Span;

/// Every switch alone, and all together.
const SPANS: [(&str, Make); 8] = [
    ("state", |widths| Span { state: Some(StateWeights::zero(widths.len())), ..Span::default() }),
    ("bands", |widths| Span { bands: Some(Bands::zero(&[1.0, 2.5, 3.2], widths)), ..Span::default() }),
    ("two bands", |widths| Span { bands: Some(Bands::zero(&[2.0], widths)), ..Span::default() }),
    ("operator:3", |widths| Span { operator: Some(Operator::zero(3, 2, false, widths)), ..Span::default() }),
    ("operator:5", |widths| Span { operator: Some(Operator::zero(5, 2, false, widths)), ..Span::default() }),
    ("operator:3:mixed", |widths| Span { operator: Some(Operator::zero(3, 2, true, widths)), ..Span::default() }),
    ("embedding", |widths| Span {
        embedding: Some(EmbeddingShift::zero(widths.len() - 1, NUMBERS)),
        ..Span::default()
    }),
    ("all", |widths| Span {
        state: Some(StateWeights::zero(widths.len())),
        bands: Some(Bands::zero(&[1.0, 2.5], widths)),
        operator: Some(Operator::zero(3, 2, true, widths)),
        embedding: Some(EmbeddingShift::zero(widths.len() - 1, NUMBERS)),
        ..Span::default()
    }),
];

#[test]
fn a_span_of_zeros_has_the_bits_of_dyweight() {
    for (flow, afs) in [(false, false), (false, true), (true, false)] {
        let plain = sampled(&weights(|_| Span::default(), afs), flow, afs).unwrap();
        for (name, span) in SPANS {
            assert_eq!(sampled(&weights(span, afs), flow, afs).unwrap(), plain, "{name}");
        }
    }
}

/// In every number, away from 0, so that what one part does to the others is seen too.
#[test]
fn every_number_has_its_derivative() {
    for (flow, afs) in [(false, false), (false, true), (true, false)] {
        for (name, span) in SPANS {
            let (model, frame, weights) = (model(flow), frame(flow, afs), weights(span, afs));
            let mut z = Stream::new(9);
            let at: Vec<f64> = weights.params().iter().map(|v| v + 0.05 * z.normal()).collect();
            let cotangent = batch(6);
            let loss = |at: &[f64]| {
                let constants: Vec<Coeff> = at.iter().map(|v| Coeff::from(*v)).collect();
                let built = weights.build(&constants, &frame).unwrap();
                let mut tape = Tape::sampling(&model).analytic_first(afs);
                dot(run(&mut tape, &built, afs).unwrap().data(), cotangent.data())
            };
            let parameters: Vec<Coeff> = at.iter().enumerate().map(|(i, v)| Coeff::parameter(*v, i)).collect();
            let built = weights.build(&parameters, &frame).unwrap();
            let plan = Plan { solver: &*built.solver, times: built.times.clone(), afs, denoise_to_zero: false };
            let mut tape = Tape::recording(&model, Memory::Keep).analytic_first(afs);
            let start = tape.start(batch(5));
            let sample = integrate(&mut tape, &plan, &start, &mut |_| Ok(())).unwrap();
            let seeds = vec![Cotangent { sample, cotangent: cotangent.clone() }];
            let found = tape.gradients(seeds, at.len()).unwrap().parameters;
            let gradient: Vec<f64> = found.iter().map(|g| g.iter().sum()).collect();
            let largest = gradient.iter().fold(1e-3, |m: f64, g| m.max(g.abs()));
            for (i, g) in gradient.iter().enumerate() {
                let shifted = |h: f64| {
                    let mut p = at.clone();
                    p[i] += h;
                    loss(&p)
                };
                let h = 1e-5;
                let fd = (8.0 * (shifted(h) - shifted(-h)) - (shifted(2.0 * h) - shifted(-2.0 * h))) / (12.0 * h);
                assert!((fd - g).abs() < 3e-6 * largest, "{name}, number {i}: {g} is not {fd}");
            }
            // Each has an effect, but for taps that reach beyond the picture.
            let silent = gradient.iter().filter(|g| **g == 0.0).count();
            assert!(silent == 0 || name == "operator:5", "{name}: {silent} numbers without an effect");
        }
    }
}

/// With a constant picture everything is in the lowest band: its weights are then all there are.
#[test]
fn a_constant_picture_lies_in_the_lowest_band() {
    let [c, h, w] = SHAPE;
    let flat = |value: f64| Tensor::new([1, c, h, w], vec![value; LEN]).unwrap();
    let model = Mixture::new(vec![(vec![0.3; LEN], 0.5, 1.0), (vec![-0.2; LEN], 0.4, 2.0)]).unwrap();
    let frame = frame(false, true);
    let run = |weights: &Weights| {
        let built = (weights as &dyn LearnedSolver).fixed(&frame).unwrap();
        let plan = Plan { solver: &*built.solver, times: built.times.clone(), afs: true, denoise_to_zero: false };
        let mut tape = Tape::sampling(&model).analytic_first(true);
        let start = tape.start(flat(0.7));
        integrate(&mut tape, &plan, &start, &mut |_| Ok(())).unwrap().tensor().clone()
    };
    let mut banded = weights(|widths| Span { bands: Some(Bands::zero(&[0.5, 3.0], widths)), ..Span::default() }, true);
    banded.time_shift = false;
    let bands = banded.span.bands.as_mut().unwrap();
    bands.offsets.iter_mut().for_each(|rows| rows[2][1] = 0.125);
    // The lowest band has minus the sum of the others' offsets, each the share ρ of a weight.
    let mut plain = Weights { span: Span::default(), ..banded.clone() };
    let size = |step: usize| frame.grid.sigmas()[step].hypot(1.0);
    plain.weights[2][1] -= 0.25 * size(3) / size(2);
    let (found, expected) = (run(&banded), run(&plain));
    assert!(found.data().iter().zip(expected.data()).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {expected:?}");
    // One time for all bands: that of the mean.
    banded.time_shift = true;
    let means = weights(|_| Span::default(), true);
    let realised = |weights: &Weights| weights.realised_times(frame.grid.sigmas(), None).unwrap();
    assert_eq!(realised(&banded), realised(&means));
}

#[test]
fn numbers_come_back_in_their_order() {
    let mut all = weights(SPANS[7].1, true);
    let params: Vec<f64> = (0..all.params().len()).map(|i| i as f64).collect();
    all.replace(&params);
    assert_eq!(all.params(), params);
    assert_eq!(all.blocks().iter().map(|block| block.len()).sum::<usize>(), params.len());
    let names: Vec<&str> = all.blocks().iter().map(|block| block.name).collect();
    let parts = ["state_weight", "noise_weight", "band_weight", "operator", "embedding"];
    assert_eq!(names, [&["weights", "time_scale"], &parts[..]].concat());
    // A window of other width keeps the newest, and the state's kernel.
    let widths = [1, 2, 2, 4];
    let fitted = all.span.fitted(&widths);
    fitted.check(&widths).unwrap();
    let (was, is) = (all.span.operator.as_ref().unwrap(), fitted.operator.as_ref().unwrap());
    assert_eq!(is.kernels[2], was.kernels[2][1..]);
    assert_eq!((&is.kernels[3][1..], is.kernels[3][0].iter().sum::<f64>()), (&was.kernels[3][..], 0.0));
}

#[test]
fn wrong_shapes_are_refused_by_name() {
    let widths = [1, 2, 3, 3];
    let check = |change: fn(&mut Span)| {
        let mut span = SPANS[7].1(&widths);
        change(&mut span);
        span.check(&widths).unwrap_err().to_string()
    };
    for (error, says) in [
        (check(|s| s.state.as_mut().unwrap().state.truncate(3)), "weights on the state"),
        (check(|s| s.state.as_mut().unwrap().noise.push(0.0)), "weights on the noise"),
        (check(|s| s.bands.as_mut().unwrap().edges = vec![]), "edges"),
        (check(|s| s.bands.as_mut().unwrap().edges = vec![f64::NAN, 2.0]), "edges"),
        (check(|s| s.bands.as_mut().unwrap().edges = vec![3.0, 2.0]), "rising"),
        (check(|s| s.bands.as_mut().unwrap().edges.push(9.0)), "bands"),
        (check(|s| s.bands.as_mut().unwrap().offsets[1].truncate(2)), "rows of band 2"),
        (check(|s| s.bands.as_mut().unwrap().offsets[0][2].push(1.0)), "band 1, step 2"),
        (check(|s| s.operator.as_mut().unwrap().size = usize::MAX), "size"),
        (check(|s| s.operator.as_mut().unwrap().size = 4), "3 or 5"),
        (check(|s| s.operator.as_mut().unwrap().channels = usize::MAX), "channels"),
        (check(|s| s.operator.as_mut().unwrap().channels = 0), "channels"),
        (check(|s| s.operator.as_mut().unwrap().mixed = false), "a kernel of step 0"),
        (check(|s| drop(s.operator.as_mut().unwrap().kernels.pop())), "kernels"),
        (check(|s| s.operator.as_mut().unwrap().kernels[1].truncate(1)), "kernels of step 1"),
        (check(|s| s.embedding.as_mut().unwrap().shifts.truncate(2)), "shifts of the embedding"),
        (check(|s| s.embedding.as_mut().unwrap().shifts = vec![vec![0.0]; 5]), "shifts of the embedding"),
        (check(|s| s.embedding.as_mut().unwrap().shifts[1].push(0.0)), "numbers of shift 1"),
        (check(|s| s.embedding.as_mut().unwrap().shifts.iter_mut().for_each(Vec::clear)), "1 to"),
    ] {
        assert!(error.contains(says), "{error}: {says}");
    }
    let mut bad = weights(SPANS[7].1, true);
    bad.span.operator.as_mut().unwrap().kernels[0][0][3] = f64::INFINITY;
    assert!(matches!(bad.check(), Err(Error::NotFinite { .. })));
}

/// Kernels are for so many channels; other samples are refused before the first call.
#[test]
fn samples_of_other_channels_are_refused() {
    let three = weights(|widths| Span { operator: Some(Operator::zero(3, 3, false, widths)), ..Span::default() }, true);
    let error = sampled(&three, false, true).unwrap_err();
    assert!(matches!(&error, Error::Shape { what, .. } if what.contains("channels")), "{error}");
}

/// A shift belongs to a call: the last ones, whether or not the first step makes one. Models without a place for it
/// refuse by name.
#[test]
fn shifts_belong_to_the_last_calls() {
    let shifted = |calls: usize, call: usize| {
        let mut shift = EmbeddingShift::zero(calls, NUMBERS);
        shift.shifts[call][1] = 0.4;
        sampled(&weights(|_| Span { embedding: Some(shift.clone()), ..Span::default() }, true), false, true).unwrap()
    };
    let plain = sampled(&weights(|_| Span::default(), true), false, true).unwrap();
    for call in 0..STEPS - 1 {
        assert_eq!(shifted(STEPS - 1, call), shifted(STEPS, call + 1));
        assert!(shifted(STEPS - 1, call) != plain);
    }
    // The first of as many as steps is that of the analytical one, which asks nobody.
    assert_eq!(shifted(STEPS, 0), plain);
    let embedding = |params: usize| {
        weights(|_| Span { embedding: Some(EmbeddingShift::zero(STEPS - 1, params)), ..Span::default() }, true)
    };
    let error = sampled(&embedding(NUMBERS + 1), false, true).unwrap_err().to_string();
    assert!(error.contains("4 numbers") && error.contains("has 3"), "{error}");
    let built = (&embedding(NUMBERS) as &dyn LearnedSolver).fixed(&frame(false, true)).unwrap();
    let error = run(&mut Tape::sampling(&mixture(false)).analytic_first(true), &built, true).unwrap_err();
    assert!(matches!(&error, Error::Conflict { hint, .. } if hint.contains("embedding")), "{error}");
    assert!(error.to_string().contains("does not offer"), "{error}");
}
