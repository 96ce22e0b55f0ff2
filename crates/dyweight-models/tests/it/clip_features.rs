//! CLIP's image tower as a feature map: its gradient against finite differences, and files in several layouts.

use dyweight_core::error::Result;
use dyweight_core::features::FeatureMap;
use dyweight_core::noise::Rng;
use dyweight_core::tensor::{Tensor, dot};
use dyweight_models::clip::{ClipFeatures, ClipFile, ClipOptions};
use std::path::PathBuf;

fn file(name: &str) -> Result<ClipFile> {
    let dir = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/prompted"));
    ClipFile::open(&dir.join(name), &ClipOptions::default())
}

fn images(samples: u64, shape: [usize; 3]) -> Result<Tensor> {
    Ok(Rng::Native.latents(&(0..samples).collect::<Vec<_>>(), shape)?.map(|v| 0.4 * v))
}

#[test]
fn gradients_agree_with_finite_differences() -> Result<()> {
    // Enlarged, made smaller and cut, of one colour.
    for shape in [[3, 7, 9], [3, 31, 20], [1, 12, 12]] {
        let map = ClipFeatures::new(file("clip")?, shape)?;
        let (x, direction) = (images(2, shape)?, images(4, shape)?.slice(2..4));
        let (features, pullback) = map.with_pullback(&x)?;
        assert_eq!(features.data(), map.features(&x)?.data());
        assert!((0..2).all(|i| (dot(features.sample(i), features.sample(i)) - 1.0).abs() < 1e-6));
        let g = Rng::Native.latents(&[7, 8], [map.dims(), 1, 1])?;
        let gradient = pullback(&g)?;
        let h = 1e-2;
        let moved = |sign: f64| {
            let data = x.data().iter().zip(direction.data()).map(|(x, d)| x + sign * h * d).collect();
            map.features(&Tensor::new(x.shape(), data)?)
        };
        let (above, below) = (moved(1.0)?, moved(-1.0)?);
        for i in 0..2 {
            let slope = (dot(g.sample(i), above.sample(i)) - dot(g.sample(i), below.sample(i))) / (2.0 * h);
            let expected = dot(gradient.sample(i), direction.sample(i));
            assert!((slope - expected).abs() < 2e-3 * slope.abs().max(0.1), "{shape:?} {i}: {slope} {expected}");
        }
    }
    Ok(())
}

#[test]
fn a_sample_has_the_same_bits_in_every_batch_and_layout() -> Result<()> {
    let shape = [3, 12, 12];
    let (map, other) = (ClipFeatures::new(file("clip")?, shape)?, ClipFeatures::new(file("open_clip")?, shape)?);
    let x = images(5, shape)?;
    let all = map.features(&x)?;
    assert_eq!(all.data(), other.features(&x)?.data());
    assert_eq!(map.sha256(), other.sha256());
    for i in 0..5 {
        assert_eq!(map.features(&x.slice(i..i + 1))?.sample(0), all.sample(i));
    }
    assert_eq!(map.features(&Tensor::zeros([0, 3, 12, 12]))?.samples(), 0);
    assert!(map.features(&images(1, [3, 9, 9])?).is_err());
    assert!(ClipFeatures::new(file("clip")?, [4, 8, 8]).is_err());
    Ok(())
}
