//! Inception-v3: layers and gradient against PyTorch (f64, weights by a formula, `tools/make_inception_fixture.py`),
//! preprocessing against the original tools, files of every kind, refusals.

use crate::build::{Member, Pickle, archive, float_bytes};
use dyweight_core::features::FeatureMap;
use dyweight_core::{Error, Tensor};
use dyweight_files::{StoredTensor, TensorFile};
use dyweight_models::inception::{Inception, InceptionFile, Resize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Number `index` of a tensor, in [0, 1).
fn uniform(tensor: u64, index: u64) -> f64 {
    let x = (tensor << 32 | index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 40) as f64 / 2f64.powi(24)
}

/// The tensors of the formula: per unit weight, gain, bias, mean and variance.
fn formula() -> &'static BTreeMap<String, StoredTensor> {
    static TENSORS: OnceLock<BTreeMap<String, StoredTensor>> = OnceLock::new();
    TENSORS.get_or_init(|| {
        let tensor = |(number, (name, shape)): (usize, (String, Vec<usize>))| {
            let bound = (6.0 / shape[1..].iter().product::<usize>() as f64).sqrt();
            let value = |index: usize| {
                let u = uniform(number as u64, index as u64);
                let v = match number % 5 {
                    0 => (2.0 * u - 1.0) * bound,
                    1 => 0.8 + 0.4 * u,
                    2 | 3 => 0.2 * (2.0 * u - 1.0),
                    _ => 0.5 + u,
                };
                v as f32
            };
            let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
            (name, StoredTensor::from_f32(&shape, &values).unwrap())
        };
        InceptionFile::shapes().into_iter().enumerate().map(tensor).collect()
    })
}

fn map(shape: [usize; 3], resize: Resize) -> Inception {
    let file = InceptionFile::from_tensors(Path::new("formula"), formula()).unwrap();
    Inception::new(&file, shape, resize).unwrap()
}

fn stored() -> TensorFile {
    TensorFile::read(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/inception.safetensors")).unwrap()
}

fn batch(file: &TensorFile, name: &str) -> Tensor {
    let tensor = file.tensor(name).unwrap();
    Tensor::new(tensor.shape().try_into().unwrap(), tensor.to_f64()).unwrap()
}

/// Relative error in the Euclidean norm.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let squares = |v: &mut dyn Iterator<Item = f64>| v.map(|d| d * d).sum::<f64>();
    let difference = squares(&mut found.iter().zip(expected).map(|(a, b)| a - b));
    (difference / squares(&mut expected.iter().copied())).sqrt()
}

const RULES: [(&str, Resize); 2] = [("edm", Resize::Edm), ("pytorch-fid", Resize::PytorchFid)];

#[test]
fn features_and_gradients_are_those_of_pytorch() {
    let file = stored();
    let row = file.tensor("cotangent").unwrap().to_f64();
    for (name, shape) in [("colour", [3, 12, 10]), ("grey", [1, 7, 9])] {
        let images = batch(&file, &format!("images_{name}"));
        let cotangent = Tensor::new([images.samples(), 2048, 1, 1], row.repeat(images.samples())).unwrap();
        for (rule, resize) in RULES {
            let map = map(shape, resize);
            let (features, pullback) = map.with_pullback(&images).unwrap();
            assert_eq!(features, map.features(&images).unwrap());
            let gradient = pullback(&cotangent).unwrap();
            let expected = |what: &str| file.tensor(&format!("{what}_{name}_{rule}")).unwrap().to_f64();
            let to_features = error(features.data(), &expected("features"));
            let to_gradient = error(gradient.data(), &expected("gradient"));
            println!("{name} {rule}: features {to_features:.1e}, gradient {to_gradient:.1e}");
            assert!(to_features < 1e-4, "{name} {rule}: {to_features:e}");
            assert!(to_gradient < 1e-2, "{name} {rule}: {to_gradient:e}");
        }
    }
}

#[test]
fn the_gradient_is_the_slope() {
    let images = batch(&stored(), "images_grey");
    let map = map([1, 7, 9], Resize::Edm);
    let direction: Vec<f64> = (0..63).map(|i| uniform(77, i) - 0.5).collect();
    let weight: Vec<f64> = (0..2048).map(|i| uniform(78, i) - 0.5).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let value = |step: f64| {
        let mut moved = images.clone();
        moved.data_mut().iter_mut().zip(&direction).for_each(|(x, d)| *x += step * d);
        dot(map.features(&moved).unwrap().data(), &weight)
    };
    let (_, pullback) = map.with_pullback(&images).unwrap();
    let gradient = pullback(&Tensor::new([1, 2048, 1, 1], weight.clone()).unwrap()).unwrap();
    let (found, wanted) = (dot(gradient.data(), &direction), (value(1e-3) - value(-1e-3)) / 2e-3);
    let size = dot(gradient.data(), gradient.data()).sqrt() * dot(&direction, &direction).sqrt();
    assert!((found - wanted).abs() < 2e-2 * size, "{found} {wanted}");
}

#[test]
fn images_are_seen_as_by_the_original_tools() {
    let file = stored();
    let pixels = file.tensor("pixels_28").unwrap().to_f64();
    let images = Tensor::new([1, 1, 28, 28], pixels.iter().map(|p| (p - 128.0) / 127.5).collect()).unwrap();
    for (rule, resize) in RULES {
        let seen = map([1, 28, 28], resize).preprocessed(&images).unwrap();
        let expected = file.tensor(&format!("seen_{rule}")).unwrap().to_f64();
        let worst = |channel: usize| {
            let plane = &seen.data()[channel * 299 * 299..][..299 * 299];
            let every_fifth = (0..60).flat_map(|i| (0..60).map(move |j| plane[5 * i * 299 + 5 * j]));
            every_fifth.zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
        };
        // The original's own rounding.
        assert!((0..3).all(|channel| worst(channel) < 2e-5), "{rule}: {:e}", worst(0));
    }
}

#[test]
fn an_image_does_not_depend_on_its_company_or_the_threads() {
    let map = map([1, 7, 9], Resize::PytorchFid);
    // More than one pass takes.
    let images = Tensor::new([10, 1, 7, 9], (0..630).map(|i| 2.0 * uniform(90, i) - 1.0).collect()).unwrap();
    let together = map.features(&images).unwrap();
    let alone = |i: usize| map.features(&images.slice(i..i + 1)).unwrap();
    assert!([0, 7, 8, 9].into_iter().all(|i| alone(i).data() == together.sample(i)));
    let few = images.slice(0..3);
    let gradient = |images: &Tensor| map.with_pullback(images).and_then(|(f, pullback)| pullback(&f)).unwrap();
    let whole = gradient(&few);
    assert_eq!(gradient(&few.slice(2..3)).data(), whole.sample(2));
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(|| gradient(&few)), whole);
        assert_eq!(pool.install(|| map.features(&few)).unwrap(), together.slice(0..3));
    }
    assert_eq!(map.features(&images.slice(0..0)).unwrap().shape(), [0, 2048, 1, 1]);
    assert_eq!(gradient(&images.slice(0..0)).shape(), [0, 1, 7, 9]);
}

#[test]
fn the_rules_have_names_of_their_own() {
    let (edm, other) = (map([3, 8, 8], Resize::Edm), map([3, 8, 8], Resize::PytorchFid));
    assert_eq!((edm.name(), other.name()), ("inception-edm", "inception-pytorch-fid"));
    assert_eq!((edm.sha256(), edm.dims(), edm.shape()), (other.sha256(), 2048, [3, 8, 8]));
}

/// The formula with all gains 1, in the names of a TorchScript file.
fn script() -> (BTreeMap<String, StoredTensor>, BTreeMap<String, StoredTensor>) {
    let mut plain = formula().clone();
    for (name, tensor) in plain.iter_mut().filter(|(name, _)| name.ends_with(".bn.weight")) {
        let ones = vec![1.0; tensor.len()];
        *tensor = StoredTensor::from_f32(tensor.shape(), &ones).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let script = InceptionFile::script_names().into_iter().map(|(name, script)| (script, plain[&name].clone()));
    (script.collect(), plain)
}

/// A torch archive of a compiled module: nested objects, as the real ones have.
fn compiled(tensors: &BTreeMap<String, StoredTensor>) -> Vec<u8> {
    let keys: Vec<(String, &StoredTensor)> =
        tensors.values().enumerate().map(|(key, tensor)| (key.to_string(), tensor)).collect();
    let mut pickle = Pickle::new(2).global("__torch__.wrapper", "Net").raw(b")\x81}(");
    pickle = pickle.text("layers").global("__torch__.torch.nn.modules.container", "Sequential").raw(b")\x81}(");
    for (name, (key, tensor)) in tensors.keys().zip(&keys) {
        let shape: Vec<i32> = tensor.shape().iter().map(|s| *s as i32).collect();
        let strides: Vec<i32> = (1..=shape.len()).map(|i| shape[i..].iter().product()).collect();
        let count = tensor.len() as i32;
        pickle = pickle.text(name).view(|p| p.external("FloatStorage", key, count, false), 0, &shape, &strides);
    }
    let pickle = pickle.raw(b"ubub").stop();
    let mut members =
        vec![("net/data.pkl".to_string(), pickle), ("net/code/__torch__/net.py".into(), b"boom".to_vec())];
    members.extend(keys.iter().map(|(key, tensor)| (format!("net/data/{key}"), float_bytes(&tensor.to_f32()))));
    archive(&members.iter().map(|(name, bytes)| Member::stored(name, bytes)).collect::<Vec<_>>())
}

#[test]
fn files_of_every_kind_hold_the_same_weights() {
    let (script, plain) = script();
    let path = Path::new("file");
    let direct = InceptionFile::from_tensors(path, &plain).unwrap();
    let again = InceptionFile::parse(path, direct.to_safetensors().to_bytes().into()).unwrap();
    assert_eq!(again.sha256(), direct.sha256());
    let archive = compiled(&script);
    let found = InceptionFile::parse(path, archive.clone().into()).unwrap();
    assert_eq!(found.tensors, direct.tensors);
    assert_eq!(found.sha256(), direct.sha256());
    assert_ne!(found.kind, direct.kind);
    // A pickle around the archive, as NVIDIA's may be; and one with a state dict of its own.
    let pickled = Pickle::new(4).persistent("Detector", |p| p.text("data").bytes(&archive)).stop();
    assert_eq!(InceptionFile::parse(path, pickled.into()).unwrap().sha256(), direct.sha256());
    let tensors = |p: Pickle| {
        plain.iter().fold(p, |p, (name, tensor)| {
            let shape: Vec<i32> = tensor.shape().iter().map(|s| *s as i32).collect();
            p.text(&format!("net.{name}")).tensor(&shape, &tensor.to_f32())
        })
    };
    let pickled = Pickle::new(4).dict(tensors).stop();
    assert_eq!(InceptionFile::parse(path, pickled.into()).unwrap().sha256(), direct.sha256());
}

/// The message for the formula's tensors after a change.
fn refusal(change: impl FnOnce(&mut BTreeMap<String, StoredTensor>)) -> String {
    let mut tensors = formula().clone();
    change(&mut tensors);
    let file = InceptionFile::from_tensors(Path::new("weights.pth"), &tensors);
    match file.and_then(|file| Inception::new(&file, [3, 8, 8], Resize::Edm)) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn wrong_weights_are_named() {
    const NORM: &str = "Mixed_6b.branch7x7_2.bn.running_var";
    let with = |name: &str, shape: &[usize], value: f32| {
        let tensor = StoredTensor::from_f32(shape, &vec![value; shape.iter().product()]).unwrap();
        let name = name.to_string();
        refusal(move |tensors| drop(tensors.insert(name, tensor)))
    };
    let missing = refusal(|tensors| drop(tensors.remove(NORM)));
    assert_eq!(missing, format!("weights.pth: '{NORM}' is missing"));
    let shape = with(NORM, &[192], 1.0);
    assert_eq!(shape, format!("tensor '{NORM}' in weights.pth: expected shape [128], found [192]"));
    assert!(with(NORM, &[128], f32::NAN).contains(NORM));
    assert!(with(NORM, &[128], -1.0).contains("variance -1"));
    assert!(with("fc.weight", &[1000, 2048], 0.0).contains("1000 classes, as torchvision has"));
    assert!(with("AuxLogits.fc.weight", &[1000, 768], 0.0).contains("torchvision"));
    assert!(refusal(BTreeMap::clear).contains("holds no Inception-v3"));
}

#[test]
fn wrong_files_and_images_are_refused() {
    let parse = |bytes: &[u8]| InceptionFile::parse(Path::new("f"), bytes.to_vec().into()).unwrap_err().to_string();
    assert!(parse(b"").contains("an empty file"));
    assert!(parse(b"{}").contains("JSON"));
    assert!(parse(&stored().to_bytes()).contains("holds no Inception-v3"));
    // An archive within a pickle that is cut short; a pickle that would run something.
    let cut = Pickle::new(4).dict(|p| p.text("net").bytes(b"PK\x03\x04 and no more")).stop();
    assert!(InceptionFile::parse(Path::new("f"), cut.into()).is_err());
    let hostile = Pickle::new(4).call("os", "system", |p| p.text("boom")).stop();
    assert!(parse(&hostile).contains("os"));
    // The archive itself may hold no pickle that runs something either.
    let inner = archive(&[Member::stored("a/data.pkl", &hostile)]);
    assert!(parse(&Pickle::new(4).dict(|p| p.text("net").bytes(&inner)).stop()).contains("os"));
    let latents = Inception::open(Path::new("nowhere"), [4, 64, 64], Resize::Edm);
    assert!(matches!(latents, Err(Error::Conflict { .. })));
    assert!(matches!(Inception::open(Path::new("nowhere"), [3, 64, 64], Resize::Edm), Err(Error::Io { .. })));
    let map = map([1, 7, 9], Resize::Edm);
    assert!(matches!(map.features(&Tensor::zeros([1, 3, 7, 9])), Err(Error::Shape { .. })));
    let (_, pullback) = map.with_pullback(&Tensor::zeros([1, 1, 7, 9])).unwrap();
    assert!(matches!(pullback(&Tensor::zeros([2, 2048, 1, 1])), Err(Error::Shape { .. })));
}
