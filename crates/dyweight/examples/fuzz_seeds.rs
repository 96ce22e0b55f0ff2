//! Writes the files the fuzzers start from: `cargo run -p dyweight --example fuzz_seeds -- DIRECTORY` makes one folder
//! per target of `fuzz/`.
//!
//! All are made here, from the builders of the readers' tests and the library's own writers; no released file is among
//! them.

#[path = "../../dyweight-files/tests/build/mod.rs"]
mod build;

use build::{Member, Pickle, archive, coefficients, float_bytes, network, npy, npz, torch_archive, torch_legacy};
use dyweight::files::image::Image;
use dyweight::files::{Fingerprint, StoredTensor, TensorFile};
use dyweight::models::edm::{Config, Edm};
use dyweight::solver_file::MethodParams;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Larger inputs only make a fuzzer slow.
const MOST: usize = 50_000;

fn main() {
    let root = PathBuf::from(std::env::args().nth(1).expect("a directory"));
    let all = [
        ("network", networks()),
        ("torch", torches()),
        ("model", models()),
        ("numpy", arrays()),
        ("png", images()),
        ("solver", solvers()),
        ("official", released()),
        ("config", configs()),
        ("state", states()),
        ("records", records()),
        ("prompts", prompts()),
        ("tokenizer", tokenizers()),
        ("folder", folders()),
    ];
    for (target, files) in all {
        let folder = root.join(target);
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        for (index, bytes) in files.iter().enumerate() {
            assert!(bytes.len() < MOST, "{target} {index}: {} bytes", bytes.len());
            std::fs::write(folder.join(format!("seed{index:02}")), bytes).expect("the file can be written");
        }
    }
}

fn prompts() -> Vec<Vec<u8>> {
    let all = [
        "a cat\n\na dog\n",
        "{\"prompt\": \"a cat\"}\n{\"prompt\": \"b\", \"n\": 1}\n",
        "id,prompt\n1,\"a, \"\"b\"\"\"\n2,c\n",
    ];
    all.iter().map(|text| text.as_bytes().to_vec()).chain([b"\xef\xbb\xbfa cat\n".to_vec()]).collect()
}

/// One of each kind, the first byte saying which; see the target.
fn tokenizers() -> Vec<Vec<u8>> {
    let clip = br#"{"a":0,"b</w>":1,"ab</w>":2,"<|startoftext|>":3,"<|endoftext|>":4}"#;
    let clip = [&[0], &clip[..], b"\0#version: 0.2\na b</w>\n"].concat();
    let t5 = json!({"model": {"type": "Unigram", "unk_id": 2, "vocab": [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["a", -1.0]]}});
    let t5 = [&[1], t5.to_string().as_bytes()].concat();
    // Pieces of a SentencePiece model: text, score, kind.
    let piece = |text: &str, kind: u8| {
        let body = [&[0x0a, text.len() as u8], text.as_bytes(), &[0x15, 0, 0, 0x80, 0xbf, 0x18, kind]].concat();
        [&[0x0a, body.len() as u8], &body[..]].concat()
    };
    let model = [vec![2], piece("<pad>", 3), piece("</s>", 3), piece("<unk>", 2), piece("a", 1)].concat();
    vec![clip, t5, model, b"\x03[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n".to_vec()]
}

/// The index of a pipeline, its network's configuration, and the index of its weights.
fn folders() -> Vec<Vec<u8>> {
    let index = json!({"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"]});
    let config = json!({"_class_name": "UNet2DConditionModel", "in_channels": 4, "out_channels": 4, "block_out_channels": [8, 16],
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"], "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
        "layers_per_block": 1, "cross_attention_dim": 8, "attention_head_dim": 2, "sample_size": 8});
    let weights = json!({"metadata": {"total_size": 8}, "weight_map": {"conv_in.weight": "a.safetensors", "conv_in.bias": "../b"}});
    vec![[index.to_string(), config.to_string(), weights.to_string()].join("\0").into_bytes()]
}

/// Small networks of every family and preconditioning.
fn configurations() -> Vec<Value> {
    let base = json!({
        "cls": "EDMPrecond", "img_resolution": 2, "img_channels": 1, "model_type": "SongUNet", "model_channels": 4,
        "channel_mult": [1], "channel_mult_emb": 1, "num_blocks": 1, "attn_resolutions": [],
    });
    let with = |differing: Value| {
        let mut all = base.clone();
        for (key, value) in differing.as_object().expect("an object") {
            all[key] = value.clone();
        }
        all
    };
    vec![
        base.clone(),
        with(json!({"label_dim": 2, "augment_dim": 1, "channel_mult": [1, 1], "attn_resolutions": [1]})),
        with(json!({"encoder_type": "residual", "decoder_type": "skip", "embedding_type": "fourier",
            "channel_mult_noise": 2, "resample_filter": [1, 3, 3, 1], "channel_mult": [1, 1], "cls": "VEPrecond"})),
        with(json!({"encoder_type": "skip", "channel_mult": [1, 1], "cls": "VPPrecond", "sigma_min": 0.002})),
        with(json!({"model_type": "DhariwalUNet", "cls": "iDDPMPrecond", "M": 10, "label_dim": 2})),
    ]
}

/// The tensors of a configuration, all of small numbers.
fn tensors_of(config: &Value) -> Vec<(String, Vec<usize>)> {
    let map = config.as_object().expect("an object");
    let plan = Edm::plan(&Config::from_map(map).expect("a configuration")).expect("a plan");
    plan.into_iter().map(|t| (format!("model.{}", t.name), t.shape)).collect()
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 % 11) as f32 - 5.0) / 16.0).collect()
}

fn models() -> Vec<Vec<u8>> {
    let mut files: Vec<Vec<u8>> = configurations().iter().map(edm_file).collect();
    let mut mixture = TensorFile::default();
    for (name, shape) in [("model.mu", vec![3, 4]), ("model.std", vec![3]), ("model.weight", vec![3])] {
        let values: Vec<f64> = (1..=shape.iter().product()).map(|i| i as f64 / 8.0).collect();
        mixture.tensors.insert(name.into(), StoredTensor::from_f64(&shape, &values).expect("a tensor"));
    }
    files.push(mixture.to_bytes());
    let header = r#"{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;
    files.push(build::safetensors(header, &[0; 8]));
    let header = r#"{"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]}}"#;
    files.push(build::safetensors(header, &[1; 6]));
    files
}

fn edm_file(config: &Value) -> Vec<u8> {
    let mut file = TensorFile::default();
    file.metadata.insert("config".into(), config.to_string());
    for (name, shape) in tensors_of(config) {
        let values = numbers(shape.iter().product());
        // Half precision keeps the seeds small.
        file.tensors.insert(name, StoredTensor::from_f32_as_f16(&shape, &values).expect("a tensor"));
    }
    file.to_bytes()
}

/// A pickle of a whole network: every tensor of the plan under nested modules.
fn network_pickle(config: &Value) -> Vec<u8> {
    let tensors = tensors_of(config);
    let parameters = |p: Pickle| {
        tensors.iter().fold(p, |p, (name, shape)| {
            let sizes: Vec<i32> = shape.iter().map(|s| *s as i32).collect();
            p.text(name.trim_start_matches("model.")).tensor(&sizes, &numbers(shape.iter().product()))
        })
    };
    let arguments = |p: Pickle| {
        config.as_object().expect("an object").iter().filter(|(key, _)| *key != "cls").fold(p, |p, (key, value)| {
            let p = p.text(key);
            match value {
                Value::String(text) => p.text(text),
                Value::Array(list) => {
                    p.list(|p| list.iter().fold(p, |p, v| p.int(v.as_f64().unwrap_or_default() as i32)))
                }
                other if other.is_i64() => p.int(other.as_i64().unwrap_or_default() as i32),
                other => p.float(other.as_f64().unwrap_or_default()),
            }
        })
    };
    let class = |key: &str| config[key].as_str().unwrap_or_default().to_string();
    let model = |p: Pickle| {
        p.persistent(&class("model_type"), |p| {
            p.text("_parameters").dict(parameters).text("_init_kwargs").dict(|p| p.text("in_channels").int(1))
        })
    };
    let ema = |p: Pickle| {
        p.persistent(&class("cls"), |p| {
            let p = model(p.text("_modules").raw(b"}").text("model")).raw(b"s");
            p.text("sigma_max").float(f64::INFINITY).text("_init_kwargs").dict(arguments)
        })
    };
    Pickle::new(4).dict(|p| ema(p.text("ema"))).stop()
}

fn networks() -> Vec<Vec<u8>> {
    let mut files = vec![network(), odd_pickle()];
    // Every tensor carries a stream of its own: only the smallest networks stay small.
    files.extend(configurations().iter().map(network_pickle).filter(|bytes| bytes.len() < MOST));
    files
}

/// Every kind of instruction a pickle may have, once.
fn odd_pickle() -> Vec<u8> {
    Pickle::new(4)
        .raw(b"\x95\x10\0\0\0\0\0\0\0")
        .dict(|p| {
            let p =
                p.raw(b"\x8c\x01a\x94K\x01\x8c\x01bM\x01\x02\x8c\x01c\x8a\x02\xff\x7f\x8c\x01dN\x85\x8c\x01eNN\x86");
            let p = p.raw(b"\x8c\x01fNNN\x87\x8c\x01g\x8f(K\x01K\x02\x90\x8c\x01h(K\x01K\x02\x91\x8c\x01iC\x02ab");
            let p = p.raw(b"\x8c\x01j\x8e\x02\0\0\0\0\0\0\0ab\x8c\x01k(K\x01l\x8c\x01l(Nd0K\x032");
            p.raw(b"0\x8c\x01mI01\n\x8c\x01nF1.5\n\x8c\x01oL5L\n\x8c\x01pS'x'\n\x8c\x01qVtext\n\x8c\x01rh\x00")
        })
        .stop()
}

/// A released-like FLUX file.
fn flux(steps: i32) -> Vec<u8> {
    let count = (steps * steps) as usize;
    let data = Pickle::new(2)
        .dict(|p| {
            let p = p.text("window_size").int(3).text("num_steps").int(steps);
            let p = p.text("dyweight_weights_raw").view(
                |p| p.external("FloatStorage", "0", steps * steps, false),
                0,
                &[steps, steps],
                &[steps, 1],
            );
            p.text("dyweight_t_scales").view(|p| p.external("FloatStorage", "1", steps, false), 0, &[steps], &[1])
        })
        .stop();
    let (weights, scales) = (float_bytes(&numbers(count)), float_bytes(&vec![1.0; steps as usize]));
    archive(&[
        Member::stored("flux/data.pkl", &data),
        Member::stored("flux/byteorder", b"little"),
        Member::stored("flux/data/0", &weights),
        Member::stored("flux/data/1", &scales),
        Member::stored("flux/version", b"3\n"),
    ])
}

fn torches() -> Vec<Vec<u8>> {
    let deflated = archive(&[
        Member::deflated("x/data.pkl", &Pickle::new(2).dict(|p| p.text("epoch").int(3)).stop()),
        Member::deflated("x/data/0", &[0; 64]),
    ]);
    vec![torch_archive(), torch_legacy(), flux(2), deflated]
}

fn released() -> Vec<Vec<u8>> {
    vec![coefficients(), flux(2), flux(4)]
}

fn arrays() -> Vec<Vec<u8>> {
    let columns = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }\n";
    let mut second = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (8,), }\n", &[1.0]);
    second[6] = 2;
    vec![
        npz(),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", &[1.0, 2.0]),
        npy(columns, &[1.0, 2.0, 3.0, 4.0]),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 1), }\n", &[1.0]),
        second,
    ]
}

fn images() -> Vec<Vec<u8>> {
    let pixels = |channels: usize| (0..5 * 4 * channels).map(|i| (i * 13) as u8).collect::<Vec<u8>>();
    let ours = [1, 3].map(|channels| Image::new(5, 4, channels, pixels(channels)).expect("an image").to_png());
    ours.into_iter().chain([png(6, 8), png(4, 8), png(2, 16), png(0, 1)]).collect()
}

/// A PNG of 3 × 2 pixels with another colour type and depth than ours.
fn png(colour: u8, depth: u8) -> Vec<u8> {
    let samples = match colour {
        0 => 1,
        2 => 3,
        4 => 2,
        _ => 4,
    };
    let row = (3 * samples * usize::from(depth)).div_ceil(8);
    let raw: Vec<u8> = (0..2).flat_map(|_| std::iter::once(1).chain((0..row).map(|i| i as u8 * 3))).collect();
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8], data: &[u8]| {
        out.extend((data.len() as u32).to_be_bytes());
        out.extend(name);
        out.extend(data);
        out.extend(crc32fast::hash(&[name, data].concat()).to_be_bytes());
    };
    chunk(b"IHDR", &[0, 0, 0, 3, 0, 0, 0, 2, depth, colour, 0, 0, 0]);
    chunk(b"IDAT", &miniz_oxide::deflate::compress_to_vec_zlib(&raw, 6));
    chunk(b"IEND", &[]);
    out
}

/// Solver files of every schedule with plain weights, and coefficient tensors.
fn solvers() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for preset in dyweight::presets::names().filter(|name| !name.starts_with("epd")) {
        let (_, mut file) = dyweight::presets::find(preset).expect("sound");
        if file.steps > 5 {
            continue;
        }
        if let MethodParams::DyWeight(learned) = &mut file.body {
            for (i, row) in learned.weights.iter_mut().enumerate() {
                let count = row.len();
                row.iter_mut().for_each(|w| *w = (1.0 + i as f64 / 16.0) / count as f64);
            }
            learned.time_scale.iter_mut().for_each(|s| *s = 0.9375);
        }
        file.realised_times.clear();
        file.network_levels.clear();
        files.push(file.to_bytes());
    }
    files.truncate(12);
    for schedule in [
        r#"{"kind":"explicit","sigmas":[3.0,1.0,0.5]}"#,
        r#"{"kind":"log-snr"}"#,
        r#"{"kind":"logsnr"}"#,
        r#"{"kind":"time-uniform","rho":1.0}"#,
        r#"{"kind":"flow","shift":3.0}"#,
        r#"{"kind":"discrete","table":"sd15","rho":1.0}"#,
    ] {
        let text = format!(
            r#"{{"format":"dyweight-solver","version":1,"method":"dyweight","nfe":2,"steps":2,"order":2,"afs":false,
            "prediction":"denoised","schedule":{schedule},"sigma_min":0.5,"sigma_max":3.0,"time_shift":true,
            "weights":[[1.0],[-0.5,1.5]],"time_scale":[0.9,1.1],"guidance":7.5,"model":{{"name":"m"}},"training":{{}}}}"#
        );
        files.push(text.into_bytes());
    }
    let mut tensors = TensorFile::default();
    tensors
        .tensors
        .insert("weights".into(), StoredTensor::from_f64(&[2, 2], &[1.0, 0.0, -0.5, 1.5]).expect("a tensor"));
    tensors.tensors.insert("time_scale".into(), StoredTensor::from_f64(&[2], &[1.0, 0.9]).expect("a tensor"));
    files.push(tensors.to_bytes());
    files
}

fn configs() -> Vec<Vec<u8>> {
    [
        "0-63\nnfe = 5\niters = 10\nbatch = 4\nlr = 0.01\nseed = 3\nmemory = \"keep\"\nscale = \"bounded\"\n",
        "0-3,10,20-29\nsteps = 4\nschedule = \"logsnr\"\nsigma-min = 0.1\nsigma-max = 10.0\nsupervision = \"path\"\nsubsteps = 3\n",
        "7\nnfe = 6\nafs = true\norder = 4\ninit = \"perturbed\"\nteacher = \"heun\"\nteacher-nfe = 20\nloss = \"huber\"\nhuber-delta = 0.2\n",
        "1\nflow = true\nschedule = \"flow\"\nshift = 3.0\nsteps = 5\ninit = \"euler\"\nno-time-scale = true\nno-time-shift = true\n",
        "1\nsteps = 2\nsigmas = [3.0, 1.0, 0.5]\noptimiser = \"adamw\"\nweight-decay = 0.1\nclip = 2.0\nplain = true\n",
        "1\nschedule = \"discrete\"\nbeta-table = \"sd15\"\nrho = 2.0\nnfe = 3\nvalidation = 8\nvalidate-every = 2\npatience = 3\n",
        "1\nsolver = \"dpmpp\"\norder = 3\npredict = \"data\"\nlower-order-final = true\nthreshold = false\nteacher = \"unipc\"\n",
        "1\nschedule = \"time-uniform\"\nsteps = 3\nteacher = \"dpm2\"\nteacher-steps = 9\naccumulate = 2\nmicro-batch = 3\nwarm-up = 0.2\n",
        "1\nflow = true\nimage-size = 512\nsteps = 3\nclass = 1\nguidance = 2.0\nteacher-order = 2\ninit = \"uniform\"\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn states() -> Vec<Vec<u8>> {
    let list = |values: &[f64]| StoredTensor::from_f64(&[values.len()], values).expect("a tensor");
    let mut state = TensorFile::default();
    for name in ["values", "first", "second", "best"] {
        state.tensors.insert(name.into(), list(&[1.0, 0.5, 0.25, 0.125]));
    }
    state.tensors.insert("counts".into(), list(&[7.0, 7.0]));
    let plain = signed(state.clone());
    state.tensors.insert("guard".into(), list(&[0.5, 1.0, 1.0, 0.0, 1.0, 2.0]));
    let guarded = signed(state);
    let mut pairs = TensorFile::default();
    let states = StoredTensor::from_f64(&[2, 1, 1, 2], &[1.0, 2.0, 3.0, 4.0]).expect("a tensor");
    pairs.tensors.insert("state0000".into(), states.clone());
    pairs.tensors.insert("state0001".into(), states);
    vec![plain, guarded, signed(pairs)]
}

/// With the entries and the hash that a state has.
fn signed(mut file: TensorFile) -> Vec<u8> {
    let hash = file.tensors.values().fold(Fingerprint::default(), |mut hash, t| hash.add(t.bytes()).clone()).text();
    for (key, value) in [("format", "dyweight-training-state 2"), ("identity", "run"), ("sha256", &hash)] {
        file.metadata.insert(key.into(), value.into());
    }
    file.to_bytes()
}

fn records() -> Vec<Vec<u8>> {
    let header = r#"{"study":"numeric","version":1,"settings":{"dims":50,"problems":2,"iterations":20,"lr":0.001,"coupling":"std","loss":"mse","startup":"order","seed":0}}"#;
    let line = |order: usize| {
        format!(
            r#"{{"degree":5,"steps":6,"order":{order},"standard":[0.1,1e-3],"optimised":[1e-9,2.5],"fresh":[0.1,0.2],"fresh_standard":[0.1,0.2],"teacher":[1e-12,2e-12]}}"#
        )
    };
    let whole = format!("{header}\n{}\n{}\n", line(1), line(2));
    let cut = whole[..whole.len() - 9].to_string();
    [whole, cut, format!("{header}\n"), String::new()].map(String::into_bytes).to_vec()
}
