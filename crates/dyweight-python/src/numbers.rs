//! Batches on their way to Python and back, as bytes of f64 in the machine's order.

use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

/// Numbers as an object Python may write to, which tensor libraries ask for.
pub fn sent<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyByteArray> {
    PyByteArray::new(py, bytemuck::cast_slice(numbers))
}

/// The numbers in bytes that Python answered with.
pub fn received(bytes: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    Ok(numbers(bytes.cast::<PyBytes>()?.as_bytes()))
}

/// The numbers in bytes.
pub fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|number| f64::from_ne_bytes(*number)).collect()
}

/// A batch of samples of a shape from their numbers.
pub fn batch(shape: [usize; 3], numbers: Vec<f64>) -> Result<Tensor> {
    let [c, h, w] = shape;
    let len = c * h * w;
    if len == 0 || !numbers.len().is_multiple_of(len) {
        let (what, found) = ("a batch of samples".into(), vec![numbers.len()]);
        return Err(Error::Shape { what, expected: vec![numbers.len() / len.max(1), c, h, w], found });
    }
    Tensor::new([numbers.len() / len, c, h, w], numbers)
}
