//! Several feature maps of the same images as one: their features one behind the other.

use dyweight_core::error::Result;
use dyweight_core::features::{FeatureMap, FeaturePullback};
use dyweight_core::tensor::Tensor;
use dyweight_files::Fingerprint;
use std::sync::Arc;

/// The maps together.
pub struct JoinedFeatures {
    maps: Vec<Arc<dyn FeatureMap>>,
    name: String,
    sha256: String,
}

impl JoinedFeatures {
    /// One map is itself.
    pub fn of(maps: Vec<Arc<dyn FeatureMap>>) -> Arc<dyn FeatureMap> {
        if let [one] = &maps[..] {
            return one.clone();
        }
        let name = maps.iter().map(|map| map.name()).collect::<Vec<_>>().join("+");
        let mut sha256 = Fingerprint::default();
        maps.iter().for_each(|map| {
            sha256.add(map.sha256().as_bytes());
        });
        Arc::new(Self { maps, name, sha256: sha256.text() })
    }
}

/// Features of several maps, sample by sample.
fn joined(parts: &[Tensor]) -> Result<Tensor> {
    let (n, dims) = (parts[0].samples(), parts.iter().map(Tensor::sample_len).sum());
    let rows = (0..n).flat_map(|i| parts.iter().flat_map(move |part| part.sample(i).iter().copied()));
    Tensor::new([n, dims, 1, 1], rows.collect())
}

impl FeatureMap for JoinedFeatures {
    fn name(&self) -> &str {
        &self.name
    }

    fn sha256(&self) -> &str {
        &self.sha256
    }

    fn shape(&self) -> [usize; 3] {
        self.maps[0].shape()
    }

    fn dims(&self) -> usize {
        self.maps.iter().map(|map| map.dims()).sum()
    }

    fn features(&self, images: &Tensor) -> Result<Tensor> {
        joined(&self.maps.iter().map(|map| map.features(images)).collect::<Result<Vec<_>>>()?)
    }

    fn with_pullback<'m>(&'m self, images: &Tensor) -> Result<(Tensor, FeaturePullback<'m>)> {
        let (mut parts, mut pullbacks) = (Vec::new(), Vec::new());
        for map in &self.maps {
            let (features, pullback) = map.with_pullback(images)?;
            pullbacks.push((features.sample_len(), pullback));
            parts.push(features);
        }
        let shape = images.shape();
        let back = move |gradient: &Tensor| {
            let (mut first, mut all) = (0, Tensor::zeros(shape));
            for (dims, pullback) in pullbacks {
                let own = (0..gradient.samples()).flat_map(|i| gradient.sample(i)[first..first + dims].iter().copied());
                let own = pullback(&Tensor::new([gradient.samples(), dims, 1, 1], own.collect())?)?;
                all.data_mut().iter_mut().zip(own.data()).for_each(|(sum, v)| *sum += v);
                first += dims;
            }
            Ok(all)
        };
        Ok((joined(&parts)?, Box::new(back)))
    }
}
