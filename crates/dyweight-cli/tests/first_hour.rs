//! A newcomer's first hour: nothing is lost, names that people type are understood, and something is seen while it runs.

mod common;

use common::{Place, bytes};
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
    let next = ended.stderr.lines().find_map(|line| line.strip_prefix("next: dyweight ")).unwrap_or_default();
    assert!(place.works(next).stdout.starts_with("samples/"), "{next}");
}

#[test]
fn strict_takes_what_train_made_however_unusual_its_values() {
    let place = Place::new("strict");
    place.works(&format!("{TRAIN} --iters 6"));
    let text = String::from_utf8(bytes(&place.path("s.json"))).unwrap();
    let mut solver: serde_json::Value = serde_json::from_str(&text).unwrap();
    solver["time_scale"][0] = 1.62.into();
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
        [("dpm++", "dpmpp(3)"), ("dpmpp_2m", "dpmpp(2)"), ("EDMDPMSolverMultistep", "dpmpp(2)"), ("UNI_PC", "unipc(3)")]
    {
        let ended = place.works(&format!("{sample} --solver {name}")).json();
        assert!(ended["solver"].as_str().unwrap().starts_with(&label[..label.len() - 1]), "{name}: {ended}");
    }
    let sum = place.works(&format!("{sample} --solver DDIM")).json();
    assert_eq!(sum["solver"], place.works(&format!("{sample} --solver euler")).json()["solver"]);
    place.refuses(
        &format!("{sample} --solver dpmpp_2m_karras"),
        &["names a solver and a schedule", "hint: use --solver dpmpp --order 2 --schedule karras"],
    );
    let listed = "compare --model mixture --nfe 5 --seeds 0-3 --solvers euler_karras";
    place.refuses(listed, &["or in a list euler@karras"]);
    place.refuses(&format!("{sample} --solver euler_a"), &["draws noise", "'euler'"]);
}

#[test]
fn presets_are_found_by_model_and_lists_are_filtered() {
    let place = Place::new("presets");
    let by_model = place.works("inspect preset:sd15-nfe8");
    assert!(by_model.stdout.contains("preset:ms-coco-nfe8") && by_model.stdout.contains("8 calls"), "{by_model:?}");
    let listed = place.works("list presets sd15 --json").json();
    assert_eq!(listed.as_array().unwrap().len(), 4, "{listed}");
    assert_eq!((&listed[0]["preset"], &listed[0]["nfe"]), (&"ms-coco-nfe8".into(), &8.into()));
    assert!(listed[0]["afs"].is_boolean(), "{listed}");
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
    place.refuses("sample --model fashion --nfe 3 --class sneeker", &["class 'sneeker'", "did you mean 'sneaker'"]);
}

#[test]
fn what_is_no_model_is_told_what_it_is() {
    let place = Place::new("models");
    let tensors = |name: &str, tensor: &str| place.tensors(name, &[(tensor, &[1], &[0.0])]);
    tensors("sd3.safetensors", "model.diffusion_model.joint_blocks.0.weight");
    tensors("flux.safetensors", "double_blocks.0.img_attn.norm.key_norm.scale");
    for (model, says) in [
        ("sd3.safetensors", "is a Stable Diffusion 3 checkpoint"),
        ("flux.safetensors", "is a FLUX transformer"),
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
    assert!(lead.starts_with("3 calls: s is ") && lead.contains(" % closer to the teacher than "), "{lead}");
    let place_of = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing: {page}"));
    assert!(place_of(" the teacher than ") < place_of("Distance to the teacher"));
}

#[test]
fn a_contact_sheet_can_be_seen_and_a_solver_is_drawn_in_the_terminal() {
    let place = Place::new("looks");
    place.works("sample --model fashion --nfe 3 --seeds 0-3 --grid --outdir out");
    let sheet = dyweight::files::image::Image::read(&place.path("out/grid.png")).unwrap();
    assert!(sheet.width() >= 2 * 112 && sheet.width() < 2 * 112 + 16, "{}", sheet.width());
    let single = dyweight::files::image::Image::read(&place.path("out/000000/000000.png")).unwrap();
    assert_eq!(single.width(), 28);
    let drawn = place.works("inspect preset:cifar10-nfe3").stdout;
    assert!(drawn.lines().any(|line| line.contains("████")), "{drawn}");
    let times = drawn.lines().find(|line| line.starts_with("time  ●")).unwrap_or_else(|| panic!("{drawn}"));
    assert!(times.matches('●').count() >= 4 && times.contains("80 to "), "{times}");
}
