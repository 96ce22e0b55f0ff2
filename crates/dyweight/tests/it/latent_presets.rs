//! The released coefficients for Stable Diffusion and the LSUN model, on tiny models: the states are those of the
//! released sampler's formula, written down here once more.
//!
//! ```text
//! T = t₀;   at step i   d = (x − D(x, |s·T|))/(T + 10⁻⁸),  analytical first step d = x/√(1 + T²)
//!                       δ = t_{i+1} − T,   x ← x + δ·Σ w d,   T ← T + δ·Σ w
//! ```

use dyweight::denoiser::{Condition, Context, Denoiser, Levels};
use dyweight::files::{StoredTensor, TensorFile};
use dyweight::learned::Learned;
use dyweight::models::unet::{Unet, UnetConfig};
use dyweight::models::{LoadedModel, ModelSpec};
use dyweight::noise::{Rng, Stream};
use dyweight::sample::{Plan, sample_observed};
use dyweight::solver_file::SolverFile;
use dyweight::{Result, Tensor};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dyweight-models/tests/data/latent");

/// All states, the start included.
fn formula(denoiser: &dyn Denoiser, file: &SolverFile, noise: &Tensor) -> Result<Vec<Tensor>> {
    let times = file.grid()?.sigmas().to_vec();
    let learned = file.body.weights().expect("presets are of DyWeight");
    let mut t = times[0];
    let mut states = vec![noise.map(|v| v * t)];
    let mut slopes: Vec<Tensor> = Vec::new();
    let add = |x: &Tensor, scale: f64, d: &Tensor| {
        Tensor::new(x.shape(), x.data().iter().zip(d.data()).map(|(x, d)| x + scale * d).collect())
    };
    for (i, row) in learned.weights.iter().enumerate() {
        let x = states.last().expect("begins with one").clone();
        let slope = if i == 0 && file.afs {
            x.map(|v| v / (1.0 + t * t).sqrt())
        } else {
            let scale = learned.time_scale.get(i - usize::from(file.afs)).copied().unwrap_or(1.0);
            let denoised = denoiser.predict(&x, &Levels::One((scale * t).abs()))?;
            add(&x, -1.0, &denoised)?.map(|v| v / (t + 1e-8))
        };
        slopes.push(slope);
        let delta = times[i + 1] - t;
        let mut next = x;
        for (w, d) in row.iter().rev().zip(slopes.iter().rev()) {
            next = add(&next, delta * w, d)?;
        }
        t += delta * row.iter().sum::<f64>();
        states.push(next);
    }
    Ok(states)
}

fn check(model: &LoadedModel, preset: &str, condition: &Condition) -> Result<()> {
    let learned = Learned::open(preset)?;
    let file = learned.file.clone().expect("presets are whole solver files");
    let denoiser = model.model.denoiser(condition)?;
    let noise = Rng::Torch.latents(&[3], model.model.shape())?;
    let built = file.build()?;
    let plan = Plan { solver: &*built.solver, times: built.times.clone(), afs: file.afs, denoise_to_zero: false };
    let mut states = Vec::new();
    let outcome = sample_observed(&*denoiser, &plan, &noise, &mut |state| {
        states.push(state.x.tensor().clone());
        Ok(())
    })?;
    assert_eq!(outcome.nfe, file.nfe, "{preset}");
    let expected = formula(&*denoiser, &file, &noise)?;
    assert_eq!(states.len(), expected.len(), "{preset}");
    for (i, (found, expected)) in states.iter().zip(&expected).enumerate() {
        let largest = expected.data().iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let worst = found.data().iter().zip(expected.data()).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
        // Sums in another order, through a network in f32.
        assert!(worst < 1e-5 * largest, "{preset}, state {i}: {worst:e} of {largest}");
    }
    Ok(())
}

#[test]
fn stable_diffusion() -> Result<()> {
    let model = ModelSpec { shape: Some([4, 8, 8]), ..ModelSpec::named(TINY) }.build()?;
    let contexts = vec![model.model.context_of("a photo of the cat")?];
    let condition = Condition { contexts, negative: Context::Unconditional, guidance: Some(7.5) };
    for preset in ["preset:ms-coco-nfe8", "preset:ms-coco-nfe12", "preset:ms-coco-nfe16", "preset:ms-coco-nfe20"] {
        check(&model, preset, &condition)?;
    }
    Ok(())
}

#[test]
fn lsun() -> Result<()> {
    let config = UnetConfig {
        widths: vec![32, 64],
        layers: 1,
        down_attends: vec![false, true],
        up_attends: vec![true, false],
        heads: vec![1, 2],
        depths: vec![1; 2],
        size: Some(8),
        ..UnetConfig::lsun_ldm()
    };
    let mut file = TensorFile::default();
    for tensor in Unet::plan(&config)? {
        let scale = (tensor.shape.iter().skip(1).product::<usize>() as f64).powf(-0.5);
        let numbers = Stream::labelled(0, &tensor.name).normals(tensor.shape.iter().product());
        let numbers: Vec<f32> = numbers.into_iter().map(|v| (scale * v) as f32).collect();
        let stored = StoredTensor::from_f32(&tensor.shape, &numbers).expect("as many numbers as the shape has");
        file.tensors.insert(tensor.name, stored);
    }
    let dir = std::env::temp_dir().join(format!("dyweight-presets-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let (weights, configuration) = (dir.join("unet.safetensors"), dir.join("unet.json"));
    file.write(&weights)?;
    let options = r#"{"in_channels": 3, "out_channels": 3, "model_channels": 32, "channel_mult": [1, 2], "num_res_blocks": 1,
        "attention_resolutions": [2], "num_head_channels": 32, "image_size": 8}"#;
    std::fs::write(&configuration, options).expect("a temporary file");
    let spec = ModelSpec { config: Some(configuration), ..ModelSpec::named(&weights.to_string_lossy()) };
    let model = spec.build()?;
    for nfe in 3..=9 {
        check(&model, &format!("preset:lsun-bedroom-nfe{nfe}"), &Condition::default())?;
    }
    std::fs::remove_dir_all(dir).expect("the directory made above");
    Ok(())
}
