//! The real weights of Inception-v3 against what the original tools made of the same images: features under both rules,
//! means after every stage, gradients in the image.
//!
//! Needs files that are not in the repository, and is skipped without them: `DYWEIGHT_SLOW=1`,
//! `DYWEIGHT_INCEPTION` (weights; `tools/fetch_inception.sh` gets them) and `DYWEIGHT_GOLDEN_DIR` (the directory of
//! `inception_io.safetensors`).

use dyweight_core::Tensor;
use dyweight_core::features::FeatureMap;
use dyweight_files::TensorFile;
use dyweight_models::inception::{Inception, InceptionFile, Resize};
use dyweight_testing::outside;

struct Golden {
    file: TensorFile,
    weights: InceptionFile,
}

impl Golden {
    fn open() -> Option<Self> {
        outside("DYWEIGHT_SLOW")?;
        let (weights, golden) = (outside("DYWEIGHT_INCEPTION")?, outside("DYWEIGHT_GOLDEN_DIR")?);
        let file = TensorFile::read(&golden.join("inception_io.safetensors")).unwrap();
        Some(Self { file, weights: InceptionFile::read(&weights).unwrap() })
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        self.file.tensor(name).unwrap().to_f64()
    }

    /// Images of a size, from pixel values.
    fn images(&self, size: usize) -> Tensor {
        let pixels = self.numbers(&format!("images_{size}"));
        let n = pixels.len() / (3 * size * size);
        Tensor::new([n, 3, size, size], pixels.iter().map(|p| (p - 128.0) / 127.5).collect()).unwrap()
    }

    fn map(&self, size: usize, resize: Resize) -> Inception {
        Inception::new(&self.weights, [3, size, size], resize).unwrap()
    }
}

/// Relative error in the Euclidean norm.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| (a - b).powi(2)).sum();
    (difference / expected.iter().map(|v| v * v).sum::<f64>()).sqrt()
}

#[test]
fn features_under_both_rules() {
    let Some(golden) = Golden::open() else { return };
    for (rule, resize) in [("edm", Resize::Edm), ("ptfid", Resize::PytorchFid)] {
        for size in [28, 32, 64, 256] {
            let found = golden.map(size, resize).features(&golden.images(size)).unwrap();
            let error = error(found.data(), &golden.numbers(&format!("features_{rule}_{size}")));
            println!("{rule} {size}: {error:.1e}");
            assert!(error < 1e-3, "{rule} {size}: {error:e}");
        }
    }
}

#[test]
fn means_after_every_stage() {
    let Some(golden) = Golden::open() else { return };
    let means = golden.map(32, Resize::Edm).stage_means(&golden.images(32).slice(0..1)).unwrap();
    assert_eq!(means.len(), 18);
    for (stage, mean) in means {
        let error = error(mean.data(), &golden.numbers(&format!("stage_mean.{stage}")));
        println!("{stage}: {error:.1e}");
        assert!(error < 1e-4, "{stage}: {error:e}");
    }
}

#[test]
fn gradients_in_the_image() {
    let Some(golden) = Golden::open() else { return };
    let map = golden.map(32, Resize::Edm);
    let cotangent = Tensor::new([1, 2048, 1, 1], golden.numbers("grad_cotangent")).unwrap();
    for image in [0, 2] {
        let (_, pullback) = map.with_pullback(&golden.images(32).slice(image..image + 1)).unwrap();
        // The reference is per pixel value, 127.5 of which are one unit of ours.
        let found: Vec<f64> = pullback(&cotangent).unwrap().data().iter().map(|g| g / 127.5).collect();
        let exact = golden.numbers(&format!("grad_input_32_{image}_f64"));
        let (ours, theirs) = (error(&found, &exact), error(&golden.numbers(&format!("grad_input_32_{image}")), &exact));
        println!("image {image}: {ours:.1e} from f64; PyTorch in f32: {theirs:.1e}");
        assert!(ours < 1e-2, "image {image}: {ours:e}");
    }
}
