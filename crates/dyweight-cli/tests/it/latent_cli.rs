//! Latent diffusion models through the program: memory, folders, images.

use crate::common::Place;
use dyweight::files::{Dtype, StoredTensor, TensorFile};
use dyweight::models::unet::{Unet, UnetConfig};
use std::process::Command;

/// Halves of a scale that keeps activations near unit size, from a counter.
fn half_precision(shape: &[usize], name: &str) -> StoredTensor {
    let inputs: usize = shape.iter().skip(1).product();
    let (centre, scale) = match (name.ends_with(".weight"), shape.len()) {
        (true, 1) => (1.0, 0.1),
        (_, 1) => (0.0, 0.1),
        _ => (0.0, 1.7 / (inputs as f32).sqrt()),
    };
    let table: Vec<[u8; 2]> = (0..4099u32)
        .map(|i| {
            let unit = (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5;
            // bf16: the upper half of an f32.
            let bits = (centre + 2.0 * scale * unit).to_bits();
            ((bits >> 16) as u16).to_le_bytes()
        })
        .collect();
    let entries = shape.iter().product::<usize>();
    let bytes: Vec<u8> = (0..entries).flat_map(|i| table[i % table.len()]).collect();
    StoredTensor::new(name, Dtype::Bf16, shape.to_vec(), bytes.into()).unwrap()
}

/// Memory a process may have of its own, in kilobytes: anonymous and writable (`RLIMIT_DATA`). Pages of a file that is
/// mapped to be read are not: the system takes them back when it needs them. A file that is read instead of mapped, or
/// weights that are copied, would not fit.
#[cfg(target_os = "linux")]
const LIMIT: u64 = 64 << 10;

#[cfg(target_os = "linux")]
#[test]
fn a_model_three_times_larger_than_memory_is_sampled_to_the_end() {
    let place = Place::new("larger-than-memory");
    let config = UnetConfig {
        widths: vec![576, 576],
        layers: 2,
        down_attends: vec![true, false],
        up_attends: vec![false, true],
        heads: vec![8; 2],
        depths: vec![1; 2],
        context: None,
        size: Some(8),
        ..UnetConfig::sd15()
    };
    let mut file = TensorFile::default();
    for tensor in Unet::plan(&config).unwrap() {
        file.tensors.insert(tensor.name.clone(), half_precision(&tensor.shape, &tensor.name));
    }
    let weights = place.path("unet.safetensors");
    file.write(&weights).unwrap();
    drop(file);
    let size = std::fs::metadata(&weights).unwrap().len();
    assert!(size > 3 * LIMIT * 1024, "{size}");
    let run = format!(
        "ulimit -d {LIMIT} && exec {} sample --model unet.safetensors --config unet.json --nfe 2 --solver euler --seeds 0-1 --threads 2 --latent-out l.safetensors --outdir o",
        env!("CARGO_BIN_EXE_dyweight")
    );
    place.write(
        "unet.json",
        r#"{"in_channels": 4, "out_channels": 4, "model_channels": 576, "channel_mult": [1, 1], "num_res_blocks": 2, "attention_resolutions": [1], "num_heads": 8, "image_size": 8}"#,
    );
    let ended = Command::new("sh").args(["-c", &run]).current_dir(&place.0).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let latents = TensorFile::read(&place.path("l.safetensors")).unwrap().tensors["latents"].to_f64();
    assert_eq!(latents.len(), 2 * 4 * 8 * 8);
    assert!(latents.iter().all(|v| v.is_finite()) && latents.iter().any(|v| *v != 0.0));
}

/// Stable Diffusion of a few thousand weights, as diffusers writes it.
const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dyweight-models/tests/data/latent");

#[test]
fn a_solver_is_learned_under_guidance_and_compared_by_its_images() {
    let place = Place::new("latent-train");
    place.write("prompts.txt", "a photo of the cat\nthe dog\n");
    let model = format!("--model {TINY} --height 16 --width 16");
    let asked = "--prompts prompts.txt --negative dog --guidance 3";
    place.works(&format!(
        "train {model} {asked} --nfe 6 --teacher-nfe 16 --iters 3 --batch 2 --validation 2 --out solver.json --quiet"
    ));
    let solver: serde_json::Value = serde_json::from_slice(&std::fs::read(place.path("solver.json")).unwrap()).unwrap();
    assert_eq!((&solver["nfe"], &solver["guidance"]), (&6.into(), &3.0.into()));
    place.works(&format!(
        "compare {model} {asked} --solvers euler --solver-file solver.json --nfe 6 --teacher-nfe 16 --seeds 0-2 --out c"
    ));
    let page = std::fs::read_to_string(place.path("c/report.md")).unwrap();
    assert!(page.contains("Measured between latents") && !page.contains("signal-to-noise"), "{page}");
    // Three images of 16 by 16 pixels in a row of four places, one pixel around each.
    let sheets: Vec<_> = std::fs::read_dir(place.path("c/pictures")).unwrap().map(|e| e.unwrap().path()).collect();
    // Of the two solvers, and of the teacher.
    assert_eq!(sheets.len(), 3, "{sheets:?}");
    for sheet in sheets {
        let image = dyweight::files::image::Image::read(&sheet).unwrap();
        assert_eq!((image.channels(), image.height()), (3, 18), "{}x{}", image.width(), image.height());
    }
}

#[test]
fn images_carry_how_they_were_made() {
    let place = Place::new("latent-texts");
    place.works(&format!(
        "sample --model {TINY} --height 16 --width 32 --prompt cat --negative dog --guidance 2.5 --solver euler --nfe 4 --seeds 7 --outdir o --latent-out l.safetensors"
    ));
    let png = std::fs::read(place.path("o/000000/000007.png")).unwrap();
    let text = String::from_utf8_lossy(&png);
    for (key, value) in
        [("prompt", "cat"), ("negative_prompt", "dog"), ("guidance", "2.5"), ("seed", "7"), ("nfe", "4")]
    {
        assert!(
            text.contains(&format!("{key}\0{value}")) || text.contains(&format!("{key}\0\0\0\0\0{value}")),
            "{key}"
        );
    }
    let latents = TensorFile::read(&place.path("l.safetensors")).unwrap();
    assert_eq!(latents.tensors["latents"].shape(), [1, 4, 8, 16]);
}

#[test]
fn folders_and_random_models_are_inspected() {
    let place = Place::new("latent-inspect");
    let ended = place.works(&format!("inspect {TINY} --height 16 --width 16 --json"));
    let facts: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let model = &facts["model"];
    assert_eq!((&model["predicts"], &model["takes_text"]), (&"epsilon".into(), &true.into()));
    assert_eq!((&model["latents"], &model["images"]), (&[4, 8, 8].into(), &[3, 16, 16].into()));
    let parts: Vec<&str> = model["parts"].as_array().unwrap().iter().map(|p| p["part"].as_str().unwrap()).collect();
    assert_eq!(parts, ["unet", "vae", "text"]);
    let text = place.works("inspect random:sd15-f16").stdout;
    for part in ["859520964", "takes prompts; latents 4x64x64, images 3x512x512", "peak resident memory"] {
        assert!(text.contains(part), "{text}");
    }
    let flux = TINY.replace("data/latent", "data/flux");
    let facts: serde_json::Value =
        serde_json::from_str(&place.works(&format!("inspect {flux} --json")).stdout).unwrap();
    let model = &facts["model"];
    assert_eq!((&model["predicts"], &model["images"]), (&"velocity".into(), &serde_json::Value::Null));
    let parts: Vec<&str> = model["parts"].as_array().unwrap().iter().map(|p| p["part"].as_str().unwrap()).collect();
    assert_eq!(parts, ["transformer", "text2"]);
    assert!(
        model["operations"].as_f64() > Some(1e6) && facts["model"]["peak_bytes"].as_u64() > Some(1 << 20),
        "{facts}"
    );
    place.refuses(&format!("inspect {TINY}/vae"), &["a part of a model, its autoencoder, and no U-Net", "all parts"]);
    place.refuses("inspect random:sd16", &["'random:sd16'", "did you mean 'random:sd15'"]);
    for name in ["fashion", "mixture-flow", "random:edm-cifar10"] {
        place.refuses(&format!("inspect {name}"), &[&format!("'{name}' is built in"), "list models"]);
    }
    place.refuses("bench --model random:sd16", &["'sd16'", "did you mean 'sd15'"]);
    let list = place.works("list models").stdout;
    assert!(list.contains("random:sd15") && list.contains("random:lsun-ldm") && list.contains("random:sd21"), "{list}");
}

/// The tiny model in a folder of its own, which a test may spoil.
fn own_copy(place: &Place) {
    fn copy(from: &std::path::Path, to: &std::path::Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let target = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => copy(&entry.path(), &target),
                false => std::fs::write(target, std::fs::read(entry.path()).unwrap()).unwrap(),
            }
        }
    }
    copy(std::path::Path::new(TINY), &place.path("model"));
}

/// What is wrong with a configuration is said of it, not of the weights beside it.
#[test]
fn a_fault_of_a_configuration_names_its_file() {
    let place = Place::new("latent-config");
    own_copy(&place);
    let path = place.path("model/unet/config.json");
    let config = std::fs::read_to_string(&path).unwrap().replace("\"block_out_channels\"", "\"block_channels\"");
    std::fs::write(&path, config).unwrap();
    place.refuses("inspect model", &["unet/config.json", "4 levels of channels, but 2"]);
}

/// How a tiny model is asked for one image.
const ASKED: &str = "--model model --height 16 --width 16 --nfe 2 --solver euler --seeds 0";

#[test]
fn nothing_in_a_models_folder_is_replaced() {
    let place = Place::new("latent-folder");
    own_copy(&place);
    place.write("prompts.txt", "cat\n");
    place.tensors("input", &[("x", &[1, 4, 8, 8], &[0.1; 256]), ("sigma", &[1], &[1.0])]);
    let sample = format!("sample {ASKED} --prompts prompts.txt");
    let train = "train --model model --height 16 --width 16 --prompts prompts.txt --nfe 2 --iters 1 --overwrite";
    let weights = "model/unet/diffusion_pytorch_model.safetensors";
    for file in [weights, "model/unet/config.json", "model/tokenizer/vocab.json"] {
        let before = std::fs::read(place.path(file)).unwrap();
        for command in [
            format!("{sample} --out o --trajectory {file}"),
            format!("{sample} --out o --latent-out ./model/../{file}"),
            format!("probe --model model --input input --out {file}"),
            format!("{train} --out {file}"),
            format!("{train} --out s.json --trace {file}"),
        ] {
            place.refuses(&command, &["is a file in the folder of --model, model", "hint: choose another name"]);
            assert_eq!(std::fs::read(place.path(file)).unwrap(), before, "{command}");
        }
    }
    let same = ["is the same file as --prompts", "hint: choose another name"];
    place.refuses(&format!("{sample} --out o --latent-out prompts.txt"), &same);
    place.refuses(&format!("{train} --out prompts.txt"), &same);
    // New files, and solvers, may stand there.
    place.works(&format!("{sample} --out model/images --latent-out model/latents.safetensors"));
    place.works("convert preset:ms-coco-nfe8 model/solver.json");
    place.works("convert preset:ms-coco-nfe12 model/solver.json --overwrite");
}

/// Whoever corrects how a model is to be read wants its images, not those of before.
#[test]
fn a_model_that_is_read_otherwise_is_another() {
    let place = Place::new("latent-config");
    own_copy(&place);
    let configured = |kind: &str| {
        std::fs::create_dir_all(place.path("model/scheduler")).unwrap();
        let text = format!(
            r#"{{"prediction_type": "{kind}", "beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}}"#
        );
        place.write("model/scheduler/scheduler_config.json", text);
    };
    place.write("prompts.txt", "cat\ndog\n");
    let sample = format!("sample {ASKED} --prompt cat --out o");
    let compare = "compare --model model --height 16 --width 16 --prompts prompts.txt --solvers euler --nfe 2 --teacher-nfe 4 --seeds 0-1 --out c";
    configured("epsilon");
    place.works(&sample);
    place.works(compare);
    let before = std::fs::read(place.path("o/000000/000000.png")).unwrap();
    configured("v_prediction");
    place.refuses(&sample, &["o holds samples made with other settings"]);
    place.refuses(compare, &["c/records.jsonl was made with subjects[0].computed.config"]);
    place.works(&format!("{sample} --overwrite"));
    assert_ne!(std::fs::read(place.path("o/000000/000000.png")).unwrap(), before);
}

#[cfg(unix)]
#[test]
fn a_scheduler_that_leads_nowhere_is_not_passed_over() {
    let place = Place::new("latent-link");
    own_copy(&place);
    let _ = std::fs::create_dir(place.path("model/scheduler"));
    let path = place.path("model/scheduler/scheduler_config.json");
    let _ = std::fs::remove_file(&path);
    std::os::unix::fs::symlink("../../blobs/absent", &path).unwrap();
    place.refuses(&format!("sample {ASKED} --prompt cat --out o"), &["scheduler_config.json", "cannot read"]);
}

#[test]
fn options_without_effect_are_refused() {
    let place = Place::new("latent-options");
    own_copy(&place);
    let sample = format!("sample {ASKED} --prompt cat --out o");
    place.refuses(&format!("{sample} --negative dog"), &["--negative has no effect", "add --guidance"]);
    place.refuses(
        &format!("{sample} --text-tokens 5"),
        &["--text-tokens has no effect: 'model' is no FLUX model", "leave --text-tokens out"],
    );
    let shaped = sample.replace("--height 16", "--height 32");
    place.refuses(&format!("{shaped} --shape 4,8,8"), &["--height 32", "the latents given are 8x8"]);
    place.tensors("latents", &[("latents", &[1, 4, 8, 8], &[0.1; 256])]);
    let given = shaped.replace("--seeds 0", "--latents latents");
    place.refuses(&given, &["--height 32", "the latents given are 8x8"]);
    for model in ["fashion", "mixture", "random:edm-cifar10"] {
        for option in ["height 64", "width 64", "text-tokens 5", "tokenizer model/tokenizer"] {
            let name = option.split(' ').next().unwrap();
            let says = format!("--{name} has no effect: '{model}' is no latent diffusion model");
            let sample = format!("sample --model {model} --nfe 3 --seeds 0 --out o --{option}");
            place.refuses(&sample, &[&says, &format!("hint: leave --{name} out")]);
        }
    }
    // The hint names flags that there are.
    std::fs::remove_dir_all(place.path("model/tokenizer")).unwrap();
    place.refuses(
        "train --model model --height 16 --width 16 --nfe 2 --out s.json",
        &["must be asked for something", "give --prompts"],
    );
}

/// Another noise table is another model, in every command alike.
#[test]
fn a_noise_table_means_the_same_in_all_commands() {
    let place = Place::new("latent-table");
    place.write("prompts.txt", "cat\n");
    let rule = format!(
        "--model {TINY} --height 16 --width 16 --prompts prompts.txt --schedule discrete --beta-table lsun-ldm"
    );
    // With many calls a solver comes to where the teacher does, if both begin at the top of the same table.
    let compare = format!("compare {rule} --solvers ipndm --nfe 60 --teacher-nfe 60 --seeds 0-3 --json --out c");
    let found = place.works(&compare).json()["scores"][0]["rmse"]["value"].as_f64().unwrap();
    assert!(found < 1.0, "{found}");
}

/// Sample i shows line i: of other seeds the same seed shows another line.
#[test]
fn a_seed_keeps_its_prompt() {
    let place = Place::new("latent-lines");
    place.write("prompts.txt", "cat\ndog\nthe cat\nthe dog\n");
    let sample =
        format!("sample --model {TINY} --height 16 --width 16 --prompts prompts.txt --nfe 2 --solver euler --out o");
    place.works(&format!("{sample} --seeds 1-2"));
    place.works(&format!("{sample} --seeds 1-3"));
    for seeds in ["0-3", "2-3", "1,3"] {
        place.refuses(&format!("{sample} --seeds {seeds}"), &["o holds samples made with other settings"]);
    }
}

/// Whether this processor multiplies bf16; says so if it does not.
fn has_bf16() -> bool {
    let has = dyweight::models::Precision::Bf16.is_available();
    if !has {
        dyweight_testing::skipped("this processor has no products of bf16 (avx512bf16)");
    }
    has
}

#[test]
fn a_precision_that_cannot_be_had_is_refused_with_the_reason() {
    let place = Place::new("latent-precision-refused");
    let sample = |model: &str| format!("sample --model {model} --nfe 4 --solver euler --seeds 0 --precision bf16");
    let unused = ["computed in bf16", "leave --precision out", "FLUX, T5, U-Nets"];
    for model in ["mixture", "mixture-flow"] {
        place.refuses(&sample(model), &[&format!("nothing of '{model}' is"), unused[0], unused[1], unused[2]]);
    }
    let tiny = format!("{TINY} --height 16 --width 16");
    place.refuses(
        &format!("{} --precision bf61", sample(&tiny).replace(" --precision bf16", "")),
        &["unknown precision 'bf61'", "did you mean 'bf16'"],
    );
    // Lesser instructions have none, whatever the processor has.
    for command in [
        sample(&tiny),
        format!("inspect {TINY} --precision bf16"),
        format!("bench --model {tiny} --precision bf16"),
        format!("train --model {tiny} --precision bf16 --nfe 4 --out s.json"),
        format!("probe --model {TINY} --part unet --input {TINY}/unet.io.safetensors --out p --precision bf16"),
    ] {
        let ended = place.command(&command).env("DYWEIGHT_ISA", "portable").output().unwrap();
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{command}: {text}");
        for part in ["--precision bf16 needs a processor", "avx512_bf16", "(portable)", "f32 runs everywhere"] {
            assert!(text.contains(part), "{command}: {text}");
        }
    }
    if has_bf16() {
        place.refuses(
            &format!("probe --model {TINY} --part vae --input {TINY}/vae.io.safetensors --out p --precision bf16"),
            &["nothing of 'vae' is computed in bf16"],
        );
    }
}

#[test]
fn a_precision_is_stated_wherever_its_samples_go() {
    if !has_bf16() {
        return;
    }
    let place = Place::new("latent-precision");
    let model = format!("--model {TINY} --height 16 --width 16 --prompt cat");
    let sample = format!("sample {model} --nfe 4 --solver euler --seeds 0-1 --out o");
    place.works(&format!("{sample} --latent-out a.safetensors"));
    // The usual one may be named.
    place.works(&format!("{sample} --precision f32 --latent-out b.safetensors"));
    place.refuses(&format!("{sample} --precision bf16"), &["other settings"]);
    place.works(&format!("{sample}2 --precision bf16 --latent-out c.safetensors"));
    let read = |name: &str| TensorFile::read(&place.path(name)).unwrap();
    let [a, b, c] = ["a.safetensors", "b.safetensors", "c.safetensors"].map(read);
    let numbers = |file: &TensorFile| file.tensors["latents"].to_f64();
    assert_eq!(numbers(&a), numbers(&b));
    assert_ne!(numbers(&a), numbers(&c));
    assert_eq!((a.metadata.get("precision"), c.metadata["precision"].as_str()), (None, "bf16"));
    assert!(std::fs::read_to_string(place.path("o2/run.json")).unwrap().contains(r#""precision": "bf16""#));
    let png = std::fs::read(place.path("o2/000000/000000.png")).unwrap();
    let text = String::from_utf8_lossy(&png);
    assert!(text.contains("precision\0bf16") || text.contains("precision\0\0\0\0\0bf16"), "{text}");
    let facts = place
        .works(&format!("bench {} --batch 1 --repeats 1 --precision bf16 --json", model.replace(" --prompt cat", "")));
    assert!(facts.stdout.contains(r#""precision":"bf16""#), "{}", facts.stdout);
    assert!(place.works(&format!("inspect {TINY} --precision bf16")).stdout.contains("products in bf16"));
    assert!(place.works(&format!("{sample}3 --precision bf16 --dry-run")).stdout.contains("in bf16"));
}

#[test]
fn what_is_kept_in_one_precision_is_not_used_in_another() {
    if !has_bf16() {
        return;
    }
    let place = Place::new("latent-precision-kept");
    place.write("prompts.txt", "cat\n");
    let model = format!("--model {TINY} --height 16 --width 16 --prompts prompts.txt");
    let train =
        format!("train {model} --guidance 2 --nfe 6 --teacher-nfe 16 --batch 2 --validation 2 --cache kept --quiet");
    place.works(&format!("{train} --iters 2 --out s.json"));
    // Nor is a run that was interrupted gone on with in another.
    let halted = place.command(&format!("{train} --iters 4000 --out h.json")).spawn();
    let (mut halted, state) = (halted.unwrap(), place.path("h.state"));
    while !state.exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(halted.try_wait().unwrap().is_none(), "ended by itself");
    }
    halted.kill().unwrap();
    halted.wait().unwrap();
    place.refuses(&format!("{train} --iters 4000 --out h.json --precision bf16 --resume"), &["h.state", "arithmetic"]);
    let kept = || std::fs::read_dir(place.path("kept")).unwrap().count();
    let before = kept();
    place.works(&format!("{train} --iters 2 --precision f32 --out s2.json"));
    assert_eq!(kept(), before);
    place.works(&format!("{train} --iters 2 --precision bf16 --out s3.json"));
    assert_eq!(kept(), 2 * before);
    let compare = format!("compare {model} --solvers euler --nfe 4 --teacher-nfe 16 --seeds 0-1 --out c");
    place.works(&format!("{compare} --precision bf16"));
    assert!(std::fs::read_to_string(place.path("c/report.md")).unwrap().contains("products in bf16"));
    place.refuses(&compare, &[r#"computed.precision = "bf16", not null"#]);
}

/// An autoencoder that overflows makes black pictures; nobody is to find that out by looking.
#[test]
fn an_image_that_is_no_number_is_a_failure() {
    let place = Place::new("latent-black");
    place.tensors("latents", &[("latents", &[1, 4, 8, 8], &[1e36; 256])]);
    let run =
        format!("sample --model {TINY} --prompt cat --latents latents --solver euler --nfe 1 --out o --latent-out l");
    let ended = place.run(&run);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("decoding diverged: the image of seed 0"), "{ended:?}");
    assert!(place.path("l").exists() && !place.path("o/000000/000000.png").exists());
}

#[test]
fn a_comparison_trains_for_the_prompts_it_judges_on() {
    let place = Place::new("latent-records");
    place.write("prompts.txt", "cat\nthe dog\n");
    let compare = format!(
        "compare --model {TINY} --height 16 --width 16 --prompts prompts.txt --solvers euler --nfe 4 --teacher-nfe 6"
    );
    let ended = place
        .works(&format!("{compare} --negative dog --guidance 2 --seeds 0-1 --train-seeds 0 --iters 1 --out c --json"));
    let rows: Vec<String> =
        ended.json()["scores"].as_array().unwrap().iter().map(|score| score["row"].to_string()).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
}
