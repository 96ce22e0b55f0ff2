//! The second feature network of Fashion-MNIST, against PyTorch in double precision (`tools/make_judge_fixture.py`).

use dyweight_core::features::FeatureMap;
use dyweight_core::tensor::Tensor;
use dyweight_files::TensorFile;
use dyweight_models::fashion_judge::FashionJudge;
use std::path::Path;

fn reference() -> impl Fn(&str) -> Vec<f64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fashion_judge_io.safetensors");
    let file = TensorFile::read(&path).unwrap();
    move |name| file.tensor(name).unwrap().to_f64()
}

/// Largest difference, of the largest entry.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    found.iter().zip(expected).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs())) / largest
}

#[test]
fn features_scores_and_gradient_are_those_of_pytorch() {
    let expected = reference();
    let images = Tensor::new([4, 1, 28, 28], expected("x")).unwrap();
    let judge = FashionJudge::embedded().unwrap();
    let (features, pullback) = judge.with_pullback(&images).unwrap();
    assert_eq!(features, judge.features(&images).unwrap());
    assert_eq!(features.shape(), [4, judge.dims(), 1, 1]);
    let to_x = pullback(&Tensor::new(features.shape(), expected("cotangent")).unwrap()).unwrap();
    let scores = judge.class_scores(&features).unwrap();
    let found = [
        error(features.data(), &expected("features")),
        error(to_x.data(), &expected("grad_x")),
        error(scores.data(), &expected("logits")),
    ];
    assert!(found.iter().all(|e| *e < 1e-5), "{found:?}");
}

#[test]
fn an_image_has_the_same_features_in_every_batch() {
    let images = Tensor::new([4, 1, 28, 28], reference()("x")).unwrap();
    let judge = FashionJudge::embedded().unwrap();
    let all = judge.features(&images).unwrap();
    for i in 0..4 {
        assert_eq!(judge.features(&images.slice(i..i + 1)).unwrap().data(), all.sample(i));
    }
    let many = Tensor::concat(&vec![images.clone(); 20]).unwrap();
    assert_eq!(judge.features(&many).unwrap().sample(77), all.sample(1));
    assert_eq!(judge.features(&images.slice(0..0)).unwrap().shape(), [0, 144, 1, 1]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let judge = FashionJudge::embedded().unwrap();
    let colours = judge.features(&Tensor::zeros([1, 3, 28, 28])).unwrap_err().to_string();
    assert!(colours.contains("images") && colours.contains('3'), "{colours}");
    assert!(judge.class_scores(&Tensor::zeros([1, 128, 1, 1])).is_err());
    let (_, pullback) = judge.with_pullback(&Tensor::zeros([2, 1, 28, 28])).unwrap();
    assert!(pullback(&Tensor::zeros([1, 144, 1, 1])).unwrap_err().to_string().contains("cotangent"));
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/fashion_features.safetensors");
    let refused = FashionJudge::from_file(&other, &TensorFile::read(&other).unwrap()).err().unwrap().to_string();
    assert!(refused.contains("head.weight") && refused.contains("144"), "{refused}");
}
