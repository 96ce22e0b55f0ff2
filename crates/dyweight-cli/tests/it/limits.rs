//! Numbers no machine can meet, and files that never end or never begin: refused at once and by name.
#![cfg(unix)]

use crate::common;

use crate::common::{Ended, Place};
use dyweight::files::TensorFile;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs something that must end within seconds, however it ends.
fn at_once(place: &Place, arguments: &str) -> Ended {
    let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("{arguments} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ended::of(arguments, child.wait_with_output().unwrap())
}

fn refused(place: &Place, arguments: &str, says: &str) {
    let ended = at_once(place, arguments);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    says.split('|').for_each(|text| assert!(ended.stderr.contains(text), "'{text}' is missing: {ended:?}"));
}

#[test]
fn numbers_beyond_memory_are_named() {
    let place = Place::new("huge");
    let most = usize::MAX;
    for (arguments, says) in [
        (format!("bench --model mixture --batch {most}"), "--batch 18446744073709551615|more than 536870912"),
        ("bench --model fashion --batch 100000000".into(), "--batch 100000000|1x28x28"),
        ("bench --model mixture --batch 0".into(), "--batch 0|at least one"),
        (format!("bench --model mixture --repeats {most}"), "--repeats 18446744073709551615|between 1 and"),
        (format!("bench --model mixture --what train --nfe {most}"), "--nfe 18446744073709551615|100000"),
        (format!("bench --model mixture --what train --teacher-nfe {most}"), "--teacher-nfe 18446744073709551615"),
        (format!("metric bench --count {most}"), "--count 18446744073709551615|2 to"),
        (format!("metric bench --dims {most}"), "--dims 18446744073709551615|2 to"),
        ("metric bench --dims 1000000 --count 2".into(), "--dims 1000000|2 to"),
        ("metric bench --dims 2 --count 1".into(), "--count 1|2 to"),
        ("sample --model fashion --nfe 3 --seeds 0-99999999 --batch 99999999".into(), "--batch 99999999|1x28x28"),
        ("sample --model mixture --nfe 99999 --seeds 0-999999 --outdir d".into(), "numbers|hint: use fewer samples"),
        (
            format!("compare --model mixture --solvers euler --nfe 3 --seeds 0-9 --teacher-nfe {most} --guidance 2"),
            "--guidance 2|needs a class or a prompt",
        ),
        ("compare --model fashion --solvers euler --nfe 3 --seeds 0-9999999 --batch 9999999".into(), "--batch 9999999"),
        ("study main --quick --batch 0".into(), "--batch 0"),
        (format!("study main --quick --teacher-nfe {most}"), "teacher-nfe"),
        (format!("sample --model mixture --nfe 3 --shape {most},1,1"), "shape"),
        ("sample --model mixture --nfe 3 --shape 1048576,1048576,1048576".into(), "1048576"),
    ] {
        refused(&place, &arguments, says);
    }
}

/// A sound little network whose configuration asks for images of four thousand million pixels.
#[test]
fn a_configuration_cannot_ask_for_any_amount_of_memory() {
    let place = Place::new("resolution");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dyweight-models/tests/data/edm_standard.safetensors");
    let mut file = TensorFile::read(&data).unwrap();
    let larger = |text: &str| text.replace("4x4_", "65536x65536_").replace("2x2_", "32768x32768_");
    file.tensors = file.tensors.into_iter().map(|(name, tensor)| (larger(&name), tensor)).collect();
    let config = file.metadata.get_mut("config").unwrap();
    let mut options: serde_json::Value = serde_json::from_str(config).unwrap();
    assert_eq!(options["img_resolution"], 4, "the test's data have changed");
    options["img_resolution"] = 65536.into();
    *config = options.to_string();
    file.write(&place.path("network")).unwrap();
    let says = "one image of 65536 x 65536 takes|numbers";
    refused(&place, "sample --model network --nfe 3 --seeds 0", says);
    refused(&place, "bench --model network --batch 1", says);
    let inspected = place.works("inspect network");
    assert!(inspected.stderr.contains("this network cannot be run: one image of 65536"), "{inspected:?}");
}

#[test]
fn pipes_devices_and_directories_are_not_read() {
    let place = Place::new("pipes");
    let pipe = |name: &str| assert!(Command::new("mkfifo").arg(place.path(name)).status().unwrap().success());
    pipe("pipe");
    std::fs::create_dir(place.path("directory")).unwrap();
    place.tensors("w", &[("a", &[1], &[1.0])]);
    for name in ["pipe", "/dev/zero", "/dev/stdin", "directory"] {
        for arguments in [
            "sample --nfe 3 --model",
            "sample --nfe 3 --model w --config",
            "sample --model mixture --weights",
            "sample --model mixture --nfe 3 --latents",
            "inspect",
            "probe --model mixture --out p --input",
            "compare --model mixture --out c --solver-file",
            "compare --model fashion --out c --solvers euler --nfe 3 --seeds 0-3 --reference",
            "bench --inception",
        ] {
            // A model may be a folder, if there is a model in it.
            let is_folder = name == "directory" && ["sample --nfe 3 --model", "inspect"].contains(&arguments);
            let says = if is_folder { "directory: there is no model in this folder" } else { "not a regular file" };
            refused(&place, &format!("{arguments} {name}"), says);
        }
        refused(&place, &format!("convert {name} out.json"), "not a regular file");
    }
    for name in ["pipe", "/dev/zero"] {
        refused(&place, &format!("metric stats {name} --out s.npz"), name);
        refused(&place, &format!("metric teacher {name} w"), "not a regular file");
    }
    place.works("sample --model fashion --nfe 3 --seeds 0-1 --outdir images");
    pipe("images/000000/999999.png");
    refused(&place, "metric stats images --out s.npz", "999999.png|not a regular file");
    refused(&place, "metric teacher images images", "999999.png|not a regular file");
    for (command, file) in [
        ("sample --model mixture --nfe 3 --outdir taken", "taken/run.json"),
        ("compare --model mixture --solvers euler --nfe 3 --seeds 0-3 --out taken", "taken/records.jsonl"),
        ("study numeric --quick --out taken", "taken/records.jsonl"),
    ] {
        let _ = std::fs::remove_dir_all(place.path("taken"));
        std::fs::create_dir(place.path("taken")).unwrap();
        pipe(file);
        refused(&place, command, file);
    }
}

#[test]
fn links_in_a_circle_of_folders_end_the_search() {
    let place = Place::new("circle");
    place.works("sample --model fashion --nfe 3 --seeds 0-1 --outdir images");
    std::os::unix::fs::symlink("../images/000000", place.path("images/again")).unwrap();
    refused(&place, "metric stats images --out s.npz", "images|counted already");
    std::fs::remove_file(place.path("images/again")).unwrap();
    // Two links double the ways with every step.
    for link in ["images/a", "images/b"] {
        std::os::unix::fs::symlink(".", place.path(link)).unwrap();
    }
    refused(&place, "metric stats images --out s.npz", "images|counted already");
}

#[test]
fn empty_files_are_said_to_be_empty() {
    let place = Place::new("empty");
    place.write("empty", "");
    for arguments in [
        "sample --model empty --nfe 3",
        "sample --model mixture --weights empty",
        "sample --model mixture --nfe 3 --latents empty",
        "inspect empty",
        "convert empty out",
    ] {
        place.refuses(arguments, &["empty: expected", "found an empty file"]);
    }
}

/// A file that is mostly a hole takes no space, and no time unless all of it is read.
#[test]
fn of_a_large_file_only_what_is_needed_is_read() {
    const SIZE: u64 = 64 << 30;
    let place = Place::new("sparse");
    let write = |name: &str, start: &[u8], size: u64| {
        let mut file = std::fs::File::create(place.path(name)).unwrap();
        file.write_all(start).unwrap();
        file.seek(SeekFrom::Start(size - 1)).unwrap();
        file.write_all(&[0]).unwrap();
    };
    write("zeros", b"", SIZE);
    write("text", b"{", SIZE);
    let header = format!("{{\"a\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[0,{SIZE}]}}}}", SIZE / 4);
    let start = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    write("tensors", &start, SIZE + start.len() as u64);
    refused(&place, "inspect zeros", "an unknown format");
    refused(&place, "sample --model zeros --nfe 3", "an unknown format");
    refused(&place, "inspect text", "file size");
    refused(&place, "sample --model mixture --weights zeros", "file size");
    refused(&place, "sample --model tensors --nfe 3", "--model-config");
    let shown = at_once(&place, "inspect tensors");
    assert!(shown.stdout.contains("1 tensors, 17179869184 numbers"), "{shown:?}");
}

/// A thousand threads on a few cores took half a minute for four images.
#[test]
fn threads_that_would_get_in_each_others_way_are_not_started() {
    let place = Place::new("threads");
    let sample = "sample --model fashion --nfe 3 --seeds 0-3 --outdir";
    let cores = std::thread::available_parallelism().unwrap().get();
    if cores < 256 {
        let ended = at_once(&place, &format!("{sample} many --threads 1024"));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stderr.contains(&format!("1024 threads on {cores} cores")), "{ended:?}");
        place.works(&format!("{sample} one --threads 1"));
        for image in ["000000/000000.png", "000000/000003.png"] {
            let [one, many] = ["one", "many"].map(|d| common::bytes(&place.path(d).join(image)));
            assert_eq!(one, many);
        }
    }
    let mut command = place.command("sample --model mixture --nfe 3");
    let ended = Ended::of("", command.env("RAYON_NUM_THREADS", "1000000").output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn negative_numbers_are_values_of_the_option_before_them() {
    let place = Place::new("negative");
    for option in ["nfe", "batch", "threads", "seeds", "order"] {
        place.refuses(
            &format!("sample --model mixture --nfe 3 --{option} -1").replacen("--nfe 3 --nfe", "--nfe", 1),
            &[option, "-1"],
        );
    }
    place.refuses("sample --model mixture --nfe 3 --rho -7", &["--rho -7: must lie between"]);
}
