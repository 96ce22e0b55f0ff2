//! The order of every solver, measured on a mixture from one list; and the identities between solvers.
//!
//! An order here is what is observed, not what a method is called. A multistep method that starts with an Euler step
//! has order 2 at most, whatever the order of its later steps.

use dyweight_core::denoiser::{Denoiser, Info, Levels, Prediction};
use dyweight_core::mixture::Mixture;
use dyweight_core::noise::Rng;
use dyweight_core::sample::{Outcome, Plan, count_calls, sample};
use dyweight_core::schedule::{Grid, Schedule};
use dyweight_core::solver::{
    Deis, DeisMode, Dpm2, DpmPp, DyWeight, Form, Heun, Initial, Ipndm, IpndmV, LowerOrderFinal, Predict, Solver, UniPc,
    Variant,
};
use dyweight_core::{Result, Tensor};

/// The forms of DPM-Solver++ and UniPC: the default, with the noise prediction, and with full order to the end.
const DATA: Form = Form { predict: Predict::Data, threshold: false, lower_order_final: LowerOrderFinal::Auto };
const NOISE: Form = Form { predict: Predict::Noise, ..DATA };
const FULL: Form = Form { lower_order_final: LowerOrderFinal::Never, ..DATA };

fn model() -> Mixture {
    let component = |x: f64, y: f64, s: f64, w: f64| (vec![x, y], s, w);
    Mixture::new(vec![component(0.8, 0.2, 0.4, 1.0), component(-0.5, -0.7, 0.5, 2.0), component(0.1, 0.9, 0.3, 1.5)])
        .unwrap()
}

fn run(model: &dyn Denoiser, plan: &Plan<'_>) -> Outcome {
    let noise = Rng::Native.latents(&[0, 1, 2, 3], [2, 1, 1]).unwrap();
    sample(model, plan, &noise).unwrap()
}

fn distance(a: &Tensor, b: &Tensor) -> f64 {
    a.data().iter().zip(b.data()).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt()
}

fn grid(prediction: Prediction, steps: usize) -> Grid {
    match prediction {
        Prediction::Denoised => Schedule::Karras { rho: 3.0 }.grid(steps, (0.3, 6.0)).unwrap(),
        Prediction::Velocity => {
            Grid::new((0..=steps).map(|i| 0.95 - 0.85 * i as f64 / steps as f64).collect()).unwrap()
        }
    }
}

fn solve(solver: &dyn Solver, model: &dyn Denoiser, steps: usize) -> Tensor {
    run(model, &Plan::new(solver, &grid(model.info().prediction, steps))).samples
}

/// Heun's method on two fine grids, extrapolated: its own error would otherwise hide a third-order method's.
fn exact(model: &dyn Denoiser) -> Tensor {
    let (coarse, fine) = (solve(&Heun, model, 2000), solve(&Heun, model, 4000));
    let data = fine.data().iter().zip(coarse.data()).map(|(f, c)| f + (f - c) / 3.0).collect();
    Tensor::new(fine.shape(), data).unwrap()
}

/// log₂ of the factor by which halving the steps reduces the error.
fn observed_order(solver: &dyn Solver, model: &dyn Denoiser, exact: &Tensor) -> f64 {
    (distance(&solve(solver, model, 128), exact) / distance(&solve(solver, model, 256), exact)).log2()
}

type Make = fn() -> Box<dyn Solver>;

/// Every solver with the order expected of it.
fn solvers() -> Vec<(&'static str, f64, Make)> {
    vec![
        ("euler", 1.0, || Box::new(Ipndm::euler())),
        ("heun", 2.0, || Box::new(Heun)),
        ("dpm2", 2.0, || Box::new(Dpm2::new(0.5).unwrap())),
        ("dpm2 r=0.7", 2.0, || Box::new(Dpm2::new(0.7).unwrap())),
        ("ipndm 2", 2.0, || Box::new(Ipndm::new(2).unwrap())),
        ("ipndm 3", 2.0, || Box::new(Ipndm::new(3).unwrap())),
        ("ipndm 4", 2.0, || Box::new(Ipndm::new(4).unwrap())),
        ("ipndm-v 2", 2.0, || Box::new(IpndmV::new(2).unwrap())),
        ("ipndm-v 4", 2.0, || Box::new(IpndmV::new(4).unwrap())),
        ("deis-tab 3", 2.0, || Box::new(Deis::new(DeisMode::TimeAb, 3).unwrap())),
        ("deis-rhoab 4", 2.0, || Box::new(Deis::new(DeisMode::RhoAb, 4).unwrap())),
        ("dpmpp 1", 1.0, || Box::new(DpmPp::new(1, DATA).unwrap())),
        ("dpmpp 2", 2.0, || Box::new(DpmPp::new(2, DATA).unwrap())),
        ("dpmpp 3", 2.0, || Box::new(DpmPp::new(3, DATA).unwrap())),
        ("dpmpp 2 eps", 2.0, || Box::new(DpmPp::new(2, NOISE).unwrap())),
        ("dpmpp 3 eps", 2.0, || Box::new(DpmPp::new(3, NOISE).unwrap())),
        ("unipc 1", 2.0, || Box::new(UniPc::new(1, DATA).unwrap())),
        ("unipc 2", 3.0, || Box::new(UniPc::new(2, FULL).unwrap())),
        ("unipc 3", 3.0, || Box::new(UniPc::new(3, FULL).unwrap())),
        ("unipc 3 bh1", 3.0, || Box::new(UniPc::new(3, FULL).unwrap().variant(Variant::Bh1))),
        ("unipc 3 eps", 3.0, || Box::new(UniPc::new(3, Form { predict: Predict::Noise, ..FULL }).unwrap())),
    ]
}

#[test]
fn every_solver_has_its_order() {
    for (kind, model) in [("denoised", model()), ("velocity", model().as_flow())] {
        let exact = exact(&model);
        for (name, order, make) in solvers() {
            let observed = observed_order(&*make(), &model, &exact);
            println!("{kind:>9} {name:<14} {observed:.2}");
            assert!(observed > order - 0.25, "{kind} {name}: order {observed:.2}, expected {order}");
        }
    }
}

#[test]
fn dyweight_with_adams_bashforth_rows_is_ipndm() {
    for afs in [false, true] {
        for steps in 1..9 {
            let grid = Schedule::Karras { rho: 7.0 }.grid(steps, (0.002, 80.0)).unwrap();
            let scales = vec![1.0; steps - usize::from(afs)];
            let learned = DyWeight::fixed(&Initial::Ab.rows(steps, 4), &scales).unwrap();
            let ipndm = Ipndm::new(4).unwrap();
            let a = run(&model(), &Plan::new(&learned, &grid).afs(afs));
            let b = run(&model(), &Plan::new(&ipndm, &grid).afs(afs));
            assert!(distance(&a.samples, &b.samples) < 1e-7, "{steps} {afs}");
            assert_eq!(a.nfe, b.nfe);
        }
    }
}

#[test]
fn first_order_methods_coincide() {
    let euler = Ipndm::euler();
    let others: Vec<Box<dyn Solver>> = vec![
        Box::new(DpmPp::new(1, DATA).unwrap()),
        Box::new(DpmPp::new(1, NOISE).unwrap()),
        Box::new(UniPc::new(1, DATA).unwrap().without_corrector()),
        Box::new(UniPc::new(1, NOISE).unwrap().without_corrector()),
        Box::new(Deis::new(DeisMode::TimeAb, 1).unwrap()),
    ];
    for model in [model(), model().as_flow()] {
        let grid = grid(model.info().prediction, 7);
        let exact = run(&model, &Plan::new(&euler, &grid));
        for other in &others {
            let got = run(&model, &Plan::new(&**other, &grid));
            assert!(distance(&got.samples, &exact.samples) < 1e-12, "{}", other.label());
            assert_eq!(got.nfe, exact.nfe);
        }
    }
}

#[test]
fn rho_ab_is_variable_step_adams_bashforth() {
    for order in 1..=4 {
        let grid = grid(Prediction::Denoised, 9);
        let (a, b) = (Deis::new(DeisMode::RhoAb, order).unwrap(), IpndmV::new(order).unwrap());
        let (a, b) = (run(&model(), &Plan::new(&a, &grid)), run(&model(), &Plan::new(&b, &grid)));
        assert_eq!(a.samples, b.samples);
    }
}

/// The table of network calls: S intervals, N = S + 1 points.
#[test]
fn network_calls_by_counting() {
    for steps in 1..8 {
        let grid = grid(Prediction::Denoised, steps);
        for (name, _, make) in solvers() {
            let solver = make();
            let plain = match name {
                "heun" | "dpm2" | "dpm2 r=0.7" => 2 * steps,
                name if name.starts_with("unipc 3") && steps < 3 => steps + 1,
                "unipc 2" if steps < 2 => steps + 1,
                _ => steps,
            };
            for (afs, denoise, change) in [(false, false, 0), (true, false, -1), (false, true, 1), (true, true, 0)] {
                let plan = Plan::new(&*solver, &grid).afs(afs).denoise_to_zero(denoise);
                let counted = count_calls(&plan, Prediction::Denoised).unwrap();
                assert_eq!(
                    counted as i64,
                    plain as i64 + change,
                    "{name}, {steps} steps, afs {afs}, denoise {denoise}"
                );
            }
        }
    }
}

#[test]
fn a_flow_may_run_from_pure_noise_to_zero() {
    let model = model().as_flow();
    let exact = {
        let grid = Schedule::Flow { shift: dyweight_core::schedule::Shift::fixed(1.0).unwrap() }
            .grid(2000, (0.0, 1.0))
            .unwrap();
        run(&model, &Plan::new(&Heun, &grid)).samples
    };
    for (name, _, make) in solvers() {
        let grid =
            Schedule::Flow { shift: dyweight_core::schedule::Shift::fixed(1.5).unwrap() }.grid(24, (0.0, 1.0)).unwrap();
        for afs in [false, true] {
            let solver = make();
            let got = run(&model, &Plan::new(&*solver, &grid).afs(afs));
            let error = distance(&got.samples, &exact);
            assert!(error < 0.35, "{name}, afs {afs}: {error}");
        }
    }
}

#[test]
fn a_grid_may_end_at_zero() {
    let grid = Grid::new(vec![40.0, 10.0, 3.0, 1.0, 0.3, 0.05, 0.0]).unwrap();
    for (name, _, make) in solvers() {
        let got = run(&model(), &Plan::new(&*make(), &grid));
        assert!(got.samples.data().iter().all(|v| v.abs() < 4.0), "{name}: {:?}", got.samples.data());
    }
}

/// A model that counts its own calls must agree with the tape's count.
#[test]
fn the_count_is_the_number_of_calls() {
    struct Counting(Mixture, std::sync::atomic::AtomicUsize);
    impl Denoiser for Counting {
        fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.0.predict(x, levels)
        }
        fn info(&self) -> Info {
            self.0.info()
        }
    }
    for (name, _, make) in solvers() {
        let counting = Counting(model(), Default::default());
        let solver = make();
        let outcome = run(&counting, &Plan::new(&*solver, &grid(Prediction::Denoised, 5)).afs(true));
        assert_eq!(outcome.nfe, counting.1.into_inner(), "{name}");
    }
}

#[test]
fn a_run_without_times_is_refused() {
    for (name, _, make) in solvers() {
        let plan = Plan { solver: &*make(), times: Vec::new(), afs: false, denoise_to_zero: false };
        assert!(count_calls(&plan, Prediction::Denoised).is_err(), "{name}");
    }
}
