//! Where results go: never in the place of an input or of each other, through links, past what killed runs left behind,
//! and never over what is not ours.
#![cfg(unix)]

use crate::common::{Place, bytes};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// A place with one input of each kind.
fn furnished(name: &str) -> Place {
    let place = Place::new(name);
    let mixture: [(&str, &[usize], &[f64]); 3] = [
        ("model.mu", &[2, 2], &[1.0, 1.0, -1.0, -1.0]),
        ("model.std", &[2], &[0.1, 0.1]),
        ("model.weight", &[2], &[0.5; 2]),
    ];
    place.tensors("model", &mixture);
    place.tensors("latents", &[("latents", &[1, 2, 1, 1], &[0.1, 0.2])]);
    place.tensors("input", &[("x", &[1, 2, 1, 1], &[0.1, 0.2]), ("sigma", &[1], &[1.0])]);
    place.tensors("samples", &[("samples", &[1, 2, 1, 1], &[0.1, 0.2])]);
    place.works("convert preset:cifar10-nfe3 solver");
    place
}

#[test]
fn outputs_never_replace_inputs() {
    let place = furnished("inputs");
    place.works("sample --model fashion --nfe 3 --seeds 0-1 --outdir images");
    for (input, command) in [
        ("model", "sample --model model --nfe 3 --trajectory"),
        ("latents", "sample --model mixture --nfe 3 --latents latents --trajectory"),
        ("solver", "sample --model mixture --weights solver --trajectory"),
        ("input", "probe --model mixture --input input --out"),
        ("model", "probe --model model --input input --out"),
        ("solver", "convert solver"),
        ("samples", "metric teacher samples samples --out"),
        ("images/000000/000001.png", "metric stats images --out"),
        ("images/000000/000001.png", "metric teacher images images --out"),
        ("images/000000/000001.png", "metric fid images fashion --out"),
    ] {
        let before = bytes(&place.path(input));
        let _ = std::fs::remove_file(place.path("soft"));
        let _ = std::fs::remove_file(place.path("hard"));
        symlink(input, place.path("soft")).unwrap();
        std::fs::hard_link(place.path(input), place.path("hard")).unwrap();
        let absolute = place.path(input).display().to_string();
        for spelled in [input, &format!("./{input}"), &format!("images/../{input}"), "soft", "hard", &absolute] {
            place.refuses(&format!("{command} {spelled}"), &["is the same file as", "hint: choose another name"]);
            assert_eq!(bytes(&place.path(input)), before, "{command} {spelled}");
        }
    }
}

#[test]
fn inputs_in_an_output_directory_stay() {
    let place = furnished("directories");
    std::fs::create_dir(place.path("out")).unwrap();
    std::fs::copy(place.path("latents"), place.path("out/samples.safetensors")).unwrap();
    let latents = "sample --model mixture --nfe 3 --latents out/samples.safetensors --outdir out";
    place.refuses(latents, &["--out out/samples.safetensors is the same file as --latents"]);
    std::fs::copy(place.path("model"), place.path("out/report.md")).unwrap();
    let compare = "compare --model out/report.md --solvers euler --nfe 3 --seeds 0-3 --out out";
    place.refuses(compare, &["--out out/report.md is the same file as --model"]);
}

#[test]
fn no_output_replaces_another() {
    let place = Place::new("twice");
    place.works("sample --model mixture --nfe 3 --outdir out");
    let before = bytes(&place.path("out/samples.safetensors"));
    let twice = "sample --model mixture --nfe 3 --outdir out --trajectory out/../out/samples.safetensors";
    place.refuses(twice, &["--trajectory", "is the same file as --out"]);
    assert_eq!(bytes(&place.path("out/samples.safetensors")), before);
}

#[test]
fn a_link_is_followed_and_a_dangling_one_makes_its_target() {
    let place = Place::new("links");
    std::fs::create_dir(place.path("store")).unwrap();
    std::fs::write(place.path("store/old"), "old").unwrap();
    symlink("store/old", place.path("link")).unwrap();
    symlink("store/new", place.path("dangling")).unwrap();
    for (link, target) in [("link", "store/old"), ("dangling", "store/new")] {
        place.works(&format!("sample --model mixture --nfe 3 --trajectory {link}"));
        assert!(place.path(link).is_symlink());
        assert!(bytes(&place.path(target)).len() > 100);
    }
    symlink("loop", place.path("loop")).unwrap();
    place.refuses("sample --model mixture --nfe 3 --trajectory loop", &["loop", "symbolic links"]);
}

#[test]
fn what_killed_runs_left_is_in_nobodys_way() {
    let place = Place::new("left");
    // Of every number, so of this run's too, and in the ways temporary files are and were called.
    for number in 0..3 {
        place.write(&format!(".t.safetensors.{number}.tmp"), "half");
    }
    place.write(".t.safetensors.lock", "1");
    place.works("sample --model mixture --nfe 3 --trajectory t.safetensors");
    let left: Vec<String> = place.names().into_iter().filter(|n| n.contains(".0.tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// An old result is there until the new one is.
#[test]
fn a_run_that_fails_leaves_the_old_result() {
    let place = Place::new("old");
    place.works("sample --model mixture --nfe 3 --trajectory t.safetensors");
    let before = bytes(&place.path("t.safetensors"));
    let ended = place.run("sample --model mixture --nfe 3 --sigma-max 1e300 --trajectory t.safetensors");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(bytes(&place.path("t.safetensors")), before);
}

#[test]
fn permissions_are_kept_and_read_only_results_too() {
    let place = Place::new("modes");
    let (path, run) = (place.path("t.safetensors"), "sample --model mixture --nfe 3 --trajectory t.safetensors");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    place.works(run);
    for kept in [0o600, 0o640] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(kept)).unwrap();
        place.works(run);
        assert_eq!(mode(&path), kept);
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    place.refuses(run, &["read-only", "hint:"]);
}

#[test]
fn places_that_cannot_be_are_refused_before_the_work() {
    let place = furnished("places");
    place.write("file", "");
    std::fs::create_dir(place.path("dir")).unwrap();
    let huge = "sample --model random:edm-imagenet64 --nfe 9 --seeds 0-999";
    for (arguments, says) in [
        (format!("{huge} --outdir file"), "file|hint: a file stands where a directory"),
        (format!("{huge} --trajectory dir"), "dir|not a regular file"),
        (format!("{huge} --trajectory new/"), "new/|the name of a file is missing"),
        (format!("{huge} --trajectory no/such"), "no/such|hint: does it exist"),
        (format!("{huge} --trajectory /dev/null"), "/dev/null|not a regular file"),
        (format!("{huge} --trajectory -"), "--trajectory -|hint: give a name"),
        ("convert solver -".into(), "the output -|hint: give a name"),
        ("convert solver dir".into(), "dir|not a regular file"),
        ("probe --model mixture --input input --out no/such".into(), "no/such"),
        ("metric stats sampler --model fashion --nfe 3 --out dir".into(), "dir|not a regular file"),
        ("compare --model mixture --solvers euler --nfe 3 --seeds 0-3 --out file".into(), "file|hint: a file stands"),
    ] {
        place.refuses(&arguments, &says.split('|').collect::<Vec<_>>());
    }
}

/// Images that lie about must not pass for samples, and what is not ours is not removed.
#[test]
fn foreign_files_in_an_output_directory_are_neither_taken_nor_removed() {
    let place = Place::new("foreign");
    let run = "sample --model fashion --nfe 3 --seeds 0-1 --outdir out";
    place.works(run);
    std::fs::remove_file(place.path("out/run.json")).unwrap();
    place.write("out/000000/notes.txt", "mine");
    std::fs::create_dir(place.path("out/2024000")).unwrap();
    place.write("out/2024000/holiday.png", "mine");
    place.refuses(run, &["holds images, but not how they were made", "--overwrite"]);
    let ended = place.works(&format!("{run} --overwrite --json")).json();
    assert_eq!(ended["made"], 2);
    assert_eq!(bytes(&place.path("out/000000/notes.txt")), b"mine");
    assert_eq!(bytes(&place.path("out/2024000/holiday.png")), b"mine");
    place.write("plain", "");
    std::fs::create_dir(place.path("mixed")).unwrap();
    place.write("mixed/notes.txt", "mine");
    place.works("sample --model fashion --nfe 3 --seeds 0-1 --outdir mixed");
    assert_eq!(bytes(&place.path("mixed/notes.txt")), b"mine");
}

/// A solver may have taken hours to learn.
#[test]
fn a_solver_is_replaced_by_nothing_but_a_solver_that_was_asked_for() {
    let place = furnished("solver");
    let kept = bytes(&place.path("solver"));
    for (command, says) in [
        ("convert preset:cifar10-nfe5 solver", "solver is there already|hint: choose another output, or --overwrite"),
        ("sample --model mixture --nfe 3 --trajectory solver", "--trajectory solver is a solver file|hint: choose"),
        ("probe --model mixture --input input --out solver", "--out solver is a solver file|hint: choose"),
        ("metric teacher samples samples --out solver", "solver is a solver file|hint: choose"),
        ("train --model mixture --nfe 3 --iters 2 --out new --trace solver", "--trace solver is a solver file|hint:"),
    ] {
        place.refuses(command, &says.split('|').collect::<Vec<_>>());
        assert_eq!(bytes(&place.path("solver")), kept, "{command}");
    }
    place.works("convert preset:cifar10-nfe5 solver --overwrite");
    assert_ne!(bytes(&place.path("solver")), kept);
}

/// Who says anew gets it anew.
#[test]
fn samples_are_made_anew_when_someone_says_so() {
    let place = Place::new("anew");
    let run = "sample --model fashion --nfe 3 --seeds 0-1 --out out --json";
    assert_eq!(place.works(run).json()["made"], 2);
    assert_eq!(place.works(run).json()["made"], 0);
    place.write("out/000000/000001.png", bytes(&place.path("out/000000/000000.png")));
    assert_eq!(place.works(&format!("{run} --overwrite")).json()["made"], 2);
    assert_ne!(bytes(&place.path("out/000000/000000.png")), bytes(&place.path("out/000000/000001.png")));
}

#[test]
fn outputs_that_cannot_be_written_are_found_before_the_work() {
    let place = Place::new("unwritable");
    place.write("file", "");
    for (arguments, name) in [
        ("sample --model mixture --steps 3 --trajectory missing/t.safetensors --outdir d", "missing/t.safetensors"),
        ("sample --model mixture --steps 3 --trajectory file/t.safetensors", "file/t.safetensors"),
        ("sample --model mixture --steps 3 --trajectory . --outdir d", "cannot write ."),
        ("sample --model mixture --steps 3 --outdir file", "file"),
        ("sample --model mixture --steps 3 --outdir file/d", "file/d"),
        ("convert preset:cifar10-nfe3 missing/a.json", "missing/a.json"),
        ("convert preset:cifar10-nfe3 file/a.json", "file/a.json"),
        ("train --model mixture --nfe 3 --iters 100000000 --out missing/a.json", "missing/a"),
        ("train --model mixture --nfe 3 --iters 100000000 --out file/a.json", "file/a"),
        ("train --model mixture --nfe 3 --iters 100000000 --out a.json --cache file", "file"),
    ] {
        place.refuses(arguments, &["cannot", name]);
    }
    let ended = place.run("train --model mixture --nfe 3 --iters 100000000 --out a.json --trace missing/t.safetensors");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("missing/t.safetensors"), "{ended:?}");
    assert!(!place.path("a.json").exists() && !place.path("a.state").exists());
}
