//! Training that is killed, stopped and damaged: what is resumed ends with the bytes of a run that was left alone, and
//! what cannot be resumed is refused.
#![cfg(unix)]

use crate::common::{Ended, Place, bytes};
use dyweight::noise::Stream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A second or two of work. Snapshots follow each other closely so that a kill often falls into the writing of one.
const RUN: &str = "train --model mixture --nfe 4 --seed 5 --batch 8 --iters 1200 --validation 16 --snapshot-seconds 0.01 \
                   --threads 2 --out a.json";

fn start(place: &Place, arguments: &str) -> Child {
    place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Ended {
    Ended::of("", child.wait_with_output().unwrap())
}

/// Solver file and log.
fn results(place: &Place) -> (Vec<u8>, Vec<u8>) {
    assert!(!place.path("a.state").exists(), "the state of a finished run was left behind");
    (bytes(&place.path("a.json")), bytes(&place.path("a.stats.jsonl")))
}

fn temporaries(place: &Place) -> usize {
    place.names().iter().filter(|n| n.ends_with(".tmp")).count()
}

/// Lines the log has so far.
fn logged(place: &Place) -> usize {
    std::fs::read(place.path("a.stats.jsonl")).map_or(0, |log| log.iter().filter(|b| **b == b'\n').count())
}

/// Starts a run and waits until it has made some iterations.
fn under_way(place: &Place, arguments: &str) -> Child {
    let mut child = start(place, arguments);
    let patience = Instant::now();
    while logged(place) < 100 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before its 100th iteration");
        assert!(patience.elapsed() < Duration::from_secs(60), "no progress");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

/// A run that was stopped by Ctrl-C.
fn stopped(place: &Place, arguments: &str) -> Ended {
    let child = under_way(place, arguments);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    end(child)
}

#[test]
fn killed_twenty_times_it_ends_with_the_same_bytes() {
    let place = Place::new("undisturbed");
    let begun = Instant::now();
    assert_eq!(place.works(RUN).stdout, "a.json\n");
    let whole = begun.elapsed();
    let expected = results(&place);
    assert_eq!(logged(&place), 1200);

    let mut z = Stream::labelled(u64::from(std::process::id()), "kills");
    let (mut kills, mut resumed, mut finished) = (0, 0, 0);
    let resume = format!("{RUN} --resume");
    // On a busy machine many are killed before there is anything to resume.
    while (kills < 20 || resumed < 10 || finished == 0) && finished < 12 {
        let place = Place::new(&format!("killed-{finished}"));
        let before = kills;
        loop {
            let mut child = start(&place, &resume);
            // The start of a run is not interrupted more often than its middle, nor a slow machine kept from ever
            // ending.
            let share = if kills < before + 40 { 0.16 * z.uniform() } else { 10.0 };
            let deadline = Instant::now() + whole.mul_f64(share);
            while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            child.kill().unwrap();
            let ended = end(child);
            resumed += usize::from(ended.stderr.contains("resuming a.state"));
            match ended.code {
                Some(code) => {
                    assert_eq!(code, 0, "{ended:?}");
                    break;
                }
                None => kills += 1,
            }
        }
        let found = results(&place);
        assert!(found.0 == expected.0, "the solver differs after {kills} kills");
        assert!(found.1 == expected.1, "the log differs after {kills} kills");
        finished += 1;
    }
    println!("{kills} kills, {resumed} resumptions, {finished} runs, {whole:?} undisturbed");
    assert!(kills >= 20 && resumed >= 10, "{kills} kills, {resumed} resumptions");
}

#[test]
fn ctrl_c_leaves_a_run_that_goes_on_as_it_says() {
    let place = Place::new("interrupted");
    place.works(RUN);
    let expected = results(&place);
    let place = Place::new("interrupted-again");
    let ended = stopped(&place, RUN);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(place.path("a.state").exists() && !place.path("a.json").exists());
    assert_eq!(temporaries(&place), 0, "{:?}", place.names());
    let says = "continue with: dyweight ";
    let continued = ended.stderr.lines().find_map(|l| l.split_once(says)).map(|(_, arguments)| arguments);
    place.works(continued.unwrap_or_else(|| panic!("{ended:?}")));
    assert!(results(&place) == expected, "a run that was stopped and continued differs");
}

#[test]
fn a_second_run_on_the_same_output_is_told_of_the_first() {
    let place = Place::new("second-run");
    let long = RUN.replace("--iters 1200", "--iters 1000000");
    let mut first = under_way(&place, &long);
    for more in ["", " --resume", " --overwrite"] {
        // Not `refuses`: the first run's files come and go meanwhile.
        let ended = place.run(&format!("{long}{more}"));
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("a.json is being written by process"), "{ended:?}");
    }
    assert!(first.try_wait().unwrap().is_none(), "the first run suffered");
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn states_that_do_not_fit_are_refused_and_left_alone() {
    let place = Place::new("refused");
    let ended = stopped(&place, RUN);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let files = ["a.state", "a.stats.jsonl", "a.config.toml"].map(|name| place.path(name));
    let kept = files.clone().map(|f| bytes(&f));
    let untouched = |what: &str| {
        for (file, kept) in files.iter().zip(&kept) {
            assert!(bytes(file) == *kept, "{what}: {} was changed", file.display());
        }
    };

    place.refuses(RUN, &["a.state", "interrupted run", "hint: --resume continues it, --overwrite starts anew"]);
    let resume = format!("{RUN} --resume");
    for other in ["--lr 0.5", "--seed 6", "--order 2", "--rho 5"] {
        let arguments =
            if other.starts_with("--seed") { resume.replace("--seed 5", other) } else { format!("{resume} {other}") };
        place.refuses(&arguments, &["a.state", "another run"]);
        untouched(other);
    }

    let sound = &kept[0];
    for length in [0, 4, 100, sound.len() / 2, sound.len() - 1] {
        place.write("a.state", &sound[..length]);
        place.refuses(&resume, &["a.state"]);
    }
    let mut z = Stream::labelled(0, "flipped bits");
    let header = 8 + u64::from_le_bytes(sound[..8].try_into().unwrap()) as usize;
    for round in 0..24 {
        // The header, whose texts are checked, and the numbers, in which any bit may be sound.
        let (first, len) = if round % 2 == 0 { (0, header) } else { (header, sound.len() - header) };
        let bit = z.bits() as usize % (8 * len);
        let mut flipped = sound.clone();
        flipped[first + bit / 8] ^= 1 << (bit % 8);
        place.write("a.state", &flipped);
        place.refuses(&resume, &["a.state"]);
    }
    place.tensors("a.state", &[("values", &[2], &[1.0, 2.0])]);
    place.refuses(&resume, &["a.state", "not a training state"]);
    place.write("a.state", sound);
    untouched("damaged states");

    // A log that has lost what the state says was logged.
    place.write("a.stats.jsonl", &kept[1][..200]);
    place.refuses(&resume, &["a.stats.jsonl", "ends at iteration"]);
    place.write("a.stats.jsonl", &kept[1]);

    place.works(&format!("{RUN} --overwrite"));
    let anew = results(&place);
    place.works(&format!("{RUN} --overwrite"));
    assert!(results(&place) == anew, "two runs of the same options differ");
}
