//! Pickles and torch files: tiny sound ones are read right, and each way to be wrong has its error.

use crate::build::*;
use dyweight_files::Malformed;
use dyweight_files::{Dtype, Format, NetworkFile, OfficialCoefficients, StoredTensor, TorchFile, sniff};

fn read_network(bytes: Vec<u8>) -> Result<NetworkFile, Malformed> {
    NetworkFile::parse(bytes.into())
}

fn read_torch(bytes: Vec<u8>) -> Result<TorchFile, Malformed> {
    TorchFile::parse(bytes.into())
}

/// A network pickle whose only tensor is what `fill` pushes.
fn with_tensor(fill: impl FnOnce(Pickle) -> Pickle) -> Result<NetworkFile, Malformed> {
    let attributes = |p: Pickle| p.text("_buffers").dict(|p| fill(p.text("t")));
    read_network(Pickle::new(4).dict(|p| p.text("ema").persistent("Net", attributes)).stop())
}

#[test]
fn a_network_gives_class_options_tensors_and_fingerprints() {
    let network = read_network(network()).expect("sound");
    assert_eq!((network.class.as_str(), network.model_class.as_deref()), ("EDMPrecond", Some("SongUNet")));
    let names: Vec<&str> = network.tensors.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["model.enc.8x8_conv.weight", "model.enc.8x8_conv.turned"]);
    assert_eq!(network.tensors[0].1.to_f32(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(network.tensors[1].1.to_f32(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(network.tensors[1].1.shape(), [3, 2]);
    assert_eq!(
        serde_json::Value::Object(network.config()),
        serde_json::json!({
            "cls": "EDMPrecond", "img_resolution": 8, "dropout": 0.5, "channel_mult": [1, 2],
            "model_type": "SongUNet", "sigma_data": 0.25
        })
    );
    assert_eq!(network.attributes["sigma_max"], "inf");
    assert_eq!(network.sources.len(), 3);
    let hash = "3c66a0c62f39423a8d71a3414d4fb4481688f4c83d4da724c9c3fcd192013084";
    assert_eq!((network.sources[0].len, network.sources[0].sha256.as_str()), (16, hash));
}

#[test]
fn released_coefficients_are_masked_and_counted() {
    let read = OfficialCoefficients::parse(coefficients().into()).expect("sound");
    let wide = |v: f32| f64::from(v);
    assert_eq!(read.weights, [[wide(0.9), 0.0], [-0.5, 1.5]]);
    assert_eq!((read.nfe, read.calls, read.steps, read.window, read.afs), (2, 1, 2, 2, true));
    assert_eq!((read.time_scale.as_slice(), read.dataset.as_deref()), ([0.75].as_slice(), Some("toys")));
    assert_eq!((read.schedule.kind.as_str(), read.schedule.rho), ("polynomial", Some(7.0)));
    assert_eq!((read.training.teacher.as_deref(), read.training.teacher_points), (Some("heun"), Some(35)));
}

#[test]
fn torch_files_give_tensors_and_values() {
    let file = read_torch(torch_archive()).expect("sound");
    assert_eq!(file.tensor("a").map(StoredTensor::to_f64), Ok(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    assert_eq!(file.tensor("part.b").map(StoredTensor::to_f64), Ok(vec![1.0, 4.0]));
    assert_eq!(file.tensor("empty").map(StoredTensor::shape), Ok([0, 4].as_slice()));
    assert_eq!(file.values["window_size"], 2);
    assert_eq!(file.tensor("c"), Err(Malformed::Missing { name: "c".into() }));
    let file = read_torch(torch_legacy()).expect("sound");
    assert_eq!(file.tensor("w").map(StoredTensor::to_f64), Ok(vec![1.5, -2.0]));
    assert_eq!(file.tensor("n").map(StoredTensor::dtype), Ok(Dtype::I64));
    assert_eq!(file.tensor("n").map(StoredTensor::to_f64), Ok(vec![41.0]));
    assert_eq!(file.values["epoch"], 7);
}

#[test]
fn compiled_modules_are_named_by_their_attributes() {
    let module = |p: Pickle, class: &str| p.global("__torch__.net.layers", class).raw(b")\x81");
    let data = module(Pickle::new(2), "Net")
        .dict(|p| {
            let p = module(p.text("conv"), "Conv").dict(|p| {
                let p = p.text("stride").int(2).text("padding");
                let p = p.call("torch.jit._pickle", "build_intlist", |p| p.list(|p| p.int(0).int(3)));
                p.text("weight").view(|p| p.external("HalfStorage", "7", 1, false), 0, &[1], &[1])
            });
            p.raw(b"b")
        })
        .raw(b"b")
        .stop();
    let half = 0x3e00u16.to_le_bytes();
    let code = [Member::stored("m/data.pkl", &data), Member::stored("m/data/7", &half)];
    let file = read_torch(archive(&code)).expect("sound");
    assert_eq!(file.tensor("conv.weight").map(StoredTensor::to_f64), Ok(vec![1.5]));
    assert_eq!(file.globals[0], "__torch__.net.layers.Net");
}

/// Written by Python 3, protocol 4: frame, short texts, set, long integers.
#[test]
fn a_stock_pickle_gives_its_plain_values() {
    let data = b"\x80\x04\x95U\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xffM,\x01G@\
        \x0c\x00\x00\x00\x00\x00\x00N\x88\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x05\x00\x00\x00\x00\xfee\
        \x8c\x01b\x94\x8f\x94(K\x01K\x02\x90\x8c\x01c\x94\x8c\x01x\x94h\x01\x86\x94\x8c\x01d\x94}\x94\
        \x8c\x01e\x94]\x94u.";
    let file = read_torch(archive(&[Member::stored("x/data.pkl", data)])).expect("sound");
    assert_eq!(
        serde_json::Value::Object(file.values),
        serde_json::json!({
            "a": [1, -2, 300, 3.5, null, true, 1i64 << 40, -(1i64 << 33)], "c": ["x", "a"], "d": {}, "e": []
        })
    );
}

/// Lengths and indices in their widest form.
#[test]
fn wide_forms_mean_the_same() {
    let wide_text = [b"\x8d".as_slice(), &3u64.to_le_bytes(), b"key"].concat();
    let wide_bytes = [b"\x8e".as_slice(), &2u64.to_le_bytes(), b"hi"].concat();
    let long = b"\x8b\x02\0\0\0\xfe\xff";
    let data = Pickle::new(4).raw(b"}(").raw(&wide_text).raw(b"r\x10\x27\0\0").raw(long);
    let data = data.text("b").raw(&wide_bytes).text("again").raw(b"j\x10\x27\0\0u").stop();
    let file = read_torch(archive(&[Member::stored("x/data.pkl", &data)])).expect("sound");
    assert_eq!(serde_json::Value::Object(file.values), serde_json::json!({"key": -2, "again": "key"}));
}

#[test]
fn formats_are_told_by_content() {
    let format = |bytes: Vec<u8>| sniff(&bytes.into());
    assert_eq!(format(network()), Format::Pickle);
    assert_eq!(format(torch_archive()), Format::TorchZip);
    assert_eq!(format(torch_legacy()), Format::TorchLegacy);
    assert_eq!(format(npz()), Format::Npz);
    assert_eq!(format(npy("{}", &[])), Format::Npy);
    assert_eq!(format(safetensors("{}", &[])), Format::Safetensors);
    assert_eq!(format(b" {\"format\": \"dyweight-solver\"}".to_vec()), Format::SolverFile);
    assert_eq!(format(b"{}".to_vec()), Format::Json);
    assert_eq!(format(b"\x89PNG\r\n\x1a\n".to_vec()), Format::Png);
    assert_eq!(format(b"PK\x03\x04".to_vec()), Format::Zip);
    assert_eq!(format(archive(&[])), Format::Zip);
    assert_eq!(format(Vec::new()), Format::Empty);
    assert_eq!(format(b"hello".to_vec()), Format::Unknown);
}

#[test]
fn anything_that_could_run_code_is_refused() {
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("subprocess", "Popen"),
        ("torch", "load"),
        ("torch.storage", "_load"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("collections", "OrderedDict.update"),
        ("torch_utils.persistence", "_src_to_module"),
        ("", ""),
    ] {
        let expected = Some(Malformed::ForbiddenGlobal { module: module.into(), name: name.into() });
        let call = Pickle::new(2).call(module, name, |p| p.text("echo boo")).stop();
        assert_eq!(read_network(call).err(), expected);
        let stacked = Pickle::new(4).text(module).text(name).raw(b"\x93").stop();
        assert_eq!(read_network(stacked).err(), expected);
        let data = Pickle::new(2).global(module, name).stop();
        assert_eq!(read_torch(archive(&[Member::stored("x/data.pkl", &data)])).err(), expected);
        assert_eq!(read_torch(legacy_stream(&data, &[])).err(), expected);
    }
}

#[test]
fn names_that_may_be_mentioned_may_not_be_called() {
    for (module, name) in [("solvers", "heun_sampler"), ("torch", "FloatStorage"), ("pytorch_lightning.x", "y")] {
        let expected = Err(Malformed::ForbiddenCall { module: module.into(), name: name.into() });
        assert_eq!(read_network(Pickle::new(2).call(module, name, |p| p).stop()), expected);
        assert_eq!(read_network(Pickle::new(2).global(module, name).raw(b")\x81").stop()), expected);
    }
    // A value that is no name cannot be called, and a module cannot be applied.
    assert!(matches!(read_network(b"\x80\x02K\x01)R.".to_vec()), Err(Malformed::Operand { opcode: b'R', .. })));
    let module = Pickle::new(2).call("torch.nn.modules.container", "ModuleDict", |p| p).stop();
    assert!(matches!(read_network(module), Err(Malformed::ForbiddenCall { .. })));
}

#[test]
fn broken_instructions_are_named() {
    let read = |bytes: &[u8]| read_network(bytes.to_vec());
    for unsupported in [b"\x80\x02i".as_slice(), b"\x80\x02P1\n", b"\x80\x020", b"\x80\x02\xff", b"\x80\x02\x92"] {
        assert!(matches!(read(unsupported), Err(Malformed::Opcode { offset: 2, .. })), "{unsupported:?}");
    }
    for operand in [b"\x80\x02.".as_slice(), b"\x80\x02t", b"\x80\x02K\x01(\x85", b"\x80\x02NNs", b"\x80\x02](K\x01u"] {
        assert!(matches!(read(operand), Err(Malformed::Operand { .. })), "{operand:?}");
    }
    assert!(matches!(read(b"\x80\x02NN."), Err(Malformed::Operand { opcode: b'.', .. })));
    assert!(matches!(read(b"\x80\x02(N."), Err(Malformed::Operand { opcode: b'.', .. })));
    assert!(matches!(read(b"\x80\x02h\x07."), Err(Malformed::Memo { index: 7, offset: 2 })));
    assert!(matches!(read(b"\x80\x09N."), Err(Malformed::Header { .. })));
    assert!(matches!(read(b"\x80\x02N.N"), Err(Malformed::Trailing { count: 1, .. })));
    assert!(matches!(read(b"\x80\x02X\x02\0\0\0\xff\xfe."), Err(Malformed::NotText { .. })));
    assert!(matches!(read(b"\x80\x02N."), Err(Malformed::Type { .. })));
    assert!(matches!(read(b"\x80\x02}."), Err(Malformed::Missing { .. })));
}

#[test]
fn huge_declared_lengths_are_truncation() {
    for head in [
        b"\x80\x04X\xff\xff\xff\xff".as_slice(),
        b"\x80\x04B\xff\xff\xff\xff",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x80\x04\x8b\xff\xff\xff\xff",
    ] {
        assert!(matches!(read_network(head.to_vec()), Err(Malformed::Truncated { .. })), "{head:?}");
    }
}

#[test]
fn views_must_stay_within_their_storage() {
    let view = |offset, shape: &[i32], strides: &[i32]| {
        with_tensor(|p| p.view(|p| p.stream(&float_stream(&[1.0; 6])), offset, shape, strides))
    };
    assert!(view(0, &[6], &[1]).is_ok());
    assert!(matches!(view(1, &[6], &[1]), Err(Malformed::View { .. })));
    assert!(matches!(view(0, &[2], &[6]), Err(Malformed::View { .. })));
    assert!(matches!(view(0, &[2, 2], &[1]), Err(Malformed::View { .. })));
    assert!(matches!(view(0, &[-1], &[1]), Err(Malformed::Type { .. })));
    assert!(matches!(view(0, &[1], &[-1]), Err(Malformed::Type { .. })));
    assert!(matches!(view(0, &[i32::MAX; 4], &[0; 4]), Err(Malformed::ShapeOverflow { .. })));
    assert!(matches!(view(0, &[1; 99], &[0; 99]), Err(Malformed::TooLarge { .. })));
    // One number repeated two thousand million times.
    assert!(matches!(view(0, &[i32::MAX], &[0]), Err(Malformed::TooLarge { .. })));
}

#[test]
fn storages_must_be_as_declared() {
    let legacy = |root: Pickle, storages: &[(&str, u64, &[u8])]| read_torch(legacy_stream(&root.stop(), storages));
    let one = |key: &str, count| {
        Pickle::new(2).dict(|p| p.text("t").view(|p| p.external("FloatStorage", key, count, true), 0, &[1], &[1]))
    };
    let data = [0u8; 8];
    assert!(legacy(one("k", 2), &[("k", 2, &data)]).is_ok());
    assert!(matches!(legacy(one("k", 2), &[]), Err(Malformed::MissingStorage { .. })));
    assert!(matches!(legacy(one("k", 2), &[("z", 2, &data)]), Err(Malformed::MissingStorage { .. })));
    assert!(matches!(legacy(one("k", 2), &[("k", 1, &data)]), Err(Malformed::StorageSize { .. })));
    assert!(matches!(legacy(one("k", 2), &[("k", 2, &data[..7])]), Err(Malformed::Truncated { .. })));
    assert!(matches!(legacy(one("k", 1), &[("k", 1, &data)]), Err(Malformed::Trailing { .. })));
    assert!(matches!(legacy(one("k", -2), &[("k", 2, &data)]), Err(Malformed::Type { .. })));
    let member = |data: &[u8]| {
        let pickle =
            Pickle::new(2).dict(|p| p.text("t").view(|p| p.external("FloatStorage", "0", 2, false), 0, &[1], &[1]));
        read_torch(archive(&[Member::stored("x/data.pkl", &pickle.stop()), Member::stored("x/data/0", data)]))
    };
    assert!(member(&data).is_ok());
    assert!(matches!(member(&data[..4]), Err(Malformed::StorageSize { expected: 8, found: 4, .. })));
    // Externals have no place in a plain pickle.
    let plain = with_tensor(|p| p.view(|p| p.external("FloatStorage", "0", 2, false), 0, &[1], &[1]));
    assert!(matches!(plain, Err(Malformed::MissingStorage { .. })));
}

#[test]
fn a_stream_in_a_stream_is_refused() {
    let inner = Pickle::new(2).stream(&float_stream(&[1.0])).stop();
    let stream = legacy_stream(&inner, &[]);
    let nested = with_tensor(|p| p.view(|p| p.stream(&stream), 0, &[1], &[1]));
    assert!(matches!(nested, Err(Malformed::Type { .. })));
}

#[test]
fn big_endian_files_are_refused() {
    let mut stream = float_stream(&[1.0]);
    let at = stream.windows(2).position(|w| w == b"\x88u").expect("the flag");
    stream[at] = 0x89;
    assert_eq!(read_torch(stream), Err(Malformed::BigEndian));
    let data = Pickle::new(2).raw(b"}").stop();
    let members = [Member::stored("x/data.pkl", &data), Member::stored("x/byteorder", b"big")];
    assert_eq!(read_torch(archive(&members)), Err(Malformed::BigEndian));
}

#[test]
fn a_tensor_cannot_come_twice() {
    let twice = with_tensor(|p| p.tensor(&[1], &[1.0]).text("t").tensor(&[1], &[1.0]));
    assert_eq!(twice, Err(Malformed::Duplicate { name: "t".into() }));
}

#[test]
fn coefficients_must_go_together() {
    let sound = coefficients();
    let replaced = |from: &[u8], to: &[u8]| {
        let at = sound.windows(from.len()).position(|w| w == from).expect("there");
        let bytes = [&sound[..at], to, &sound[at + from.len()..]].concat();
        OfficialCoefficients::parse(bytes.into())
    };
    let points = [b"num_stepsJ".as_slice(), &3i32.to_le_bytes()].concat();
    let wrong = [b"num_stepsJ".as_slice(), &4i32.to_le_bytes()].concat();
    assert!(matches!(replaced(&points, &wrong), Err(Malformed::Inconsistent { .. })));
    let scale = 0.75f32.to_le_bytes();
    assert!(matches!(replaced(&scale, &f32::NAN.to_le_bytes()), Err(Malformed::Inconsistent { .. })));
    let unscaled = replaced(b"t_scale", b"t_skale").expect("sound without");
    assert_eq!(unscaled.time_scale, [1.0]);
    let whole = b"max_history_stepsN".as_slice();
    assert!(matches!(replaced(whole, b"max_history_stepsK\0"), Err(Malformed::Inconsistent { .. })));
    assert!(matches!(replaced(b"hybrid_weights", b"hybrid_weightz"), Err(Malformed::Missing { .. })));
    assert!(matches!(replaced(b"schedule_type", b"schedule_typo"), Err(Malformed::Missing { .. })));
    let other = OfficialCoefficients::parse(b"{}".to_vec().into());
    assert!(matches!(other, Err(Malformed::Format { .. })));
    assert!(matches!(OfficialCoefficients::parse(torch_archive().into()), Err(Malformed::Missing { .. })));
}
