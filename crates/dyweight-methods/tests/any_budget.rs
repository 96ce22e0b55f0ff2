//! One file for a range of budgets: what it is at its start, what it gives at each budget, and what is refused.

use dyweight_core::denoiser::Prediction;
use dyweight_core::noise::Stream;
use dyweight_core::sample::{Plan, sample};
use dyweight_core::schedule::Schedule;
use dyweight_core::solver::{Initial, Ipndm};
use dyweight_core::{Result, Tensor, mixture::Mixture};
use dyweight_methods::AnyBudget;
use dyweight_methods::learned::{Frame, LearnedSolver};
use dyweight_methods::solver_file::{Body, SolverFile};
use dyweight_methods::spec::Budget;
use std::ops::ControlFlow;

fn frame(steps: usize, calls: usize) -> Frame {
    let (schedule, range) = (Schedule::Karras { rho: 7.0 }, (0.002, 80.0));
    let grid = schedule.grid(steps, range).unwrap();
    let nfe = (steps - 1) * calls;
    Frame {
        grid,
        schedule,
        range,
        afs: true,
        prediction: Prediction::Denoised,
        bounded: false,
        shape: None,
        feature: None,
        nfe,
    }
}

/// Numbers away from 0, for 3 to 12 calls.
fn learned() -> AnyBudget {
    let mut any = AnyBudget::start(3, vec![4, 6, 8, 10, 13], 2);
    let numbers = Stream::new(7).normals(any.numbers().len());
    any.replace(&numbers.iter().map(|v| 0.01 * v).collect::<Vec<_>>());
    any
}

fn file(calls: usize) -> SolverFile {
    SolverFile::new(Body::Any(learned()), &frame(13, calls)).unwrap()
}

fn ends(plan: &Plan<'_>) -> Vec<f64> {
    let noise = Tensor::new([3, 2, 1, 1], Stream::new(3).normals(6)).unwrap();
    let model = Mixture::spiral();
    sample(&model, plan, &noise, &mut |_| ControlFlow::Continue(())).unwrap().samples.data().to_vec()
}

#[test]
fn numbers_that_are_zero_are_ipndm_at_every_budget() {
    for window in [1, 2, 3, 4] {
        let any = AnyBudget::start(window, vec![3, 14], 3);
        for steps in 3..=14 {
            let weights = any.weights_of(steps, true).unwrap();
            assert_eq!(weights.weights, Initial::Ab.rows(steps, window), "{steps} steps");
            assert_eq!(weights.time_scale, vec![1.0; steps - 1]);
            let (frame, ipndm) = (frame(steps, 1), Ipndm::new(window).unwrap());
            let solver = weights.solver().unwrap();
            let (ours, theirs) = (Plan::new(&solver, &frame.grid).afs(true), Plan::new(&ipndm, &frame.grid).afs(true));
            let (ours, theirs) = (ends(&ours), ends(&theirs));
            // DyWeight's slopes divide by T + 10⁻⁸.
            assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-6), "{steps} steps: {ours:?} {theirs:?}");
        }
    }
}

/// Trained budgets, others between them, and the file's own are the same function; a file of one budget is DyWeight's.
#[test]
fn every_budget_of_the_range_is_a_solver_of_its_own() -> Result<()> {
    let file = file(1);
    assert_eq!(file.served(), Some((3, 12)));
    let mut sums = Vec::new();
    for nfe in 3..=12 {
        let one = file.at("any.json", Some(Budget::Nfe(nfe)), None)?;
        assert_eq!((one.nfe, one.steps, one.body.method(), one.served()), (nfe, nfe + 1, "dyweight", None));
        assert_eq!(one, file.at("any.json", Some(Budget::Steps(nfe + 1)), None)?);
        assert_eq!(SolverFile::parse(&one.to_bytes()).unwrap(), one);
        // The body built on that grid and the weights that were picked are one solver.
        let (picked, whole) = (one.build()?, file.body.learned().fixed(&frame(nfe + 1, 1))?);
        let plan = |built: &dyweight_methods::learned::Built| -> Vec<f64> {
            ends(&Plan { solver: &*built.solver, times: built.times.clone(), afs: true, denoise_to_zero: false })
        };
        assert_eq!(plan(&picked), plan(&whole));
        sums.push(one.body.weights().unwrap().weights.concat().iter().sum::<f64>());
    }
    assert_eq!(file.at("any.json", Some(Budget::Nfe(12)), None)?.realised_times, file.realised_times);
    // Neighbouring budgets have neighbouring coefficients.
    let means: Vec<f64> = sums.iter().zip(4..).map(|(sum, steps)| sum / f64::from(steps)).collect();
    assert!(means.windows(2).all(|w| (w[0] - w[1]).abs() < 0.1), "{means:?}");
    Ok(())
}

/// What one budget has learned is its own, and a budget between two is their mean in 1/S.
#[test]
fn budgets_between_two_are_their_mean() -> Result<()> {
    let any = learned();
    let scale =
        |any: &AnyBudget, steps: usize| -> Result<f64> { Ok(any.weights_of(steps, false)?.time_scale[steps / 2].ln()) };
    let mut other = any.clone();
    other.time_scale.iter_mut().for_each(|row| row[1] += 0.3);
    for steps in [4, 8, 10, 13] {
        assert_eq!(scale(&any, steps)?, scale(&other, steps)?, "{steps} steps do not know of 6");
    }
    assert_ne!(scale(&any, 6)?, scale(&other, 6)?);
    // Columns for other budgets of the range change nothing at budgets that both have, or that one has as a mean.
    let more = any.with_budgets(vec![4, 5, 6, 8, 10, 13]);
    for steps in 4..=13 {
        let difference = scale(&any, steps)? - scale(&more, steps)?;
        assert!(difference.abs() < 1e-12, "{steps} steps: {difference}");
    }
    // Only constants: T₀ is 1 at every step.
    let mut flat = AnyBudget::start(3, vec![4, 6, 8], 2);
    flat.time_scale[0] = vec![0.1, 0.4, 0.2];
    let part = (1.0 / 5.0 - 1.0 / 6.0) / (1.0 / 4.0 - 1.0 / 6.0);
    assert!((scale(&flat, 5)? - (part * 0.1 + (1.0 - part) * 0.4)).abs() < 1e-12);
    Ok(())
}

#[test]
fn guidance_counts_twice() -> Result<()> {
    let file = file(2);
    assert_eq!(file.served(), Some((6, 24)));
    assert_eq!(file.at("a", Some(Budget::Nfe(10)), None)?.steps, 6);
    // Used without guidance an evaluation is one call.
    assert_eq!(file.at("a", Some(Budget::Nfe(5)), Some(1))?.steps, 6);
    let error = file.at("a", Some(Budget::Nfe(7)), None).unwrap_err();
    assert!(error.to_string().contains("2 calls") && error.hint().unwrap().contains("--nfe 6 or --nfe 8"), "{error}");
    Ok(())
}

#[test]
fn budgets_outside_the_range_are_refused_in_a_sentence() {
    let file = file(1);
    let says = |budget: Option<Budget>| {
        let error = file.at("any.json", budget, None).unwrap_err();
        format!("{error} ({})", error.hint().unwrap_or_default())
    };
    let none = says(None);
    assert!(
        none.contains("any.json serves every budget from 3 to 12 network calls") && none.contains("--nfe"),
        "{none}"
    );
    for (budget, found) in [
        (Budget::Nfe(2), "not 2"),
        (Budget::Nfe(13), "not 13"),
        (Budget::Nfe(0), "not 0"),
        (Budget::Nfe(usize::MAX), "not 18446744073709551615"),
        (Budget::Steps(3), "not the 2 of 3 steps"),
        (Budget::Steps(usize::MAX), "steps"),
    ] {
        let said = says(Some(budget));
        assert!(said.contains("from 3 to 12 network calls") && said.contains(found), "{said}");
    }
}

#[test]
fn hostile_files_are_refused() {
    let text = String::from_utf8(file(1).to_bytes()).unwrap();
    assert!(text.len() < 20_000, "{}", text.len());
    for (from, to, says) in [
        ("[4,6,8,10,13]", "[]", "steps"),
        ("[4,6,8,10,13]", "[13,4]", "each more"),
        ("[4,6,8,10,13]", "[4,4,13]", "each more"),
        ("[4,6,8,10,13]", "[0,13]", "1 to"),
        ("[4,6,8,10,13]", "[4,1000000000]", "1 to"),
        ("[4,6,8,10,13]", "[4,12]", "steps"),
        ("\"order\": 3", "\"order\": 2", "window"),
        ("\"order\": 3", "\"order\": 99999999999", "window"),
        ("\"steps\": 13", "\"steps\": 3", "steps"),
        ("\"nfe\": 12", "\"nfe\": 11", "nfe"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = SolverFile::parse(text.replace(from, to).as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{from} → {to}: {error}");
    }
    let body = |change: &dyn Fn(&mut AnyBudget)| {
        let mut any = learned();
        change(&mut any);
        any.check()
    };
    assert!(body(&|_| ()).is_ok());
    assert!(body(&|a| a.weights[1][2].truncate(1)).is_err());
    assert!(body(&|a| a.weights[1].truncate(3)).is_err());
    assert!(body(&|a| a.weights.truncate(2)).is_err());
    assert!(body(&|a| a.time_scale.clear()).is_err());
    assert!(body(&|a| a.time_scale.iter_mut().for_each(Vec::clear)).is_err());
    assert!(body(&|a| a.time_scale[0][0] = f64::NAN).is_err());
    assert!(body(&|a| a.time_scale = vec![vec![0.0; 4]; 200]).is_err());
    // Finite numbers whose functions are not.
    let mut any = learned();
    any.time_scale[0].fill(1e6);
    assert!(SolverFile::new(Body::Any(any), &frame(13, 1)).is_err());
}
