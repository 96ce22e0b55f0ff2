//! Networks and state dictionaries in pickles and torch files, against the same tensors in safetensors files.
//!
//! The files are not in this repository. With `DYWEIGHT_GOLDEN_DIR` set to the directory of reference data
//! (`edm_nets/<name>.{pkl,json,weights.safetensors}`, `sd_tiny_*`), all of them are read and compared bit by bit.

use dyweight_files::{Format, NetworkFile, StoredTensor, TensorFile, TorchFile, read_file, sniff};
use dyweight_testing::outside;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

fn golden() -> Option<PathBuf> {
    outside("DYWEIGHT_GOLDEN_DIR")
}

fn assert_same(name: &str, found: &[(String, StoredTensor)], expected: &TensorFile) {
    assert_eq!(found.len(), expected.tensors.len(), "{name}");
    for (key, tensor) in found {
        assert_eq!(Some(tensor), expected.tensors.get(key), "{name}: {key}");
    }
}

fn json(path: &Path) -> Map<String, Value> {
    let text = std::fs::read_to_string(path).expect("readable");
    serde_json::from_str(&text).expect("an object")
}

#[test]
fn edm_networks_have_the_same_bits_and_options() {
    let Some(directory) = golden().map(|d| d.join("edm_nets")) else { return };
    for name in ["dhariwal_adm", "dhariwal_heads", "song_ddpmpp", "song_ncsnpp", "song_small"] {
        let network = NetworkFile::read(&directory.join(format!("{name}.pkl"))).expect("reads");
        let weights = TensorFile::read(&directory.join(format!("{name}.weights.safetensors"))).expect("reads");
        assert_same(name, &network.tensors, &weights);
        let mut expected = json(&directory.join(format!("{name}.json")));
        assert_eq!(expected.remove("cls"), Some(network.class.clone().into()));
        expected.remove("params");
        assert_eq!(network.init_kwargs, expected, "{name}");
        for (key, value) in &expected {
            assert_eq!(network.config().get(key), Some(value), "{name}: {key}");
        }
        assert_eq!(network.sources.iter().map(|s| s.len).collect::<Vec<_>>(), vec![24; network.sources.len()]);
        assert!(network.globals.contains(&"torch_utils.persistence._reconstruct_persistent_obj".to_string()));
    }
}

#[test]
fn stable_diffusion_files_have_the_same_bits() {
    let Some(directory) = golden() else { return };
    let expected = TensorFile::read(&directory.join("sd_tiny_compvis.safetensors")).expect("reads");
    let archive = TorchFile::read(&directory.join("sd_tiny_compvis.ckpt")).expect("reads");
    for (name, tensor) in &expected.tensors {
        assert_eq!(archive.tensor(name), Ok(tensor), "{name}");
    }
    assert_eq!(archive.tensors.len(), 1153);
    let legacy = TorchFile::read(&directory.join("sd_tiny_legacy.ckpt")).expect("reads");
    assert_eq!(legacy.tensors.len(), 125);
    let shared: Vec<_> = legacy.tensors.iter().filter(|(name, _)| expected.tensors.contains_key(name)).collect();
    assert!(!shared.is_empty());
    for (name, tensor) in shared {
        assert_eq!(Some(tensor), expected.tensors.get(name), "{name}");
    }
}

#[test]
fn formats_are_told_by_content() {
    let Some(directory) = golden() else { return };
    let format = |name: &str| sniff(&read_file(&directory.join(name), u64::MAX).expect("reads"));
    assert_eq!(format("edm_nets/song_small.pkl"), Format::Pickle);
    assert_eq!(format("edm_nets/song_small.json"), Format::Json);
    assert_eq!(format("edm_nets/song_small.weights.safetensors"), Format::Safetensors);
    assert_eq!(format("sd_tiny_compvis.ckpt"), Format::TorchZip);
    assert_eq!(format("sd_tiny_legacy.ckpt"), Format::TorchLegacy);
}

/// Rewriting a file with the same tensors gives a file with the same tensors, whatever wrote the first.
#[test]
fn safetensors_files_survive_rewriting() {
    let Some(directory) = golden() else { return };
    for name in ["solver_trajectories.safetensors", "torch_noise.safetensors", "inception_io.safetensors"] {
        let file = TensorFile::read(&directory.join(name)).expect("reads");
        assert_eq!(TensorFile::parse(file.to_bytes().into()).as_ref(), Ok(&file), "{name}");
    }
}
