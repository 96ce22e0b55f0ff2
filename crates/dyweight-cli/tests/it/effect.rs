//! What an option of `sample` and `compare` is taken for, it does: every option under every kind of run either changes
//! what is left behind, or is refused by its name. `dyweight/tests/it/effect.rs` walks those of training.

use crate::common::Place;

const SAMPLE: &str = "sample --model mixture --seeds 0-7 --out o --nfe 6";
const COMPARE: &str =
    "compare --model mixture --seeds 0-7 --no-times --no-search --out o --teacher-nfe 13 --nfe 6 --quiet";
/// A solver file of six calls, begun by a free first step.
const LEARNED: &str =
    "train --model mixture --nfe 6 --recipe paper --iters 2 --validation 4 --teacher-nfe 13 --out w.json";

/// Kinds of runs. None has a value below, so that each is another.
const SAMPLED: [&str; 10] = [
    "--solver euler",
    "--solver heun",
    "--solver dpm2",
    "--solver ipndm",
    "--solver dpmpp",
    "--solver dpmpp --predict eps",
    "--solver unipc",
    "--solver ipndm --schedule logsnr",
    "--solver ipndm --schedule discrete --beta-table sd15",
    "--weights w.json",
];
const COMPARED: [&str; 3] = ["--solvers ipndm,euler", "--solvers ipndm@karras,ipndm@logsnr", "--weights w.json"];

const OF_GRIDS: [&str; 8] = [
    "--schedule time-uniform",
    "--rho 3",
    "--sigma-min 0.01",
    "--sigma-max 10",
    "--sigmas 80,10,3,1,0.3,0.1,0.002",
    "--beta-table lsun-ldm",
    "--shift 2",
    "--image-size 64",
];
const OF_BOTH: [&str; 9] = [
    "--rng torch",
    "--conv direct",
    "--precision bf16",
    "--height 64",
    "--width 64",
    "--text-tokens 12",
    "--class 0",
    "--guidance 2",
    "--negative dog",
];
const OF_SAMPLES: [&str; 9] = [
    "--order 1",
    "--predict eps",
    "--lower-order-final false",
    "--variant bh1",
    "--r 0.4",
    "--threshold true",
    "--afs",
    "--denoise-to-zero",
    "--strict",
];
const OF_COMPARISONS: [&str; 9] = [
    "--afs",
    "--count-parallel once",
    "--teacher euler",
    "--teacher-order 2",
    "--teacher-nfe 15",
    "--features fashion",
    "--resize edm",
    "--train-seeds 0-1",
    "--iters 5",
];

/// What a run is without the option, or what is taken as it is.
fn is_so_anyway(setting: &str, option: &str) -> bool {
    match option {
        // Data in range stay as they are; a solver file begins as it was learned, and fits its model.
        "--threshold true" => ["--solver dpmpp", "--solver unipc"].contains(&setting),
        "--afs" | "--strict" => setting.contains("w.json"),
        // Rules without an exponent pass over one, as the reference does.
        "--rho 3" => setting.ends_with("logsnr"),
        // It is said of a model whose noise table is not known, too.
        "--beta-table lsun-ldm" => setting == "--weights w.json",
        _ => setting.contains(option),
    }
}

/// What a run leaves, or why it is refused.
fn outcome(learned: &[u8], command: &str) -> Result<Vec<u8>, String> {
    let place = Place::new("effect");
    place.write("w.json", learned);
    let ended = place.run(command);
    if ended.code != Some(0) {
        return Err(ended.stderr);
    }
    let read = |name: &str| std::fs::read(place.path("o").join(name)).ok();
    // The first line of records is what was asked for.
    let records =
        || read("records.jsonl").map(|all| all.split_inclusive(|b| *b == b'\n').skip(1).collect::<Vec<_>>().concat());
    Ok(read("samples.safetensors").or_else(records).expect("samples or records"))
}

/// A setting with an option in place of what it says of it.
fn with(start: &str, setting: &str, option: &str) -> String {
    let key = option.split(' ').next().unwrap_or(option);
    let mut words: Vec<&str> = start.split(' ').chain(setting.split(' ')).collect();
    if let Some(at) = words.iter().position(|word| *word == key) {
        words.drain(at..at + 2);
    }
    format!("{} {option}", words.join(" "))
}

#[test]
fn every_option_changes_the_samples_or_is_refused_by_name() {
    let place = Place::new("effect-learned");
    place.works(LEARNED);
    let learned = std::fs::read(place.path("w.json")).unwrap();
    let kinds = SAMPLED.iter().map(|setting| (SAMPLE, *setting, &OF_SAMPLES[..]));
    let kinds = kinds.chain(COMPARED.iter().map(|setting| (COMPARE, *setting, &OF_COMPARISONS[..])));
    let idle_of = |(start, setting, own): (&str, &str, &[&str])| -> Vec<String> {
        let base = outcome(&learned, &format!("{start} {setting}")).unwrap_or_else(|e| panic!("{setting}: {e}"));
        let options = OF_GRIDS.iter().chain(&OF_BOTH).chain(own).filter(|option| !is_so_anyway(setting, option));
        let look = |option: &&str| {
            let command = with(start, setting, option);
            let key = option.split(' ').next().unwrap_or(option);
            match outcome(&learned, &command) {
                Ok(found) if found == base => Some(format!("{command}: changes nothing")),
                // A number of calls that cannot be made so.
                Err(said) if said.contains("no grid lets") || said.contains("calls, not 6") => None,
                Err(said) if !said.contains(key) => Some(format!("{command}: {said}")),
                _ => None,
            }
        };
        options.filter_map(look).collect()
    };
    let kinds: Vec<_> = kinds.collect();
    let half = kinds.len() / 2;
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| kinds[half..].iter().flat_map(|kind| idle_of(*kind)).collect::<Vec<_>>());
        let own: Vec<_> = kinds[..half].iter().flat_map(|kind| idle_of(*kind)).collect();
        (own, other.join().unwrap())
    });
    let idle = [first, second].concat();
    assert!(idle.is_empty(), "{} in all\n{}", idle.len(), idle.join("\n"));
}
