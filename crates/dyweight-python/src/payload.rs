//! Batches on their way to Python and back: states as bytes of f64, what a network sees as bytes of its own precision,
//! all in the machine's order.

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

/// The precision in which a network's arrays cross.
#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub enum Payload {
    #[serde(rename = "float32")]
    F32,
    #[serde(rename = "float64")]
    F64,
}

impl Payload {
    /// A batch with a factor for each sample, in one pass over it.
    pub fn sent<'py>(
        self,
        py: Python<'py>,
        x: &Tensor,
        factor: impl Fn(usize) -> f64,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let size = if self == Payload::F32 { 4 } else { 8 };
        PyByteArray::new_with(py, size * x.data().len(), |bytes| {
            for (i, bytes) in bytes.chunks_exact_mut((size * x.sample_len()).max(1)).enumerate() {
                let scaled = x.sample(i).iter().map(|v| factor(i) * v);
                match self {
                    Payload::F32 => {
                        scaled.zip(bytes.as_chunks_mut().0).for_each(|(v, b)| *b = (v as f32).to_ne_bytes())
                    }
                    Payload::F64 => scaled.zip(bytes.as_chunks_mut().0).for_each(|(v, b)| *b = v.to_ne_bytes()),
                }
            }
            Ok(())
        })
    }

    /// The numbers that Python answered with.
    pub fn received(self, bytes: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
        let bytes = bytes.cast::<PyBytes>()?.as_bytes();
        Ok(match self {
            Payload::F32 => bytes.as_chunks().0.iter().map(|number| f64::from(f32::from_ne_bytes(*number))).collect(),
            Payload::F64 => numbers(bytes),
        })
    }
}
