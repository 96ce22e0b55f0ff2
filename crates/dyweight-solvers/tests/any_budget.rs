//! One file for a range of budgets: what it is at its start, what it gives at each budget, and what is refused.

use dyweight_core::denoiser::Prediction;
use dyweight_core::noise::Stream;
use dyweight_core::sample::{Plan, sample};
use dyweight_core::schedule::Schedule;
use dyweight_core::solver::{Initial, Ipndm};
use dyweight_core::{Result, Tensor, mixture::Mixture};
use dyweight_solvers::learned::{Frame, LearnedSolver};
use dyweight_solvers::solver_file::{Asked, MethodParams, SolverFile};
use dyweight_solvers::spec::Budget;
use dyweight_solvers::{AnyBudget, BudgetMember};

fn frame(steps: usize, calls: usize) -> Frame {
    let (schedule, range) = (Schedule::Karras { rho: 7.0 }, (0.002, 80.0));
    let frame = Frame::new(schedule, steps, range, Prediction::Denoised).unwrap();
    Frame { afs: true, nfe: (steps - 1) * calls, ..frame }
}

/// iPNDM at these numbers of steps, every number moved a little by `by`.
fn moved(window: usize, steps: &[usize], mut by: impl FnMut() -> f64) -> AnyBudget {
    let trained = |steps: &usize| {
        let mut trained = BudgetMember { weights: Initial::Ab.rows(*steps, window), time_scale: vec![1.0; *steps - 1] };
        trained.weights.iter_mut().flatten().chain(&mut trained.time_scale).for_each(|v| *v += by());
        trained
    };
    AnyBudget { trained: steps.iter().map(trained).collect(), guidance: Vec::new() }
}

/// Numbers away from the start, for 3 to 12 calls.
fn learned() -> AnyBudget {
    let mut stream = Stream::new(7);
    moved(3, &[4, 6, 8, 10, 13], || 0.01 * stream.normal())
}

fn file(calls: usize) -> SolverFile {
    SolverFile::new(MethodParams::Any(learned()), &frame(13, calls)).unwrap()
}

fn ends(plan: &Plan<'_>) -> Vec<f64> {
    let noise = Tensor::new([3, 2, 1, 1], Stream::new(3).normals(6)).unwrap();
    let model = Mixture::spiral();
    sample(&model, plan, &noise).unwrap().samples.data().to_vec()
}

#[test]
fn before_training_every_budget_is_ipndm() {
    for window in [1, 2, 3, 4] {
        let any = moved(window, &[3, 14], || 0.0);
        for steps in 3..=14 {
            let weights = any.weights_of(steps, None).unwrap();
            let near = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-14);
            assert!(near(&weights.weights.concat(), &Initial::Ab.rows(steps, window).concat()), "{steps} steps");
            assert!(near(&weights.time_scale, &vec![1.0; steps - 1]), "{steps} steps");
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
        let one = file.at("any.json", Asked::nfe(nfe))?;
        assert_eq!((one.nfe, one.steps, one.body.method(), one.served()), (nfe, nfe + 1, "dyweight", None));
        assert_eq!(one, file.at("any.json", Asked { budget: Some(Budget::Steps(nfe + 1)), ..Asked::default() })?);
        assert_eq!(SolverFile::parse(&one.to_bytes()).unwrap(), one);
        // The body built on that grid and the weights that were picked are one solver.
        let (picked, whole) = (one.build()?, file.body.learned().fixed(&frame(nfe + 1, 1))?);
        let plan = |built: &dyweight_solvers::learned::Built| -> Vec<f64> {
            ends(&Plan { solver: &*built.solver, times: built.times.clone(), afs: true, denoise_to_zero: false })
        };
        assert_eq!(plan(&picked), plan(&whole));
        sums.push(one.body.weights().unwrap().weights.concat().iter().sum::<f64>());
    }
    assert_eq!(file.at("any.json", Asked::nfe(12))?.realised_times, file.realised_times);
    // Neighbouring budgets have neighbouring coefficients.
    let means: Vec<f64> = sums.iter().zip(4..).map(|(sum, steps)| sum / f64::from(steps)).collect();
    assert!(means.windows(2).all(|w| (w[0] - w[1]).abs() < 0.1), "{means:?}");
    Ok(())
}

/// What was learned comes back to the bit, and what lies between keeps to its neighbours: ends to ends, in proportion
/// to 1/S.
#[test]
fn what_was_trained_is_itself_and_the_rest_lies_between() -> Result<()> {
    let mut stream = Stream::new(8);
    let any = moved(2, &[3, 6], || 0.01 * stream.normal());
    for trained in &any.trained {
        let weights = any.weights_of(trained.weights.len(), None)?;
        assert_eq!((&weights.weights, &weights.time_scale), (&trained.weights, &trained.time_scale));
    }
    let four = any.weights_of(4, None)?;
    let share = (1.0 / 4.0 - 1.0 / 6.0) / (1.0 / 3.0 - 1.0 / 6.0);
    let [few, many] = [&any.trained[0], &any.trained[1]];
    for (own, few, many) in [
        (four.weights[0][0], few.weights[0][0], many.weights[0][0]),
        (four.weights[1][0], few.weights[1][0], many.weights[1][0]),
        (four.weights[2][1], few.weights[1][1], many.weights[4][1]),
        (four.weights[3][1], few.weights[2][1], many.weights[5][1]),
        (four.time_scale[2], few.time_scale[1], many.time_scale[4]),
    ] {
        let mean = share * few + (1.0 - share) * many;
        assert!((own - mean).abs() < 1e-14, "{own} is not between {few} and {many}");
    }
    assert!(any.weights_of(2, None).is_err() && any.weights_of(7, None).is_err());
    Ok(())
}

#[test]
fn guidance_counts_twice() -> Result<()> {
    let file = file(2);
    assert_eq!(file.served(), Some((6, 24)));
    assert_eq!(file.at("a", Asked::nfe(10))?.steps, 6);
    // Used without guidance an evaluation is one call.
    assert_eq!(file.at("a", Asked { calls: Some(1), ..Asked::nfe(5) })?.steps, 6);
    let error = file.at("a", Asked::nfe(7)).unwrap_err();
    assert!(
        error.to_string().contains("2 calls") && error.hint().unwrap().contains("`nfe = 6` or `nfe = 8`"),
        "{error}"
    );
    Ok(())
}

#[test]
fn budgets_outside_the_range_are_refused_in_a_sentence() {
    let file = file(1);
    let says = |budget: Option<Budget>| {
        let error = file.at("any.json", Asked { budget, ..Asked::default() }).unwrap_err();
        format!("{error} ({})", error.hint().unwrap_or_default())
    };
    let none = says(None);
    assert!(
        none.contains("any.json serves every budget from 3 to 12 network calls") && none.contains("`nfe`"),
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
        ("\"trained\": [", "\"trained\": [], \"more\": [", "solvers of 1 to 1000 steps"),
        ("\"trained\": [", "\"trained\": [4,", "expected struct BudgetMember"),
        ("\"steps\": 13", "\"steps\": 3", "steps"),
        ("\"nfe\": 12", "\"nfe\": 11", "nfe"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = SolverFile::parse(text.replace(from, to).as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{from} → {to}: {error}");
    }
    let spoilt: [fn(&mut AnyBudget); 11] = [
        |any| any.trained.clear(),
        |any| any.trained.reverse(),
        |any| any.trained[1] = any.trained[0].clone(),
        |any| any.trained[1].time_scale.push(1.0),
        |any| any.trained[0].weights[1].push(0.1),
        |any| any.trained[0].weights[0][0] = f64::NAN,
        |any| any.trained.push(moved(3, &[1001], || 0.0).trained.remove(0)),
        |any| any.guidance = vec![2.0],
        |any| any.guidance = vec![1.0, 2.0],
        |any| any.guidance = (0..12).map(f64::from).collect(),
        |any| (any.guidance, any.trained) = (vec![2.0, 1.0], [&any.trained[..], &any.trained].concat()),
    ];
    learned().check().unwrap();
    for spoil in spoilt {
        let mut any = learned();
        spoil(&mut any);
        assert!(any.check().is_err());
    }
    // Finite numbers that add up to none.
    let mut any = learned();
    any.trained[4].weights[12].fill(1e308);
    assert!(SolverFile::new(MethodParams::Any(any), &frame(13, 1)).is_err());
}

/// Solvers of several budgets make one file, and it gives them back; what does not belong together is refused.
#[test]
fn solvers_of_several_budgets_are_joined() -> Result<()> {
    let range = file(1);
    let at = |nfe: usize| range.at("any.json", Asked::nfe(nfe));
    let named = |nfe: usize| Ok((format!("{nfe}.json"), at(nfe)?));
    let joined = SolverFile::joined(vec![named(12)?, named(3)?, named(7)?])?;
    assert_eq!(joined.served(), Some((3, 12)));
    assert_eq!(joined.training["budgets"], serde_json::json!([3, 7, 12]));
    assert_eq!(SolverFile::parse(&joined.to_bytes()).unwrap(), joined);
    for nfe in [3, 7, 12] {
        assert_eq!(joined.at("joined.json", Asked::nfe(nfe))?.body, at(nfe)?.body);
    }
    let says = |files: Vec<(String, SolverFile)>| SolverFile::joined(files).unwrap_err().to_string();
    assert!(says(vec![named(3)?]).contains("no range"));
    assert!(says(vec![named(3)?, named(3)?]).contains("two solvers have 3 calls"));
    assert!(says(vec![named(3)?, ("any.json".into(), range.clone())]).contains("any.json is a solver of any"));
    let guided = SolverFile { guidance: Some(7.5), ..at(5)? };
    assert!(says(vec![named(3)?, ("five.json".into(), guided)]).contains("differ in more than the number of calls"));
    Ok(())
}

/// Strengths of guidance that were trained come back to the bit, those between lie between, and others are refused.
#[test]
fn solvers_under_several_strengths_of_guidance_are_joined() -> Result<()> {
    let range = file(2);
    let under = |nfe: usize, guidance: f64, by: f64| {
        let mut file = SolverFile { guidance: Some(guidance), ..range.at("any.json", Asked::nfe(nfe))? };
        let MethodParams::DyWeight(weights) = &mut file.body else { unreachable!() };
        weights.weights.iter_mut().flatten().chain(&mut weights.time_scale).for_each(|v| *v += by);
        Ok((
            format!("{nfe} under {guidance}"),
            SolverFile::new(file.body.clone(), &file.frame()?)
                .map(|new| SolverFile { guidance: Some(guidance), ..new })?,
        ))
    };
    let (strengths, budgets) = ([(1.0, 0.0), (2.0, 0.01), (4.0, -0.01)], [6, 10]);
    let all = || -> Result<Vec<(String, SolverFile)>> {
        strengths.iter().flat_map(|(g, by)| budgets.map(|nfe| under(nfe, *g, *by))).collect()
    };
    let mut shuffled = all()?;
    shuffled.reverse();
    let joined = SolverFile::joined(shuffled)?;
    assert_eq!(SolverFile::parse(&joined.to_bytes()).unwrap(), joined);
    assert_eq!((joined.served(), joined.guidance), (Some((6, 10)), Some(4.0)));
    let at = |nfe: usize, guidance: Option<f64>| joined.at("all.json", Asked { guidance, ..Asked::nfe(nfe) });
    for (name, own) in all()? {
        let picked = at(own.nfe, own.guidance)?;
        assert_eq!((&picked.body, picked.guidance), (&own.body, own.guidance), "{name}");
    }
    let first = |nfe, guidance| -> Result<f64> { Ok(at(nfe, Some(guidance))?.body.weights().unwrap().weights[0][0]) };
    for nfe in [6, 8, 10] {
        let between = 0.25 * first(nfe, 4.0)? + 0.75 * first(nfe, 2.0)?;
        assert!((first(nfe, 2.5)? - between).abs() < 1e-14, "{nfe} calls");
    }
    for (guidance, says) in
        [(Some(0.5), "not 0.5"), (Some(4.5), "not 4.5"), (Some(f64::NAN), "not NaN"), (None, "not none")]
    {
        let error = at(6, guidance).unwrap_err();
        assert!(
            error.to_string().contains("serves guidance from 1 to 4") && error.to_string().contains(says),
            "{error}"
        );
    }
    // One budget under several strengths needs no word about its budget.
    let one = SolverFile::joined(vec![under(6, 1.0, 0.0)?, under(6, 2.0, 0.0)?])?;
    assert_eq!(one.at("one.json", Asked { guidance: Some(1.5), ..Asked::default() })?.nfe, 6);
    let says = |files: Vec<(String, SolverFile)>| SolverFile::joined(files).unwrap_err().to_string();
    let uneven = says(vec![under(6, 1.0, 0.0)?, under(10, 1.0, 0.0)?, under(6, 2.0, 0.0)?]);
    assert!(uneven.contains("[6] calls under guidance 2, but [6, 10]"), "{uneven}");
    let twice = says(vec![under(6, 1.0, 0.0)?, under(6, 1.0, 0.0)?]);
    assert!(twice.contains("two solvers have 6 calls under guidance 1"), "{twice}");
    Ok(())
}
