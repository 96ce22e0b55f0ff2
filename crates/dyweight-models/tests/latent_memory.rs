//! Memory is counted for the whole process: these tests are a program of their own, and run one after the other.

use dyweight_core::error::Result;
use dyweight_models::MemoryNeeds;
use dyweight_models::unet::{Unet, UnetConfig};
use dyweight_nn::buffer::{release, usage};
use dyweight_nn::{ConvAlgo, Dtype};
use std::sync::{Mutex, PoisonError};

static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn the_memory_a_call_needs_is_foretold() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let config = UnetConfig {
        widths: vec![64, 128, 128],
        down_attends: vec![true, true, false],
        up_attends: vec![false, true, true],
        heads: vec![4; 3],
        depths: vec![1; 3],
        context: Some(64),
        ..UnetConfig::sd15()
    };
    let size = [48, 48];
    let foretold = MemoryNeeds::new(&config, None, size, 0);
    let unet = Unet::random(&config, (0, Dtype::F32), ConvAlgo::Winograd4)?;
    let measured = |gradient: bool| {
        release();
        unet.measure_once(size, gradient);
        usage().peak as f64
    };
    // What operations need besides is a constant that a network of this size would hide behind.
    let extra = MemoryNeeds::new(&config, None, [0, 0], 0).forward as f64;
    for (what, needed, gradient) in [("forward", foretold.forward, false), ("gradient", foretold.gradient, true)] {
        let (needed, found) = ((needed as f64 - extra) / 1.25, measured(gradient));
        assert!((0.8..1.35).contains(&(needed / found)), "{what}: foretold {needed}, measured {found}");
    }
    Ok(())
}

/// Bytes of a mapped file that are in this process's memory.
#[cfg(target_os = "linux")]
fn resident(file: &std::path::Path) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("this process's maps");
    let (mut inside, mut kilobytes) = (false, 0);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Rss:") if inside => kilobytes += words.next().map_or(0, |n| n.parse::<u64>().expect("a number")),
            Some(key) if !key.ends_with(':') => inside = line.ends_with(&*file.to_string_lossy()),
            _ => {}
        }
    }
    kilobytes << 10
}

/// A U-Net's weights and a decoder's work are not in memory at once.
#[cfg(target_os = "linux")]
#[test]
fn a_u_nets_weights_are_let_go_before_its_samples_are_decoded() -> Result<()> {
    use dyweight_core::denoiser::{Condition, Context, Levels, Model, TextContext};
    use dyweight_core::noise::Rng;
    use dyweight_files::{Dtype, StoredTensor, TensorFile};
    use dyweight_models::latent::{Bundle, LatentModel, Settings};
    use std::path::{Path, PathBuf};

    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let tiny = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/latent"));
    let place = std::env::temp_dir().join(format!("dyweight-let-go-{}", std::process::id()));
    let copied = |from: &Path, to: &Path| std::fs::copy(from, to).map(drop).expect("a copy");
    for part in ["unet", "vae", "scheduler"] {
        std::fs::create_dir_all(place.join(part)).expect("a folder");
    }
    for file in ["vae/config.json", "vae/diffusion_pytorch_model.safetensors", "scheduler/scheduler_config.json"] {
        copied(&tiny.join(file), &place.join(file));
    }
    let json = std::fs::read_to_string(tiny.join("unet/config.json")).expect("a configuration");
    let mut json: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&json).expect("JSON");
    json["block_out_channels"] = serde_json::json!([128, 256]);
    json["norm_num_groups"] = 32.into();
    std::fs::write(place.join("unet/config.json"), serde_json::to_string(&json).expect("JSON")).expect("a file");
    let config = UnetConfig::from_diffusers(&json).expect("a configuration");
    let mut file = TensorFile::default();
    for tensor in Unet::plan(&config)? {
        let bytes: Vec<u8> =
            (0..tensor.shape.iter().product::<usize>()).flat_map(|i| (0.02 * (i as f32).sin()).to_le_bytes()).collect();
        let stored = StoredTensor::new(&tensor.name, Dtype::F32, tensor.shape.clone(), bytes.into()).expect("a tensor");
        file.tensors.insert(tensor.name, stored);
    }
    let weights = place.join("unet/diffusion_pytorch_model.safetensors");
    file.write(&weights)?;
    drop(file);

    let settings = Settings { shape: Some([4, 8, 8]), ..Settings::default() };
    let (model, _) = LatentModel::open(&Bundle::of_folder(&place)?, &settings)?;
    let size = std::fs::metadata(&weights).expect("it was written").len();
    let text = TextContext { width: 16, tokens: vec![0.1; 77 * 16], pooled: Vec::new() };
    let condition = Condition { contexts: vec![Context::Text(text.into())], ..Condition::default() };
    let (x, denoiser) = (Rng::Native.latents(&[0], [4, 8, 8])?, model.denoiser(&condition)?);
    let first = denoiser.predict(&x, &Levels::One(1.0))?;
    assert!(resident(&weights) > size / 2, "{} of {size}", resident(&weights));
    model.decoder().expect("there is an autoencoder").decode(&x)?;
    assert!(resident(&weights) < size / 50, "{} of {size}", resident(&weights));
    assert_eq!(denoiser.predict(&x, &Levels::One(1.0))?, first);
    std::fs::remove_dir_all(place).expect("it was made");
    Ok(())
}
