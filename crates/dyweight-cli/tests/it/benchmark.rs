//! `compare`, `study` and `quickstart` as a user runs them.

use crate::common::{Place, bytes};
use std::fs;
use std::path::{Path, PathBuf};

/// Every file below a directory with its bytes, but for those that hold times.
fn tree(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|n| n != "times.jsonl") {
                files.push((path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

const COMPARE: &str =
    "compare --model mixture --solvers ipndm:3+afs,dpmpp:2@logsnr+afs --nfe 3,4 --seeds 0-99 --no-times --out out";

#[test]
fn a_comparison_is_the_same_for_any_threads_and_batch_and_is_not_done_twice() {
    let (one, two) = (Place::new("one"), Place::new("two"));
    let shown = one.works(&format!("{COMPARE} --threads 1")).stdout;
    assert!(shown.contains("iPNDM-3, AFS") && shown.contains("±") && shown.contains("report.html"), "{shown}");
    two.works(&format!("{COMPARE} --threads 2 --batch 7"));
    // The command a report notes says how it was run; nothing else may differ.
    let without_command = |place: &Place| {
        let mut files = tree(&place.path("out"));
        files.retain(|(path, _)| !path.to_string_lossy().starts_with("report"));
        files
    };
    assert_eq!(without_command(&one), without_command(&two));
    let (records, report) = (bytes(&one.path("out/records.jsonl")), bytes(&one.path("out/report.html")));
    one.works(&format!("{COMPARE} --threads 1"));
    assert_eq!(bytes(&one.path("out/records.jsonl")), records);
    assert_eq!(bytes(&one.path("out/report.html")), report);
    fs::remove_file(one.path("out/report.html")).unwrap();
    one.works(&format!("{COMPARE} --threads 1 --render-only"));
    assert_eq!(bytes(&one.path("out/report.html")), report);
    // More solvers go on where the others ended.
    one.works(&COMPARE.replace("ipndm:3+afs,", "ipndm:3+afs,euler+afs,"));
    let more = bytes(&one.path("out/records.jsonl"));
    assert!(more.starts_with(&records) && more.len() > records.len());
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_made() {
    let place = Place::new("refused");
    let base = "compare --model mixture --seeds 0-9 --out out";
    for (options, part) in [
        ("--solvers heun --nfe 3 --no-search", "no grid lets heun"),
        ("--solvers heun-afs --nfe 3", "no grid lets heun"),
        ("--solvers ipdnm --nfe 3", "unknown solver 'ipdnm'"),
        ("--solvers ipndm:9 --nfe 3", "order"),
        ("--solvers dpmpp@ --nfe 3", "'@'"),
        ("--nfe 3 --no-search", "nothing takes part"),
        ("--solvers ipndm --nfe 0", "nfe"),
        ("--solver-file missing.json", "missing.json"),
        ("--solver-file preset:cifar10-nfe5 --nfe 3", "makes 5 calls"),
        ("--solvers ipndm --nfe 3 --teacher-nfe 0", "nfe"),
        ("--solvers ipndm --nfe 3 --teacher heun --teacher-nfe 8", "teacher-nfe"),
        ("--solvers ipndm --nfe 3 --class 1", "no classes"),
        ("--solvers ipndm --nfe 3 --reference nowhere.npz", "unknown reference"),
        ("--solvers ipndm --nfe 3 --reference fashion", "28x28"),
        ("--solvers ipndm --nfe 3 --batch 0", "batch"),
    ] {
        place.refuses(&format!("{base} {options}"), &[part]);
    }
    place.refuses("compare --model mixture --solvers ipndm --nfe 3 --seeds 7 --out out", &["two samples"]);
    place.refuses("compare --model mixture --solvers ipndm --nfe 3 --out nowhere --render-only", &["nowhere"]);
    place.works("compare --model mixture --solvers ipndm,heun+afs --nfe 3,4 --seeds 0-9 --out out --skip-impossible");
    place.refuses("compare --model mixture --solvers ipndm --nfe 3 --seeds 0-8 --out out", &["judging.seeds"]);
    place.refuses(
        "compare --model mixture --shape 1,2,1 --solvers ipndm --nfe 3 --seeds 0-9 --out out",
        &["subjects[0].computed.shape"],
    );
    place.refuses(
        "compare --model mixture --solvers ipndm --nfe 3 --seeds 0-8 --out out --render-only",
        &["judging.seeds"],
    );
}

/// Of a solver that is there twice the second would pass for another training, and narrow nothing but the error bar.
#[test]
fn each_solver_takes_part_once() {
    let place = Place::new("twice");
    for folder in ["a", "b"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    place.works("convert preset:cifar10-nfe3 a/s.json");
    place.works("convert preset:ffhq-nfe3 b/s.json");
    for who in ["--solvers ipndm,ipndm", "--weights a/s.json,a/s.json", "--weights a/s.json,b/s.json"] {
        let compare = format!("compare --model mixture --nfe 3,3 --seeds 0-3 {who} --out out");
        place.refuses(&compare, &["takes part twice at 3 calls", "hint: name each solver once"]);
    }
    assert!(!place.path("out").exists());
}

#[test]
fn a_comparison_in_which_all_diverge_fails_and_says_the_same_however_it_is_cut() {
    let far = "compare --model mixture --nfe 3 --seeds 0-40 --sigma-min 1e299 --sigma-max 1e300 --no-times --no-search";
    let places = ["--threads 1 --batch 41", "--threads 2 --batch 3"].map(|cut| {
        let place = Place::new(&format!("diverged-{}", cut.len()));
        let ended = place.run(&format!("{far} --solvers euler,ipndm {cut} --out out"));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("every solver diverged") && ended.stderr.len() < 600, "{ended:?}");
        assert!(ended.stderr.contains("every solver diverged."), "{ended:?}");
        assert!(ended.stdout.contains("diverged") && ended.stdout.contains("report.html"), "{ended:?}");
        place
    });
    assert_eq!(bytes(&places[0].path("out/records.jsonl")), bytes(&places[1].path("out/records.jsonl")));
    // With one that does not, there is something to compare.
    let alone = places[0].works(&format!("{far} --solvers euler --weights preset:cifar10-nfe3 --out other"));
    // One alone is ahead of nobody.
    assert!(alone.stderr.contains("3 calls: cifar10 (") && !alone.stderr.contains("clearly"), "{alone:?}");
}

#[test]
fn every_study_answers_its_question() {
    let place = Place::new("studies");
    for name in [
        "main",
        "ablation-time",
        "order",
        "teacher",
        "init",
        "pairs",
        "supervision",
        "convergence",
        "stability",
        "coefficients",
    ] {
        let line = format!(
            "study {name} --model mixture --quick --nfe 3,4 --iters 8 --train-batch 16 --validation 16 --seeds 0-63 --no-times --json --out {name}"
        );
        let json = place.works(&line).json();
        let answer = &json["answers"][0];
        assert!(["Holds", "Fails", "Mixed", "Open"].contains(&answer["verdict"].as_str().unwrap()), "{name}: {json}");
        assert!(answer["sentence"].as_str().unwrap().len() > 20, "{name}: {answer}");
        let html = String::from_utf8(bytes(&place.path(&format!("{name}/report.html")))).unwrap();
        assert!(html.contains(answer["verdict"].as_str().unwrap()) && html.contains("<svg"), "{name}");
    }
    // What was learned can be used.
    let solver = "main/solvers/dyweight-nfe3.json";
    place.works(&format!("sample --model mixture --weights {solver} --seeds 0-9 --strict --outdir samples"));
}

#[test]
fn coefficients_travel_between_models() {
    let place = Place::new("transfer");
    let line = "study transfer --model mixture --quick --nfe 3 --iters 8 --train-batch 16 --validation 16 --seeds 0-3 --teacher-nfe 3 --json --out out";
    let json = place.works(line).json();
    // Two models, learned on one or the other, and iPNDM: six cells; and the teacher on the closed form.
    assert_eq!(json["scores"].as_array().unwrap().len(), 6 + 1, "{json}");
    // Models are no numbers: bars stand over their names, and no line runs from one to the other.
    let drawing = String::from_utf8(bytes(&place.path("out/teacher-distance.svg"))).unwrap();
    assert!(drawing.contains(">mixture</text>") && drawing.contains(">fashion</text>"), "{drawing}");
}

/// The teacher takes a minute here; nobody who has had enough waits for it.
#[cfg(unix)]
#[test]
fn the_teacher_can_be_interrupted() {
    use std::io::Read;
    let place = Place::new("teacher-stopped");
    let run = "compare --model fashion --solvers euler --no-search --nfe 3 --seeds 0-63 --teacher-nfe 20000 --out out";
    let mut child = place.command(run).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut said = vec![0; 1];
    // The first line is that of the teacher.
    stderr.read_exact(&mut said).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let asked = std::time::Instant::now();
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    stderr.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("teacher on fashion") && said.contains("the same command goes on from here"), "{said}");
    assert!(asked.elapsed() < std::time::Duration::from_secs(15), "{:?}: {said}", asked.elapsed());
}

#[test]
fn the_numerical_study_has_a_page_like_the_others() {
    let place = Place::new("numeric-page");
    place.works("study numeric --degrees 5 --steps 6,8 --orders 1,2 --problems 4 --dims 6 --iters 20 --out out");
    let text = |name: &str| String::from_utf8(bytes(&place.path(name))).unwrap();
    let (page, words) = (text("out/report.html"), text("out/report.md"));
    assert!(page.contains("class=\"headline\"") && page.contains("class=\"verdict"), "{page}");
    assert!(words.contains("**Fitted weights divide the error") && words.contains("dyweight study numeric"), "{words}");
    assert!(place.path("out/figures/figure-1.svg").exists());
}

#[test]
fn a_report_has_everything_beside_it_that_it_links() {
    let place = Place::new("links");
    place.works(
        "compare --model mixture --solvers euler,ipndm --nfe 3,5 --train-seeds 0 --iters 10 --seeds 0-31 --out out",
    );
    let text = |name: &str| String::from_utf8(bytes(&place.path(name))).unwrap();
    let (page, words) = (text("out/report.html"), text("out/report.md"));
    let mut links = 0;
    for link in words.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(place.path("out").join(link).exists(), "{link}");
        links += 1;
    }
    assert!(links > 15, "{links} links");
    for told in ["Machine", "Threads", "Training time", "\\begin{tabular}", "10 iterations of 1024 pairs"] {
        assert!(page.contains(told) && words.contains(told.trim_start_matches('\\')), "{told}");
    }
    // Nobody makes four calls here, nor three and a half.
    let chart = text("out/teacher-distance.svg");
    let ticks = |label: &str| chart.contains(&format!(">{label}<"));
    assert!(ticks("3") && ticks("5") && !ticks("4") && !ticks("3.5"), "{chart}");
    // Nothing of it depends on the clock if one says so.
    place.works("compare --model mixture --solvers euler,ipndm --nfe 3,5 --train-seeds 0 --iters 10 --seeds 0-31 --out out --render-only --no-times");
    assert!(!text("out/report.html").contains("Training time"));
}
