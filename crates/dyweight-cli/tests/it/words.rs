//! One word for one thing, and the words that people bring along.

use crate::common::{Place, bytes};

/// What a list of solvers has is understood wherever a solver is named.
#[test]
fn a_solver_is_named_alike_in_sample_and_compare() {
    let place = Place::new("terms");
    let states = |solver: &str| {
        place.works(&format!("sample --model mixture --nfe 5 --seeds 0-1 --trajectory t {solver}"));
        bytes(&place.path("t"))
    };
    let full = states("--solver unipc:3@karras:5+afs");
    assert!(full == states("--solver unipc --order 3 --schedule karras --rho 5 --afs"));
    assert!(full != states("--solver unipc:3"));
    let sample = "sample --model mixture --nfe 5";
    place.refuses(&format!("{sample} --solver unipc:3 --order 2"), &["unipc:3 and --order both decide the order"]);
    place.refuses(&format!("{sample} --solver unipc@x"), &["unknown schedule 'x'"]);
    place.refuses("train --model mixture --nfe 3 --out a.json --teacher ipndm:3", &["stands alone", "write ipndm"]);
    let compared = "compare --model mixture --nfe 5 --seeds 0-3 --no-search --solvers ipndm,unipc:3@karras+afs --out c";
    let table = place.works(compared).stdout;
    assert!(table.contains("iPNDM-4 ") && table.contains("UniPC-3, Karras 7, AFS "), "{table}");
}

/// Guidance doubles calls: whoever asks for calls is told.
#[test]
fn guidance_is_named_where_it_doubles_calls() {
    let place = Place::new("doubled");
    let sample = "sample --model fashion --seeds 0-1 --guidance 2";
    place.refuses(
        &format!("{sample} --nfe 3"),
        &["exactly 3 network calls: with guidance every evaluation is two", "2, 4"],
    );
    let said = place.works(&format!("{sample} --nfe 6 --solver euler")).stderr;
    assert!(said.contains("6 calls (3 evaluations, with guidance 2 calls each) each, 3 steps"), "{said}");
    let said = place.works(&format!("{sample} --nfe 6 --dry-run")).stdout;
    assert!(said.contains("6 calls (3 evaluations"), "{said}");
    place.works("train --model fashion --nfe 3 --iters 1 --batch 2 --validation 2 --teacher-nfe 6 --out three.json");
    let says = ["'three.json' was trained for 3 calls without guidance", "it makes 6", "--nfe 6"];
    place.refuses(&format!("{sample} --weights three.json --nfe 3"), &says);
    let table = place.works("compare --model fashion --guidance 2 --weights three.json --solvers euler --seeds 0-1 --teacher-nfe 12 --out c");
    assert!(table.stdout.contains("6 calls") && table.stderr.contains("learned under guidance none"), "{table:?}");
}

/// One is one.
#[test]
fn one_call_is_a_call() {
    let place = Place::new("one");
    let said = place.works("sample --model mixture --nfe 1 --seeds 0 --solver euler").stderr;
    assert!(said.contains("1 sample of mixture with euler: 1 call each, 1 step, "), "{said}");
    let table = place.works("compare --model mixture --nfe 1 --solvers euler --no-search --seeds 0-3 --out c").stdout;
    assert!(table.contains("1 call") && !table.contains("1 calls"), "{table}");
}

#[test]
fn measures_say_what_they_would_take() {
    let place = Place::new("metric-dry");
    let fid = "metric fid sampler fashion --model fashion --nfe 5 --seeds 0-9 --dry-run --out f.json";
    let said = place.works(fid).stdout;
    assert!(said.contains("features of 10 images of fashion with") && said.contains("calls   50 "), "{said}");
    assert!(!place.path("f.json").exists());
    place.works("metric stats sampler --model fashion --nfe 5 --seeds 0-9 --dry-run --out s.npz");
    assert!(!place.path("s.npz").exists());
}

#[test]
fn schedules_that_are_none_get_the_sentence_that_fits() {
    let place = Place::new("sentences");
    let sample = "sample --model mixture --nfe 5";
    for (words, says) in [
        ("--schedule AYS", "--sigmas 14.615,6.475"),
        ("--schedule align_your_steps", "Stable Diffusion 1.5"),
        ("--schedule beta", "the nearest is 'time-uniform'"),
        ("--schedule kl_optimal", "between 'karras' and 'logsnr'"),
        ("--schedule cosine", "models trained on it"),
        ("--solver res_2s", "the nearest is 'dpm2'"),
        ("--solver beta", "give it as --schedule beta"),
    ] {
        place.refuses(&format!("{sample} {words}"), &[says]);
    }
    assert!(place.works("list recipes").stdout.contains("paper"));
}
