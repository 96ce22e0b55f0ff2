//! FLUX against diffusers and transformers: values, gradients, token numbers, both layouts, and the whole of it as a
//! model. `tools/make_flux_fixtures.py` made the data.

use dyweight_core::denoiser::{Condition, Context, Levels, Model};
use dyweight_core::error::Result;
use dyweight_core::schedule::{Schedule, Shift};
use dyweight_core::tensor::{Tensor, dot};
use dyweight_files::{StoredTensor, TensorFile};
use dyweight_models::flux::{Flux, FluxConfig};
use dyweight_models::latent::{Bundle, FlowModel, Settings, probe};
use dyweight_models::t5::{T5, T5Config, UnigramTokenizer};
use dyweight_models::weights::{Folder, TensorSet};
use dyweight_models::{Arithmetic, ModelSpec};
use dyweight_nn::{ConvAlgo, Precision};
use dyweight_testing::outside;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(name)
}

/// Largest difference relative to the largest entry.
fn difference(a: &StoredTensor, b: &StoredTensor) -> f64 {
    assert_eq!(a.shape(), b.shape());
    let (a, b) = (a.to_f64(), b.to_f64());
    let largest = b.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    a.iter().zip(&b).fold(0.0f64, |m, (a, b)| m.max((a - b).abs())) / largest
}

fn check(bundle: &Bundle, part: &str, outputs: &[(&str, f64)]) -> Result<()> {
    let path = data("flux").join(format!("{part}.io.safetensors"));
    let file = TensorFile::read(&path)?;
    let (found, _) = probe(bundle, part, (&path, &file), ConvAlgo::Direct)?;
    for (name, tolerance) in outputs {
        let difference = difference(&found.tensors[*name], &file.tensors[*name]);
        assert!(difference < *tolerance, "{part} {name}: {difference:e}");
    }
    Ok(())
}

const TRANSFORMER: [(&str, f64); 3] = [("velocity", 2e-5), ("grad_x", 5e-5), ("grad_t", 1e-4)];

#[test]
fn transformer_and_its_gradients_from_shards() -> Result<()> {
    check(&Bundle::of_folder(&data("flux"))?, "transformer", &TRANSFORMER)
}

#[test]
fn text_encoder() -> Result<()> {
    check(&Bundle::of_folder(&data("flux"))?, "text2", &[("last_hidden_state", 2e-5)])
}

/// Of products that are rounded to 8 bits a few thousandths go wrong, forwards and backwards.
#[test]
fn bf16_is_near_the_reference() -> Result<()> {
    let arithmetic = Arithmetic { conv: ConvAlgo::Direct, precision: Precision::Bf16 };
    let (bundle, transformer) = (Bundle::of_folder(&data("flux"))?, ["velocity", "grad_x", "grad_t"]);
    for (part, outputs) in [("transformer", &transformer[..]), ("text2", &["last_hidden_state"])] {
        let path = data("flux").join(format!("{part}.io.safetensors"));
        let file = TensorFile::read(&path)?;
        if !Precision::Bf16.is_available() {
            dyweight_testing::skipped("this processor has no products of bf16 (avx512bf16)");
            return Ok(());
        }
        let (found, hash) = probe(&bundle, part, (&path, &file), arithmetic)?;
        assert_eq!(hash, probe(&bundle, part, (&path, &file), ConvAlgo::Direct)?.1, "weights are the same");
        for name in outputs {
            let difference = difference(&found.tensors[*name], &file.tensors[*name]);
            // Where bf16 would be slower, products stay as they are.
            let least = if Precision::Bf16.of_products() == Precision::Bf16 { 1e-4 } else { 0.0 };
            assert!((least..2e-2).contains(&difference), "{part} {name}: {difference:e}");
        }
    }
    Ok(())
}

/// The fixture's tensors under the names and in the joints of the original files.
fn original(prefix: &str) -> Result<TensorSet> {
    let set = Folder::read(&data("flux/transformer"))?.set;
    let numbers = |name: &str| set.tensors[name].to_f32();
    let mut out = TensorSet { path: "original.safetensors".into(), ..TensorSet::default() };
    let mut put = |name: String, rows: &[String]| {
        let joined: Vec<f32> = rows.iter().flat_map(|name| numbers(name)).collect();
        let shape: Vec<usize> = match set.tensors[&rows[0]].shape() {
            [_, columns] => vec![joined.len() / columns, *columns],
            _ => vec![joined.len()],
        };
        out.tensors.insert(format!("{prefix}{name}"), StoredTensor::from_f32(&shape, &joined).unwrap());
    };
    let mut pair = |theirs: String, ours: Vec<String>| {
        for leaf in ["weight", "bias"] {
            put(format!("{theirs}.{leaf}"), &ours.iter().map(|name| format!("{name}.{leaf}")).collect::<Vec<_>>());
        }
    };
    for (theirs, ours) in [("img_in", "x_embedder"), ("txt_in", "context_embedder"), ("final_layer.linear", "proj_out")]
    {
        pair(theirs.into(), vec![ours.into()]);
    }
    for (theirs, ours) in [("time", "timestep"), ("guidance", "guidance"), ("vector", "text")] {
        for (layer, linear) in [("in_layer", "linear_1"), ("out_layer", "linear_2")] {
            pair(format!("{theirs}_in.{layer}"), vec![format!("time_text_embed.{ours}_embedder.{linear}")]);
        }
    }
    for i in 0..2 {
        let (a, b) = (format!("double_blocks.{i}."), format!("transformer_blocks.{i}."));
        let heads = [("img", ["to_q", "to_k", "to_v"]), ("txt", ["add_q_proj", "add_k_proj", "add_v_proj"])];
        for (stream, names) in heads {
            pair(format!("{a}{stream}_attn.qkv"), names.map(|n| format!("{b}attn.{n}")).to_vec());
        }
        for (theirs, ours) in [
            ("img_mod.lin", "norm1.linear"),
            ("txt_mod.lin", "norm1_context.linear"),
            ("img_attn.proj", "attn.to_out.0"),
            ("txt_attn.proj", "attn.to_add_out"),
            ("img_mlp.0", "ff.net.0.proj"),
            ("img_mlp.2", "ff.net.2"),
            ("txt_mlp.0", "ff_context.net.0.proj"),
            ("txt_mlp.2", "ff_context.net.2"),
        ] {
            pair(format!("{a}{theirs}"), vec![format!("{b}{ours}")]);
        }
    }
    pair("single_blocks.0.modulation.lin".into(), vec!["single_transformer_blocks.0.norm.linear".into()]);
    pair("single_blocks.0.linear2".into(), vec!["single_transformer_blocks.0.proj_out".into()]);
    let joint = ["attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"].map(|n| format!("single_transformer_blocks.0.{n}"));
    pair("single_blocks.0.linear1".into(), joint.to_vec());
    for (theirs, ours) in [
        ("double_blocks.0.img_attn", "transformer_blocks.0.attn.norm_"),
        ("double_blocks.0.txt_attn", "transformer_blocks.0.attn.norm_added_"),
        ("double_blocks.1.img_attn", "transformer_blocks.1.attn.norm_"),
        ("double_blocks.1.txt_attn", "transformer_blocks.1.attn.norm_added_"),
        ("single_blocks.0", "single_transformer_blocks.0.attn.norm_"),
    ] {
        for (long, short) in [("query", "q"), ("key", "k")] {
            put(format!("{theirs}.norm.{long}_norm.scale"), &[format!("{ours}{short}.weight")]);
        }
    }
    // Scale before shift in one layout, behind it in the other.
    for leaf in ["weight", "bias"] {
        let (tensor, all) =
            (&set.tensors[&format!("norm_out.linear.{leaf}")], numbers(&format!("norm_out.linear.{leaf}")));
        let swapped = [&all[all.len() / 2..], &all[..all.len() / 2]].concat();
        let name = format!("{prefix}final_layer.adaLN_modulation.1.{leaf}");
        out.tensors.insert(name, StoredTensor::from_f32(tensor.shape(), &swapped).unwrap());
    }
    Ok(out)
}

fn loaded(bundle: &Bundle) -> Result<(Flux, String)> {
    Flux::load(&bundle.transformer()?, Precision::F32)
}

#[test]
fn the_original_layout_is_the_same_network() -> Result<()> {
    let folder = Bundle::of_folder(&data("flux"))?;
    for prefix in ["", "model.diffusion_model."] {
        let bundle = Bundle::of_file(original(prefix)?, Some(&data("flux/transformer/config.json")))?;
        check(&bundle, "transformer", &TRANSFORMER)?;
        assert_eq!(loaded(&bundle)?.1, loaded(&folder)?.1, "fingerprints");
    }
    let mut missing = original("")?;
    missing.tensors.remove("single_blocks.0.linear1.bias");
    let problem = loaded(&Bundle::of_file(missing, Some(&data("flux/transformer/config.json")))?).err().unwrap();
    assert!(problem.to_string().contains("single_blocks.0.linear1.bias"), "{problem}");
    Ok(())
}

#[test]
fn sizes_of_an_original_file_are_read_off_its_tensors() -> Result<()> {
    let bundle = Bundle::of_file(original("")?, None)?;
    let (read, known) = (loaded(&bundle)?.0, loaded(&Bundle::of_folder(&data("flux"))?)?.0);
    // How a head is divided among the axes is in no tensor: it is guessed from its width.
    let guessed = FluxConfig { axes: vec![4, 2, 2], ..known.config().clone() };
    assert_eq!(read.config(), &guessed);
    Ok(())
}

/// Numbers of tensors and parameters of the released networks.
#[test]
fn released_sizes() -> Result<()> {
    let parameters = |plan: &[dyweight_models::weights::TensorPlan]| {
        plan.iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum::<usize>()
    };
    let dev = Flux::plan(&FluxConfig::dev())?;
    // The last modulation is asked for in two halves: two tensors more than the file has.
    assert_eq!((dev.len(), parameters(&dev)), (1160 + 2, 11_901_408_320));
    let schnell = Flux::plan(&FluxConfig { guidance: false, ..FluxConfig::dev() })?;
    assert_eq!((schnell.len(), parameters(&schnell)), (1156 + 2, 11_891_178_560));
    let t5 = T5::plan(&T5Config::xxl())?;
    assert_eq!((t5.len(), parameters(&t5)), (219, 4_762_310_656));
    Ok(())
}

#[test]
fn token_numbers_are_those_of_tokenizers() -> Result<()> {
    // A folder with tokenizer.json or spiece.model, and tokens.json: [[text, numbers], …].
    let dirs = outside("DYWEIGHT_T5_TOKENIZER");
    for (dir, tokens) in [(data("flux/tokenizer_2"), data("flux/tokens.json"))]
        .into_iter()
        .chain(dirs.map(|dir| (dir.clone(), dir.join("tokens.json"))))
    {
        let tokenizer = UnigramTokenizer::read(&dir)?;
        let cases: Vec<(String, Vec<u32>)> = serde_json::from_slice(&std::fs::read(tokens).unwrap()).unwrap();
        for (text, expected) in cases {
            assert_eq!(tokenizer.encode(&text, expected.len())?, expected, "{text:?}");
        }
    }
    Ok(())
}

#[test]
fn tokenizers_of_another_kind_are_refused_by_name() {
    let sound: Value =
        serde_json::from_slice(&std::fs::read(data("flux/tokenizer_2/tokenizer.json")).unwrap()).unwrap();
    let dir = std::env::temp_dir().join(format!("dyweight-t5-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let refusal = |change: &dyn Fn(&mut Value)| {
        let mut json = sound.clone();
        change(&mut json);
        std::fs::write(dir.join("tokenizer.json"), json.to_string()).unwrap();
        UnigramTokenizer::read(&dir).unwrap_err().to_string()
    };
    assert!(refusal(&|json| json["model"]["type"] = "BPE".into()).contains("BPE"));
    assert!(refusal(&|json| json["model"]["vocab"][3] = "word".into()).contains("entry 3"));
    assert!(refusal(&|json| json["pre_tokenizer"]["type"] = "Digits".into()).contains("Digits"));
    assert!(
        refusal(&|json| json["normalizer"]["normalizers"][0]["type"] = "BertNormalizer".into())
            .contains("BertNormalizer")
    );
    std::fs::remove_file(dir.join("tokenizer.json")).unwrap();
    assert!(UnigramTokenizer::read(&dir).unwrap_err().to_string().contains("spiece.model"));
    std::fs::write(dir.join("spiece.model"), [0xff; 64]).unwrap();
    assert!(UnigramTokenizer::read(&dir).unwrap_err().to_string().contains("spiece.model"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[cfg(unix)]
/// All parts in one folder: CLIP and the autoencoder are those of the Stable Diffusion fixture.
fn whole(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("dyweight-flux-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let link = |from: &str, part: &str| std::os::unix::fs::symlink(data(from).join(part), dir.join(part)).unwrap();
    ["transformer", "text_encoder_2", "tokenizer_2", "scheduler"].iter().for_each(|part| link("flux", part));
    ["text_encoder", "tokenizer", "vae"].iter().for_each(|part| link("latent", part));
    std::fs::write(dir.join("model_index.json"), "{\"_class_name\": \"FluxPipeline\"}").unwrap();
    dir
}

fn model(dir: &Path, size: [usize; 2]) -> Result<FlowModel> {
    let settings =
        Settings { conv: ConvAlgo::Direct, size: size.map(Some), text_tokens: Some(7), ..Settings::default() };
    Ok(FlowModel::open(&Bundle::of_folder(dir)?, &settings)?.0)
}

fn noise(samples: usize, shape: [usize; 3], first: u64) -> Result<Tensor> {
    let seeds: Vec<u64> = (first..first + samples as u64).collect();
    dyweight_core::noise::Rng::Native.latents(&seeds, shape)
}

/// Finite differences of ⟨g, v⟩ through packing, rotary embedding, modulation and the time's vector. Time counts in
/// thousandths with waves of frequency 1, so a step in it is small, and f32 leaves few digits: extrapolated, with room.
#[cfg(unix)]
#[test]
fn gradients_pass_through_the_whole_model() -> Result<()> {
    let dir = whole("gradients");
    let model = model(&dir, [8, 12])?;
    assert_eq!(model.shape(), [4, 4, 6]);
    let contexts = vec![model.context_of("a photo of the cat")?, model.context_of("dog")?];
    let condition = Condition { contexts, negative: Context::Unconditional, guidance: Some(2.0) };
    let denoiser = model.denoiser(&condition)?;
    assert_eq!(denoiser.info().calls, 1, "distilled guidance costs no second call");
    let shape = model.shape();
    let (x, g, direction, sigma) = (noise(2, shape, 0)?, noise(2, shape, 5)?, noise(2, shape, 9)?, 0.63);
    let (_, pullback) = denoiser.with_pullback(&x, &Levels::One(sigma))?;
    let (to_x, to_sigma) = pullback(&g)?;
    let value = |x: &Tensor, sigma: f64, i: usize| -> Result<f64> {
        Ok(dot(g.sample(i), denoiser.predict(x, &Levels::One(sigma))?.sample(i)))
    };
    for (i, expected) in to_sigma.iter().enumerate() {
        let central = |h: f64| -> Result<f64> { Ok((value(&x, sigma + h, i)? - value(&x, sigma - h, i)?) / (2.0 * h)) };
        let slope = (4.0 * central(2e-4)? - central(4e-4)?) / 3.0;
        assert!((slope - expected).abs() < 2e-2 * slope.abs().max(1.0), "level {i}: {slope} and {expected}");
        let h = 1e-2;
        let moved = |sign: f64| {
            let data = x.data().iter().zip(direction.data()).map(|(x, d)| x + sign * h * d).collect();
            Tensor::new(x.shape(), data)
        };
        let slope = (value(&moved(1.0)?, sigma, i)? - value(&moved(-1.0)?, sigma, i)?) / (2.0 * h);
        let expected = dot(to_x.sample(i), direction.sample(i));
        assert!((slope - expected).abs() < 1e-2 * slope.abs().max(1.0), "state {i}: {slope} and {expected}");
    }
    std::fs::remove_dir_all(dir).unwrap();
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_sample_has_the_same_bits_in_every_batch_and_on_every_number_of_threads() -> Result<()> {
    let dir = whole("bits");
    let model = model(&dir, [8, 8])?;
    let x = noise(5, model.shape(), 0)?;
    let of = |range: std::ops::Range<usize>| -> Result<(Tensor, Tensor, Vec<f64>)> {
        let contexts = vec![model.context_of("cat")?; range.len()];
        let denoiser = model.denoiser(&Condition { contexts, ..Condition::default() })?;
        let (value, pullback) = denoiser.with_pullback(&x.slice(range), &Levels::One(0.4))?;
        let (to_x, to_sigma) = pullback(&value)?;
        assert_eq!(pullback(&value)?, (to_x.clone(), to_sigma.clone()), "asked again");
        Ok((value, to_x, to_sigma))
    };
    let all = of(0..5)?;
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for i in 0..5 {
        for alone in [of(i..i + 1)?, one_thread.install(|| of(i..i + 1))?] {
            assert_eq!(alone.0.sample(0), all.0.sample(i), "sample {i}");
            assert_eq!(alone.1.sample(0), all.1.sample(i), "gradient {i}");
            assert_eq!(alone.2[0], all.2[i], "level {i}");
        }
    }
    std::fs::remove_dir_all(dir).unwrap();
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_model_as_commands_open_it() -> Result<()> {
    let dir = whole("model");
    let spec = |height: usize| ModelSpec {
        height: Some(height),
        width: Some(32),
        text_tokens: Some(7),
        ..ModelSpec::named(dir.to_str().unwrap())
    };
    let loaded = spec(16).build()?;
    let model = &*loaded.model;
    assert_eq!(model.shape(), [4, 8, 16]);
    assert_eq!(model.default_guidance(), Some(3.5));
    // The shift follows the number of tokens.
    assert_eq!(model.schedule(), Some(Schedule::Flow { shift: Shift::for_tokens(4 * 8) }));
    assert_eq!(loaded.sha256, spec(32).build()?.sha256);
    let refusal = |condition: Condition| model.denoiser(&condition).err().map(|e| e.to_string()).unwrap_or_default();
    let negative = model.context_of("dog")?;
    assert!(refusal(Condition { negative, ..Condition::default() }).contains("leads away from nothing"));
    assert!(refusal(Condition::classes([1])).contains("class"));
    assert!(spec(18).build().err().unwrap().to_string().contains("multiple of 4 pixels"));
    // Nothing asked for is the empty text.
    let x = noise(1, model.shape(), 0)?;
    let empty = Condition { contexts: vec![model.context_of("")?], ..Condition::default() };
    let of = |condition: &Condition| model.denoiser(condition)?.predict(&x, &Levels::One(0.5));
    assert_eq!(of(&empty)?.data(), of(&Condition::default())?.data());
    // Guidance is told to the network: another strength, another answer; 3.5 if none is given.
    let guided = |guidance: f64| of(&Condition { guidance: Some(guidance), ..Condition::default() });
    assert_eq!(guided(3.5)?.data(), of(&Condition::default())?.data());
    assert_ne!(guided(1.5)?.data(), guided(3.5)?.data());
    std::fs::remove_dir_all(dir).unwrap();
    Ok(())
}

#[test]
fn configurations_that_cannot_be() {
    let path = data("flux/transformer/config.json");
    let sound: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let refusal = |key: &str, value: Value| {
        let mut config = sound.as_object().unwrap().clone();
        config.insert(key.into(), value);
        FluxConfig::from_diffusers(&config).unwrap_err().to_string()
    };
    for (key, value) in [
        ("axes_dims_rope", serde_json::json!([2, 2, 2])),
        ("axes_dims_rope", serde_json::json!([1, 3, 4])),
        ("axes_dims_rope", serde_json::json!([4, 4])),
        ("patch_size", serde_json::json!(2)),
        ("guidance_embeds", serde_json::json!("yes")),
        ("num_attention_heads", serde_json::json!(60000)),
    ] {
        let message = refusal(key, value);
        assert!(message.contains(key) || message.contains("heads"), "{key}: {message}");
    }
}
