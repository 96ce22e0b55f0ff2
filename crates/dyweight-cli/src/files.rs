//! What several commands read from tensor files.

use dyweight::checkpoint::StoredTensor;
use dyweight::{Error, Result, Tensor};
use std::path::Path;

/// A stored tensor as a `[n, c, h, w]` batch of finite numbers; `path` and `name` are for the message.
pub fn batch(path: &Path, name: &str, tensor: &StoredTensor) -> Result<Tensor> {
    let what = format!("tensor '{name}' in {}", path.display());
    let shape = <[usize; 4]>::try_from(tensor.shape()).ok().filter(|s| !s.contains(&0));
    let shape = shape.ok_or_else(|| {
        let found = tensor.shape().to_vec();
        Error::Shape { what: what.clone(), expected: vec![1, 1, 1, 1], found }
    })?;
    let batch = Tensor::new(shape, tensor.to_f64())?;
    batch.require_finite(&what)?;
    Ok(batch)
}
