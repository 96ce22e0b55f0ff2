//! Tiny files, made instruction by instruction: sound ones, and pieces for hostile ones.
#![allow(dead_code, reason = "each test program uses a part")]

/// A pickle under construction.
#[derive(Clone, Default)]
pub struct Pickle(pub Vec<u8>);

impl Pickle {
    /// Begins with a protocol number.
    pub fn new(protocol: u8) -> Self {
        Self(vec![0x80, protocol])
    }

    /// Instructions as they are.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn text(self, text: &str) -> Self {
        self.raw(b"X").raw(&(text.len() as u32).to_le_bytes()).raw(text.as_bytes())
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.raw(b"B").raw(&(bytes.len() as u32).to_le_bytes()).raw(bytes)
    }

    pub fn int(self, value: i32) -> Self {
        self.raw(b"J").raw(&value.to_le_bytes())
    }

    pub fn float(self, value: f64) -> Self {
        self.raw(b"G").raw(&value.to_be_bytes())
    }

    pub fn flag(self, value: bool) -> Self {
        self.raw(if value { b"\x88" } else { b"\x89" })
    }

    pub fn global(self, module: &str, name: &str) -> Self {
        self.raw(format!("c{module}\n{name}\n").as_bytes())
    }

    /// A tuple of what `fill` pushes.
    pub fn tuple(self, fill: impl FnOnce(Self) -> Self) -> Self {
        fill(self.raw(b"(")).raw(b"t")
    }

    /// A list of what `fill` pushes.
    pub fn list(self, fill: impl FnOnce(Self) -> Self) -> Self {
        fill(self.raw(b"](")).raw(b"e")
    }

    /// A dictionary of the keys and values `fill` pushes.
    pub fn dict(self, fill: impl FnOnce(Self) -> Self) -> Self {
        fill(self.raw(b"}(")).raw(b"u")
    }

    /// A name applied to a tuple of what `fill` pushes.
    pub fn call(self, module: &str, name: &str, fill: impl FnOnce(Self) -> Self) -> Self {
        self.global(module, name).tuple(fill).raw(b"R")
    }

    /// A persistent object with the given attributes.
    pub fn persistent(self, class: &str, attributes: impl FnOnce(Self) -> Self) -> Self {
        self.call("torch_utils.persistence", "_reconstruct_persistent_obj", |p| {
            p.dict(|p| {
                let p = p.text("type").text("class").text("version").int(6);
                let p = p.text("module_src").text("raise SystemExit").text("class_name").text(class);
                p.text("state").dict(attributes)
            })
        })
    }

    /// Shape, strides and offset of a tensor over a storage that `storage` pushes.
    pub fn view(self, storage: impl FnOnce(Self) -> Self, offset: i32, shape: &[i32], strides: &[i32]) -> Self {
        let ints = |p: Self, values: &[i32]| p.tuple(|p| values.iter().fold(p, |p, v| p.int(*v)));
        self.call("torch._utils", "_rebuild_tensor_v2", |p| {
            let p = ints(ints(storage(p).int(offset), shape), strides);
            p.flag(false).call("collections", "OrderedDict", |p| p)
        })
    }

    /// A row-major tensor with its storage inside.
    pub fn tensor(self, shape: &[i32], values: &[f32]) -> Self {
        let strides: Vec<i32> = (1..=shape.len()).map(|i| shape[i..].iter().product()).collect();
        self.view(|p| p.stream(&float_stream(values)), 0, shape, &strides)
    }

    /// A storage inside the pickle.
    pub fn stream(self, stream: &[u8]) -> Self {
        self.call("torch.storage", "_load_from_bytes", |p| p.bytes(stream))
    }

    /// An external storage; `view` adds the sixth entry of legacy files.
    pub fn external(self, class: &str, key: &str, count: i32, view: bool) -> Self {
        let id = |p: Self| {
            let p = p.text("storage").global("torch", class).text(key).text("cpu").int(count);
            if view { p.raw(b"N") } else { p }
        };
        self.tuple(id).raw(b"Q")
    }

    pub fn stop(self) -> Vec<u8> {
        self.raw(b".").0
    }
}

/// A legacy stream of the given root pickle and storages (key, element count, bytes).
pub fn legacy_stream(root: &[u8], storages: &[(&str, u64, &[u8])]) -> Vec<u8> {
    let mut out = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.".to_vec();
    let system = |p: Pickle| p.text("protocol_version").int(1001).text("little_endian").flag(true);
    out.extend(Pickle::new(2).dict(system).stop());
    out.extend_from_slice(root);
    out.extend(Pickle::new(2).list(|p| storages.iter().fold(p, |p, (key, ..)| p.text(key))).stop());
    for (_, count, data) in storages {
        out.extend(count.to_le_bytes());
        out.extend_from_slice(data);
    }
    out
}

/// Numbers as bytes.
pub fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A storage of floats as a legacy stream.
pub fn float_stream(values: &[f32]) -> Vec<u8> {
    let root = Pickle::new(2).external("FloatStorage", "94", values.len() as i32, true).stop();
    legacy_stream(&root, &[("94", values.len() as u64, &float_bytes(values))])
}

/// A small network: wrapper, U-Net with one layer list, a transposed view, a numpy number, an infinity.
pub fn network() -> Vec<u8> {
    let conv = |p: Pickle| {
        p.persistent("Conv2d", |p| {
            let p = p.text("_parameters").dict(|p| {
                let weight = |p: Pickle| p.tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
                let p = p.text("weight").call("torch._utils", "_rebuild_parameter", |p| weight(p).flag(true));
                p.text("bias").raw(b"N")
            });
            p.text("_buffers").dict(|p| {
                let stream = float_stream(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
                p.text("turned").view(|p| p.stream(&stream), 0, &[3, 2], &[1, 3])
            })
        })
    };
    let scale = |p: Pickle| {
        p.call("numpy._core.multiarray", "scalar", |p| {
            let p = p.call("numpy", "dtype", |p| p.text("f8").flag(false).flag(true));
            p.tuple(|p| p.int(3).text("<")).raw(b"b").bytes(&0.25f64.to_le_bytes())
        })
    };
    let model = |p: Pickle| {
        p.persistent("SongUNet", |p| {
            let p = p.text("_modules").dict(|p| {
                let p = p.text("enc").global("torch.nn.modules.container", "ModuleDict").raw(b")\x81");
                p.dict(|p| p.text("_modules").dict(|p| conv(p.text("8x8_conv")))).raw(b"b")
            });
            p.text("_init_kwargs").dict(|p| p.text("in_channels").int(3))
        })
    };
    let ema = |p: Pickle| {
        p.persistent("EDMPrecond", |p| {
            let p = model(p.text("_modules").raw(b"}").text("model")).raw(b"s");
            let p = p.text("training").flag(false).text("sigma_max").float(f64::INFINITY);
            let p = scale(p.text("sigma_data"));
            p.text("_init_kwargs").dict(|p| {
                let p = p.text("img_resolution").int(8).text("dropout").float(0.5);
                p.text("channel_mult").list(|p| p.int(1).int(2))
            })
        })
    };
    Pickle::new(4).dict(|p| ema(p.text("ema"))).stop()
}

/// Coefficients of two steps in the layout of the released pickles, with one weight outside the mask.
pub fn coefficients() -> Vec<u8> {
    let predictor = |p: Pickle| {
        let parameter = |p: Pickle, shape: &[i32], values: &[f32]| {
            p.call("torch._utils", "_rebuild_parameter", |p| p.tensor(shape, values).flag(true))
        };
        p.persistent("DyWeight_predictor", |p| {
            let p = p.text("_parameters").dict(|p| {
                let p = parameter(p.text("hybrid_weights"), &[2, 2], &[0.9, 7.0, -0.5, 1.5]);
                parameter(p.text("t_scale"), &[1], &[0.75])
            });
            let p = p.text("_buffers").dict(|p| p.text("mask").tensor(&[2, 2], &[1.0, 0.0, 1.0, 1.0]));
            let p = p.text("num_steps").int(3).text("max_history_steps").raw(b"N").text("afs").flag(true);
            p.text("guidance_type").text("cfg").text("guidance_rate").float(7.5)
        })
    };
    let loss = |p: Pickle| {
        p.persistent("DyWeight_loss", |p| {
            let p = p.text("solver_tea").global("solvers", "heun_sampler").text("teacher_steps").int(35);
            let p = p.text("schedule_type").text("polynomial").text("schedule_rho").float(7.0);
            p.text("loss_type").text("l2").text("max_order").int(2).text("dataset_name").text("toys")
        })
    };
    Pickle::new(4).dict(|p| loss(predictor(p.text("predictor")).text("loss_fn"))).stop()
}

/// A member of a zip archive under construction.
pub struct Member<'a> {
    pub name: &'a str,
    pub data: &'a [u8],
    pub deflate: bool,
}

impl<'a> Member<'a> {
    pub fn stored(name: &'a str, data: &'a [u8]) -> Self {
        Self { name, data, deflate: false }
    }

    pub fn deflated(name: &'a str, data: &'a [u8]) -> Self {
        Self { name, data, deflate: true }
    }
}

/// An archive as torch writes it: sizes and checksums only in the directory, padding in the local headers.
pub fn archive(members: &[Member<'_>]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let packed = match member.deflate {
            true => miniz_oxide::deflate::compress_to_vec(member.data, 6),
            false => member.data.to_vec(),
        };
        let method = if member.deflate { 8u16 } else { 0 };
        let (at, name) = (out.len() as u32, member.name.as_bytes());
        out.extend(b"PK\x03\x04\x14\0\x08\x08");
        out.extend(method.to_le_bytes());
        out.extend([0; 16]);
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(b"\x06\0");
        out.extend(name);
        out.extend(b"FB\x02\0ZZ");
        out.extend(&packed);
        directory.extend(b"PK\x01\x02\x14\0\x14\0\x08\x08");
        directory.extend(method.to_le_bytes());
        directory.extend([0; 4]);
        directory.extend(crc32fast::hash(member.data).to_le_bytes());
        directory.extend((packed.len() as u32).to_le_bytes());
        directory.extend((member.data.len() as u32).to_le_bytes());
        directory.extend((name.len() as u16).to_le_bytes());
        directory.extend([0; 12]);
        directory.extend(at.to_le_bytes());
        directory.extend(name);
    }
    let (start, count) = (out.len() as u32, members.len() as u16);
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}

/// A torch archive with two tensors on one storage, an empty one, and plain values.
pub fn torch_archive() -> Vec<u8> {
    let storage = |p: Pickle| p.external("FloatStorage", "0", 6, false);
    let data = Pickle::new(2)
        .dict(|p| {
            let p = p.text("window_size").int(2);
            let p = p.text("a").view(storage, 0, &[2, 3], &[3, 1]);
            let p = p.text("part").dict(|p| p.text("b").view(storage, 1, &[2], &[3]));
            p.text("empty").view(storage, 6, &[0, 4], &[4, 1])
        })
        .stop();
    let numbers = float_bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    archive(&[
        Member::stored("x/data.pkl", &data),
        Member::stored("x/byteorder", b"little"),
        Member::stored("x/data/0", &numbers),
        Member::stored("x/version", b"3\n"),
    ])
}

/// A legacy torch file with two tensors.
pub fn torch_legacy() -> Vec<u8> {
    let root = Pickle::new(2)
        .dict(|p| {
            let p = p.text("state_dict").dict(|p| {
                let p = p.text("w").view(|p| p.external("FloatStorage", "1", 2, true), 0, &[2], &[1]);
                p.text("n").view(|p| p.external("LongStorage", "2", 1, true), 0, &[], &[])
            });
            p.text("epoch").int(7)
        })
        .stop();
    legacy_stream(&root, &[("2", 1, &41i64.to_le_bytes()), ("1", 2, &float_bytes(&[1.5, -2.0]))])
}

/// An `.npy` file of doubles.
pub fn npy(header: &str, values: &[f64]) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\0".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    out
}

/// A statistics file with one stored and one deflated array.
pub fn npz() -> Vec<u8> {
    let mu = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", &[1.0, 2.0]);
    let sigma = npy("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }\n", &[1.0, 2.0, 3.0, 4.0]);
    archive(&[Member::stored("mu.npy", &mu), Member::deflated("sigma.npy", &sigma)])
}

/// A safetensors file with the given header and data.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(data);
    out
}
