//! Networks, preprocessing and tokenizers of text–image scores against numbers of the published tools, which are not in
//! the repository: `DYWEIGHT_GOLDEN_DIR` names the folder that holds `metrics_tiny`.

use dyweight_core::error::Result;
use dyweight_files::TensorFile;
use dyweight_files::image::Image;
use dyweight_models::blip::{RewardFile, WordPiece};
use dyweight_models::clip::{ClipFile, ClipOptions, Dialect, Padding, Tokenizer};
use dyweight_models::preprocess::{Crop, Preprocess, Resampling};
use dyweight_nn::{Act, Shape};
use dyweight_testing::outside;
use serde_json::Value;
use std::path::PathBuf;

fn golden() -> Option<PathBuf> {
    let folder = outside("DYWEIGHT_GOLDEN_DIR")?.join("metrics_tiny");
    assert!(folder.is_dir(), "there is no {}", folder.display());
    Some(folder)
}

fn numbers(file: &TensorFile, name: &str) -> Vec<f64> {
    file.tensors[name].to_f64()
}

/// Largest difference relative to the largest entry.
fn difference(a: &[f32], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    a.iter().zip(b).fold(0.0f64, |m, (a, b)| m.max((f64::from(*a) - b).abs())) / largest
}

fn images(dir: &std::path::Path) -> Result<Vec<Image>> {
    ["a", "b", "c", "d", "e"].iter().map(|k| Image::read(&dir.join(format!("image_{k}.png")))).collect()
}

fn nchw(pixels: &[f32], size: usize) -> Vec<f32> {
    let n = pixels.len() / (size * size * 3);
    Act::from_nhwc(Shape { n, h: size, w: size, c: 3 }, pixels).to_nchw()
}

fn seen(preprocess: &Preprocess, images: &[Image]) -> Result<Vec<f32>> {
    let all: Result<Vec<Vec<f32>>> = images.iter().map(|image| preprocess.pixels(image)).collect();
    Ok(all?.concat())
}

#[test]
fn pixels() -> Result<()> {
    let Some(dir) = golden() else { return Ok(()) };
    let images = images(&dir)?;
    let cases = [
        ("clip", "pixels_pil", Resampling::Pil, Crop::Floor, 32, 2e-6),
        ("clip", "pixels_tv", Resampling::Torchvision, Crop::Floor, 32, 2e-6),
        ("hps", "pixels_pil", Resampling::Pil, Crop::NearestEven, 32, 2e-6),
        ("hps", "pixels_hps", Resampling::Float, Crop::NearestEven, 32, 2e-4),
        ("hps", "pixels_hps_noaa", Resampling::FloatPlain, Crop::NearestEven, 32, 2e-4),
        ("openai", "pixels_pil", Resampling::Pil, Crop::NearestEven, 48, 2e-6),
        ("imagereward", "pixels_pil", Resampling::Pil, Crop::NearestEven, 32, 2e-6),
    ];
    for (folder, name, resampling, crop, size, tolerance) in cases {
        let file = TensorFile::read(&dir.join(folder).join("io.safetensors"))?;
        let found = nchw(&seen(&Preprocess::new(resampling, crop, size), &images)?, size);
        let wanted = numbers(&file, name);
        let worst = found.iter().zip(&wanted).fold(0.0f64, |m, (a, b)| m.max((f64::from(*a) - b).abs()));
        assert!(worst < tolerance, "{folder} {name}: {worst:e}");
    }
    let file = TensorFile::read(&dir.join("preprocess224.safetensors"))?;
    let bytes = |name: &str| numbers(&file, name).iter().map(|v| *v as u8).collect::<Vec<u8>>();
    let image = Image::new(391, 257, 3, bytes("image"))?;
    for (name, resampling) in [("pil_u8_crop_round", Resampling::Pil), ("tv_u8_crop_round", Resampling::Torchvision)] {
        let mut plain = Preprocess::new(resampling, Crop::NearestEven, 224);
        (plain.mean, plain.deviation) = ([0.0; 3], [1.0; 3]);
        let found: Vec<u8> = plain.pixels(&image)?.iter().map(|v| (v * 255.0).round() as u8).collect();
        assert_eq!(found, bytes(name), "{name}");
    }
    let hps = Preprocess::new(Resampling::Float, Crop::NearestEven, 224);
    let worst = difference(&nchw(&hps.pixels(&image)?, 224), &numbers(&file, "hps_f32"));
    assert!(worst < 1e-4, "{worst:e}");
    Ok(())
}

#[test]
fn embeddings() -> Result<()> {
    let Some(dir) = golden() else { return Ok(()) };
    let images = images(&dir)?;
    for (path, io, name, texts) in [
        ("clip", "clip", "image_embeds_pil", "ids_padded"),
        ("clip/pytorch_model.bin", "clip", "image_embeds_pil", "ids_padded"),
        ("hps", "hps", "image_embeds_pil", "ids_padded"),
        ("hps/HPS_v2.1_tiny.pt", "hps", "image_embeds_pil", "ids_padded"),
        ("openai/ViT-tiny.pt", "openai", "image_embeds", "ids_padded"),
        ("openai", "openai", "image_embeds", "ids_padded"),
    ] {
        let io = TensorFile::read(&dir.join(io).join("io.safetensors"))?;
        // The folder of OpenAI's file also holds numbers to compare with.
        if path == "openai" {
            continue;
        }
        let file = ClipFile::open(&dir.join(path), &ClipOptions::default())?;
        let size = file.preprocess.size;
        let pixels = seen(&file.preprocess, &images)?;
        let (clip, _) = file.build()?;
        let found = clip.image_features(&Act::from_nhwc(Shape { n: 5, h: size, w: size, c: 3 }, &pixels))?;
        let worst = difference(found.data(), &numbers(&io, name));
        assert!(worst < 1e-5, "{path} image: {worst:e}");
        let ids: Vec<u32> = numbers(&io, texts).iter().map(|id| *id as u32).collect();
        let found = clip.text_features(ids.len() / 77, &ids)?;
        let worst = difference(found.data(), &numbers(&io, "text_embeds"));
        assert!(worst < 1e-5, "{path} text: {worst:e}");
    }
    Ok(())
}

#[test]
fn ends_of_texts() -> Result<()> {
    let Some(dir) = golden() else { return Ok(()) };
    let io = TensorFile::read(&dir.join("clip/io.safetensors"))?;
    let ids: Vec<u32> = numbers(&io, "eos_rows.ids").iter().map(|id| *id as u32).collect();
    for (config, name) in [("config.json", "eos_rows.pooled_eos49407"), ("config_eos2.json", "eos_rows.pooled_eos2")] {
        let options = ClipOptions { config: Some(dir.join("clip").join(config)), ..ClipOptions::default() };
        let (clip, _) = ClipFile::open(&dir.join("clip"), &options)?.build()?;
        let worst = difference(clip.text().encode(4, &ids)?.pooled.data(), &numbers(&io, name));
        assert!(worst < 1e-5, "{name}: {worst:e}");
    }
    Ok(())
}

#[test]
fn rewards() -> Result<()> {
    let Some(dir) = golden() else { return Ok(()) };
    let io = TensorFile::read(&dir.join("imagereward/io.safetensors"))?;
    let (reward, _) = RewardFile::open(&dir.join("imagereward"), None)?.build()?;
    let preprocess = Preprocess::new(Resampling::Pil, Crop::NearestEven, 32);
    let pixels = seen(&preprocess, &images(&dir)?)?;
    let tokens = reward.image_tokens(&Act::from_nhwc(Shape { n: 5, h: 32, w: 32, c: 3 }, &pixels));
    let worst = difference(tokens.data(), &numbers(&io, "vit_tokens"));
    assert!(worst < 1e-5, "image tokens: {worst:e}");
    let (ids, mask, scores) = (numbers(&io, "ids"), numbers(&io, "mask"), numbers(&io, "score"));
    for (p, (ids, mask)) in ids.chunks(35).zip(mask.chunks(35)).enumerate() {
        let ids: Vec<u32> = ids.iter().zip(mask).filter(|(_, m)| **m == 1.0).map(|(id, _)| *id as u32).collect();
        for i in 0..5 {
            let image = Act::from_nhwc(Shape { n: 1, ..tokens.shape() }, tokens.sample(i));
            let found = reward.reward(&ids, &image)?;
            assert!((found - scores[i * 6 + p]).abs() < 1e-5, "{i} {p}: {found}");
        }
    }
    Ok(())
}

/// Those that need a guess of the encoding are left out.
#[test]
fn token_numbers() -> Result<()> {
    let Some(dir) = golden() else { return Ok(()) };
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(dir.join("tokenizers").join(name)).unwrap()).unwrap()
    };
    let ids =
        |value: &Value| -> Vec<u32> { value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect() };
    let cases = read("clip_cases.json");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for source in ["clip", "clip/bpe_simple_vocab_16e6.txt.gz", "clip/tokenizer.json"] {
        let path = dir.join("tokenizers").join(source);
        if !path.exists() {
            continue;
        }
        for (dialect, name) in
            [(Dialect::Transformers, "hf"), (Dialect::OpenClip, "open_clip"), (Dialect::OpenAi, "openai")]
        {
            let tokenizer = Tokenizer::read(&path)?.speaking(dialect);
            for row in cases["rows"].as_array().unwrap() {
                let text = row["text"].as_str().unwrap();
                count += 1;
                if tokenizer.encode(text, Padding::None)? != ids(&row[name]) {
                    wrong.push(format!("{source} {name} {text:?}"));
                }
            }
        }
    }
    let cases = read("bert_cases.json");
    let tokenizer = WordPiece::read(&dir.join("tokenizers/bert"))?;
    for row in cases["rows"].as_array().unwrap() {
        let text = row["text"].as_str().unwrap();
        let mut found = tokenizer.cut(text, 35)?.0;
        found.resize(35, 0);
        count += 1;
        if found != ids(&row["ids"]) {
            wrong.push(format!("bert {text:?}"));
        }
    }
    let is_mojibake = |case: &&String| case.contains("Ã") || case.contains("â€");
    let unexpected: Vec<&String> = wrong.iter().filter(|case| !is_mojibake(case)).collect();
    println!("{} of {count} agree; {} differ for their encoding", count - wrong.len(), wrong.len() - unexpected.len());
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    Ok(())
}
