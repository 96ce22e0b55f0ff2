//! Released coefficients: all are there by name, and give the times that the authors' formula gives.

use dyweight_solvers::presets::{credit, find, model, names};
use dyweight_solvers::solver_file::SolverFile;
use serde_json::Value;

#[test]
fn all_released_sets_are_there_by_name() {
    assert_eq!(names().filter(|name| name.starts_with("epd")).count(), 32);
    assert_eq!(names().filter(|name| model(name).is_some()).count(), 43);
    assert_eq!(names().collect::<std::collections::HashSet<_>>().len(), 75);
    assert!(credit()[0].authors.contains("Tong Zhao") && credit()[1].authors.contains("Beier Zhu"));
    for (asked, name) in [
        ("sd15-nfe8", "ms-coco-nfe8"),
        ("edm-cifar10-nfe3", "cifar10-nfe3"),
        ("FLUX-dev-nfe5", "flux-nfe5"),
        ("cifar10-nfe4-piecewise", "cifar10-nfe4-piecewise"),
    ] {
        assert_eq!(find(asked).unwrap().0, name);
    }
    assert!(find("cifar-nfe3").unwrap_err().hint().unwrap().contains("cifar10-nfe3"));
}

/// What is stored is what reading gives again, small, and of both counts where points are evaluated side by side.
#[test]
fn every_preset_is_a_whole_solver_file() {
    for name in names() {
        let (_, file) = find(name).unwrap();
        assert_eq!(SolverFile::parse(&file.to_bytes()).unwrap(), file, "{name}");
        assert!(file.to_bytes().len() < 4096, "{name}");
        if file.body.weights().is_none() {
            assert_eq!(file.nfe, 3 * file.steps - 1, "{name}");
            assert!(file.sequential_calls.is_some_and(|calls| name.ends_with(&format!("nfe{calls}"))), "{name}");
        }
    }
}

/// `data/released_times.json` has the times as the authors' code computes them.
#[test]
fn presets_reproduce_the_times_of_the_release() {
    let stored: Value = serde_json::from_str(include_str!("data/released_times.json")).unwrap();
    for (name, times) in stored.as_object().unwrap() {
        let (_, file) = find(name).unwrap();
        let told: Vec<f64> = file.network_levels.iter().map(|level| level.unwrap_or(0.0)).collect();
        let grid = file.grid().unwrap();
        for (key, ours) in [("grid", grid.sigmas()), ("realised", &file.realised_times), ("network", &told)] {
            let theirs = times[key].as_array().unwrap();
            assert_eq!(ours.len(), theirs.len(), "{name}");
            for (a, b) in ours.iter().zip(theirs.iter().map(|time| time.as_f64().unwrap_or(0.0))) {
                assert!((a - b).abs() < 1e-9 * grid.first(), "{name} {key}: {a} is not {b}");
            }
        }
    }
}
