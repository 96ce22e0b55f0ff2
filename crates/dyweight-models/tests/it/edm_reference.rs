//! The networks against PyTorch: values and gradients stored by `tools/make_edm_fixtures.py` (every kind of network,
//! tiny) and by the training of the embedded models.

use crate::edm_common::{Io, data, error, io, network};
use dyweight_core::Tensor;
use dyweight_core::denoiser::{Denoiser, Differentiable, Levels};
use dyweight_core::features::FeatureMap;
use dyweight_files::TensorFile;
use dyweight_models::edm::EdmFile;
use dyweight_models::embedded;
use dyweight_models::features::FashionFeatures;
use dyweight_nn::ConvAlgo;

const NETWORKS: [&str; 6] = ["edm_standard", "edm_skip", "edm_residual", "edm_vp", "edm_ve", "edm_iddpm"];

/// Errors of value, gradient in x and gradient in sigma.
fn errors(model: &dyn Differentiable, io: &Io) -> [f64; 3] {
    let (value, pullback) = model.with_pullback(&io.x, &Levels::Each(io.sigma.clone())).unwrap();
    let (to_x, to_sigma) = pullback(&io.cotangent).unwrap();
    [error(value.data(), &io.denoised), error(to_x.data(), &io.grad_x), error(&to_sigma, &io.grad_sigma)]
}

#[test]
fn every_kind_of_network_gives_the_reference_values() {
    for name in NETWORKS {
        let file = format!("{name}.safetensors");
        let io = io(&file, "io.");
        for (conv, tolerance) in [(ConvAlgo::Direct, 3e-6), (ConvAlgo::Winograd2, 3e-6), (ConvAlgo::Winograd4, 1e-5)] {
            let model = network(&file, conv);
            let [value, to_x, to_sigma] = errors(&model.bind_rows(io.labels.clone()), &io);
            assert!(value < tolerance && to_x < tolerance, "{name} {conv:?}: {value:e} {to_x:e}");
            // A difference of large terms, and of f32 ones in the reference.
            assert!(to_sigma < 30.0 * tolerance, "{name} {conv:?}: {to_sigma:e}");
        }
    }
}

#[test]
fn a_pickle_and_its_conversion_are_the_same_network_to_the_last_bit() {
    let pickled = EdmFile::read(&data("edm_standard.pkl"), None).unwrap();
    let converted =
        EdmFile::parse(std::path::Path::new("converted"), pickled.to_safetensors().to_bytes().into(), None).unwrap();
    assert_eq!(pickled.config, converted.config);
    assert_eq!(pickled.sha256(), converted.sha256());
    let io = io("edm_standard.safetensors", "io.");
    let answer = |file: &EdmFile| {
        let model = file.build(ConvAlgo::default()).unwrap();
        let bound = model.bind_rows(io.labels.clone());
        let (value, pullback) = bound.with_pullback(&io.x, &Levels::Each(io.sigma.clone())).unwrap();
        (value, pullback(&io.cotangent).unwrap())
    };
    assert_eq!(answer(&pickled), answer(&converted));
    // The stored safetensors file was written from the same network by another program, and holds more tensors.
    let model = network("edm_standard.safetensors", ConvAlgo::default());
    let value = model.bind_rows(io.labels.clone()).predict(&io.x, &Levels::Each(io.sigma.clone())).unwrap();
    assert_eq!(answer(&pickled).0, value);
}

#[test]
fn a_fingerprint_changes_with_names_shapes_and_numbers_alone() {
    let file = EdmFile::read(&data("edm_standard.pkl"), None).unwrap();
    let original = file.sha256();
    let mut half = file.clone();
    for tensor in half.tensors.values_mut() {
        *tensor = dyweight_files::StoredTensor::from_f64(tensor.shape(), &tensor.to_f64()).unwrap();
    }
    assert_eq!(half.sha256(), original, "the element type is not part of it");
    let mut renamed = file.clone();
    let (name, tensor) = renamed.tensors.pop_last().unwrap();
    renamed.tensors.insert(name + "x", tensor);
    assert_ne!(renamed.sha256(), original);
}

#[test]
fn the_embedded_network_is_the_trained_one() {
    let io = io("edm_fashion_io.safetensors", "");
    let model = embedded::fashion().unwrap().build(ConvAlgo::default()).unwrap();
    let [value, to_x, to_sigma] = errors(&model.bind_rows(io.labels.clone()), &io);
    // Kernels are stored in half precision.
    assert!(value < 5e-4 && to_x < 5e-4 && to_sigma < 1e-3, "{value:e} {to_x:e} {to_sigma:e}");
}

#[test]
fn the_embedded_features_are_the_trained_ones() {
    let file = TensorFile::read(&data("edm_fashion_features_io.safetensors")).unwrap();
    let numbers = |name: &str| file.tensor(name).unwrap().to_f64();
    let images = Tensor::new([4, 1, 28, 28], numbers("x")).unwrap();
    let map = FashionFeatures::embedded().unwrap();
    let (features, pullback) = map.with_pullback(&images).unwrap();
    assert_eq!(features, map.features(&images).unwrap());
    assert_eq!(features.shape(), [4, map.dims(), 1, 1]);
    let to_x = pullback(&Tensor::new([4, 128, 1, 1], numbers("cotangent")).unwrap()).unwrap();
    let scores = map.class_scores(&features).unwrap();
    let found = [
        error(features.data(), &numbers("features")),
        error(to_x.data(), &numbers("grad_x")),
        error(scores.data(), &numbers("logits")),
    ];
    assert!(found.iter().all(|e| *e < 1e-3), "{found:?}");
    assert!(map.features(&Tensor::zeros([1, 1, 32, 32])).is_err());
    assert_eq!(map.features(&images.slice(2..3)).unwrap().data(), features.sample(2));
}
