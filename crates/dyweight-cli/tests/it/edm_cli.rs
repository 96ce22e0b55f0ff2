//! Network checkpoints on the command line: inspect, convert, probe, bench.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn dyweight(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dyweight")).args(args).output().unwrap()
}

fn fine(args: &[&str]) -> String {
    let output = dyweight(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = dyweight(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dyweight-models/tests/data").join(name);
    path.to_str().unwrap().into()
}

/// A directory that vanishes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dyweight-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The `io.*` tensors of the test data under the names `probe` reads.
fn probe_input(scratch: &Scratch) -> String {
    let file = dyweight::files::TensorFile::read(Path::new(&data("edm_standard.safetensors"))).unwrap();
    let tensors = file.tensors.into_iter().filter_map(|(name, t)| Some((name.strip_prefix("io.")?.to_string(), t)));
    let input = dyweight::files::TensorFile { tensors: tensors.collect(), ..Default::default() };
    let path = scratch.file("input.safetensors");
    input.write(Path::new(&path)).unwrap();
    path
}

#[test]
fn a_converted_network_answers_with_the_same_bits() {
    let scratch = Scratch::new("convert");
    let (input, pickle) = (probe_input(&scratch), data("edm_standard.pkl"));
    let (converted, first, second) = (scratch.file("net.safetensors"), scratch.file("1"), scratch.file("2"));
    fine(&["convert", &pickle, &converted]);
    fine(&["probe", "--model", &pickle, "--input", &input, "--out", &first]);
    fine(&["probe", "--model", &converted, "--input", &input, "--out", &second, "--threads", "1"]);
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
    let answer = dyweight::files::TensorFile::read(Path::new(&first)).unwrap();
    let names: Vec<&str> = answer.tensors.keys().map(String::as_str).collect();
    assert_eq!(names, ["denoised", "grad_sigma", "grad_x"]);
}

#[test]
fn inspect_says_what_is_in_a_pickle() {
    let facts: Value = serde_json::from_str(&fine(&["inspect", &data("edm_standard.pkl"), "--json"])).unwrap();
    assert_eq!(facts["class"], "EDMPrecond");
    assert_eq!(facts["model_class"], "SongUNet");
    assert_eq!(facts["options"]["label_dim"], 3);
    assert_eq!(facts["parameters"], 11_233);
    assert!(facts["globals"].as_array().unwrap().iter().any(|g| g == "torch.storage._load_from_bytes"));
    assert_eq!(facts["sources"][0]["bytes"], "# no source".len());
    let text = fine(&["inspect", &data("edm_standard.pkl")]);
    assert!(text.contains("EDMPrecond around SongUNet") && text.contains("model.map_layer0.weight"), "{text}");
    assert!(text.contains("11233 of them trained parameters"), "{text}");
}

#[test]
fn probe_takes_built_in_models_and_names_what_does_not_fit() {
    let scratch = Scratch::new("probe");
    let (input, out) = (scratch.file("in"), scratch.file("out"));
    let tensor = |shape: &[usize], v: f64| {
        dyweight::files::StoredTensor::from_f64(shape, &vec![v; shape.iter().product()]).unwrap()
    };
    let mut file = dyweight::files::TensorFile::default();
    file.tensors.insert("x".into(), tensor(&[3, 2, 1, 1], 0.3));
    file.tensors.insert("sigma".into(), tensor(&[3], 0.5));
    file.write(Path::new(&input)).unwrap();
    fine(&["probe", "--model", "mixture", "--input", &input, "--out", &out]);
    let message = refused(&["probe", "--model", "fashion", "--input", &input, "--out", &out]);
    assert!(message.contains("[2, 1, 1]") && message.contains("[1, 28, 28]"), "{message}");
    let message = refused(&["probe", "--model", &data("edm_fashion_io.safetensors"), "--input", &input, "--out", &out]);
    assert!(message.contains("hint:"), "{message}");
    file.tensors.insert("sigma".into(), tensor(&[2], 0.5));
    file.write(Path::new(&input)).unwrap();
    let message = refused(&["probe", "--model", "mixture", "--input", &input, "--out", &out]);
    assert!(message.contains("'sigma'") && message.contains("[3]"), "{message}");
}

#[test]
fn bench_reports_time_and_memory() {
    for what in ["forward", "gradient", "train"] {
        let args = ["bench", "--model", "fashion", "--batch", "1", "--what", what, "--repeats", "1", "--json"];
        let budget = ["--threads", "1", "--teacher-nfe", "4", "--nfe", "2"];
        let budget = if what == "train" { &budget[..] } else { &budget[..2] };
        let facts: Value = serde_json::from_str(&fine(&[&args[..], budget].concat())).unwrap();
        assert!(facts["ms_per_image"].as_f64().unwrap() > 0.0, "{facts}");
        assert_eq!(facts["what"], what);
    }
    assert!(refused(&["bench", "--model", "fashion", "--batch", "0"]).contains("batch"));
    assert!(refused(&["bench", "--model", "random:edm-cifar"]).contains("edm-cifar10"));
    assert!(refused(&["bench", "--model", "fashion", "--what", "train", "--memory", "all"]).contains("recompute"));
}
