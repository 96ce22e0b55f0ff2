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

/// Memory a process may have of its own, in kilobytes: anonymous and writable (`RLIMIT_DATA`). Pages of a file that is mapped to be
/// read are not: the system takes them back when it needs them. A file that is read instead of mapped, or weights that are
/// copied, would not fit.
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
    place.refuses("inspect random:sd16", &["'random:sd16'", "did you mean 'random:sd15'"]);
    place.refuses("bench --model random:sd16", &["'sd16'", "did you mean 'sd15'"]);
    let list = place.works("list models").stdout;
    assert!(list.contains("random:sd15") && list.contains("random:lsun-ldm") && list.contains("random:sd21"), "{list}");
}
