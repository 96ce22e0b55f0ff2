//! Standard streams that are closed, full or left by their reader: a run does not depend on being watched, and data
//! that did not arrive are not passed over in silence.
#![cfg(unix)]

use crate::common::{Ended, Place};
use std::fs::OpenOptions;
use std::process::Stdio;

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// Commands that write to both streams.
const SPEAKING: [&str; 6] = [
    "list presets",
    "list schedules",
    "sample --model mixture --nfe 3 --outdir out",
    "compare --model mixture --solvers euler --nfe 3 --seeds 0-3 --out comparison",
    "metric bench --count 10 --dims 4",
    "study numeric --quick --problems 2 --iters 1 --degrees 5 --steps 6 --orders 1",
];

#[test]
fn a_full_standard_output_is_a_failed_run() {
    let place = Place::new("full-out");
    for arguments in SPEAKING.into_iter().chain(["list presets --json", "--help", "sample --help", "--version"]) {
        let output = place.command(arguments).stdout(full()).output().unwrap();
        let ended = Ended::of(arguments, output);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("error: cannot write to standard output: No space left"), "{ended:?}");
    }
    // What goes to files has arrived all the same.
    assert!(place.path("out/samples.safetensors").exists());
    assert!(place.path("comparison/report.html").exists());
}

#[test]
fn a_full_or_abandoned_standard_error_disturbs_nobody() {
    let place = Place::new("full-error");
    for arguments in SPEAKING {
        let ended = place.command(arguments).stderr(full()).output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{arguments}");
        assert!(!ended.stdout.is_empty(), "{arguments}");
        let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0), "{arguments}");
    }
    // Nor does it make a failure another one.
    for (arguments, code) in [("sample --model nothing --nfe 3", 2), ("sample --no-such-flag", 2)] {
        let ended = place.command(arguments).stderr(full()).output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{arguments}");
    }
    let diverging = "sample --model mixture --nfe 3 --sigma-max 1e300";
    assert_eq!(place.command(diverging).stderr(full()).output().unwrap().status.code(), Some(1));
}

/// As `| head -1` does.
#[test]
fn a_reader_that_had_enough_is_no_failure() {
    let place = Place::new("head");
    for arguments in SPEAKING.into_iter().chain(["--help"]) {
        let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = Ended::of(arguments, child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(!ended.stderr.lines().any(|line| line.starts_with("error:")), "{ended:?}");
    }
}

#[test]
fn closed_streams_and_a_bare_environment_are_fine() {
    let place = Place::new("closed-all");
    for redirection in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let mut shell = std::process::Command::new("sh");
        let program = env!("CARGO_BIN_EXE_dyweight");
        shell.args(["-c", &format!("exec '{program}' sample --model mixture --nfe 3 --outdir out {redirection}")]);
        let status = shell.env_clear().current_dir(&place.0).output().unwrap().status;
        assert_eq!(status.code(), Some(0), "{redirection}");
    }
    let mut command = place.command("sample --model mixture --nfe 3 --outdir out");
    command.envs([("TMPDIR", "/no/such/place"), ("HOME", ""), ("NO_COLOR", "\u{1b}"), ("RAYON_NUM_THREADS", "abc")]);
    assert_eq!(command.output().unwrap().status.code(), Some(0));
}
