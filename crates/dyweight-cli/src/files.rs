//! What several commands do with files.

use dyweight::error::shown;
use dyweight::files::{NamedPath, StoredTensor, atomic, keep_apart};
use dyweight::{Error, Result, Tensor};
use std::path::Path;

/// Refuses outputs that cannot be written, or that would take the place of an input or of each other: before the work.
pub fn prepare(outputs: &[NamedPath<'_>], inputs: &[NamedPath<'_>]) -> Result<()> {
    keep_apart(outputs, inputs)?;
    outputs.iter().try_for_each(|(_, path)| atomic::try_place(path))
}

/// A path as text for JSON, which has no other bytes.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A stored tensor as a `[n, c, h, w]` batch of finite numbers; `path` and `name` are for the message.
pub fn batch(path: &Path, name: &str, tensor: &StoredTensor) -> Result<Tensor> {
    let what = format!("tensor '{name}' in {}", shown(path));
    let shape = <[usize; 4]>::try_from(tensor.shape()).ok().filter(|s| !s.contains(&0));
    let shape = shape.ok_or_else(|| {
        let found = tensor.shape().to_vec();
        Error::Shape { what: what.clone(), expected: vec![1, 1, 1, 1], found }
    })?;
    let batch = Tensor::new(shape, tensor.to_f64())?;
    batch.require_finite(&what)?;
    Ok(batch)
}
