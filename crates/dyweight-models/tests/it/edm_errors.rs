//! Files, configurations and inputs that cannot be: each refused with the name of what is wrong.

use crate::edm_common::{batch, data, options, random};
use dyweight_core::denoiser::{Condition, Denoiser, Differentiable, Levels, Model};
use dyweight_core::{Error, Tensor};
use dyweight_files::Malformed;
use dyweight_files::StoredTensor;
use dyweight_models::ModelSpec;
use dyweight_models::edm::{Config, EdmFile, parameters};
use dyweight_nn::ConvAlgo;
use serde_json::{Value, json};

/// The message a configuration is refused with.
fn refusal(differing: Value) -> String {
    parameters(&options(differing.clone())).expect_err(&differing.to_string()).to_string()
}

#[test]
fn impossible_configurations_are_named() {
    let cases = [
        (json!({"cls": "Precond"}), "cls is 'Precond'"),
        (json!({"model_type": "UNet"}), "model_type is 'UNet'"),
        (json!({"img_resolution": null}), "'img_resolution' is missing"),
        (json!({"img_resolution": 9}), "img_resolution 9 cannot be halved 1 times"),
        (json!({"img_resolution": "8"}), "'img_resolution' should be a number, but is a text"),
        (json!({"img_resolution": 1e9}), "img_resolution is 1000000000, more than"),
        (json!({"img_resolution": 65536}), "one image of 65536 x 65536 takes 34359738368 numbers in a layer"),
        (json!({"img_resolution": 2048, "img_channels": 1024}), "takes 4294967296 numbers"),
        (json!({"img_channels": 0}), "img_channels is 0"),
        (json!({"channel_mult": []}), "channel_mult has 0 entries"),
        (json!({"channel_mult": 2}), "'channel_mult' should be a list"),
        (json!({"channel_mult": [1, 1.5]}), "'channel_mult' should be a whole number"),
        (json!({"channel_mult": [1, 0]}), "widths [8, 0]"),
        (json!({"model_channels": 9}), "the noise embedding has 9 channels"),
        (json!({"model_channels": 2, "channel_mult_noise": 2, "channel_mult": [2, 2]}), "2 channels do not divide"),
        (
            json!({"model_channels": 70, "channel_mult": [1, 1]}),
            "70 channels do not divide into 17 normalisation groups",
        ),
        (json!({"num_blocks": 0}), "num_blocks is 0"),
        (json!({"num_blocks": -1}), "'num_blocks' should be a whole number"),
        (json!({"channel_mult_emb": 0}), "the embedding has 0 channels"),
        (json!({"embedding_type": "zero"}), "embedding_type is 'zero'"),
        (json!({"encoder_type": "deep"}), "encoder_type is 'deep'"),
        (json!({"decoder_type": 7}), "'decoder_type' should be a text"),
        (json!({"resample_filter": [1, 2, 1]}), "resample_filter has 3 taps"),
        (json!({"resample_filter": [1, -1]}), "resample_filter sums to 0"),
        (json!({"resample_filter": [1, 1, 1, 1, 1, 1], "encoder_type": "residual"}), "up to 4"),
        (json!({"sigma_data": 0}), "sigma_data is 0"),
        (json!({"sigma_min": 5, "sigma_max": 1}), "sigma_min 5 and sigma_max 1"),
        (json!({"cls": "VPPrecond", "beta_d": -1}), "beta_d is -1"),
        (json!({"cls": "iDDPMPrecond", "M": 0}), "M is 0"),
    ];
    for (differing, expected) in cases {
        let message = refusal(differing.clone());
        assert!(message.contains(expected), "{differing}: {message}");
    }
    let mut without_class = options(json!({}));
    without_class.remove("cls");
    assert_eq!(Config::from_map(&without_class), Err(Malformed::Missing { name: "cls".into() }));
}

#[test]
fn numbers_may_be_written_as_floats_and_infinity_as_a_text() {
    let floats = json!({"img_resolution": 8.0, "channel_mult": [1.0, 2.0], "sigma_max": "inf", "label_dim": null});
    let (floats, plain) = (Config::from_map(&options(floats)), Config::from_map(&options(json!({}))));
    assert_eq!(floats.unwrap(), plain.unwrap());
}

fn file() -> EdmFile {
    EdmFile::read(&data("edm_standard.pkl"), None).unwrap()
}

fn refused(file: &EdmFile) -> String {
    match file.build(ConvAlgo::default()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("built"),
    }
}

#[test]
fn tensors_that_do_not_fit_are_named_with_file_and_shapes() {
    const NAME: &str = "model.enc.4x4_block0.conv0.weight";
    let mut missing = file();
    missing.tensors.remove(NAME);
    assert!(refused(&missing).ends_with(&format!("describes; 1 missing: {NAME}")), "{}", refused(&missing));
    let mut wrong = file();
    wrong.tensors.insert(NAME.into(), StoredTensor::from_f32(&[1, 2], &[0.0; 2]).unwrap());
    let message = refused(&wrong);
    assert!(message.contains(NAME) && message.contains("edm_standard.pkl"), "{message}");
    assert!(message.contains("is [1, 2], needs [4, 4, 3, 3]"), "{message}");
    let mut not_finite = file();
    not_finite.tensors.insert("model.map_layer0.bias".into(), StoredTensor::from_f32(&[8], &[f32::NAN; 8]).unwrap());
    assert!(refused(&not_finite).contains("holds NaN"), "{}", refused(&not_finite));
    let mut nothing = file();
    nothing.tensors.clear();
    assert!(refused(&nothing).contains("'model.map_layer0.weight' is missing"));
    let mut other = file();
    other.config.insert("num_blocks".into(), 2.into());
    assert!(refused(&other).contains("missing: model.enc.4x4_block1.norm0.weight"), "{}", refused(&other));
    let mut more = file();
    more.tensors.insert("model.enc.4x4_block1.norm0.weight".into(), StoredTensor::from_f32(&[4], &[0.0; 4]).unwrap());
    assert!(refused(&more).contains("1 of no layer: model.enc.4x4_block1.norm0.weight"), "{}", refused(&more));
}

#[test]
fn buffers_and_augmentation_may_be_left_out() {
    let mut file = file();
    file.tensors.retain(|name, _| !name.ends_with("resample_filter") && !name.contains("map_augment"));
    assert!(file.build(ConvAlgo::default()).is_ok());
    let mut file = self::file();
    file.config.remove("augment_dim");
    assert!(file.build(ConvAlgo::default()).is_ok());
}

#[test]
fn a_network_may_stand_under_another_prefix_but_not_be_one_of_several() {
    let mut inner = file();
    inner.tensors = inner.tensors.into_iter().map(|(n, t)| (n.replacen("model.", "", 1), t)).collect();
    assert!(inner.build(ConvAlgo::default()).is_ok());
    let (mut two, one) = (file(), file());
    two.tensors = one.tensors.iter().map(|(n, t)| (format!("net.{n}"), t.clone())).collect();
    assert!(two.build(ConvAlgo::default()).is_ok());
    two.tensors.extend(one.tensors.into_iter().map(|(n, t)| (format!("ema.{n}"), t)));
    assert!(refused(&two).contains("holds 2 networks"), "{}", refused(&two));
}

#[test]
fn specs_name_what_they_cannot_load() {
    let spec = |model: &str| ModelSpec::named(model);
    let refusal = |spec: &ModelSpec| spec.build().err().map(|e| (e.to_string(), e.hint().unwrap_or_default()));
    let (message, hint) = refusal(&spec("fashon")).unwrap();
    assert!(message.contains("fashon") && hint.contains("fashion"), "{message} {hint}");
    let conv = ModelSpec { conv: Some("winograd".into()), ..spec("fashion") };
    let (message, hint) = refusal(&conv).unwrap();
    assert!(message.contains("winograd") && hint.contains("winograd4"), "{message} {hint}");
    assert!(refusal(&ModelSpec { shape: Some([3, 28, 28]), ..spec("fashion") }).is_some());
    assert!(refusal(&spec("random:edm")).is_some());
    let (message, hint) = refusal(&spec(data("edm_fashion_io.safetensors").to_str().unwrap())).unwrap();
    assert!(message.contains("not what network") && hint.contains("`model-config`"), "{message} {hint}");
    let loaded = spec("fashion").build().unwrap();
    assert_eq!((loaded.model.shape(), loaded.model.classes()), ([1, 28, 28], 10));
    assert_eq!(loaded.model.sigma_range(), (0.002, 80.0));
    let by_file = spec(data("edm_standard.pkl").to_str().unwrap()).build().unwrap();
    assert_eq!(by_file.sha256, file().sha256());
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let model = random(json!({"label_dim": 3}));
    let bound = model.bind_rows(None);
    let x = batch(1, [2, 2, 8, 8]);
    let one = Levels::One(1.0);
    assert!(matches!(bound.predict(&batch(1, [2, 2, 8, 4]), &one), Err(Error::Shape { .. })));
    assert!(matches!(bound.predict(&x, &Levels::Each(vec![1.0; 3])), Err(Error::Shape { .. })));
    for sigma in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-60] {
        assert!(matches!(bound.predict(&x, &Levels::One(sigma)), Err(Error::BadValue { .. })), "{sigma}");
    }
    let three = model.denoiser(&Condition::classes([0, 1, 2]).guided(None)).unwrap();
    assert!(matches!(three.predict(&x, &one), Err(Error::Shape { .. })));
    assert!(model.denoiser(&Condition::classes([3]).guided(None)).is_err());
    assert!(model.denoiser(&Condition::default().guided(Some(2.0))).is_err());
    let unlabelled = random(json!({}));
    assert!(unlabelled.denoiser(&Condition::classes([0, 0]).guided(Some(2.0))).is_err());
    let pullback = bound.with_pullback(&x, &one).unwrap().1;
    assert!(pullback(&Tensor::zeros([1, 2, 8, 8])).is_err());
}
