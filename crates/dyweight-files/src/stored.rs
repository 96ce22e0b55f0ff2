//! A tensor as a file holds it: element type, shape, little-endian bytes in row-major order.

use super::bytes::SharedBytes;
use super::dtype::{Dtype, f32_to_f16};
use crate::Malformed;

/// A tensor as a file holds it. Cloning copies no numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: SharedBytes,
}

impl StoredTensor {
    /// Bytes as a tensor; their number must fit the shape.
    pub fn new(name: &str, dtype: Dtype, shape: Vec<usize>, bytes: SharedBytes) -> Result<Self, Malformed> {
        let expected = byte_count(dtype, &shape)?;
        if expected != bytes.len() {
            return Err(Malformed::ByteCount { name: name.into(), expected, found: bytes.len() });
        }
        Ok(Self { dtype, shape, bytes })
    }

    /// Numbers to be stored as f64.
    pub fn from_f64(shape: &[usize], values: &[f64]) -> Result<Self, Malformed> {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        Self::new("tensor", Dtype::F64, shape.to_vec(), bytes.into())
    }

    /// Numbers to be stored as f32.
    pub fn from_f32(shape: &[usize], values: &[f32]) -> Result<Self, Malformed> {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        Self::new("tensor", Dtype::F32, shape.to_vec(), bytes.into())
    }

    /// Numbers to be rounded to, and stored as, f16.
    pub fn from_f32_as_f16(shape: &[usize], values: &[f32]) -> Result<Self, Malformed> {
        let bytes = values.iter().flat_map(|v| f32_to_f16(*v).to_le_bytes()).collect::<Vec<u8>>();
        Self::new("tensor", Dtype::F16, shape.to_vec(), bytes.into())
    }

    /// Numbers to be stored as i64.
    pub fn from_i64(shape: &[usize], values: &[i64]) -> Result<Self, Malformed> {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        Self::new("tensor", Dtype::I64, shape.to_vec(), bytes.into())
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Shape; empty for a single number.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Little-endian bytes, row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same bytes, to be kept; nothing is copied.
    pub fn shared_bytes(&self) -> SharedBytes {
        self.bytes.clone()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The numbers, exactly (64-bit integers beyond 2⁵³ are rounded).
    pub fn to_f64(&self) -> Vec<f64> {
        self.dtype.to_f64(&self.bytes)
    }

    /// The numbers as f32; f64 and large integers are rounded.
    pub fn to_f32(&self) -> Vec<f32> {
        self.dtype.to_f32(&self.bytes)
    }
}

/// Entries of a shape.
pub(crate) fn entry_count(shape: &[usize]) -> Result<usize, Malformed> {
    // A zero anywhere makes the tensor empty, but must not hide an overflow of the other sizes.
    let product = shape.iter().map(|d| (*d).max(1)).try_fold(1usize, usize::checked_mul);
    let product = product.ok_or_else(|| Malformed::ShapeOverflow { shape: shape.to_vec() })?;
    Ok(if shape.contains(&0) { 0 } else { product })
}

/// Bytes of a shape.
pub(crate) fn byte_count(dtype: Dtype, shape: &[usize]) -> Result<usize, Malformed> {
    let overflow = || Malformed::ShapeOverflow { shape: shape.to_vec() };
    entry_count(shape)?.checked_mul(dtype.size()).ok_or_else(overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_must_fit_its_bytes() {
        assert!(StoredTensor::from_f64(&[2, 2], &[0.0; 3]).is_err());
        assert!(StoredTensor::from_f32(&[usize::MAX, 2], &[]).is_err());
        assert!(StoredTensor::from_f32(&[usize::MAX, 2, 0], &[]).is_err());
        assert_eq!(StoredTensor::from_f32(&[], &[3.0]).map(|t| t.len()), Ok(1));
        assert_eq!(StoredTensor::from_i64(&[0, 5], &[]).map(|t| t.is_empty()), Ok(true));
    }

    #[test]
    fn numbers_come_back() -> Result<(), Malformed> {
        let half = StoredTensor::from_f32_as_f16(&[3], &[0.5, -2.0, 65504.0])?;
        assert_eq!(half.to_f64(), [0.5, -2.0, 65504.0]);
        assert_eq!(StoredTensor::from_i64(&[2], &[-1, 7])?.to_f32(), [-1.0, 7.0]);
        Ok(())
    }
}
