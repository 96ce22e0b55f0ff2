//! Maps from images to features, differentiable in the image, so that a distance of features can be a training loss.

use crate::error::Result;
use crate::tensor::Tensor;

/// Carries ∂L/∂features to ∂L/∂images.
pub type FeaturePullback<'m> = Box<dyn FnOnce(&Tensor) -> Result<Tensor> + Send + 'm>;

/// A frozen map from images to feature vectors.
pub trait FeatureMap: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Fingerprint of its weights.
    fn sha256(&self) -> &str;

    /// Image shape `[c, h, w]`, with values in [−1, 1].
    fn shape(&self) -> [usize; 3];

    /// Number of features.
    fn dims(&self) -> usize;

    /// The features of each image, `[n, dims, 1, 1]`. Image i's depend on image i alone.
    fn features(&self, images: &Tensor) -> Result<Tensor>;

    /// The features, and the way back.
    fn with_pullback<'m>(&'m self, images: &Tensor) -> Result<(Tensor, FeaturePullback<'m>)>;
}
