//! Solver files: what is written is read, what is wrong is named.

use super::*;
use crate::Weights;
use crate::span::{Bands, EmbeddingShift, Operator, SampleNet, Span, StateWeights};

fn frame(steps: usize) -> Frame {
    let (schedule, range) = (Schedule::Karras { rho: 7.0 }, (0.002, 80.0));
    let frame = Frame::new(schedule, steps, range, Prediction::Denoised).unwrap();
    Frame { afs: true, nfe: steps - 1, ..frame }
}

fn example() -> SolverFile {
    let body = MethodParams::DyWeight(Weights::new(vec![vec![1.0 / 3.0 + 0.6], vec![-0.1, 1.0]], vec![0.9]));
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
        ("\"version\": 2", "\"version\": 4", "version"),
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
fn keys_that_mean_nothing_to_the_method_are_refused_by_name() {
    let dyweight = r#""order": 1, "weights": [[1.0], [1.0]], "time_scale": []"#;
    let ld3 = r#""base": "euler", "p1": [0.0, 0.0, 0.0], "p2": [0.0, 0.0, 0.0]"#;
    // What stands beside the body may be anything.
    let file = |method: &str, body: &str, more: &str| {
        let text = format!(
            r#"{{"format": "dyweight-solver", "version": 2, "method": "{method}", "nfe": 2, "steps": 2, "afs": false,
            "prediction": "denoised", "schedule": {{"kind": "karras", "rho": 7.0}}, "sigma_min": 0.002, "sigma_max": 80.0,
            "later": 1, "body": {{{body}{more}}}}}"#
        );
        SolverFile::parse(text.as_bytes()).map_err(|e| e.to_string())
    };
    for (method, body, key) in [("dyweight", dyweight, "twist"), ("dyweight", dyweight, "p1"), ("ld3", ld3, "ordre")] {
        assert_eq!(file(method, body, "").map(|_| ()), Ok(()));
        let error = file(method, body, &format!(r#", "{key}": [2]"#)).unwrap_err();
        assert_eq!(error, format!("the body of {method} has no key '{key}'"));
    }
    // Something empty says nothing.
    assert!(file("dyweight", dyweight, r#", "span": {}"#).is_ok());
    assert!(file("ld3", ld3, r#", "order": null"#).is_ok());
}

#[test]
fn a_file_for_one_budget_is_for_no_other() {
    let file = example();
    assert_eq!(file.at("own.json", Asked::nfe(1)).unwrap(), file);
    assert_eq!(file.at("own.json", Asked::default()).unwrap(), file);
    let error = file.at("own.json", Asked::nfe(5)).unwrap_err();
    assert_eq!(error.to_string(), "'own.json' is for 1 call, not 5");
    assert!(error.hint().unwrap().contains("`nfe = 5`"));
}

#[test]
fn odd_solvers_are_named_row_by_row() {
    let mut file = example();
    file.body = MethodParams::DyWeight(Weights::new(vec![vec![3.0], vec![0.0, 0.1]], vec![0.9]));
    let file = SolverFile::parse(&file.to_bytes()).unwrap();
    let all = file.warnings().join("\n");
    assert!(all.contains("step 0: weight 3.0000") && all.contains("step 1: the weights sum to 0.1000"), "{all}");
    assert!(all.contains("time does not fall"), "{all}");
}

#[test]
fn a_solver_that_a_handcrafted_one_beats_says_so() {
    let mut file = example();
    let with = |file: &mut SolverFile, own: f64| {
        file.training.insert("distance".into(), own.into());
        file.training.insert("best_handcrafted".into(), "Heun (heun@logsnr)".into());
        file.training.insert("best_handcrafted_distance".into(), 0.2.into());
        SolverFile::parse(&file.to_bytes()).unwrap().without_gain()
    };
    assert_eq!(file.without_gain(), None);
    assert_eq!(with(&mut file, 0.1), None);
    for own in [0.2, 0.3] {
        let said = with(&mut file, own).unwrap();
        assert!(said.starts_with("nothing was gained: use Heun (heun@logsnr), which was"), "{said}");
        assert!(file.warnings().contains(&said));
    }
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

/// A span of which every number is another one, of samples with two channels.
fn spanned() -> SolverFile {
    let widths = [1, 2];
    let zero = Span {
        state: Some(StateWeights::zero(2)),
        bands: Some(Bands::zero(&[1.0, 2.5], &widths)),
        operator: Some(Operator::zero(3, 2, true, &widths)),
        sample: Some(SampleNet::start(2, 2, || 0.0, || 0.0)),
        embedding: Some(EmbeddingShift::zero(1, 3)),
    };
    let params: Vec<f64> = (0..zero.params().len()).map(|i| 0.01 / (i as f64 + 3.0)).collect();
    let MethodParams::DyWeight(weights) = example().body else { unreachable!() };
    SolverFile::new(MethodParams::DyWeight(Weights { span: zero.with(&params), ..weights }), &frame(2)).unwrap()
}

#[test]
fn a_span_is_written_and_read_to_the_last_bit() {
    let file = spanned();
    assert_eq!(SolverFile::parse(&file.to_bytes()).unwrap(), file);
    assert_eq!(SolverFile::parse(&file.to_bytes()).unwrap().to_bytes(), file.to_bytes());
    let text = String::from_utf8(file.to_bytes()).unwrap();
    assert!(text.lines().count() < 65 && text.contains("\"edges\": [1.0,2.5]"), "{text}");
    // Readers of version 2 that do not know spans would pass over it; those of version 3 are told of it.
    assert!(text.contains("\"version\": 3"), "{text}");
    // One that is off is not written.
    assert!(!String::from_utf8(example().to_bytes()).unwrap().contains("span"));
}

#[test]
fn a_wrong_span_is_refused_by_name() {
    let text = String::from_utf8(spanned().to_bytes()).unwrap();
    for (from, to, says) in [
        ("\"version\": 3", "\"version\": 2", "another scale"),
        ("\"bands\":", "\"stripes\":", "stripes"),
        ("\"edges\": [1.0,2.5]", "\"edges\": [2.5,1.0]", "rising"),
        ("\"edges\": [1.0,2.5]", "\"edges\": [1.0]", "bands"),
        ("\"edges\": [1.0,2.5]", "\"edges\": [1.0,1e999]", "number"),
        ("\"size\": 3", "\"size\": 18446744073709551615", "3 or 5"),
        ("\"size\": 3", "\"size\": 5", "kernel"),
        ("\"size\": 3", "\"size\": -3", "-3"),
        ("\"channels\": 2", "\"channels\": 1000000000", "channels"),
        ("\"channels\": 2", "\"channels\": 3", "kernel"),
        ("\"mixed\": true", "\"mixed\": false", "kernel"),
        ("\"mixed\": true", "\"mixed\": 1", "boolean"),
        ("\"noise\": [", "\"noise\": [0.5,", "noise"),
        ("\"noise\": [", "\"noise\": [null,", "null"),
        ("\"state\": [", "\"state\": [[],", "float|f64|sequence"),
        ("\"layers\": [", "\"layers\": [[],", "layers"),
        ("\"layers\": [", "\"lawyers\": [", "lawyers"),
        ("\"shifts\": [", "\"shifts\": [[0.5],[],", "shifts of the embedding"),
        ("\"shifts\": [", "\"shifts\": [[],", "shifts of 0"),
        ("\"shifts\": [", "\"shifts\": [[0.5],", "numbers of shift 1"),
        ("\"shifts\": [", "\"shifts\": [[null],", "null"),
        ("\"shifts\": [", "\"gifts\": [", "gifts"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = SolverFile::parse(text.replace(from, to).as_bytes()).unwrap_err().to_string();
        assert!(says.split('|').any(|word| error.contains(word)), "{to}: {error}");
    }
    for cut in (0..text.len() - 2).step_by(7) {
        assert!(SolverFile::parse(&text.as_bytes()[..cut]).is_err());
    }
}
