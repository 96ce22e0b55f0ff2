//! What a number was measured with, and whether two may be compared.

use dyweight_core::features::FeatureMap;
use serde::{Deserialize, Serialize};

/// Where features, or statistics of them, come from. What is not known is left out: files of others do not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The images.
    pub images: Option<String>,
    /// How many.
    pub count: Option<usize>,
    /// Name of the feature map, with its way of resizing.
    pub features: Option<String>,
    /// Fingerprint of its weights.
    pub weights: Option<String>,
}

impl Origin {
    /// Features of images by their name; how many is not known yet.
    pub fn of(map: &dyn FeatureMap, images: &str) -> Self {
        let (features, weights) = (map.name().to_string(), map.sha256().to_string());
        Self { images: Some(images.into()), count: None, features: Some(features), weights: Some(weights) }
    }

    /// Why features of the two do not belong together, where both say.
    pub fn conflict(&self, other: &Self) -> Option<String> {
        let differ = |a: &Option<String>, b: &Option<String>| matches!((a, b), (Some(a), Some(b)) if a != b);
        if differ(&self.features, &other.features) {
            let name = |s: &Self| s.features.clone().unwrap_or_default();
            return Some(format!("features '{}' and '{}' are different ones", name(self), name(other)));
        }
        differ(&self.weights, &other.weights).then(|| "the feature networks have different weights".into())
    }
}

/// What a measured number depends on, besides the samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// What was measured: `fid`, `kid`, …
    pub metric: String,
    /// The samples' features, and their number.
    pub samples: Origin,
    /// What they were compared with.
    pub reference: Origin,
    /// Fingerprint of the reference.
    pub reference_sha256: Option<String>,
}

impl Provenance {
    /// Why the number must not be compared with one of `other`; nothing if it may.
    pub fn warnings(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.metric != other.metric {
            found.push(format!("{} and {} are different metrics", self.metric, other.metric));
        }
        found.extend(self.samples.conflict(&other.samples));
        if self.samples.features.is_none() || other.samples.features.is_none() {
            found.push("one of them does not say which features it used".into());
        }
        if let (Some(a), Some(b)) = (self.samples.count, other.samples.count)
            && a != b
        {
            found.push(format!("measured on {a} and {b} samples: a distance depends on their number"));
        }
        if self.reference_sha256 != other.reference_sha256 {
            let name = |p: &Self| p.reference.images.clone().unwrap_or("unnamed".into());
            found.push(format!("different references: {} and {}", name(self), name(other)));
        }
        found
    }
}

/// What a number of samples means for a distance of features.
pub struct FieldCount;

impl FieldCount {
    /// The numbers of samples the field publishes with.
    pub const USUAL: [usize; 3] = [10_000, 30_000, 50_000];

    /// What to know about a Fréchet distance on `count` samples of `dims` features.
    pub fn warnings(count: usize, dims: usize) -> Vec<String> {
        let mut found = Vec::new();
        if count <= dims {
            found.push(format!(
                "{count} samples of {dims} features have a singular covariance: the distance is far too large"
            ));
        } else if count < 2 * dims {
            found.push(format!("{count} samples are few for {dims} features: the distance is much too large"));
        }
        if !Self::USUAL.contains(&count) {
            found.push(format!(
                "{count} samples: the field uses 10000, 30000 or 50000; fewer give a larger distance, so compare equal numbers only"
            ));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Provenance {
        let source = |images: &str, count| Origin {
            images: Some(images.into()),
            count: Some(count),
            features: Some("fashion-features".into()),
            weights: Some("ab".into()),
        };
        let (samples, reference) = (source("samples", 1000), source("fashion", 60_000));
        Provenance { metric: "fid".into(), samples, reference, reference_sha256: Some("cd".into()) }
    }

    #[test]
    fn each_difference_is_named() {
        let base = example();
        assert!(base.warnings(&base).is_empty());
        let mut other = example();
        other.samples.count = Some(500);
        assert!(base.warnings(&other)[0].contains("1000 and 500 samples"));
        let mut other = example();
        other.samples.features = Some("inception".into());
        assert!(base.warnings(&other)[0].contains("'fashion-features' and 'inception'"));
        let mut other = example();
        other.samples.weights = Some("ee".into());
        assert!(base.warnings(&other)[0].contains("weights"));
        let mut other = example();
        other.reference_sha256 = Some("ee".into());
        assert!(base.warnings(&other)[0].contains("different references"));
        let mut other = example();
        (other.metric, other.samples.features) = ("kid".into(), None);
        assert_eq!(base.warnings(&other).len(), 2);
    }

    #[test]
    fn few_samples_are_pointed_out() {
        assert!(FieldCount::warnings(50_000, 2048).is_empty());
        assert!(FieldCount::warnings(100, 128)[0].contains("singular"));
        assert!(FieldCount::warnings(200, 128)[0].contains("few"));
        assert_eq!(FieldCount::warnings(5000, 128).len(), 1);
    }
}
