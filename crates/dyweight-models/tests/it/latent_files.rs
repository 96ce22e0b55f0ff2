//! Folders and files of latent diffusion models: layouts that are the same network, and what is refused by name.

use dyweight_core::error::Result;
use dyweight_files::{StoredTensor, TensorFile};
use dyweight_models::ModelSpec;
use dyweight_models::latent::{Bundle, probe};
use dyweight_models::weights::TensorSet;
use dyweight_nn::ConvAlgo;
use std::path::{Path, PathBuf};

fn fixture() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/latent"))
}

/// A copy of the fixture in a folder of its own.
fn copy(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("dyweight-latent-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    copy_folder(&fixture(), &dir);
    dir
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

const WEIGHTS: &str = "unet/diffusion_pytorch_model.safetensors";

fn eps(dir: &Path) -> Result<Vec<f64>> {
    let path = fixture().join("unet.io.safetensors");
    let file = TensorFile::read(&path)?;
    let (found, _) = probe(&Bundle::of_folder(dir)?, "unet", (&path, &file), ConvAlgo::Direct)?;
    Ok(found.tensors["eps"].to_f64())
}

fn refusal(dir: &Path) -> String {
    eps(dir).expect_err("must be refused").to_string()
}

#[test]
fn shards_and_variants_are_the_same_network() {
    let (dir, index, map) = sharded("shards");
    let whole = eps(&fixture()).unwrap();
    let file = TensorFile::read(&fixture().join(WEIGHTS)).unwrap();
    std::fs::write(&index, serde_json::json!({ "weight_map": map }).to_string()).unwrap();
    assert_eq!(eps(&dir).unwrap(), whole);
    std::fs::remove_file(&index).unwrap();

    let mut half = TensorFile::default();
    for (name, tensor) in &file.tensors {
        half.tensors.insert(name.clone(), StoredTensor::from_f32_as_f16(tensor.shape(), &tensor.to_f32()).unwrap());
    }
    half.write(&dir.join("unet/diffusion_pytorch_model.fp16.safetensors")).unwrap();
    let found = eps(&dir).unwrap();
    let worst = found.iter().zip(&whole).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
    assert!(worst > 0.0 && worst < 1e-2, "half precision differs by {worst:e}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn tensors_that_do_not_fit_are_listed_by_name() {
    let dir = copy("mismatch");
    let mut file = TensorFile::read(&dir.join(WEIGHTS)).unwrap();
    file.tensors.remove("conv_in.bias");
    file.tensors.insert("conv_out.bias".into(), StoredTensor::from_f32(&[5], &[0.0; 5]).unwrap());
    file.tensors.insert("stray.weight".into(), StoredTensor::from_f32(&[1], &[0.0]).unwrap());
    file.write(&dir.join(WEIGHTS)).unwrap();
    let message = refusal(&dir);
    for part in ["1 missing: conv_in.bias", "conv_out.bias is [5], needs [4]", "1 of no layer: stray.weight"] {
        assert!(message.contains(part), "{message}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_index_may_not_lead_out_of_its_folder() {
    let dir = copy("escape");
    std::fs::rename(dir.join(WEIGHTS), dir.join("outside.safetensors")).unwrap();
    let index = dir.join("unet/diffusion_pytorch_model.safetensors.index.json");
    for file in ["../outside.safetensors", "/etc/passwd", "..", "a/../../outside.safetensors", ""] {
        std::fs::write(&index, serde_json::json!({ "weight_map": { "conv_in.bias": file } }).to_string()).unwrap();
        assert!(refusal(&dir).contains("is no file beside it"), "{file}: {}", refusal(&dir));
    }
    std::fs::write(&index, "{\"weight_map\": 3}").unwrap();
    assert!(refusal(&dir).contains("weight_map"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[cfg(unix)]
#[test]
fn cyclic_links_and_huge_configurations_are_errors() {
    let dir = copy("cycle");
    let config = dir.join("unet/config.json");
    std::fs::remove_file(&config).unwrap();
    std::os::unix::fs::symlink("config.json", &config).unwrap();
    assert!(refusal(&dir).contains("config.json"));
    std::fs::remove_file(&config).unwrap();
    std::fs::File::create(&config).unwrap().set_len(2 << 20).unwrap();
    assert!(refusal(&dir).contains("file size"), "{}", refusal(&dir));
    std::fs::write(&config, "[".repeat(100_000)).unwrap();
    assert!(refusal(&dir).contains("config.json"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn options_that_make_another_network_are_named() {
    let dir = copy("options");
    let path = dir.join("unet/config.json");
    let sound: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (key, value) in [
        ("act_fn", serde_json::json!("gelu")),
        ("class_embed_type", serde_json::json!("timestep")),
        ("block_out_channels", serde_json::json!([8, 70000])),
        ("attention_head_dim", serde_json::json!(3)),
        ("down_block_types", serde_json::json!(["AttnDownBlock2D", "DownBlock2D"])),
    ] {
        let mut changed = sound.clone();
        changed[key] = value;
        std::fs::write(&path, changed.to_string()).unwrap();
        let message = refusal(&dir);
        assert!(message.contains(key) || message.contains("heads"), "{key}: {message}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_folder_opens_as_a_model_with_the_same_name_for_its_weights() {
    let dir = copy("model");
    let spec = |dir: &Path| ModelSpec { height: Some(16), width: Some(32), ..ModelSpec::named(dir.to_str().unwrap()) };
    let loaded = spec(&dir).build().unwrap();
    assert_eq!(loaded.model.shape(), [4, 8, 16]);
    assert_eq!(loaded.sha256, spec(&fixture()).build().unwrap().sha256);
    let odd = ModelSpec { height: Some(10), ..spec(&dir) };
    assert!(odd.build().err().unwrap().to_string().contains("multiple of 4 pixels"));
    std::fs::write(dir.join("model_index.json"), "{\"_class_name\": \"AudioLDMPipeline\"}").unwrap();
    assert!(spec(&dir).build().err().unwrap().to_string().contains("AudioLDMPipeline"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_set_without_a_known_network_is_refused() {
    let set = TensorSet { path: "some.safetensors".into(), ..TensorSet::default() };
    assert!(!Bundle::recognises(&set));
    assert!(Bundle::of_file(set, None).is_err());
}

/// Weights in two shards with the index that names them.
fn sharded(name: &str) -> (PathBuf, PathBuf, serde_json::Map<String, serde_json::Value>) {
    let dir = copy(name);
    let file = TensorFile::read(&dir.join(WEIGHTS)).unwrap();
    std::fs::remove_file(dir.join(WEIGHTS)).unwrap();
    let mut map = serde_json::Map::new();
    let mut shards = [TensorFile::default(), TensorFile::default()];
    for (i, (name, tensor)) in file.tensors.iter().enumerate() {
        shards[i % 2].tensors.insert(name.clone(), tensor.clone());
        map.insert(name.clone(), format!("part{}.safetensors", i % 2).into());
    }
    for (i, shard) in shards.iter().enumerate() {
        shard.write(&dir.join(format!("unet/part{i}.safetensors"))).unwrap();
    }
    let index = dir.join("unet/diffusion_pytorch_model.safetensors.index.json");
    (dir, index, map)
}

#[test]
fn wrong_shards_are_named() {
    let (dir, index, map) = sharded("wrong-shards");
    let write = |map: &serde_json::Map<String, serde_json::Value>| {
        std::fs::write(&index, serde_json::json!({ "weight_map": map }).to_string()).unwrap();
    };
    write(&map);
    eps(&dir).unwrap();
    let first = map.keys().next().unwrap().clone();
    for (file, says) in [
        (serde_json::json!("part1.safetensors"), "part1.safetensors"),
        (serde_json::json!("part9.safetensors"), "part9.safetensors"),
        (serde_json::json!("config.json"), "config.json"),
        (serde_json::json!("."), "no file beside it"),
        (serde_json::json!(7), "is not a text"),
    ] {
        let mut wrong = map.clone();
        wrong.insert(first.clone(), file.clone());
        write(&wrong);
        assert!(refusal(&dir).contains(says), "{file}: {}", refusal(&dir));
    }
    // A tensor the index forgets is missing, one it makes up is not in its file.
    let mut fewer = map.clone();
    fewer.remove("conv_in.bias");
    write(&fewer);
    assert!(refusal(&dir).contains("1 missing: conv_in.bias"), "{}", refusal(&dir));
    let mut more = map.clone();
    more.insert("made.up".into(), "part0.safetensors".into());
    write(&more);
    assert!(refusal(&dir).contains("made.up"), "{}", refusal(&dir));
    let many: serde_json::Map<_, _> = (0..600).map(|i| (format!("t{i}"), format!("{i}.safetensors").into())).collect();
    write(&many);
    assert!(refusal(&dir).contains("600 files"), "{}", refusal(&dir));
    write(&map);
    let whole = std::fs::read(dir.join("unet/part0.safetensors")).unwrap();
    std::fs::write(dir.join("unet/part0.safetensors"), &whole[..whole.len() - 5]).unwrap();
    assert!(refusal(&dir).contains("part0.safetensors"), "{}", refusal(&dir));
    std::fs::File::create(&index).unwrap().set_len(9 << 20).unwrap();
    assert!(refusal(&dir).contains("file size"), "{}", refusal(&dir));
    std::fs::remove_dir_all(dir).unwrap();
}

#[cfg(unix)]
#[test]
fn folders_that_are_links_to_themselves_are_errors() {
    let dir = copy("cyclic-folder");
    std::fs::remove_dir_all(dir.join("unet")).unwrap();
    std::os::unix::fs::symlink(".", dir.join("unet")).unwrap();
    assert!(refusal(&dir).contains("config.json"), "{}", refusal(&dir));
    std::fs::remove_file(dir.join("unet")).unwrap();
    std::os::unix::fs::symlink("unet", dir.join("unet")).unwrap();
    assert!(refusal(&dir).contains("no U-Net"), "{}", refusal(&dir));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn configurations_beyond_any_network_take_no_memory() {
    let dir = copy("beyond");
    let path = dir.join("unet/config.json");
    let sound: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (changes, says) in [
        (serde_json::json!({"block_out_channels": [65536, 65536], "cross_attention_dim": 65536}), "numbers"),
        (serde_json::json!({"layers_per_block": 256, "transformer_layers_per_block": 256}), "more than 50000 tensors"),
        (serde_json::json!({"transformer_layers_per_block": 100_000}), "transformer_layers_per_block"),
    ] {
        let mut changed = sound.clone();
        for (key, value) in changes.as_object().unwrap() {
            changed[key] = value.clone();
        }
        std::fs::write(&path, changed.to_string()).unwrap();
        assert!(refusal(&dir).contains(says), "{changes}: {}", refusal(&dir));
    }
    // A codebook of a whole disk.
    let set = TensorFile::read(&dir.join("vae/diffusion_pytorch_model.safetensors")).unwrap().tensors;
    let set = TensorSet { path: "vq.safetensors".into(), tensors: set };
    let config = dir.join("vq.json");
    let ddconfig = serde_json::json!({"ch": 32, "ch_mult": [1], "num_res_blocks": 1, "z_channels": 65536});
    let whole = serde_json::json!({"ddconfig": ddconfig, "n_embed": 1 << 24, "embed_dim": 65536});
    std::fs::write(&config, whole.to_string()).unwrap();
    let bundle = Bundle::of_file(set, Some(&config)).unwrap();
    let path = fixture().join("vae.io.safetensors");
    let file = TensorFile::read(&path).unwrap();
    let refused = probe(&bundle, "vae", (&path, &file), ConvAlgo::Direct).err().unwrap().to_string();
    assert!(refused.contains("more than"), "{refused}");
    std::fs::remove_dir_all(dir).unwrap();
}
