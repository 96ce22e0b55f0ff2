//! Every learned method through the program: trained, killed and resumed, sampled with, looked at, compared, exported.
#![cfg(unix)]

mod common;

use common::{Place, bytes};
use std::time::{Duration, Instant};

/// A second or less of work each.
const METHODS: &[(&str, &str)] = &[
    ("dyweight", "--span state,sample --nfe 3 --iters 40 --batch 8 --validation 16"),
    ("ld3", "--nfe 4 --iters 60 --pairs 20 --validation 10"),
    ("epd", "--nfe 5 --iters 40 --batch 8 --validation 16"),
    ("epd-plugin", "--nfe 5 --count-parallel once --iters 40 --batch 8 --validation 16"),
    ("amed", "--nfe 3 --iters 10 --batch 4 --validation 8"),
    ("amed-plugin", "--nfe 3 --base dpmpp --iters 10 --batch 4 --validation 8"),
    ("dss", "--nfe 4 --iters 30 --batch 4 --validation 8"),
    ("dlms", "--nfe 3 --iters 10 --batch 4 --validation 8"),
    ("s4s", "--nfe 4 --relax --pairs 16 --iters 40 --batch 8 --validation 16"),
    ("s4s-alt", "--nfe 4 --iters 64 --batch 8 --validation 16"),
    ("gits", "--nfe 4 --afs --samples 8"),
];

fn results(place: &Place, name: &str) -> (Vec<u8>, Vec<u8>) {
    (bytes(&place.path(&format!("{name}.json"))), bytes(&place.path(&format!("{name}.stats.jsonl"))))
}

#[test]
fn every_method_is_trained_resumed_and_used() {
    for (method, options) in METHODS {
        used(&Place::new(&format!("methods-{method}")), method, "mixture", options);
    }
}

/// Bands and operators need pixels: two, side by side.
#[test]
fn a_wider_span_is_trained_resumed_and_used() {
    let place = Place::new("methods-span");
    let options = "--span state,bands:1,operator:3 --nfe 3 --iters 40 --batch 8 --validation 16";
    used(&place, "dyweight", "mixture --shape 1,1,2", options);
    let said = place.works("inspect a.json").stdout;
    assert!(said.contains("span state,bands:1,operator:3 of 133 numbers"), "{said}");
    let said = place.works("export a.json").stderr;
    assert!(said.contains("does not carry") && said.contains("operator:3"), "{said}");
    // Kernels of one channel, on samples of two.
    place.refuses(
        "sample --model mixture --weights a.json --seeds 0-3 --outdir other",
        &["channels of the samples", "dyweight(3"],
    );
    // Going on from a file keeps its span, unless another is asked for.
    place.works(
        "train --model mixture --shape 1,1,2 --nfe 3 --init a.json --iters 1 --batch 2 --validation 4 --out more.json",
    );
    assert!(place.works("inspect more.json").stdout.contains("span state,bands:1,operator:3"));
    place.works("train --model mixture --shape 1,1,2 --nfe 3 --init a.json --span none --iters 1 --batch 2 --validation 4 --out less.json");
    assert!(!place.works("inspect less.json").stdout.contains("span"));
    let train = |span: &str| format!("train --model mixture --nfe 3 --out b.json --span {span}");
    place.refuses(&train("bands"), &["bands", "1 x 1 pixels"]);
    place.refuses(&train("operator:3"), &["operator:3", "1 x 1 pixels"]);
    place.refuses(&train("operator:7"), &["span", "operator:7"]);
    place.refuses(&format!("{} --method s4s", train("state")), &["s4s has no option span"]);
}

fn used(place: &Place, method: &str, model: &str, options: &str) {
    let train =
        |name: &str, more: &str| format!("train --method {method} --model {model} {options} --out {name}.json {more}");
    let ended = place.run(&train("a", "--threads 1"));
    assert_eq!(ended.code, Some(0), "{method}: {ended:?}");
    let whole = results(place, "a");
    // A kill once there is something to lose, then the rest with another number of threads.
    let mut child = place.command(&train("b", "--threads 2 --snapshot-seconds 0.001"));
    let mut child = child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let under_way = || std::fs::read(place.path("b.stats.jsonl")).is_ok_and(|log| log.contains(&b'\n'));
    while !under_way() && begun.elapsed() < Duration::from_secs(20) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    child.wait().unwrap();
    let ended = place.run(&train("b", "--threads 2 --resume"));
    assert_eq!(ended.code, Some(0), "{method}: {ended:?}");
    assert!(results(place, "b") == whole, "{method}: a resumed run is not the whole one");
    for command in [
        "inspect a.json".to_string(),
        format!("sample --model {model} --weights a.json --seeds 0-3 --outdir samples"),
        "export a.json --to sigmas".into(),
        format!("compare --model {model} --solver-file a.json --seeds 0-7 --out comparison"),
    ] {
        let ended = place.run(&command);
        assert_eq!(ended.code, Some(0), "{method}, {command}: {ended:?}");
    }
    let list = place.run("export a.json").stdout;
    let levels: Vec<f64> = list.trim().split(',').map(|v| v.parse().unwrap()).collect();
    assert!(!list.contains(['e', 'E']) && levels.windows(2).all(|w| w[0] > w[1]), "{method}: {list}");
}

#[test]
fn options_of_other_methods_are_refused() {
    let place = Place::new("foreign-options");
    let train = |rest: &str| format!("train --model mixture --nfe 3 --out a.json {rest}");
    place.refuses(&train("--method nothing"), &["method", "nothing"]);
    place.refuses(&train("--points 3"), &["dyweight has no option points"]);
    place.refuses(&train("--method ld3 --afs"), &["ld3 has no option afs"]);
    place.refuses(&train("--method gits --lr 0.1"), &["gits has no option lr"]);
    place.refuses(&train("--method epd"), &["3"]);
    place.refuses(&train("--method amed --direction-range 1.5"), &["direction-range"]);
}
