//! Sample-shaped batches of f64: `[n, c, h, w]`, row-major.
//!
//! States, slopes and coefficients are f64 throughout; a network's f32 begins and ends at its own boundary.
//!
//! ```
//! use dyweight_core::Tensor;
//! let batch = Tensor::new([2, 1, 1, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! assert_eq!(batch.sample(1), [4.0, 5.0, 6.0]);
//! assert_eq!(Tensor::concat(&[batch.slice(0..1), batch.slice(1..2)])?, batch);
//! # Ok::<(), dyweight_core::Error>(())
//! ```

use crate::error::{Error, Result};

/// A batch of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: [usize; 4],
    data: Vec<f64>,
}

impl Tensor {
    /// Takes `data` as the entries of a batch; their number must fit the shape.
    pub fn new(shape: [usize; 4], data: Vec<f64>) -> Result<Self> {
        let fits = shape.iter().try_fold(1usize, |p, d| p.checked_mul(*d)) == Some(data.len());
        if !fits {
            return Err(Error::Shape { what: "tensor".into(), expected: shape.to_vec(), found: vec![data.len()] });
        }
        Ok(Self { shape, data })
    }

    /// All zeros.
    pub fn zeros(shape: [usize; 4]) -> Self {
        Self { shape, data: vec![0.0; shape.iter().product()] }
    }

    /// `[n, c, h, w]`.
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.shape[0]
    }

    /// Entries of one sample.
    pub fn sample_len(&self) -> usize {
        self.shape[1..].iter().product()
    }

    /// All entries.
    pub fn data(&self) -> &[f64] {
        &self.data
    }

    /// All entries, to write.
    pub fn data_mut(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// The entries, given away.
    pub fn into_data(self) -> Vec<f64> {
        self.data
    }

    /// One sample's entries.
    pub fn sample(&self, index: usize) -> &[f64] {
        let len = self.sample_len();
        &self.data[index * len..(index + 1) * len]
    }

    /// Samples `range` as a batch of their own.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        let len = self.sample_len();
        let [_, c, h, w] = self.shape;
        Self { shape: [range.len(), c, h, w], data: self.data[range.start * len..range.end * len].to_vec() }
    }

    /// Batches of one sample shape, one after the other.
    pub fn concat(parts: &[Tensor]) -> Result<Self> {
        let Some(first) = parts.first() else { return Ok(Self::zeros([0, 0, 0, 0])) };
        let [_, c, h, w] = first.shape;
        let mut data = Vec::with_capacity(parts.iter().map(|p| p.data.len()).sum());
        for part in parts {
            if part.shape[1..] != first.shape[1..] {
                let (expected, found) = (first.shape.to_vec(), part.shape.to_vec());
                return Err(Error::Shape { what: "concatenated batch".into(), expected, found });
            }
            data.extend_from_slice(&part.data);
        }
        Ok(Self { shape: [parts.iter().map(Tensor::samples).sum(), c, h, w], data })
    }

    /// Same shape, every entry mapped.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { shape: self.shape, data: self.data.iter().map(|v| f(*v)).collect() }
    }

    /// Puts the samples of `other` in the place of its own, from number `first` on.
    pub fn replace(&mut self, first: usize, other: &Tensor) {
        let start = first * self.sample_len();
        self.data[start..start + other.data.len()].copy_from_slice(&other.data);
    }

    /// Index and value of the first entry that is not finite.
    pub fn first_not_finite(&self) -> Option<(usize, f64)> {
        self.data.iter().position(|v| !v.is_finite()).map(|i| (i, self.data[i]))
    }

    /// An error naming the tensor if an entry is not finite.
    pub fn require_finite(&self, what: &str) -> Result<()> {
        match self.first_not_finite() {
            Some((index, value)) => Err(Error::NotFinite { what: what.into(), index, value }),
            None => Ok(()),
        }
    }
}

/// Σ aᵢ·bᵢ in a fixed order: eight running sums, then their tree. Independent of threads and batch splits, and
/// wide enough for the compiler to vectorise.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    fold_lanes(a, b, |x, y| x * y)
}

/// Σ (aᵢ − s·bᵢ)² in the same fixed order as [`dot`].
pub fn squared_distance(a: &[f64], scale: f64, b: &[f64]) -> f64 {
    fold_lanes(a, b, |x, y| (x - scale * y) * (x - scale * y))
}

#[inline(always)]
fn fold_lanes(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; 8];
    let (chunks_a, chunks_b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = chunks_a.remainder().iter().zip(chunks_b.remainder()).map(|(x, y)| term(*x, *y)).sum();
    for (x, y) in chunks_a.zip(chunks_b) {
        for lane in 0..8 {
            lanes[lane] += term(x[lane], y[lane]);
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h)) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_entries_must_fit_the_shape() {
        assert!(Tensor::new([2, 1, 2, 2], vec![0.0; 8]).is_ok());
        assert!(matches!(Tensor::new([2, 1, 2, 2], vec![0.0; 7]), Err(Error::Shape { .. })));
        assert!(Tensor::new([usize::MAX, 2, 2, 2], vec![]).is_err());
    }

    #[test]
    fn slices_put_together_are_the_whole() {
        let t = Tensor::new([3, 1, 1, 2], (0..6).map(f64::from).collect()).unwrap();
        assert_eq!(Tensor::concat(&[t.slice(0..1), t.slice(1..3)]).unwrap(), t);
        assert_eq!(t.sample(1), [2.0, 3.0]);
    }

    #[test]
    fn dot_products_of_any_length() {
        for n in 0..40 {
            let a: Vec<f64> = (0..n).map(|i| i as f64 + 0.5).collect();
            let plain: f64 = a.iter().map(|v| v * v).sum();
            assert!((dot(&a, &a) - plain).abs() <= 1e-12 * plain.max(1.0));
            assert_eq!(squared_distance(&a, 1.0, &a), 0.0);
        }
    }
}
