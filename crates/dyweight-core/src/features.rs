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

/// Standard errors by which a share may fall.
const ERRORS: f64 = 2.0;

/// A share of samples before and after something was done to them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// One standard error of their difference.
    pub error: f64,
}

impl Share {
    /// True if it has fallen by more than chance makes it.
    pub fn has_fallen(&self) -> bool {
        self.before - self.after > ERRORS * self.error
    }

    /// True if it has risen by more than chance makes it.
    pub fn has_risen(&self) -> bool {
        self.after - self.before > ERRORS * self.error
    }
}

/// How samples lie among reference samples, before and after: precision and recall, and how far they are from real
/// images, as a feature network sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Variety {
    /// Samples that lie among the reference's.
    pub precision: Share,
    /// Reference samples that lie among these.
    pub recall: Share,
    /// The Fréchet distance to real images, where it is known and the samples are enough.
    pub distance: Option<Share>,
    /// The network whose features judge.
    pub judge: String,
    /// Samples of each.
    pub samples: usize,
}

impl Variety {
    /// True if a share has fallen, or the distance risen.
    pub fn is_lost(&self) -> bool {
        self.precision.has_fallen() || self.recall.has_fallen() || self.distance.is_some_and(|d| d.has_risen())
    }
}
