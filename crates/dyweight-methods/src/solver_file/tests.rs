//! Solver files: what is written is read, what is wrong is named.

use super::*;
use dyweight_core::solver::Weights;

fn frame(steps: usize) -> Frame {
    let (schedule, range) = (Schedule::Karras { rho: 7.0 }, (0.002, 80.0));
    let grid = schedule.grid(steps, range).unwrap();
    Frame {
        grid,
        schedule,
        range,
        afs: true,
        prediction: Prediction::Denoised,
        bounded: false,
        shape: None,
        feature: None,
        nfe: steps - 1,
    }
}

fn example() -> SolverFile {
    let body = Body::DyWeight(Weights::new(vec![vec![1.0 / 3.0 + 0.6], vec![-0.1, 1.0]], vec![0.9]));
    SolverFile::new(body, &frame(2)).unwrap()
}

#[test]
fn writing_and_reading_is_the_identity() {
    let file = example();
    assert_eq!(SolverFile::parse(&file.to_bytes()).unwrap(), file);
    assert!(file.to_bytes().len() < 4096);
    assert!(file.warnings().is_empty(), "{:?}", file.warnings());
}

#[test]
fn wrong_files_say_what_is_wrong() {
    let text = String::from_utf8(example().to_bytes()).unwrap();
    for (from, to, says) in [
        ("dyweight-solver", "other", "format"),
        ("\"version\": 2", "\"version\": 3", "version"),
        ("\"steps\": 2", "\"steps\": 3", "rows"),
        ("\"method\": \"dyweight\"", "\"method\": \"x\"", "method"),
        ("\"kind\":\"karras\"", "\"kind\":\"cubic\"", "cubic"),
        ("\"order\": 2", "\"order\": 1", "order"),
        ("\"nfe\": 1", "\"nfe\": 0", "nfe"),
        ("\"sigma_min\": 0.002", "\"sigma_min\": 90.0", "sigma"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = SolverFile::parse(text.replace(from, to).as_bytes()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    for cut in 0..text.len() - 2 {
        assert!(SolverFile::parse(&text.as_bytes()[..cut]).is_err());
    }
}

#[test]
fn odd_solvers_are_named_row_by_row() {
    let mut file = example();
    file.body = Body::DyWeight(Weights::new(vec![vec![3.0], vec![0.0, 0.1]], vec![0.9]));
    let file = SolverFile::parse(&file.to_bytes()).unwrap();
    let all = file.warnings().join("\n");
    assert!(all.contains("step 0: weight 3.0000") && all.contains("step 1: the weights sum to 0.1000"), "{all}");
    assert!(all.contains("time does not fall"), "{all}");
}

#[test]
fn version_1_is_read() {
    let file = example();
    let old = r#"{"format": "dyweight-solver", "version": 1, "method": "dyweight", "nfe": 1, "steps": 2, "order": 2, "afs": true,
        "prediction": "denoised", "schedule": {"kind": "karras", "rho": 7.0}, "sigma_min": 0.002, "sigma_max": 80.0,
        "weights": [[0.9333333333333333], [-0.1, 1.0]], "time_scale": [0.9]}"#;
    let read = SolverFile::parse(old.as_bytes()).unwrap();
    assert_eq!((read.body, read.realised_times), (file.body, file.realised_times));
    assert_eq!(read.network_levels, file.network_levels);
}
