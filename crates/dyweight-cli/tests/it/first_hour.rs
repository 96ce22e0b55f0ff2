//! A newcomer's first hour: nothing is lost, names that people type are understood, and something is seen while it
//! runs.

use crate::common;

use crate::common::{Place, bytes};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A moment of training.
const TRAIN: &str = "train --model mixture --nfe 3 --batch 4 --validation 4 --threads 1 --out s.json";

#[test]
fn samples_without_a_directory_are_kept_and_not_replaced() {
    let place = Place::new("kept");
    let first = "sample --model mixture --nfe 3 --seeds 0-3";
    place.works(first);
    let kept = bytes(&place.path("samples/samples.safetensors"));
    assert!(place.works(&first.replace("--nfe 3", "--nfe 4")).stdout.starts_with("samples-2/"));
    assert_eq!(bytes(&place.path("samples/samples.safetensors")), kept);
    // The same again is the same place; with a trajectory that is what is kept.
    place.works(first);
    place.works("sample --model mixture --nfe 5 --seeds 0-3 --trajectory t.safetensors");
    assert_eq!(place.names(), ["samples", "samples-2", "t.safetensors"]);
    // Someone else's folder is not taken.
    let place = Place::new("kept-foreign");
    std::fs::create_dir(place.path("samples")).unwrap();
    place.write("samples/holiday.png", "mine");
    place.works("sample --model fashion --nfe 3 --seeds 0-1");
    assert!(place.path("samples-2/000000/000001.png").exists());
    assert_eq!(std::fs::read_dir(place.path("samples")).unwrap().count(), 1);
}

#[test]
fn a_finished_solver_is_not_replaced_without_being_asked() {
    let place = Place::new("finished");
    place.works(&format!("{TRAIN} --iters 6"));
    let kept = bytes(&place.path("s.json"));
    for other in ["--iters 2", "--iters 6", "--iters 2 --resume"] {
        place.refuses(
            &format!("{TRAIN} {other}"),
            &["s.json is there already", "hint: choose another --out, or --overwrite"],
        );
        assert_eq!(bytes(&place.path("s.json")), kept, "{other}");
    }
    // What is finished is finished.
    assert!(place.works(&format!("{TRAIN} --iters 6 --resume")).stderr.contains("finished already"));
    place.works(&format!("{TRAIN} --iters 2 --overwrite"));
    assert_ne!(bytes(&place.path("s.json")), kept);
}

#[test]
fn training_ends_with_what_it_wrote_and_the_next_command_which_works() {
    let place = Place::new("next");
    let ended = place.works(&format!("{TRAIN} --iters 6"));
    assert!(ended.stderr.contains("wrote s.json; beside it s.config.toml, s.stats.jsonl"), "{ended:?}");
    assert!(ended.stderr.contains("iPNDM"), "{ended:?}");
    let gain = " the teacher than ";
    assert!(ended.stderr.contains(gain) && ended.stderr.contains("the best of 110 handcrafted settings"), "{ended:?}");
    // The distance it tells is that of what it wrote, also where that was searched for.
    for method in ["dyweight", "gits"] {
        let train = format!("train --model mixture --nfe 5 --method {method} --validation 64 --threads 1 --json");
        let more = if method == "gits" { "--gits-samples 16" } else { "--iters 4 --batch 4" };
        let told = place.works(&format!("{train} {more} --out {method}.json")).json();
        let (distance, loss) = (told["distance"].as_f64().unwrap(), told["validation_loss"].as_f64().unwrap());
        assert!((distance * distance / loss - 1.0).abs() < 1e-9, "{method}: {told}");
    }
    let next = ended.stderr.lines().find_map(|line| line.strip_prefix("next: dyweight ")).unwrap_or_default();
    assert!(place.works(next).stdout.starts_with("samples/"), "{next}");
}

#[test]
fn strict_takes_what_train_made_however_unusual_its_values() {
    let place = Place::new("strict");
    place.works(&format!("{TRAIN} --iters 6"));
    let text = String::from_utf8(bytes(&place.path("s.json"))).unwrap();
    let mut solver: serde_json::Value = serde_json::from_str(&text).unwrap();
    solver["body"]["time_scale"][0] = 1.62.into();
    place.write("s.json", solver.to_string());
    let sampled = place.works("sample --model mixture --weights s.json --strict --outdir out");
    assert!(sampled.stderr.contains("warning: time scale 0 is 1.62"), "{sampled:?}");
    place.refuses("sample --model mixture --weights s.json --strict --rho 3", &["--strict", "grid"]);
}

#[test]
fn coefficients_of_a_flow_do_not_run_on_a_denoiser() {
    let place = Place::new("flow");
    let says = ["predicts another quantity than 'mixture'", "hint: coefficients of flows work on flows alone"];
    place.refuses("sample --model mixture --weights preset:flux-nfe3", &says);
    place.refuses(
        "sample --model mixture-flow --weights preset:cifar10-nfe3",
        &["another quantity than 'mixture-flow'"],
    );
}

#[test]
fn names_of_other_programs_are_understood() {
    let place = Place::new("spelled");
    let sample = "sample --model mixture --nfe 5 --seeds 0-1 --json";
    for (name, label) in
        [("dpm++", "dpmpp(2)"), ("dpmpp_3m", "dpmpp(3)"), ("EDMDPMSolverMultistep", "dpmpp(2)"), ("UNI_PC", "unipc(2)")]
    {
        let ended = place.works(&format!("{sample} --solver {name}")).json();
        assert!(ended["solver"].as_str().unwrap().starts_with(&label[..label.len() - 1]), "{name}: {ended}");
    }
    let sum = place.works(&format!("{sample} --solver DDIM")).json();
    assert_eq!(sum["solver"], place.works(&format!("{sample} --solver euler")).json()["solver"]);
    place.refuses(
        &format!("{sample} --solver dpmpp_2m_karras"),
        &["names a solver and a schedule", "hint: write dpmpp:2@karras"],
    );
    let listed = "compare --model mixture --nfe 5 --seeds 0-3 --solvers euler_karras";
    place.refuses(listed, &["hint: write euler@karras"]);
    place.refuses(&format!("{sample} --solver euler_a"), &["draws noise", "'euler'"]);
    place.refuses(
        &format!("{sample} --solver LD3"),
        &["has to be learned first", "training with method = ld3", "--weights"],
    );
    place.refuses(&format!("{sample} --solver dpmpp_2m_sgm_uniform"), &["hint: write dpmpp:2@discrete"]);
}

#[test]
fn schedules_of_other_programs_are_understood() {
    let place = Place::new("schedules");
    let states = |name: &str| {
        place.works(&format!("sample --model mixture --nfe 4 --seeds 0-1 --schedule {name} --trajectory t"));
        bytes(&place.path("t"))
    };
    for (name, ours) in [("Karras", "karras"), ("exponential", "logsnr"), ("TIME_UNIFORM", "time-uniform")] {
        assert_eq!(states(name), states(ours), "{name}");
    }
    let sample = "sample --model mixture --nfe 4 --schedule";
    place.refuses(&format!("{sample} sgm_uniform"), &["there is no schedule 'sgm_uniform'", "nearest is 'discrete'"]);
    place.refuses(&format!("{sample} kuras"), &["unknown schedule 'kuras'", "did you mean 'karras'"]);
}

#[test]
fn presets_are_found_by_model_and_lists_are_filtered() {
    let place = Place::new("presets");
    let by_model = place.works("inspect preset:sd15-nfe8");
    assert!(by_model.stdout.contains("preset:ms-coco-nfe8") && by_model.stdout.contains("8 calls"), "{by_model:?}");
    let sample = "sample --model mixture --weights";
    let budgets = "known: sd15-nfe8, sd15-nfe12, sd15-nfe16, sd15-nfe20\n";
    place.refuses(&format!("{sample} preset:sd15-nfe6"), &["unknown preset 'sd15-nfe6'", budgets]);
    place.refuses(&format!("{sample} preset:sd15"), &["unknown preset 'sd15'", budgets]);
    let listed = place.works("list presets sd15 --json").json();
    assert_eq!(listed.as_array().unwrap().len(), 4, "{listed}");
    assert_eq!((&listed[0]["preset"], &listed[0]["nfe"]), (&"ms-coco-nfe8".into(), &8.into()));
    assert!(listed[0]["afs"].is_boolean(), "{listed}");
    // In the flags' words.
    let schedules = place.works("list presets --json").json();
    let rules: std::collections::BTreeSet<&str> = schedules
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["schedule"].as_str().unwrap().split(' ').next().unwrap())
        .collect();
    assert_eq!(rules.into_iter().collect::<Vec<_>>(), ["discrete", "flow", "karras", "time-uniform"]);
    assert!(place.works("list presets karras").stdout.lines().count() > 10);
    assert!(place.works("list presets").stdout.lines().all(|line| line.chars().count() <= 80));
    assert!(place.works("list presets nonsense").stderr.contains("nothing in this list contains 'nonsense'"));
    assert!(place.works("list models").stdout.contains("random:edm-cifar10"));
}

#[test]
fn classes_have_names() {
    let place = Place::new("classes");
    let image = |class: &str| {
        place.works(&format!("sample --model fashion --nfe 3 --seeds 0 --class {class} --outdir {class}"));
        bytes(&place.path(&format!("{class}/000000/000000.png")))
    };
    assert_eq!(image("sneaker"), image("7"));
    let compare = |class: &str| {
        let run = "compare --model fashion --solvers euler --nfe 3 --teacher-nfe 4 --seeds 0-1 --json --no-times";
        place.works(&format!("{run} --class {class} --out c-{class}")).json()["scores"].clone()
    };
    assert_eq!(compare("Sneaker"), compare("7"));
    place.refuses("sample --model fashion --nfe 3 --class sneeker", &["class 'sneeker'", "did you mean 'sneaker'"]);
    let train = |class: &str| {
        let run = "train --model fashion --nfe 3 --iters 1 --batch 1 --teacher-nfe 4 --plain";
        place.works(&format!("{run} --class {class} --out {class}.json"));
        (bytes(&place.path(&format!("{class}.json"))), bytes(&place.path(&format!("{class}.stats.jsonl"))))
    };
    assert_eq!(train("sneaker"), train("7"));
    place.write("named.toml", "class = \"sneaker\"\n");
    place.works("train --config named.toml --model fashion --nfe 3 --dry-run --out n.json");
    place.refuses("train --model fashion --nfe 3 --class sneeker --out n.json", &["did you mean 'sneaker'"]);
    place.write("wrong.toml", "class = -1\n");
    place.refuses(
        "train --config wrong.toml --model fashion --nfe 3 --out n.json",
        &["key 'class'", "a number or a name"],
    );
    place.refuses("train --model mixture --nfe 3 --class sneaker --out n.json", &["--class sneaker", "class number"]);
}

#[test]
fn what_is_no_model_is_told_what_it_is() {
    let place = Place::new("models");
    let tensors = |name: &str, tensor: &str| place.tensors(name, &[(tensor, &[1], &[0.0])]);
    tensors("sd3.safetensors", "model.diffusion_model.joint_blocks.0.weight");
    tensors("flux.safetensors", "double_blocks.0.img_attn.norm.key_norm.scale");
    for (model, says) in [
        ("sd3.safetensors", "is a Stable Diffusion 3 checkpoint"),
        ("flux.safetensors", "'img_in.weight' is missing"),
        ("https://example.org/model.pkl", "is an address|hint: download"),
        ("missing.pkl", "there is no file 'missing.pkl'"),
        ("fashoin", "did you mean 'fashion'"),
    ] {
        place.refuses(&format!("sample --model {model} --nfe 3"), &says.split('|').collect::<Vec<_>>());
    }
}

/// Half a minute of work in a log: the first line comes at once, with what there is to do.
#[test]
fn a_log_has_a_line_within_seconds() {
    let place = Place::new("log");
    let log = std::fs::File::create(place.path("log")).unwrap();
    let mut child =
        place.command(&format!("{TRAIN} --iters 100000000")).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let started = Instant::now();
    let said = loop {
        let text = String::from_utf8(bytes(&place.path("log"))).unwrap();
        if text.contains("training 3 calls: ") || started.elapsed() > Duration::from_secs(20) {
            break text;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains("training 3 calls: ") && said.contains(" of 100000000 ("), "{said}");
    assert!(!said.contains('\r') && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn a_quiet_run_says_results_and_warnings_alone() {
    let place = Place::new("quiet");
    let quiet = place.works("sample -q --model mixture --weights preset:cifar10-nfe3");
    assert!(quiet.stdout.starts_with("samples/samples.safetensors\n"), "{quiet:?}");
    assert!(quiet.stderr.lines().all(|line| line.starts_with("warning: ")), "{quiet:?}");
    assert_eq!(place.works("sample --quiet --model mixture --nfe 3 --outdir out").stderr, "");
}

#[test]
fn a_report_leads_with_the_result_and_one_far_value_does_not_flatten_the_rest() {
    let place = Place::new("report");
    place.works(&format!("{TRAIN} --iters 200"));
    place.works(
        "compare --model mixture --solvers euler,ipndm,heun+afs --nfe 3 --solver-file s.json --seeds 0-31 --out out",
    );
    let page = String::from_utf8(bytes(&place.path("out/report.md"))).unwrap();
    let lead = page.lines().find(|line| line.contains(" the teacher than ")).unwrap_or_else(|| panic!("{page}"));
    assert!(lead.starts_with("**3 calls: s is ") && lead.contains(" % closer to the teacher than "), "{lead}");
    let place_of = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing: {page}"));
    assert!(place_of(" the teacher than ") < place_of("Distance to the teacher"));
}

#[test]
fn a_contact_sheet_can_be_seen_and_a_solver_is_drawn_in_the_terminal() {
    let place = Place::new("looks");
    place.works("sample --model fashion --nfe 3 --seeds 0-3 --grid --outdir out");
    let sheet = dyweight::files::image::Image::read(&place.path("out/grid.png")).unwrap();
    assert!(sheet.width() >= 2 * 112 && sheet.width() < 2 * 112 + 16, "{}", sheet.width());
    // A word below each image says what it shows; without classes there is none.
    assert_eq!(sheet.height(), sheet.width() + 2 * 15);
    let labels: Vec<_> = (114..129).flat_map(|y| sheet.data()[y * 230 * 3..(y + 1) * 230 * 3].iter()).collect();
    assert!(labels.iter().any(|v| **v < 100), "the names are dark on white");
    place.works("sample --model fashion --nfe 3 --seeds 0-3 --class none --grid --out none");
    let plain = dyweight::files::image::Image::read(&place.path("none/grid.png")).unwrap();
    assert_eq!(plain.height(), plain.width());
    let single = dyweight::files::image::Image::read(&place.path("out/000000/000000.png")).unwrap();
    assert_eq!(single.width(), 28);
    let drawn = place.works("inspect preset:cifar10-nfe3").stdout;
    assert!(drawn.lines().any(|line| line.contains("████")), "{drawn}");
    let times = drawn.lines().find(|line| line.starts_with("time  ●")).unwrap_or_else(|| panic!("{drawn}"));
    assert!(times.matches('●').count() >= 4 && times.contains("80 to "), "{times}");
}

#[test]
fn a_dry_run_says_what_it_would_take_and_does_nothing() {
    let place = Place::new("dry");
    for (command, calls, writes) in [
        ("sample --model fashion --nfe 5 --seeds 0-15", 80, "samples"),
        // 6 iterations of 4 pairs and 4 validation pairs, in whole chunks of 16, under a teacher of 35 calls; 3 calls
        // each in 8 validations, and once more for gradients; then 110 handcrafted settings and the best 12 on all 24
        // pairs, and the best one on the validation pairs.
        (
            "train --model mixture --nfe 3 --iters 6 --batch 4 --validation 4 --out s.json",
            35 * (32 + 16) + 3 * 4 * 8 + 72 + 3 * (110 * 24 + 12 * 24 + 4),
            "s.json",
        ),
        (
            "compare --model mixture --solvers euler,ipndm --no-search --nfe 3,5 --seeds 0-9",
            10 * (35 + 2 * 3 + 2 * 5),
            "comparison",
        ),
        ("study order --quick --model mixture --out there", 0, "there"),
        ("quickstart", 0, "quickstart"),
    ] {
        let ended = place.works(&format!("{command} --dry-run --json")).json();
        assert!(calls == 0 || ended["calls"] == calls, "{command}: {ended}");
        assert!(ended["seconds"].as_f64().unwrap() > 0.0 && ended["calls"].as_u64().unwrap() > 0, "{ended}");
        assert!(ended["writes"][0].as_str().unwrap().starts_with(writes), "{ended}");
        assert_eq!(place.names(), Vec::<String>::new(), "{command}");
    }
    let said = place.works("sample --model fashion --nfe 5 --dry-run").stdout;
    assert!(
        ["would make 16 samples", "calls   80", "time    about", "writes  samples"].iter().all(|t| said.contains(t)),
        "{said}"
    );
}

#[test]
fn a_study_validates_as_often_as_it_is_told() {
    let place = Place::new("validate-every");
    let calls = |more: &str| {
        let study = "study order --quick --model mixture --nfe 3 --iters 80 --dry-run --json";
        place.works(&format!("{study} {more}")).json()["calls"].as_u64().unwrap()
    };
    assert!(calls("--validate-every 12") < calls("") && calls("") < calls("--validate-every 1"));
}

/// Expected time stands beside each command of the README, or beside those before and after it.
#[test]
fn commands_of_the_readme_say_how_long_they_take() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    for command in blocks.flat_map(|block| block.split("\ndyweight ")) {
        assert!(command.contains("# "), "no time is said for {command}");
    }
}

#[test]
fn completions_and_manual_come_from_the_help() {
    let place = Place::new("shells");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.works(&format!("completions {shell}")).stdout;
        assert!(script.contains("dry-run") && script.contains("quickstart"), "{shell}");
    }
    assert!(place.works("man").stdout.contains(".TH dyweight 1"));
    place.works("man --out pages");
    let page = String::from_utf8(bytes(&place.path("pages/dyweight-sample.1"))).unwrap();
    assert!(page.contains("dry") && page.contains("Examples:"), "{page}");
}

#[test]
fn someone_who_wants_to_know_more_is_told() {
    let place = Place::new("verbose");
    let said = place.works("sample -v --model mixture --nfe 3 --seeds 0-1").stderr;
    assert!(said.contains("model mixture: 2x1x1") && said.contains("levels: 80 ") && said.contains(" cores"), "{said}");
    assert!(!place.works("sample --model mixture --nfe 3 --seeds 0-1").stderr.contains("levels"), "{said}");
}

#[test]
fn words_are_the_same_in_all_commands_and_old_ones_are_still_taken() {
    let place = Place::new("words");
    place.works("sample --model mixture --nfe 3 --seeds 0-1 --out new");
    place.works("sample --model mixture --nfe 3 --seeds 0-1 --outdir old");
    assert_eq!(bytes(&place.path("new/samples.safetensors")), bytes(&place.path("old/samples.safetensors")));
    for word in ["weights", "solver-file"] {
        place.works(&format!("compare --model mixture --{word} preset:cifar10-nfe3 --seeds 0-3 --out {word}"));
    }
    place.refuses("sample --model fashion --nfe 3 --model-config gone.json", &["gone.json"]);
}

/// Interrupts a run once its log says something; it must end soon, and with these words.
#[cfg(unix)]
fn interrupted(place: &Place, arguments: &str, once: &str) -> String {
    let log = std::fs::File::create(place.path("log")).unwrap();
    let mut child = place.command(arguments).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let said = || String::from_utf8(bytes(&place.path("log"))).unwrap();
    let started = Instant::now();
    while !said().contains(once) && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(said().contains(once), "{}", said());
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let asked = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if asked.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("it went on: {}", said());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    said()
}

#[cfg(unix)]
#[test]
fn the_first_validation_can_be_interrupted() {
    let place = Place::new("first-validation");
    // Minutes of teaching before the first iteration.
    let train = "train --model mixture --nfe 3 --iters 10 --validation 20000000 --threads 1 --out s.json";
    let said = interrupted(&place, train, "validating the start");
    assert!(said.contains("stopped; continue with: dyweight train --config s.config.toml --resume"), "{said}");
    assert!(!place.path("s.json").exists());
    let search = "train --method gits --model mixture --nfe 5 --gits-samples 2000000 --threads 1 --out g.json";
    let said = interrupted(&place, search, "searching");
    assert!(said.contains("stopped; continue with: dyweight train --config g.config.toml --resume"), "{said}");
    assert!(!place.path("g.json").exists());
    let study = "study order --model mixture --nfe 3 --validation 20000000 --threads 1 --out study";
    let said = interrupted(&place, study, "training ");
    assert!(said.contains("stopped; the same command goes on from here"), "{said}");
}

#[test]
fn a_log_of_many_short_pieces_says_which_of_how_many() {
    let place = Place::new("pieces");
    let said = place.works("study order --quick --model mixture --nfe 3 --seeds 0-199 --threads 1 --out study").stderr;
    assert!(said.contains("[1/6] training K = 1, 3 calls: "), "{said}");
}

#[test]
fn a_measurement_has_a_spread_a_machine_and_a_version() {
    let place = Place::new("bench");
    let bench = "bench --model mixture --batch 16 --repeats 12";
    let facts = place.works(&format!("{bench} --json")).json();
    let spread = &facts["spread"];
    assert_eq!((&spread["runs"], spread["times"].as_array().unwrap().len()), (&12.into(), 12), "{facts}");
    let [min, mean, max] = ["min", "mean", "max"].map(|key| spread[key].as_f64().unwrap());
    assert!(0.0 < min && min <= mean && mean <= max && spread["outliers"].is_u64(), "{facts}");
    assert!(facts["machine"].as_str().unwrap().contains("cores") && facts["version"].is_string(), "{facts}");
    let said = place.works(bench).stdout;
    for text in ["time (mean ± σ)", "range (min … max)", "12 runs", "machine", "dyweight 0."] {
        assert!(said.contains(text), "'{text}' is missing: {said}");
    }
}

#[cfg(unix)]
#[test]
fn another_program_is_measured_in_turn() {
    let place = Place::new("against");
    place.write("peer", "#!/bin/sh\necho x >> turns\necho '{\"ms_per_image\": 1000.0}'\n");
    let bench = |command: &str| {
        let mut process = place.command("bench --model mixture --batch 4 --repeats 3 --rounds 3 --json --against");
        process.arg(command);
        ended(process)
    };
    let facts = bench("sh peer").json();
    assert_eq!((&facts["measured"], &facts["theirs"]["mean"]), (&"ms_per_image".into(), &1.0.into()), "{facts}");
    assert!(facts["ratio"].as_f64().unwrap() > 10.0 && facts["ours"]["runs"] == 3, "{facts}");
    assert_eq!(bytes(&place.path("turns")).len(), 6);
    // Who measures nothing is measured whole, as are we.
    let facts = bench("true").json();
    assert_eq!(facts["measured"], "whole processes", "{facts}");
    let ended = bench("echo out of luck >&2; exit 3");
    assert!(ended.code == Some(2) && ended.stderr.contains("out of luck"), "{ended:?}");
}

#[cfg(unix)]
fn ended(mut process: std::process::Command) -> common::Ended {
    common::Ended::of("bench", process.output().unwrap())
}

#[test]
fn trainings_have_a_spread_of_their_own() {
    let place = Place::new("trainings");
    let compare = "compare --model mixture --solvers ipndm --nfe 3 --train-seeds 0-2 --iters 30 --seeds 0-63 --threads 1 --out out";
    let shown = place.works(compare).stdout;
    let row = shown.lines().find(|line| line.starts_with("DyWeight")).unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(row.matches('±').count(), 2, "over samples and over trainings: {row}");
    // What is too wide for 80 columns goes on in a second table.
    let wide =
        compare.replace("--nfe 3", "--nfe 3,5,7").replace("--iters 30", "--iters 2").replace("--out out", "--out w");
    let shown = place.works(&wide).stdout;
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert_eq!(shown.lines().filter(|line| line.starts_with("DyWeight")).count(), 2, "{shown}");
    let text = |name: &str| String::from_utf8(bytes(&place.path(name))).unwrap();
    assert!(
        text("out/teacher-distance.csv").lines().next().unwrap().contains("3 calls training error,3 calls trainings")
    );
    assert!(text("out/report.md").contains("one standard error over 3 trainings"));
    for solver in ["dyweight-nfe3.json", "dyweight-nfe3-seed1.json", "dyweight-nfe3-seed2.json"] {
        assert!(place.path("out/solvers").join(solver).exists(), "{solver}");
    }
    place.refuses("study order --model mixture --seed 1 --train-seeds 0-2 --out other", &["--train-seeds"]);
    place.refuses("compare --model mixture --solvers ipndm --train-seeds 2-0 --out other", &["--train-seeds 2-0"]);
}
