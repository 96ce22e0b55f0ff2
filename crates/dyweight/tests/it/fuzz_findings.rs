//! What fuzzing, and reading along with it, has found: each input stays an error, and a cheap one.

use dyweight::denoiser::Prediction;
use dyweight::files::image::{BadPng, Image};
use dyweight::files::{Fingerprint, StoredTensor, TensorFile};
use dyweight::mixture::Mixture;
use dyweight::schedule::Schedule;
use dyweight::solver_file::SolverFile;
use dyweight::spec::budget::Setting;
use dyweight::spec::{Budget, METHODS, ScheduleSpec, SolverSpec};
use dyweight::train::TrainSpec;
use dyweight::train::{Loss, parse_states};
use dyweight::{Error, Result};
use std::time::{Duration, Instant};

fn plan(spec: &TrainSpec, budget: Budget) -> Result<()> {
    let model = Mixture::spiral();
    let plan = dyweight_train::plan::plan(spec, &model, &ScheduleSpec::default(), budget, Loss::L2)?;
    dyweight_train::plan::teacher(spec, &model, &plan).map(drop)
}

fn bad_value(outcome: Result<()>) -> &'static str {
    match outcome {
        Err(Error::BadValue { name, .. }) => name,
        other => panic!("{other:?}"),
    }
}

/// Multistep methods looked through all later steps at every step, and the search for a budget ran the solver on a
/// dozen grids of about that length: the largest budget took minutes.
#[test]
fn the_largest_budgets_are_found_at_once() {
    for method in METHODS.iter().filter(|m| m.name != "dyweight") {
        let solver = SolverSpec::named(method.name).build(true).unwrap();
        // DEIS and UniPC compute for each step what the others look up.
        let most = if method.highest_order == Some(4) && method.name != "ipndm" { 10_000 } else { 100_000 };
        for (nfe, afs) in [(most - 1, false), (most, true)] {
            let schedule = Schedule::Karras { rho: 7.0 };
            let setting = Setting {
                solver: &*solver,
                schedule: &schedule,
                range: (0.002, 80.0),
                afs,
                denoise_to_zero: false,
                prediction: Prediction::Denoised,
                calls: 1,
            };
            let start = Instant::now();
            let found = setting.grid(Budget::Nfe(nfe));
            println!("{} {nfe}: {:?}", method.name, start.elapsed());
            assert!(matches!(found, Ok(_) | Err(Error::NoSuchBudget { .. })), "{}: {found:?}", method.name);
            assert!(start.elapsed() < Duration::from_secs(20), "{}: {:?}", method.name, start.elapsed());
        }
    }
}

/// A hundred million teacher steps for each of the student's were put into one list.
#[test]
fn a_teacher_cannot_be_refined_without_end() {
    let spec = TrainSpec { supervision: Some("path".into()), substeps: Some(100_000_000), ..TrainSpec::default() };
    assert_eq!(bad_value(plan(&spec, Budget::Steps(4))), "substeps");
}

/// A window as wide as a long grid asked for five thousand million weights.
#[test]
fn a_window_cannot_fill_the_memory() {
    let spec = TrainSpec { order: Some(100_000), ..TrainSpec::default() };
    assert_eq!(bad_value(plan(&spec, Budget::Steps(100_000))), "order");
}

/// Finite weights whose times are infinite were accepted, and written as a file that could not be read back.
#[test]
fn times_without_numbers_are_refused() {
    let file = |weights: &str, scale: &str| {
        format!(
            r#"{{"format":"dyweight-solver","version":1,"method":"dyweight","nfe":2,"steps":2,"order":2,"afs":false,
            "prediction":"denoised","schedule":{{"kind":"explicit","sigmas":[3.0,1.0,0.5]}},"sigma_min":0.5,
            "sigma_max":3.0,"weights":{weights},"time_scale":{scale}}}"#
        )
    };
    let read = |weights: &str, scale: &str| SolverFile::parse(file(weights, scale).as_bytes());
    let sound = read("[[1.0],[-0.5,1.5]]", "[0.9,1.1]").unwrap();
    assert_eq!(SolverFile::parse(&sound.to_bytes()), Ok(sound));
    for (weights, scale) in [
        ("[[1e308],[1e308,1e308]]", "[1.0,1.0]"),
        ("[[1.0],[1e308,1e308]]", "[1.0,1.0]"),
        ("[[1e300],[1.0]]", "[1e300,1e300]"),
    ] {
        let error = read(weights, scale).unwrap_err().to_string();
        assert!(
            error.contains("realised_times") || error.contains("network_levels") || error.contains("order"),
            "{error}"
        );
    }
}

/// A stored teacher result of another shape passed for the one asked for as long as it had as many pairs.
#[test]
fn stored_states_must_have_the_shape_asked_for() {
    let states = |shape: [usize; 4]| {
        let tensor = StoredTensor::from_f64(&shape, &vec![0.5; shape.iter().product()]).unwrap();
        let mut file = TensorFile::default();
        file.metadata.insert("sha256".into(), Fingerprint::default().add(tensor.bytes()).text());
        file.tensors.insert("state0000".into(), tensor);
        file.to_bytes()
    };
    assert_eq!(parse_states(states([2, 1, 1, 2]).into(), [2, 1, 1, 2]).map(|s| s.len()), Some(1));
    assert!(parse_states(states([2, 2, 1, 1]).into(), [2, 1, 1, 2]).is_none());
    let mut damaged = states([2, 1, 1, 2]);
    *damaged.last_mut().unwrap() ^= 1;
    assert!(parse_states(damaged.into(), [2, 1, 1, 2]).is_none());
}

/// 71 bytes that claim 16 646 147 × 2 pixels (with the checksum, which fuzzers skip, made right): 133 MB were taken
/// before the first of them was looked for.
#[test]
fn a_palette_is_a_list_of_colours() {
    let bytes = include_bytes!("../data/fuzz/png-palette-of-a-part");
    assert!(matches!(Image::from_png(bytes), Err(BadPng::Broken { .. })));
}

#[test]
fn a_png_takes_memory_by_its_size_not_by_its_header() {
    let bytes = include_bytes!("../data/fuzz/png-claims-much");
    assert_eq!(Image::from_png(bytes), Err(BadPng::Truncated));
    // What packs best still fits.
    let grey = Image::new(4096, 4096, 1, vec![0; 4096 * 4096]).unwrap();
    assert_eq!(Image::from_png(&grey.to_png()).unwrap(), grey);
}
