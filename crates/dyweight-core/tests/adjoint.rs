//! The one reverse sweep against finite differences: every solver, in its coefficients, times and scales.

use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::{Denoiser, Prediction};
use dyweight_core::mixture::Mixture;
use dyweight_core::noise::Stream;
use dyweight_core::sample::{Plan, integrate};
use dyweight_core::schedule::Schedule;
use dyweight_core::solver::{
    Deis, DeisMode, Dpm2, DpmPp, DyWeight, Form, Heun, Initial, Ipndm, IpndmV, LowerOrderFinal, Predict, Solver, UniPc,
    Variant,
};
use dyweight_core::tape::{Cotangent, LinearMap, Memory, Query, Tape, Var};
use dyweight_core::tensor::dot;
use dyweight_core::{Result, Tensor};
use std::sync::Arc;

/// The forms of DPM-Solver++ and UniPC: the default, with the noise prediction, and with full order to the end.
const DATA: Form = Form { predict: Predict::Data, threshold: false, lower_order_final: LowerOrderFinal::Auto };
const NOISE: Form = Form { predict: Predict::Noise, ..DATA };
const FULL: Form = Form { lower_order_final: LowerOrderFinal::Never, ..DATA };

fn model() -> Mixture {
    let mut z = Stream::new(11);
    Mixture::new((0..3).map(|k| (z.normals(6), 0.25 + 0.1 * k as f64, 1.0 + k as f64)).collect()).unwrap()
}

fn noise() -> Tensor {
    Tensor::new([2, 1, 2, 3], Stream::new(5).normals(12)).unwrap()
}

type Build<'c> = dyn Fn(&[Coeff]) -> (Box<dyn Solver>, Vec<Coeff>) + 'c;

struct Case<'c> {
    model: &'c Mixture,
    /// How a list of parameters becomes a solver and a grid.
    build: &'c Build<'c>,
    afs: bool,
    denoise_to_zero: bool,
}

impl Case<'_> {
    fn cotangent(&self) -> Tensor {
        Tensor::new([2, 1, 2, 3], Stream::new(6).normals(12)).unwrap()
    }

    /// Σ cotangent·result, at constants.
    fn loss(&self, at: &[f64]) -> f64 {
        let constants: Vec<Coeff> = at.iter().map(|v| Coeff::from(*v)).collect();
        let (solver, times) = (self.build)(&constants);
        let plan = Plan { solver: &*solver, times, afs: self.afs, denoise_to_zero: self.denoise_to_zero };
        let mut tape = Tape::sampling(self.model).analytic_first(self.afs);
        let start = tape.start(noise());
        let x = integrate(&mut tape, &plan, &start, &mut |_| Ok(())).unwrap();
        dot(x.tensor().data(), self.cotangent().data())
    }

    fn gradient(&self, at: &[f64], memory: Memory) -> Result<Vec<f64>> {
        let parameters: Vec<Coeff> = at.iter().enumerate().map(|(i, v)| Coeff::parameter(*v, i)).collect();
        let (solver, times) = (self.build)(&parameters);
        let plan = Plan { solver: &*solver, times, afs: self.afs, denoise_to_zero: self.denoise_to_zero };
        let mut tape = Tape::recording(self.model, memory).analytic_first(self.afs);
        let start = tape.start(noise());
        let sample = integrate(&mut tape, &plan, &start, &mut |_| Ok(()))?;
        let cotangents = vec![Cotangent { sample, cotangent: self.cotangent() }];
        Ok(tape.gradients(cotangents, at.len())?.parameters.iter().map(|per_sample| per_sample.iter().sum()).collect())
    }

    fn check(&self, name: &str, at: &[f64]) {
        let kept = self.gradient(at, Memory::Keep).unwrap();
        let recomputed = self.gradient(at, Memory::Recompute).unwrap();
        assert_eq!(kept, recomputed, "{name}: keep and recompute differ");
        let largest = kept.iter().fold(1e-3, |m: f64, g| m.max(g.abs()));
        for (i, g) in kept.iter().enumerate() {
            let shifted = |h: f64| {
                let mut p = at.to_vec();
                p[i] += h;
                self.loss(&p)
            };
            let h = 1e-5 * at[i].abs().max(0.1);
            // Fourth-order difference: the truncation error must not be mistaken for a wrong gradient.
            let fd = (8.0 * (shifted(h) - shifted(-h)) - (shifted(2.0 * h) - shifted(-2.0 * h))) / (12.0 * h);
            assert!((fd - g).abs() < 2e-6 * largest, "{name}, parameter {i}: {g} is not {fd}");
        }
    }
}

fn times_of(prediction: Prediction, steps: usize) -> Vec<f64> {
    match prediction {
        Prediction::Denoised => Schedule::Karras { rho: 5.0 }.grid(steps, (0.1, 10.0)).unwrap().sigmas().to_vec(),
        Prediction::Velocity => (0..=steps).map(|i| 0.97 - 0.9 * i as f64 / steps as f64).collect(),
    }
}

/// Every handcrafted solver, in all times of its grid.
#[test]
fn handcrafted_solvers_in_their_times() {
    type Make = fn() -> Box<dyn Solver>;
    let solvers: Vec<(&str, Make)> = vec![
        ("euler", || Box::new(Ipndm::euler())),
        ("heun", || Box::new(Heun)),
        ("dpm2", || Box::new(Dpm2::new(0.4).unwrap())),
        ("ipndm", || Box::new(Ipndm::new(4).unwrap())),
        ("ipndm-v", || Box::new(IpndmV::new(4).unwrap())),
        ("deis-tab", || Box::new(Deis::new(DeisMode::TimeAb, 3).unwrap())),
        ("deis-rhoab", || Box::new(Deis::new(DeisMode::RhoAb, 3).unwrap())),
        ("dpmpp 3", || Box::new(DpmPp::new(3, FULL).unwrap())),
        ("dpmpp 2", || Box::new(DpmPp::new(2, DATA).unwrap())),
        ("dpmpp threshold", || Box::new(DpmPp::new(2, Form { threshold: true, ..DATA }).unwrap())),
        ("dpmpp eps", || Box::new(DpmPp::new(3, NOISE).unwrap())),
        ("unipc", || Box::new(UniPc::new(3, FULL).unwrap())),
        ("unipc bh1 threshold", || {
            Box::new(UniPc::new(3, Form { threshold: true, ..DATA }).unwrap().variant(Variant::Bh1))
        }),
        ("unipc eps", || Box::new(UniPc::new(2, NOISE).unwrap())),
    ];
    for model in [model(), model().as_flow()] {
        for (name, make) in &solvers {
            for (afs, denoise_to_zero) in [(false, false), (true, true)] {
                let build = |p: &[Coeff]| (make(), p.to_vec());
                let case = Case { model: &model, build: &build, afs, denoise_to_zero };
                case.check(name, &times_of(model.info().prediction, 5));
            }
        }
    }
}

/// DyWeight in every weight, scale and time at once, away from its initialisation so that time is really shifted.
#[test]
fn dyweight_in_weights_scales_and_times() {
    for model in [model(), model().as_flow()] {
        for (afs, window, shift) in [(true, 3, true), (false, 2, true), (true, 4, false)] {
            let steps = 5;
            let mut z = Stream::new(3);
            let rows = Initial::Ab.rows(steps, window);
            let widths: Vec<usize> = rows.iter().map(Vec::len).collect();
            let scales = steps - usize::from(afs);
            let weights = rows.concat().into_iter().map(|w| w + 0.05 * z.normal()).collect::<Vec<_>>();
            let factors: Vec<f64> = (0..scales).map(|i| 0.9 + 0.03 * i as f64).collect();
            let at = [weights.clone(), factors, times_of(model.info().prediction, steps)].concat();
            let build = move |p: &[Coeff]| -> (Box<dyn Solver>, Vec<Coeff>) {
                let (mut weights, rest) = p.split_at(widths.iter().sum());
                let mut rows = Vec::new();
                for width in &widths {
                    let (row, others) = weights.split_at(*width);
                    rows.push(row.to_vec());
                    weights = others;
                }
                let (scales, times) = rest.split_at(scales);
                let solver = DyWeight::new(rows, scales.to_vec()).unwrap().time_shift(shift);
                (Box::new(solver), times.to_vec())
            };
            let case = Case { model: &model, build: &build, afs, denoise_to_zero: false };
            case.check(&format!("dyweight afs {afs} window {window} shift {shift}"), &at);
        }
    }
}

/// y = c₀·x + c₁·(x shifted by one entry): linear in c and in x.
struct Shift;

impl LinearMap for Shift {
    fn apply(&self, c: &[f64], x: &[f64], _: [usize; 3]) -> Vec<f64> {
        (0..x.len()).map(|i| c[0] * x[i] + c[1] * x[(i + 1) % x.len()]).collect()
    }

    fn adjoint(&self, c: &[f64], g: &[f64], _: [usize; 3]) -> Vec<f64> {
        (0..g.len()).map(|i| c[0] * g[i] + c[1] * g[(i + g.len() - 1) % g.len()]).collect()
    }

    fn coefficient_adjoint(&self, x: &[f64], g: &[f64], _: [usize; 3]) -> Vec<f64> {
        vec![dot(g, x), (0..x.len()).map(|i| g[i] * x[(i + 1) % x.len()]).sum()]
    }
}

/// A hand-made run with everything solvers of today do not use: levels and weights of each sample's own, a linear map
/// with learned coefficients, and the starting noise as a leaf.
fn unusual<'m>(model: &'m Mixture, at: &[Coeff], start: Tensor, recorded: bool) -> (Tape<'m>, Var) {
    let mut tape = if recorded { Tape::recording(model, Memory::Recompute) } else { Tape::sampling(model) };
    let map: Arc<dyn LinearMap> = Arc::new(Shift);
    let noise = tape.leaf(start);
    let x = tape.combine(&[(Coeff::from(3.0), &noise)]).unwrap();
    let each = Coeff::each([0.8, 1.3]);
    let level = &at[0] * &each;
    let denoised = tape.evaluate(&x, &Query::at(&level)).unwrap();
    let mixed = tape.apply(&map, &[at[1].clone(), &at[2] * &each], &denoised);
    let y = tape.combine(&[(&at[3] * &each, &x), (at[2].clone(), &mixed)]).unwrap();
    (tape, y)
}

#[test]
fn numbers_of_each_sample_linear_maps_and_the_noise_itself() {
    let model = model();
    let (at, cotangent) = ([2.0, 0.7, -0.3, 0.4], Tensor::new([2, 1, 2, 3], Stream::new(6).normals(12)).unwrap());
    let loss = |at: &[f64], start: Tensor| {
        let constants: Vec<Coeff> = at.iter().map(|v| Coeff::from(*v)).collect();
        dot(unusual(&model, &constants, start, false).1.tensor().data(), cotangent.data())
    };
    let parameters: Vec<Coeff> = at.iter().enumerate().map(|(i, v)| Coeff::parameter(*v, i)).collect();
    let (tape, sample) = unusual(&model, &parameters, noise(), true);
    let found = tape.gradients(vec![Cotangent { sample, cotangent: cotangent.clone() }], at.len()).unwrap();
    let agree = |name: &str, g: f64, f: &dyn Fn(f64) -> f64| {
        let h = 1e-5;
        let fd = (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h);
        assert!((fd - g).abs() < 1e-7 * fd.abs().max(1.0), "{name}: {g} is not {fd}");
    };
    for i in 0..at.len() {
        let moved = |h: f64| {
            let mut p = at;
            p[i] += h;
            loss(&p, noise())
        };
        agree(&format!("parameter {i}"), found.parameters[i].iter().sum(), &moved);
    }
    for i in 0..noise().data().len() {
        let moved = |h: f64| {
            let mut start = noise();
            start.data_mut()[i] += h;
            loss(&at, start)
        };
        agree(&format!("noise {i}"), found.leaves[0].data()[i], &moved);
    }
}

#[test]
fn losses_of_one_sweep_have_the_gradients_that_each_has_alone() {
    let model = model();
    let at: Vec<Coeff> = [2.0, 0.7, -0.3, 0.4].iter().enumerate().map(|(i, v)| Coeff::parameter(*v, i)).collect();
    let cotangent = |seed: u64| Tensor::new([2, 1, 2, 3], Stream::new(seed).normals(12)).unwrap();
    let recorded = || unusual(&model, &at, noise(), true);
    let (tape, sample) = recorded();
    let seed = |seed: u64| vec![Cotangent { sample: sample.clone(), cotangent: cotangent(seed) }];
    let so_far = tape.gradients_so_far(seed(6), at.len()).unwrap();
    let together = tape.gradients_of_each(vec![seed(6), seed(7)], at.len()).unwrap();
    for (found, of) in together.iter().zip([6, 7]) {
        let (tape, sample) = recorded();
        let alone = tape.gradients(vec![Cotangent { sample, cotangent: cotangent(of) }], at.len()).unwrap();
        assert_eq!((&found.parameters, &found.leaves), (&alone.parameters, &alone.leaves), "{of}");
    }
    assert_eq!(so_far.parameters, together[0].parameters);
    assert_ne!(together[0].parameters, together[1].parameters);
}
