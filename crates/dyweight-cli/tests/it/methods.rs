//! Every learned method through the program: trained, killed and resumed, sampled with, looked at, compared, exported.
#![cfg(unix)]

use crate::common::{Place, bytes};
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
    ("gits", "--nfe 4 --afs --gits-samples 8"),
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
    place.refuses(&format!("{} --method s4s", train("state")), &["--span has no effect: --method s4s"]);
}

/// Shifts of the time embedding need a network that offers it.
#[test]
fn shifts_of_the_embedding_are_trained_resumed_and_used() {
    let place = Place::new("methods-embedding");
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/../dyweight-models/tests/data/edm_standard.safetensors");
    let options = "--span state,embedding --nfe 2 --iters 40 --batch 4 --validation 8 --teacher-nfe 8";
    used(&place, "dyweight", network, options);
    let said = place.works("inspect a.json").stdout;
    assert!(said.contains("span state,embedding of 21 numbers"), "{said}");
    let said = place.works("export a.json").stderr;
    assert!(said.contains("does not carry") && said.contains("embedding"), "{said}");
    let ended = place.run("sample --model mixture --shape 1,1,2 --weights a.json --seeds 0-3 --outdir other");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("error: the solver shifts the network's time embedding, which this"), "{ended:?}");
    place.refuses("train --model mixture --nfe 2 --out b.json --span embedding", &["time embedding", "EDM network"]);
    place.works(&format!(
        "train --model {network} --nfe 2 --init a.json --iters 1 --batch 2 --validation 4 --teacher-nfe 8 --out more.json"
    ));
    assert!(place.works("inspect more.json").stdout.contains("span state,embedding"));
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
    // Of a file for a range of budgets one that was not trained.
    for command in [
        "inspect a.json".to_string(),
        format!("sample --model {model} --weights a.json --seeds 0-3 --outdir samples"),
        "export a.json --to sigmas".to_string(),
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
fn one_file_serves_every_strength_of_guidance_between_those_trained() {
    let place = Place::new("any-guidance");
    for guidance in [1, 3] {
        let ended = place.run(&format!(
            "train --model fashion --guidance {guidance} --nfe 4 --teacher-nfe 4 --iters 2 --batch 1 --validation 1 --out g{guidance}.json"
        ));
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let ended = place.run("convert g3.json g1.json any.json");
    assert!(ended.code == Some(0) && ended.stderr.contains("under guidance 1 to 3"), "{ended:?}");
    let sample = |more: &str| format!("sample --model fashion --class 1 --seeds 0 --strict --overwrite {more}");
    for (weights, to) in [("any.json", "any"), ("g3.json", "own")] {
        let ended =
            place.run(&sample(&format!("--guidance 3 --weights {weights} --trajectory {to}.safetensors --out {to}")));
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert!(bytes(&place.path("any.safetensors")) == bytes(&place.path("own.safetensors")));
    let between = place.run(&sample("--guidance 2.5 --weights any.json --out between"));
    assert_eq!(between.code, Some(0), "{between:?}");
    place.refuses(
        &sample("--guidance 4 --weights any.json --out x"),
        &["serves guidance from 1 to 3, not 4", "--guidance"],
    );
    place.refuses(&sample("--weights any.json --out x"), &["serves guidance from 1 to 3, not none"]);
    let one = place.run("convert any.json one.json --nfe 4 --guidance 3");
    assert_eq!(one.code, Some(0), "{one:?}");
    assert_eq!(place.run("inspect any.json --nfe 4 --guidance 2").code, Some(0));
    assert_eq!(place.run("export any.json --nfe 4 --guidance 2").code, Some(0));
}

#[test]
fn one_file_serves_every_budget_of_its_range() {
    let place = Place::new("any-budget");
    let ended =
        place.run("train --one-file --model mixture --nfe 6,3 --iters 20 --batch 8 --validation 16 --out any.json");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("for every budget from 3 to 6 network calls"), "{ended:?}");
    assert!(bytes(&place.path("any.parts/any-nfe3.json")) != bytes(&place.path("any.parts/any-nfe6.json")));
    let whole = bytes(&place.path("any.json"));
    // Files of each budget are joined later, too, and nothing is replaced unasked. None lies between three and four.
    place.works("train --one-file --model mixture --nfe 4,3 --iters 20 --batch 8 --validation 16 --out two.json");
    let join = "convert two.parts/two-nfe4.json two.parts/two-nfe3.json joined.json";
    place.works(join);
    assert!(bytes(&place.path("joined.json")) == bytes(&place.path("two.json")));
    place.refuses(join, &["joined.json", "--overwrite"]);
    place.refuses("convert any.parts/any-nfe6.json any.json more.json", &["any.json is a solver of any"]);
    place.refuses("train --one-file --model mixture --nfe 3 --out x.json", &["--one-file", "several budgets"]);
    // Before any work.
    let unlike = |more: &str| format!("train --one-file --model mixture --nfe 3,6 --out x.json {more}");
    place.refuses(&unlike("--method ld3"), &["x-nfe3.json is a solver of ld3"]);
    place.refuses(&unlike("--span state"), &["x-nfe3.json has a span"]);
    assert!(!place.path("x.parts").exists());
    place.refuses("train --one-file --model mixture --nfe 3,6 --out any.json", &["any", "--overwrite"]);
    // One of the budgets is finished, but what is there serves others too.
    let fewer =
        "train --one-file --model mixture --nfe 3,4 --iters 20 --batch 8 --validation 16 --out any.json --resume";
    place.refuses(fewer, &["any.json is there already", "--overwrite"]);
    // Nor by a run of other budgets that has nothing to go on with.
    let other =
        "train --one-file --model mixture --nfe 4,7 --iters 20 --batch 8 --validation 16 --out any.json --resume";
    place.refuses(other, &["any.json is there already", "--overwrite"]);
    let nine = "convert any.parts/any-nfe3.json any.parts/any-nfe6.json nine.json --nfe 9";
    place.refuses(nine, &["what the inputs make together", "9"]);
    let again =
        "train --one-file --model mixture --nfe 6,3 --iters 20 --batch 8 --validation 16 --out any.json --resume";
    assert_eq!(place.run(again).code, Some(0));
    assert!(whole == bytes(&place.path("any.json")));
    for nfe in [3, 5, 6] {
        let ended = place.run(&format!("convert any.json one-nfe{nfe}.json --nfe {nfe}"));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let sample = |from: &str, to: &str| {
            format!("sample --model mixture --weights {from} --seeds 0-3 --out {to} --trajectory {to}.safetensors")
        };
        for command in
            [format!("{} --nfe {nfe}", sample("any.json", "all")), sample(&format!("one-nfe{nfe}.json"), "one")]
        {
            let ended = place.run(&format!("{command} --overwrite"));
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
        assert!(bytes(&place.path("all.safetensors")) == bytes(&place.path("one.safetensors")));
        let ended = place.run(&format!("inspect any.json --nfe {nfe}"));
        assert!(ended.stdout.contains(&format!("{nfe} calls")), "{ended:?}");
    }
    let ended = place.run(
        "compare --model mixture --weights any.json --solvers ipndm:3+afs --nfe 3,4,6 --seeds 0-15 --out all-budgets",
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // One of its budgets goes on being trained.
    let ended =
        place.run("train --model mixture --nfe 5 --init any.json --iters 2 --batch 4 --validation 8 --out five.json");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let range = "any.json serves every budget from 3 to 6 network calls";
    place.refuses("sample --model mixture --weights any.json", &[range, "--nfe"]);
    place.refuses("compare --model mixture --weights any.json", &[range, "--nfe"]);
    place.refuses("export any.json", &[range, "--nfe"]);
    let outside = "serves budgets from 3 to 6 network calls, not 9";
    place.refuses("sample --model mixture --weights any.json --nfe 9", &[outside]);
    place.refuses("compare --model mixture --weights any.json --nfe 3,9", &[outside]);
    place.refuses("inspect any.json --nfe 9", &[outside]);
}

#[test]
fn options_of_other_methods_are_refused() {
    let place = Place::new("foreign-options");
    let train = |rest: &str| format!("train --model mixture --nfe 3 --out a.json {rest}");
    place.refuses(&train("--method nothing"), &["method", "nothing"]);
    place.refuses(&train("--epd-points 3"), &["--epd-points has no effect: --method dyweight"]);
    place.refuses(&train("--method ld3 --afs"), &["--afs has no effect: --method ld3"]);
    place.refuses(&train("--method gits --lr 0.1"), &["--lr has no effect: --method gits"]);
    place.refuses(&train("--method epd"), &["3"]);
    place.refuses(&train("--method amed --direction-range 1.5"), &["direction-range"]);
    let frechet = "train --model fashion --nfe 3 --out a.json --loss frechet --pairs 640";
    place.refuses(frechet, &["--pairs 640", "--moments"]);
}

/// What a second stage has found is compared with its start on noise of its own.
#[test]
fn a_second_stage_keeps_variety_or_its_start() {
    let place = Place::new("second-stage");
    let train = |rest: &str| {
        format!(
            "train --model fashion --nfe 2 --loss frechet --moments 16 --iters 2 --batch 2 --validation 8 --validate-every 1 --teacher-nfe 5 --cache t --threads 1 {rest}"
        )
    };
    let ended = place.works(&train("--lr 0.002 --out a.json"));
    assert!(ended.stderr.contains("64 samples each of start, result and teacher"), "{ended:?}");
    let file: serde_json::Value = serde_json::from_slice(&bytes(&place.path("a.json"))).unwrap();
    let variety = &file["training"]["variety"];
    // Of so few samples the loss says little: that it found nothing is possible, and then there is nothing to compare.
    if !variety.is_null() {
        assert_eq!((&variety["samples"], &variety["kept"]), (&64.into(), &"result".into()), "{variety}");
        // 64 samples are fewer than the judge's features: their covariance says nothing of a distance.
        assert_eq!(
            (&variety["judge"], &variety["distance"]),
            (&"fashion-judge".into(), &serde_json::Value::Null),
            "{variety}"
        );
        assert!(
            ended.stderr.contains("by fashion-judge, features that nothing here was trained on, among 64 samples")
                && ended.stderr.contains("recall"),
            "{ended:?}"
        );
    }
    // The same bits on other threads.
    place.works(&train("--lr 0.002 --out b.json").replace("--threads 1", "--threads 2"));
    assert!(results(&place, "a") == results(&place, "b"));
    let forecast = place.works(&train("--out c.json --dry-run --json")).stdout;
    assert!(forecast.contains("calls"), "{forecast}");
}

#[test]
fn a_solver_for_one_budget_is_taken_for_no_other() {
    let place = Place::new("one-budget");
    place.works("convert preset:cifar10-nfe3 solver.json");
    for command in ["inspect solver.json", "convert solver.json other.json", "export solver.json"] {
        place.refuses(&format!("{command} --nfe 5"), &["solver.json' is for 3 calls, not 5", "leave --nfe out"]);
    }
    place.works("inspect solver.json --nfe 3");
}
