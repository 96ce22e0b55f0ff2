//! The one reverse sweep against finite differences: every solver, in its coefficients, times and scales.

use dyweight::coeff::Coeff;
use dyweight::denoiser::{Denoiser, Prediction};
use dyweight::models::mixture::Mixture;
use dyweight::noise::Stream;
use dyweight::path::{Memory, Path, Seed};
use dyweight::sample::{Plan, integrate};
use dyweight::schedule::Schedule;
use dyweight::solver::{
    Deis, DeisMode, Dpm2, DpmPp, DyWeight, Heun, Ipndm, IpndmV, Predict, Solver, UniPc, Variant, adams_bashforth_rows,
};
use dyweight::tensor::dot;
use dyweight::{Result, Tensor};
use std::ops::ControlFlow;

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
        let mut path = Path::sampling(self.model).analytic_first(self.afs);
        let x = integrate(&mut path, &plan, noise(), &mut |_| ControlFlow::Continue(())).unwrap();
        dot(x.tensor().data(), self.cotangent().data())
    }

    fn gradient(&self, at: &[f64], memory: Memory) -> Result<Vec<f64>> {
        let parameters: Vec<Coeff> = at.iter().enumerate().map(|(i, v)| Coeff::parameter(*v, i)).collect();
        let (solver, times) = (self.build)(&parameters);
        let plan = Plan { solver: &*solver, times, afs: self.afs, denoise_to_zero: self.denoise_to_zero };
        let mut path = Path::recording(self.model, memory).analytic_first(self.afs);
        let sample = integrate(&mut path, &plan, noise(), &mut |_| ControlFlow::Continue(()))?;
        let seeds = vec![Seed { sample, cotangent: self.cotangent() }];
        Ok(path.gradients(seeds, at.len())?.iter().map(|per_sample| per_sample.iter().sum()).collect())
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
        ("dpmpp 3", || Box::new(DpmPp::new(3).unwrap().lower_order_final(false))),
        ("dpmpp 2", || Box::new(DpmPp::new(2).unwrap())),
        ("dpmpp threshold", || Box::new(DpmPp::new(2).unwrap().threshold(true))),
        ("dpmpp eps", || Box::new(DpmPp::new(3).unwrap().predict(Predict::Noise))),
        ("unipc", || Box::new(UniPc::new(3).unwrap().lower_order_final(false))),
        ("unipc bh1 threshold", || Box::new(UniPc::new(3).unwrap().variant(Variant::Bh1).threshold(true))),
        ("unipc eps", || Box::new(UniPc::new(2).unwrap().predict(Predict::Noise))),
    ];
    for model in [model(), model().as_flow()] {
        for (name, make) in &solvers {
            for (afs, denoise_to_zero) in [(false, false), (true, true)] {
                let build = |p: &[Coeff]| (make(), p.to_vec());
                let case = Case { model: &model, build: &build, afs, denoise_to_zero };
                case.check(name, &times_of(Denoiser::prediction(&model), 5));
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
            let rows = adams_bashforth_rows(steps, window);
            let widths: Vec<usize> = rows.iter().map(Vec::len).collect();
            let scales = steps - usize::from(afs);
            let weights = rows.concat().into_iter().map(|w| w + 0.05 * z.normal()).collect::<Vec<_>>();
            let factors: Vec<f64> = (0..scales).map(|i| 0.9 + 0.03 * i as f64).collect();
            let at = [weights.clone(), factors, times_of(Denoiser::prediction(&model), steps)].concat();
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
