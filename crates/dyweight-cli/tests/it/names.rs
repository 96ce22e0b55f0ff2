//! Names that are no text, too long, or made to fool a terminal.
#![cfg(unix)]

use crate::common::Place;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Output;

/// A name that is no UTF-8.
const ODD: &[u8] = b"odd-\xff\xfe";

/// Runs with arguments separated by spaces, of which `@` stands for the odd name.
fn run(place: &Place, arguments: &str) -> Output {
    let mut command = place.command("");
    for word in arguments.split_whitespace() {
        let bytes: Vec<&[u8]> = word.split('@').map(str::as_bytes).collect();
        command.arg(OsStr::from_bytes(&bytes.join(ODD)));
    }
    let output = command.output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{arguments}: {output:?}");
    output
}

#[test]
fn files_need_not_be_called_in_utf8() {
    let place = Place::new("odd");
    place.tensors("x", &[("x", &[1, 2, 1, 1], &[0.1, 0.2]), ("sigma", &[1], &[1.0])]);
    place.tensors("l", &[("latents", &[1, 2, 1, 1], &[0.1, 0.2])]);
    place.works("sample --model fashion --nfe 3 --seeds 0-3 --outdir images");
    std::fs::copy(place.path("l"), place.0.join(OsStr::from_bytes(ODD))).unwrap();
    let quick = "--nfe 3 --seeds 0-3";
    for arguments in [
        "sample --model mixture --nfe 3 --latents @",
        "sample --model mixture --nfe 3 --trajectory @.t",
        "sample --model mixture --nfe 3 --trajectory @.t --json",
        "sample --model mixture --nfe 3 --outdir @.d",
        "sample --model mixture --nfe 3 --outdir @.d --json",
        "convert preset:cifar10-nfe3 @.s",
        "convert @.s @.s2",
        "inspect @.s",
        "inspect @.s --json",
        "inspect @.t",
        "probe --model mixture --input x --out @.p --json",
        &format!("compare --model mixture --solvers euler {quick} --out @.c"),
        &format!("compare --model mixture --solvers euler {quick} --out @.c --json"),
        "study numeric --quick --problems 2 --iters 1 --degrees 5 --steps 6 --orders 1 --out @.n --json",
        "metric stats images --out @.npz --json",
        "metric teacher images images --out @.m --json",
        "metric fid images @.npz",
    ] {
        let ended = run(&place, arguments);
        // Names that stand for files or for things that are built in are kept with the result, as text.
        let code = if arguments.ends_with("@.npz") && arguments.contains("fid") { 2 } else { 0 };
        assert_eq!(ended.status.code(), Some(code), "{arguments}: {ended:?}");
        if arguments.ends_with("--json") {
            serde_json::from_slice::<serde_json::Value>(&ended.stdout).unwrap();
        }
    }
    // The next program is to find the file: its name is printed byte by byte.
    let printed = run(&place, "sample --model mixture --nfe 3 --trajectory @.t").stdout;
    assert_eq!(printed, [ODD, b".t\n"].concat());
}

#[test]
fn names_that_are_kept_as_text_are_refused_by_name() {
    let place = Place::new("odd-names");
    for arguments in [
        "sample --model @ --nfe 3",
        "sample --model mixture --weights @",
        "compare --model mixture --solver-file @",
        "compare --model mixture --reference @ --solvers euler",
        "metric stats @ --out a.npz",
        "train --model @ --nfe 3 --out a.json",
    ] {
        let ended = run(&place, arguments);
        let message = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{arguments}: {message}");
        assert!(message.starts_with("error: 'odd-") && message.contains("hint: rename"), "{message}");
    }
}

/// A line of its own, or a colour, would be the name's doing.
#[test]
fn no_name_speaks_to_the_terminal() {
    let place = Place::new("escapes");
    let name = "a\nhint: all is well\u{1b}[31m";
    for words in [
        ["inspect", name, "--json", "--json"].as_slice(),
        &["inspect", name],
        &["sample", "--model", name, "--nfe", "3"],
        &["sample", "--model", "mixture", "--nfe", "3", "--solver", name],
        &["sample", "--model", "mixture", "--nfe", "3", "--latents", name],
        &["sample", "--model", "mixture", "--nfe", "3", "--seeds", name],
        &["sample", "--model", "mixture", "--nfe", "3", "--trajectory", &format!("no/{name}")],
        &["convert", "preset:cifar10-nfe3", &format!("no/{name}")],
        &["metric", "stats", name, "--out", "a.npz"],
    ] {
        let ended = place.command("").args(words).output().unwrap();
        let message = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {message}");
        assert!(!message.contains('\u{1b}'), "{message:?}");
        assert!(!message.lines().any(|line| line.starts_with("hint: all is well")), "{message:?}");
    }
}

#[test]
fn the_longest_names_can_be_used() {
    let place = Place::new("long");
    let longest = "x".repeat(255);
    place.works(&format!("sample --model mixture --nfe 3 --trajectory {longest}"));
    place.works(&format!("convert preset:cifar10-nfe3 {}", "y".repeat(255)));
    assert_eq!(place.names().len(), 2);
    place.refuses(&format!("sample --model mixture --nfe 3 --trajectory {longest}x"), &["File name too long"]);
}

#[test]
fn a_name_of_the_hub_is_found_in_its_cache_and_nothing_is_downloaded() {
    let place = Place::new("hub");
    let repository = place.0.join("cache/hub/models--owner--name");
    std::fs::create_dir_all(repository.join("snapshots/0123abcd")).unwrap();
    std::fs::create_dir_all(repository.join("refs")).unwrap();
    std::fs::write(repository.join("refs/main"), "0123abcd").unwrap();
    let mixture: [(&str, &[usize], &[f64]); 3] = [
        ("model.mu", &[2, 2], &[0.5, 0.1, -0.5, 0.0]),
        ("model.std", &[2], &[0.1, 0.2]),
        ("model.weight", &[2], &[1.0, 1.0]),
    ];
    place.tensors("cache/hub/models--owner--name/snapshots/0123abcd/mix.safetensors", &mixture);
    place.tensors("file.safetensors", &mixture);
    let sampled = |model: &str, variable: &str, folder: &str, out: &str| {
        let mut command = place.command(&format!("sample --model {model} --nfe 3 --seeds 0-3 --out {out}"));
        let without = ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"];
        without.iter().for_each(|name| {
            command.env_remove(name);
        });
        let output = command.env(variable, place.0.join(folder)).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(sampled("file.safetensors", "HF_HOME", "cache", "plain").0);
    for (i, (model, variable, folder)) in [
        ("owner/name", "HF_HOME", "cache"),
        ("owner/name@main", "HF_HUB_CACHE", "cache/hub"),
        ("owner/name@0123abcd", "HUGGINGFACE_HUB_CACHE", "cache/hub"),
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("found-{i}");
        let (worked, said) = sampled(model, variable, folder, &out);
        assert!(worked, "{model}: {said}");
        let samples = |name: &str| {
            dyweight::files::TensorFile::read(&place.path(name).join("samples.safetensors")).unwrap().tensors
        };
        assert_eq!(samples(&out), samples("plain"), "{model}");
    }
    for (model, says) in [("owner/other", "hf download owner/other"), ("owner/name@v2", "known: main, 0123abcd")] {
        let (worked, said) = sampled(model, "HF_HOME", "cache", "never");
        assert!(!worked && said.contains(says), "{model}: {said}");
    }
}
