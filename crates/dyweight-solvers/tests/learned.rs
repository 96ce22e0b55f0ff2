//! Every learned solver: gradients against finite differences, and what it is at the ends of its parameters.

use dyweight_core::coeff::Coeff;
use dyweight_core::denoiser::{Denoiser, Differentiable, Info, Levels, Prediction, Pullback};
use dyweight_core::mixture::Mixture;
use dyweight_core::noise::Stream;
use dyweight_core::sample::{Plan, integrate, probe};
use dyweight_core::schedule::Schedule;
use dyweight_core::solver::{Dpm2, DpmPp, Form, Initial, Ipndm, LowerOrderFinal, Predict, Solver, UniPc};
use dyweight_core::tape::{Cotangent, Memory, Tape};
use dyweight_core::tensor::dot;
use dyweight_core::{Result, Tensor};
use dyweight_solvers::learned::{Built, Frame, LearnedSolver};
use dyweight_solvers::solver_file::{MethodParams, SolverFile};
use dyweight_solvers::span::SampleNet;
use dyweight_solvers::{
    Alone, Amed, AmedPlugin, AnyBudget, BudgetMember, Deltas, Dlms, Dss, Epd, Gits, History, Ld3, Predictor, S4s,
    TimeMode,
};
use dyweight_solvers::{Base, Weights};

const STEPS: usize = 4;
const FEATURES: usize = 6;

/// A mixture whose feature does not depend on the state: a method takes no derivative through it, and neither do
/// differences here.
struct Fixed(Mixture);

impl Denoiser for Fixed {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        self.0.predict(x, levels)
    }

    fn predict_with_feature(&self, x: &Tensor, levels: &Levels, len: usize) -> Result<(Tensor, Vec<Vec<f64>>)> {
        let feature = |i: usize| Stream::new(40 + i as u64).normals(len);
        Ok((self.predict(x, levels)?, (0..x.samples()).map(feature).collect()))
    }

    fn info(&self) -> Info {
        self.0.info()
    }
}

impl Differentiable for Fixed {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        self.0.with_pullback(x, levels)
    }
}

fn model(flow: bool) -> Fixed {
    let mut z = Stream::new(11);
    let mixture =
        Mixture::new((0..3).map(|k| (z.normals(6), 0.25 + 0.1 * k as f64, 1.0 + k as f64)).collect()).unwrap();
    Fixed(if flow { mixture.as_flow() } else { mixture })
}

fn frame(flow: bool, afs: bool) -> Frame {
    let (schedule, range, prediction) = match flow {
        false => (Schedule::Karras { rho: 5.0 }, (0.1, 10.0), Prediction::Denoised),
        true => {
            let sigmas: Vec<f64> = (0..=STEPS).map(|i| 0.97 - 0.9 * i as f64 / STEPS as f64).collect();
            (Schedule::Explicit { sigmas }, (0.07, 0.97), Prediction::Velocity)
        }
    };
    Frame { afs, feature: Some(FEATURES), ..Frame::new(schedule, STEPS, range, prediction).unwrap() }
}

fn noise() -> Tensor {
    Tensor::new([2, 1, 2, 3], Stream::new(5).normals(12)).unwrap()
}

fn run(model: &Fixed, built: &Built, afs: bool) -> Tensor {
    let plan = Plan { solver: &*built.solver, times: built.times.clone(), afs, denoise_to_zero: false };
    let mut tape = Tape::sampling(model).analytic_first(afs);
    let start = tape.start(noise());
    integrate(&mut tape, &plan, &start, &mut |_| Ok(())).unwrap().tensor().clone()
}

/// The derivatives of a weighted sum of the result in up to fifty of the parameters, by the sweep and by differences.
fn check(name: &str, body: &dyn LearnedSolver, at: &[f64], flow: bool, afs: bool) {
    let (model, frame) = (model(flow), frame(flow, afs));
    let cotangent = Tensor::new([2, 1, 2, 3], Stream::new(6).normals(12)).unwrap();
    let loss = |at: &[f64]| {
        let constants: Vec<Coeff> = at.iter().map(|v| Coeff::from(*v)).collect();
        dot(run(&model, &body.build(&constants, &frame).unwrap(), afs).data(), cotangent.data())
    };
    let parameters: Vec<Coeff> = at.iter().enumerate().map(|(i, v)| Coeff::parameter(*v, i)).collect();
    let built = body.build(&parameters, &frame).unwrap();
    let plan = Plan { solver: &*built.solver, times: built.times.clone(), afs, denoise_to_zero: false };
    let mut tape = Tape::recording(&model, Memory::Keep).analytic_first(afs);
    let start = tape.start(noise());
    let sample = integrate(&mut tape, &plan, &start, &mut |_| Ok(())).unwrap();
    let seed = || vec![Cotangent { sample: sample.clone(), cotangent: cotangent.clone() }];
    let kept = tape.gradients_so_far(seed(), at.len()).unwrap().parameters;
    let gradient: Vec<f64> =
        tape.gradients(seed(), at.len()).unwrap().parameters.iter().map(|g| g.iter().sum()).collect();
    let again: Vec<f64> = kept.iter().map(|g| g.iter().sum()).collect();
    assert_eq!(gradient, again, "{name}: the tape kept and the tape used up differ");
    assert!(gradient.iter().any(|g| *g != 0.0), "{name}: nothing has an effect");
    let largest = gradient.iter().fold(1e-3, |m: f64, g| m.max(g.abs()));
    let stride = at.len().div_ceil(50);
    for i in (0..at.len()).step_by(stride) {
        let shifted = |h: f64| {
            let mut p = at.to_vec();
            p[i] += h;
            loss(&p)
        };
        let h = 1e-4 * at[i].abs().max(0.1);
        let fd = (8.0 * (shifted(h) - shifted(-h)) - (shifted(2.0 * h) - shifted(-2.0 * h))) / (12.0 * h);
        assert!((fd - gradient[i]).abs() < 3e-6 * largest, "{name}, number {i}: {} is not {fd}", gradient[i]);
    }
}

/// The parameters away from their start, where nothing cancels.
fn moved(body: &dyn LearnedSolver, by: f64) -> Vec<f64> {
    let mut z = Stream::new(9);
    body.params().iter().map(|v| v + by * z.normal()).collect()
}

fn predictor(ranges: (f64, f64)) -> Predictor {
    let (mut u, mut z) = (Stream::new(1), Stream::new(2));
    Predictor::start(FEATURES, ranges, || u.uniform(), || z.normal())
}

fn epd() -> Epd {
    let mut z = Stream::new(3);
    Epd::start(STEPS, 2, (0.1, 0.2), || z.normal())
}

#[test]
fn every_number_of_every_method_has_its_derivative() {
    for (flow, afs) in [(false, false), (false, true), (true, false)] {
        let frame = frame(flow, afs);
        let mode = if flow { TimeMode::Time } else { TimeMode::Lambda };
        for base in ["ipndm", "dpmpp", "unipc", "heun"] {
            let ld3 = Ld3::start(Base::named(base), mode, 1.0, STEPS);
            // Neighbouring logits are far enough apart for the network's times to move freely.
            let p1 = [0.3, 1.4, 0.2, 1.1, 0.4];
            let at = [&p1[..], &[0.0, 0.004, -0.003, 0.002, 0.0]].concat();
            check(&format!("ld3 {base}"), &ld3, &at, flow, false);
        }
        check("epd", &epd(), &moved(&epd(), 0.1), flow, afs);
        let plugin = epd().around(History { order: 3 });
        check("epd-plugin", &plugin, &moved(&plugin, 0.1), flow, afs);
        let amed = Amed { base: Alone {}, predictor: predictor((0.05, 0.2)) };
        check("amed", &amed, &moved(&amed, 0.1), flow, afs);
        let predicts = if flow { vec![Predict::Data] } else { vec![Predict::Data, Predict::Noise] };
        let dpmpp = predicts.into_iter().map(|p| Base { predict: Some(p), ..Base::named("dpmpp") });
        for base in ["euler", "dpm2", "ipndm"].map(Base::named).into_iter().chain(dpmpp) {
            let name = format!("amed-plugin {} {:?}", base.name, base.predict);
            let plugin = AmedPlugin { base, predictor: predictor((0.05, 0.2)) };
            check(&name, &plugin, &moved(&plugin, 0.1), flow, afs);
        }
        let dss = Dss::start(STEPS);
        check("dss", &dss, &moved(&dss, 0.1), flow, afs);
        let (mut u, mut z) = (Stream::new(1), Stream::new(2));
        let dlms = Dlms::start(FEATURES, || u.uniform(), || z.normal());
        check("dlms", &dlms, &moved(&dlms, 0.05), flow, afs);
        for base in ["dpmpp", "ipndm"] {
            for alt in [false, true] {
                let s4s = S4s::start(Base::named(base), mode, alt, &frame).unwrap();
                check(&format!("s4s {base} {alt}"), &s4s, &moved(&s4s, 0.02), flow, afs);
            }
        }
        let weights = Weights::new(Initial::Ab.rows(STEPS, 3), vec![1.0; STEPS - usize::from(afs)]);
        check("dyweight", &weights, &moved(&weights, 0.05), flow, afs);
        let own = own_weights(&weights);
        check("dyweight, each sample its own", &own, &moved(&own, 0.05), flow, afs);
        // Its last layer is 0 before training, and then it is DyWeight.
        let model = model(flow);
        assert_eq!(run(&model, &fixed(&own, &frame), afs), run(&model, &fixed(&weights, &frame), afs));
    }
}

/// With weights of each sample's own, from its feature.
fn own_weights(weights: &Weights) -> Weights {
    let (mut u, mut z) = (Stream::new(1), Stream::new(2));
    let mut own = weights.clone();
    own.span.sample = Some(SampleNet::start(FEATURES, 3, || u.uniform(), || z.normal()));
    own
}

fn near(name: &str, a: &Tensor, b: &Tensor, tolerance: f64) {
    let largest = b.data().iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    for (a, b) in a.data().iter().zip(b.data()) {
        assert!((a - b).abs() <= tolerance * largest, "{name}: {a} is not {b}");
    }
}

fn handcrafted(solver: Box<dyn Solver>, frame: &Frame) -> Built {
    Built { solver, times: frame.grid.coeffs() }
}

fn fixed(body: &dyn LearnedSolver, frame: &Frame) -> Built {
    let params: Vec<Coeff> = body.params().into_iter().map(Coeff::from).collect();
    body.build(&params, frame).unwrap()
}

#[test]
fn starts_and_limits_are_handcrafted_solvers() {
    let data = |threshold| Form { threshold, lower_order_final: LowerOrderFinal::Always, ..Form::default() };
    for flow in [false, true] {
        let (model, frame) = (model(flow), frame(flow, false));
        let result = |built: &Built| run(&model, built, false);
        let solvers: [(&str, Box<dyn Solver>); 3] = [
            ("ipndm", Box::new(Ipndm::new(4).unwrap())),
            ("dpmpp", Box::new(DpmPp::new(3, data(false)).unwrap())),
            ("unipc", Box::new(UniPc::new(3, data(false)).unwrap())),
        ];
        for (base, solver) in solvers {
            let mode = if flow { TimeMode::Time } else { TimeMode::Lambda };
            let ld3 = fixed(&Ld3::start(Base::named(base), mode, 0.5, STEPS), &frame);
            let expected = Built { solver, times: ld3.times.clone() };
            near(&format!("ld3 at its start, {base}"), &result(&ld3), &result(&expected), 1e-13);
        }
        let euler = result(&handcrafted(Box::new(Ipndm::euler()), &frame));
        // One point at the start of the interval.
        let mut start = Epd::start(STEPS, 1, (0.0, 0.0), || 0.0);
        start.r = vec![vec![-40.0]; STEPS];
        near("epd with one point at the start", &result(&fixed(&start, &frame)), &euler, 1e-12);
        // One point in the middle, nothing scaled, is the midpoint rule; so is AMED with r = ½.
        let middle = result(&handcrafted(Box::new(Dpm2::new(0.5).unwrap()), &frame));
        let epd = Epd::start(STEPS, 1, (0.0, 0.0), || 0.0);
        near("epd with one point in the middle", &result(&fixed(&epd, &frame)), &middle, 1e-12);
        let mut half = predictor((0.0, 0.0));
        half.r_weight = vec![vec![0.0; half.r_weight[0].len()]];
        near("amed in the middle", &result(&fixed(&Amed { base: Alone {}, predictor: half }, &frame)), &middle, 1e-12);
        // C = 0.
        let dss = fixed(&Dss::start(STEPS), &frame);
        let expected = Built { solver: Box::new(Ipndm::euler()), times: dss.times.clone() };
        near("dss at its start", &result(&dss), &result(&expected), 1e-13);
        for alt in [false, true] {
            let mode = if flow { TimeMode::Time } else { TimeMode::Lambda };
            let of = |base| fixed(&S4s::start(Base::named(base), mode, alt, &frame).unwrap(), &frame);
            let dpmpp = Form { lower_order_final: LowerOrderFinal::Auto, ..Form::default() };
            let dpmpp = handcrafted(Box::new(DpmPp::new(3, dpmpp).unwrap()), &frame);
            near("s4s from dpmpp", &result(&of("dpmpp")), &result(&dpmpp), 1e-11);
            let ipndm = handcrafted(Box::new(Ipndm::new(4).unwrap()), &frame);
            near("s4s from ipndm", &result(&of("ipndm")), &result(&ipndm), 1e-11);
        }
    }
}

/// Adams–Bashforth weights on data predictions are another method than on slopes.
#[test]
fn dlms_at_its_start_is_not_ipndm() {
    let (model, frame) = (model(false), frame(false, false));
    let (mut u, mut z) = (Stream::new(1), Stream::new(2));
    let dlms = run(&model, &fixed(&Dlms::start(FEATURES, || u.uniform(), || z.normal()), &frame), false);
    let ipndm = run(&model, &handcrafted(Box::new(Ipndm::new(4).unwrap()), &frame), false);
    assert!(dlms.data().iter().zip(ipndm.data()).any(|(a, b)| (a - b).abs() > 1e-3));
    assert!(dlms.data().iter().all(|v| v.is_finite()));
}

/// What is written is read, with the calls that are really made, for every method.
#[test]
fn files_of_every_method_come_back() {
    let frame = frame(false, true);
    let s4s = |alt| S4s::start(Base::named("dpmpp"), TimeMode::Lambda, alt, &frame).unwrap();
    let (mut u, mut z) = (Stream::new(1), Stream::new(2));
    let sigmas = frame.grid.sigmas().to_vec();
    let gits = Gits { base: Base::named("unipc"), cost: Default::default(), factor: 1.1, indices: vec![0, 1], sigmas };
    let released = Dss { mode: Deltas::Released, raw_deltas: vec![0.25; STEPS], ..Dss::start(STEPS) };
    let trained = |steps: usize| BudgetMember { weights: Initial::Ab.rows(steps, 3), time_scale: vec![1.0; steps - 1] };
    let any = AnyBudget { trained: [3, STEPS + 2].map(trained).to_vec(), guidance: Vec::new() };
    let bodies = [
        (MethodParams::Any(any), STEPS - 1, None),
        (MethodParams::Epd(epd()), 3 * STEPS - 1, Some(2 * STEPS - 1)),
        (MethodParams::EpdPlugin(epd().around(History { order: 2 })), 3 * STEPS - 1, Some(2 * STEPS - 1)),
        (MethodParams::Amed(Amed { base: Alone {}, predictor: predictor((0.1, 0.0)) }), 2 * STEPS - 1, None),
        (
            MethodParams::AmedPlugin(AmedPlugin { base: Base::named("ipndm"), predictor: predictor((0.0, 0.2)) }),
            2 * STEPS - 1,
            None,
        ),
        (MethodParams::Gits(gits), STEPS - 1, None),
        (MethodParams::Dss(released), STEPS - 1, None),
        (MethodParams::Dlms(Dlms::start(FEATURES, || u.uniform(), || z.normal())), STEPS - 1, None),
        (MethodParams::S4s(s4s(false)), STEPS - 1, None),
        (MethodParams::S4sAlt(s4s(true)), STEPS - 1, None),
    ];
    for (body, nfe, rounds) in bodies {
        let name = body.method();
        let file = SolverFile::new(body, &Frame { nfe, ..frame.clone() }).unwrap();
        assert_eq!((file.sequential_calls, file.realised_times.len()), (rounds, STEPS + 1), "{name}");
        let back = SolverFile::parse(&file.to_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(back, file, "{name}");
        let built = back.build().unwrap();
        let plan = Plan { solver: &*built.solver, times: built.times, afs: true, denoise_to_zero: false };
        assert_eq!(probe(&plan, Prediction::Denoised).unwrap().calls, nfe, "{name}");
        let text = String::from_utf8(file.to_bytes()).unwrap();
        for cut in (0..text.len() - 2).step_by(text.len() / 50 + 1) {
            assert!(SolverFile::parse(&text.as_bytes()[..cut]).is_err(), "{name}");
        }
    }
}
