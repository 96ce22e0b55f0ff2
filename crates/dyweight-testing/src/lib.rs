//! What tests of several crates share: files from outside, processes that are threads, maps to features.
#![forbid(unsafe_code)]

mod processes;

pub use processes::together;

use dyweight_core::features::{FeatureMap, FeaturePullback};
use dyweight_core::{Result, Tensor};
use std::io::Write as _;
use std::path::PathBuf;

/// The path that an environment variable names, for a test of files that are not in the repository. Without it the test
/// says that it is skipped, to the terminal itself: nobody reads what is captured of a test that passes.
pub fn outside(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        skipped(&format!("{variable} is not set"));
    }
    path
}

/// Says that the test of this thread is skipped.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}

/// A feature map of functions of one sample.
pub struct SampleFeatures {
    /// Shape of an image.
    pub shape: [usize; 3],
    /// How many features.
    pub dims: usize,
    /// Features of a sample.
    pub map: fn(&[f64]) -> Vec<f64>,
    /// ∂L/∂sample from the sample and ∂L/∂features.
    pub pull_back: fn(&[f64], &[f64]) -> Vec<f64>,
}

impl SampleFeatures {
    /// The samples themselves.
    pub fn identity(shape: [usize; 3]) -> Self {
        Self { shape, dims: shape.iter().product(), map: <[f64]>::to_vec, pull_back: |_, g| g.to_vec() }
    }
}

impl FeatureMap for SampleFeatures {
    fn name(&self) -> &str {
        "of a test"
    }

    fn sha256(&self) -> &str {
        "0"
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn dims(&self) -> usize {
        self.dims
    }

    fn features(&self, x: &Tensor) -> Result<Tensor> {
        let features = (0..x.samples()).flat_map(|i| (self.map)(x.sample(i))).collect();
        Tensor::new([x.samples(), self.dims, 1, 1], features)
    }

    fn with_pullback<'f>(&'f self, x: &Tensor) -> Result<(Tensor, FeaturePullback<'f>)> {
        let saved = x.clone();
        let back = move |g: &Tensor| {
            let of = |i: usize| (self.pull_back)(saved.sample(i), g.sample(i));
            Tensor::new(saved.shape(), (0..saved.samples()).flat_map(of).collect())
        };
        Ok((self.features(x)?, Box::new(back)))
    }
}
