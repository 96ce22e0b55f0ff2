//! What the tests of the EDM networks share.
#![allow(dead_code, reason = "each test file uses a part")]

use dyweight_core::Tensor;
use dyweight_core::noise::Stream;
use dyweight_files::TensorFile;
use dyweight_models::edm::{Config, Edm, EdmFile};
use dyweight_nn::ConvAlgo;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// A file of test data.
pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Inputs and results that go with a network.
pub struct Io {
    pub x: Tensor,
    pub sigma: Vec<f64>,
    pub labels: Option<Vec<f32>>,
    pub cotangent: Tensor,
    pub denoised: Vec<f64>,
    pub grad_x: Vec<f64>,
    pub grad_sigma: Vec<f64>,
}

/// Reads the tensors under `prefix`.
pub fn io(name: &str, prefix: &str) -> Io {
    let file = TensorFile::read(&data(name)).unwrap();
    let tensor = |what: &str| file.tensor(&format!("{prefix}{what}")).unwrap().clone();
    let batch = |what: &str| {
        let stored = tensor(what);
        Tensor::new(stored.shape().try_into().unwrap(), stored.to_f64()).unwrap()
    };
    Io {
        x: batch("x"),
        sigma: tensor("sigma").to_f64(),
        labels: file.tensors.get(&format!("{prefix}labels")).map(|l| l.to_f32()),
        cotangent: batch("cotangent"),
        denoised: tensor("denoised").to_f64(),
        grad_x: tensor("grad_x").to_f64(),
        grad_sigma: tensor("grad_sigma").to_f64(),
    }
}

/// Largest difference relative to the largest entry.
pub fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let most = expected.iter().fold(0f64, |m, v| m.max(v.abs()));
    found.iter().zip(expected).fold(0f64, |m, (a, b)| m.max((a - b).abs())) / most
}

/// A network of the test data.
pub fn network(name: &str, conv: ConvAlgo) -> Edm {
    EdmFile::read(&data(name), None).unwrap().build(conv).unwrap()
}

/// A small configuration: a base and what is to differ.
pub fn options(differing: Value) -> Map<String, Value> {
    let mut options = json!({
        "cls": "EDMPrecond", "img_resolution": 8, "img_channels": 2, "model_type": "SongUNet", "model_channels": 8,
        "channel_mult": [1, 2], "channel_mult_emb": 2, "num_blocks": 1, "attn_resolutions": [4],
    });
    for (key, value) in differing.as_object().unwrap() {
        options[key] = value.clone();
    }
    options.as_object().unwrap().clone()
}

/// A network of this configuration with random weights.
pub fn random(differing: Value) -> Edm {
    Edm::random(Config::from_map(&options(differing)).unwrap(), 1, ConvAlgo::Direct).unwrap()
}

/// Normal numbers in the shape of a batch.
pub fn batch(seed: u64, shape: [usize; 4]) -> Tensor {
    Tensor::new(shape, Stream::new(seed).normals(shape.iter().product())).unwrap()
}

/// One of every kind: each option takes each of its values somewhere.
pub fn every_kind() -> Vec<(&'static str, Value)> {
    let (ncsnpp, adm) = (json!([1, 3, 3, 1]), "DhariwalUNet");
    vec![
        ("standard", json!({})),
        ("labels", json!({"label_dim": 3, "augment_dim": 2})),
        (
            "three levels of 12 pixels",
            json!({"img_resolution": 12, "channel_mult": [1, 2, 1], "attn_resolutions": [6]}),
        ),
        ("skip", json!({"encoder_type": "skip", "decoder_type": "skip", "resample_filter": ncsnpp})),
        ("residual", json!({"encoder_type": "residual", "resample_filter": [1, 2, 3, 4]})),
        ("fourier", json!({"embedding_type": "fourier", "channel_mult_noise": 2})),
        ("skip decoder, no attention", json!({"decoder_type": "skip", "attn_resolutions": [], "num_blocks": 2})),
        (
            "six taps, down to one pixel",
            json!({"img_resolution": 2, "encoder_type": "skip", "decoder_type": "skip", "resample_filter": [1, 2, 4, 3, 2, 1]}),
        ),
        ("VP", json!({"cls": "VPPrecond", "model_type": null})),
        ("VE", json!({"cls": "VEPrecond", "encoder_type": "residual", "decoder_type": "skip"})),
        ("iDDPM", json!({"cls": "iDDPMPrecond", "M": 100})),
        ("ADM", json!({"model_type": adm, "label_dim": 4})),
        (
            "ADM with heads",
            json!({"model_type": adm, "model_channels": 64, "attn_resolutions": [8, 4], "img_resolution": 8}),
        ),
        ("iDDPM around ADM", json!({"cls": "iDDPMPrecond", "model_type": null, "M": 100})),
    ]
}
