//! `train` as careless people use it: what is said in two places, what is in the way, what changes nothing.
#![cfg(unix)]

use crate::common::{Place, bytes};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// A moment of work.
const SHORT: &str = "train --model mixture --nfe 3 --batch 4 --iters 6 --validation 4 --validate-every 2 --threads 1";
/// Long enough to be interrupted.
const LONGER: &str =
    "train --model mixture --nfe 3 --batch 4 --iters 4000 --validation 4 --validate-every 200 --threads 1";

fn file(place: &Place, name: &str) -> serde_json::Value {
    serde_json::from_slice(&bytes(&place.path(name))).unwrap()
}

#[test]
fn an_output_whose_name_is_no_text_is_trained_with_the_options_given() {
    let place = Place::new("name");
    place.works(&format!("{SHORT} --lr 0.02 --out plain.json"));
    let name = OsStr::from_bytes(b"s\xff.json");
    let mut command: Command = place.command(&format!("{SHORT} --lr 0.02"));
    let output = command.arg("--out").arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(bytes(&place.0.join(name)), bytes(&place.path("plain.json")));
}

#[test]
fn solvers_of_other_endings_share_no_files() {
    let place = Place::new("endings");
    place.works(&format!("{SHORT} --out s.a"));
    let log = bytes(&place.path("s.a.stats.jsonl"));
    place.works(&format!("{SHORT} --seed 1 --out s.b"));
    assert_eq!(bytes(&place.path("s.a.stats.jsonl")), log);
    assert_ne!(bytes(&place.path("s.b.stats.jsonl")), log);
}

/// A run that was stopped at its second iteration, by a state that is put back.
fn interrupted(place: &Place) {
    place.works(&format!("{LONGER} --out whole.json"));
    let mut child = place.command(&format!("{LONGER} --snapshot-seconds 0 --out a.json")).spawn().unwrap();
    let log = place.path("a.stats.jsonl");
    while std::fs::read(&log).map_or(0, |l| l.len()) < 200 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(place.path("a.state").exists(), "the run was over too soon");
}

#[test]
fn what_changes_no_bit_does_not_keep_a_run_from_being_resumed() {
    let place = Place::new("resume");
    interrupted(&place);
    let other = "--memory keep --micro-batch 3 --cache targets --out ./a.json --resume";
    place.works(&format!("{} {other}", LONGER.replace("--threads 1", "--threads 2")));
    assert_eq!(bytes(&place.path("a.json")), bytes(&place.path("whole.json")));
}

#[test]
fn a_run_that_is_another_is_refused_with_what_differs() {
    let place = Place::new("another");
    interrupted(&place);
    let ended = place.run(&format!("{LONGER} --lr 0.5 --out a.json --resume"));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("lr is 0.03, not 0.5"), "{ended:?}");
}

#[test]
fn an_output_that_is_a_directory_is_refused_before_the_work() {
    let place = Place::new("directory");
    std::fs::create_dir(place.path("there")).unwrap();
    for out in ["there", "there/", "new/"] {
        place.refuses(&format!("{SHORT} --out {out}"), &["cannot write", out.trim_end_matches('/')]);
    }
}

#[test]
fn a_budget_named_twice_is_trained_once() {
    let place = Place::new("twice");
    place.works(&format!("{} --out s.json", SHORT.replace("--nfe 3", "--nfe 3,3,4")));
    assert!(place.path("s-nfe3.json").exists() && place.path("s-nfe4.json").exists());
}

#[test]
fn a_start_from_a_file_keeps_what_the_file_says() {
    let place = Place::new("init");
    place.works(&format!("{SHORT} --order 2 --no-time-shift --out first.json"));
    place.works(&format!("{SHORT} --init first.json --out second.json"));
    let second = file(&place, "second.json");
    let kept = |file: &serde_json::Value| (file["body"]["order"].as_u64(), file["body"]["time_shift"].as_bool());
    assert_eq!(kept(&second), (Some(2), Some(false)));
    let config = String::from_utf8(bytes(&place.path("second.config.toml"))).unwrap();
    assert!(config.contains("order = 2") && config.contains("no-time-shift = true"), "{config}");
    place.works(&format!("{SHORT} --init first.json --order 3 --no-time-shift false --out third.json"));
    let third = file(&place, "third.json");
    assert_eq!(kept(&third), (Some(3), Some(true)));
}

#[test]
fn a_configuration_names_the_key_that_is_wrong() {
    let place = Place::new("config");
    for (text, says) in [
        ("model = \"mixture\"\niters = \"many\"\n", &["line 2", "iters", "many"][..]),
        ("nfe = []\n", &["budget"][..]),
        ("nfe = 3\n", &["line 1", "nfe"][..]),
        ("iterations = 3\n", &["line 1", "iterations"][..]),
        ("optimiser = \"adma\"\n", &["line 1", "optimiser", "adam"][..]),
        ("a = [\n", &["line"][..]),
    ] {
        place.write("c.toml", text);
        place.refuses("train --config c.toml --model mixture --out s.json", says);
    }
}

#[test]
fn a_length_on_the_command_line_replaces_the_files() {
    let place = Place::new("length");
    place.write("c.toml", "model = \"mixture\"\nsteps = 6\nbatch = 4\niters = 2\nvalidation = 4\n");
    place.works("train --config c.toml --nfe 3 --out s.json --threads 1");
    assert_eq!(file(&place, "s.json")["nfe"], 3);
}

#[test]
fn the_model_is_not_overwritten_by_the_solver() {
    let place = Place::new("model");
    place.tensors(
        "m.safetensors",
        &[
            ("model.mu", &[2, 2], &[-1.0, 0.0, 1.0, 0.0]),
            ("model.std", &[2], &[0.1, 0.1]),
            ("model.weight", &[2], &[0.5, 0.5]),
        ],
    );
    let before = bytes(&place.path("m.safetensors"));
    place.refuses(&format!("{} --out ./m.safetensors", SHORT.replace("mixture", "m.safetensors")), &["m.safetensors"]);
    assert_eq!(bytes(&place.path("m.safetensors")), before);
}

/// Everything a run writes stands apart from everything else it reads or writes.
#[test]
fn the_files_beside_a_solver_replace_nothing() {
    let place = Place::new("beside");
    for ending in ["state", "config.toml", "stats.jsonl", "loss.svg", "loss.png", "weights.svg", "weights.png"] {
        place.refuses(
            &format!("{SHORT} --out s.json --trace s.{ending}"),
            &[&format!("--trace s.{ending} is the same file as a file beside --out")],
        );
    }
    place.refuses(&format!("{SHORT} --out s.json --cache s.json"), &["--cache s.json is the same file as --out"]);
    // A configuration someone wrote is not written over; one that a run wrote is.
    let own = "# notes\nmodel = \"mixture\"\nnfe = [3]\niters = 2\nbatch = 4\nvalidation = 4\n";
    place.write("mine.config.toml", own);
    place
        .refuses("train --config mine.config.toml --out mine.json", &["mine.config.toml is the same file as --config"]);
    assert_eq!(bytes(&place.path("mine.config.toml")), own.as_bytes());
    place.works("train --config mine.config.toml --out other.json");
    place.works("train --config other.config.toml --iters 3 --overwrite");
    assert!(String::from_utf8(bytes(&place.path("other.config.toml"))).unwrap().contains("iters = 3"));
}

#[test]
fn the_command_to_go_on_with_goes_on_with_all_budgets() {
    let place = Place::new("again");
    let train = format!("{} --one-file --out any.json", LONGER.replace("--nfe 3", "--nfe 3,4").replace("4000", "600"));
    let mut child = place.command(&train).stderr(std::process::Stdio::piped()).spawn().unwrap();
    while !place.path("any.parts/any-nfe3.state").exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    let again = format!("stopped; continue with: dyweight {train} --resume");
    assert!(said.contains(&again), "{said}");
    place.works(&format!("{train} --resume"));
    assert!(place.path("any.json").exists() && place.path("any.parts/any-nfe4.json").exists());
    // What one of them wrote down is one budget.
    place.works("train --config any.parts/any-nfe3.config.toml --overwrite --iters 2");
}

#[test]
fn the_next_command_can_be_typed() {
    let place = Place::new("quoted");
    std::fs::create_dir(place.path("my solvers")).unwrap();
    let mixture: [(&str, &[usize], &[f64]); 3] =
        [("model.mu", &[1, 4], &[1.0; 4]), ("model.std", &[1], &[0.1]), ("model.weight", &[1], &[1.0])];
    place.tensors("it's a model", &mixture);
    let mut command = place.command("train --nfe 3 --batch 4 --iters 2 --validation 4 --shape 1,2,2");
    let output = command.args(["--model", "it's a model", "--out", "my solvers/one.json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let next = said.lines().find_map(|line| line.strip_prefix("next: dyweight ")).unwrap_or_else(|| panic!("{said}"));
    let run = format!("{} {next} --seeds 0-1", env!("CARGO_BIN_EXE_dyweight"));
    let ended = Command::new("sh").args(["-c", &run]).current_dir(&place.0).output().unwrap();
    assert!(ended.status.success(), "{run}: {}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_solver_without_a_name_is_named_after_model_and_budget() {
    let place = Place::new("unnamed");
    place.works("train --model mixture --nfe 3 --iters 1 --pairs 4 --validation 4");
    assert!(place.path("mixture-nfe3.json").is_file());
    place.refuses("train --model mixture --nfe 3 --iters 2 --pairs 4 --validation 4", &["mixture-nfe3"]);
    let mixture: [(&str, &[usize], &[f64]); 3] =
        [("model.mu", &[1, 4], &[1.0; 4]), ("model.std", &[1], &[0.1]), ("model.weight", &[1], &[1.0])];
    place.tensors("it's a.model", &mixture);
    let mut command = place.command("train --shape 1,2,2 --iters 1 --pairs 4 --validation 4 --nfe 3,4 --model");
    assert!(command.arg("it's a.model").output().unwrap().status.success());
    assert!(place.path("it-s-a-nfe3.json").is_file() && place.path("it-s-a-nfe4.json").is_file());
}

#[test]
fn a_configuration_says_where_it_is_wrong() {
    let place = Place::new("written");
    let keys = "model = \"mixture\"\niters = 2\nbatch = 4\nvalidation = 4\nnfe = [3]\n";
    for (line, says) in [
        ("teacher_nfe = 6", "line 6, key 'teacher_nfe': there is no such option; it is called 'teacher-nfe'"),
        ("nfe = [4]", "line 6: duplicate key"),
        ("[deep]\nx = 1", "line 6, key 'deep': there is no such option"),
        ("steps = 3", "nfe and steps both say the length"),
    ] {
        place.write("c.toml", format!("{keys}{line}\n"));
        place.refuses("train --config c.toml --out c.json", &[says]);
    }
}
