//! Latent diffusion networks against diffusers and transformers: values, gradients, token numbers.
//! `tools/make_latent_fixtures.py` made the data.

use dyweight_core::denoiser::{Condition, Context, Levels, Model};
use dyweight_core::error::Result;
use dyweight_core::tensor::{Tensor, dot};
use dyweight_files::{StoredTensor, TensorFile};
use dyweight_models::Arithmetic;
use dyweight_models::clip::{Padding, Tokenizer};
use dyweight_models::latent::{Bundle, LatentModel, Settings, probe};
use dyweight_nn::{ConvAlgo, Precision};
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/latent"))
}

/// Largest difference relative to the largest entry.
fn difference(a: &StoredTensor, b: &StoredTensor) -> f64 {
    assert_eq!(a.shape(), b.shape());
    let (a, b) = (a.to_f64(), b.to_f64());
    let largest = b.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    a.iter().zip(&b).fold(0.0f64, |m, (a, b)| m.max((a - b).abs())) / largest
}

fn check(part: &str, conv: ConvAlgo, outputs: &[(&str, f64)]) -> Result<()> {
    let path = folder().join(format!("{part}.io.safetensors"));
    let file = TensorFile::read(&path)?;
    let (found, _) = probe(&Bundle::of_folder(&folder())?, part, (&path, &file), conv)?;
    for (name, tolerance) in outputs {
        let difference = difference(&found.tensors[*name], &file.tensors[*name]);
        assert!(difference < *tolerance, "{part} {name} {conv:?}: {difference:e}");
    }
    Ok(())
}

#[test]
fn unet_and_its_gradients() -> Result<()> {
    check("unet", ConvAlgo::Direct, &[("eps", 2e-5), ("grad_x", 5e-5), ("grad_t", 1e-4)])?;
    check("unet", ConvAlgo::Winograd4, &[("eps", 1e-4), ("grad_x", 1e-3), ("grad_t", 1e-3)])
}

/// Factors are rounded to 16 bits.
#[test]
fn unet_in_bf16_is_near_the_reference() -> Result<()> {
    if !Precision::Bf16.is_available() {
        dyweight_testing::skipped("this processor has no products of bf16 (avx512bf16)");
        return Ok(());
    }
    let (path, arithmetic) =
        (folder().join("unet.io.safetensors"), Arithmetic { conv: ConvAlgo::Direct, precision: Precision::Bf16 });
    let file = TensorFile::read(&path)?;
    let (found, _) = probe(&Bundle::of_folder(&folder())?, "unet", (&path, &file), arithmetic)?;
    for name in ["eps", "grad_x", "grad_t"] {
        let difference = difference(&found.tensors[name], &file.tensors[name]);
        assert!((1e-4..2e-2).contains(&difference), "{name}: {difference:e}");
    }
    Ok(())
}

#[test]
fn autoencoder_both_ways_and_its_gradient() -> Result<()> {
    check("vae", ConvAlgo::Direct, &[("image", 2e-5), ("grad_latents", 5e-5), ("encoded_mean", 2e-5)])
}

#[test]
fn text_encoder() -> Result<()> {
    check("text", ConvAlgo::Direct, &[("last_hidden_state", 2e-5), ("pooled", 2e-5)])
}

#[test]
fn token_numbers_are_those_of_transformers() -> Result<()> {
    let tokenizer = Tokenizer::read(&folder().join("tokenizer"))?;
    let ids = TensorFile::read(&folder().join("text.io.safetensors"))?.tensors["ids"].to_f64();
    let texts = ["", "a photo of the cat", "Dog's  in THE ca\u{301}t! 42", "the <|endoftext|> in"];
    for (text, expected) in texts.iter().zip(ids.chunks(77)) {
        let found = tokenizer.encode(text, Padding::Own)?;
        let expected: Vec<u32> = expected.iter().map(|id| *id as u32).collect();
        assert_eq!(found, expected, "{text:?}");
    }
    let long = "cat ".repeat(100);
    let cut = tokenizer.encode(&long, Padding::Own)?;
    assert_eq!((cut.len(), cut[75] == cut[1], cut[76] == cut[1]), (77, true, false));
    Ok(())
}

fn model() -> Result<LatentModel> {
    let settings = Settings { conv: ConvAlgo::Direct, shape: Some([4, 4, 4]), ..Settings::default() };
    Ok(LatentModel::open(&Bundle::of_folder(&folder())?, &settings)?.0)
}

fn noise(samples: usize, scale: f64) -> Result<Tensor> {
    let seeds: Vec<u64> = (0..samples as u64).collect();
    Ok(dyweight_core::noise::Rng::Native.latents(&seeds, [4, 4, 4])?.map(|v| scale * v))
}

/// Finite differences of ⟨g, D⟩ through guidance, level map and network, in the level and along the state.
#[test]
fn gradients_pass_through_guidance_level_and_network() -> Result<()> {
    let model = model()?;
    let contexts = vec![model.context_of("a photo of the cat")?, model.context_of("dog")?];
    let condition = Condition { contexts, negative: Context::Unconditional, guidance: Some(3.0) };
    let denoiser = model.denoiser(&condition)?;
    assert_eq!(denoiser.info().calls, 2);
    let (x, g, direction, sigma) = (noise(2, 2.0)?, noise(2, 0.7)?.map(|v| v + 0.1), noise(2, 1.0)?, 1.7);
    let (_, pullback) = denoiser.with_pullback(&x, &Levels::One(sigma))?;
    let (to_x, to_sigma) = pullback(&g)?;
    assert_eq!(pullback(&g)?, (to_x.clone(), to_sigma.clone()), "asked again");
    let value = |x: &Tensor, sigma: f64, i: usize| -> Result<f64> {
        Ok(dot(g.sample(i), denoiser.predict(x, &Levels::One(sigma))?.sample(i)))
    };
    #[allow(clippy::needless_range_loop)] // the sample is also what is moved
    for i in 0..2 {
        // A level's step is 175 times as long in the network's time, whose waves have frequencies up to 1; and f32
        // allows no small ones: two steps, extrapolated to none.
        let central = |h: f64| -> Result<f64> { Ok((value(&x, sigma + h, i)? - value(&x, sigma - h, i)?) / (2.0 * h)) };
        let slope = (4.0 * central(1e-3)? - central(2e-3)?) / 3.0;
        assert!((slope - to_sigma[i]).abs() < 2e-2 * slope.abs().max(1.0), "level {i}: {slope} and {}", to_sigma[i]);
        let h = 2e-2;
        let moved = |sign: f64| {
            let data = x.data().iter().zip(direction.data()).map(|(x, d)| x + sign * h * d).collect();
            Tensor::new(x.shape(), data)
        };
        let slope = (value(&moved(1.0)?, sigma, i)? - value(&moved(-1.0)?, sigma, i)?) / (2.0 * h);
        let expected = dot(to_x.sample(i), direction.sample(i));
        assert!((slope - expected).abs() < 2e-2 * slope.abs().max(1.0), "state {i}: {slope} and {expected}");
    }
    Ok(())
}

#[test]
fn a_sample_has_the_same_bits_in_every_batch() -> Result<()> {
    let model = model()?;
    let denoiser = |n: usize| {
        let contexts = vec![model.context_of("cat")?; n];
        model.denoiser(&Condition { contexts, ..Condition::default() })
    };
    let x = noise(5, 3.0)?;
    let all = denoiser(5)?.predict(&x, &Levels::One(2.0))?;
    for i in 0..5 {
        let alone = denoiser(1)?.predict(&x.slice(i..i + 1), &Levels::One(2.0))?;
        assert_eq!(alone.sample(0), all.sample(i), "sample {i}");
    }
    let decoder = model.decoder().expect("the folder has an autoencoder");
    assert_eq!(decoder.shape(), [3, 8, 8]);
    assert_eq!(decoder.decode(&x)?.sample(3), decoder.decode(&x.slice(3..4))?.sample(0));
    Ok(())
}

#[test]
fn nothing_asked_for_is_the_empty_text() -> Result<()> {
    let model = model()?;
    let x = noise(1, 3.0)?;
    let of = |condition: Condition| model.denoiser(&condition)?.predict(&x, &Levels::One(2.0));
    let empty = of(Condition { contexts: vec![model.context_of("")?], ..Condition::default() })?;
    assert_eq!(of(Condition::default())?.data(), empty.data());
    assert!(of(Condition::classes([1])).is_err(), "a text model has no classes");
    Ok(())
}
