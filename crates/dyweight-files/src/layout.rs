//! Strided views as row-major bytes.

use super::stored::entry_count;
use crate::Malformed;

/// A view of a list of entries: entry (i, j, …) stands at offset + i·strides[0] + j·strides[1] + …
#[derive(Debug)]
pub(crate) struct Strided {
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) offset: usize,
}

impl Strided {
    /// Refuses a view that leaves a list of `len` entries; after this no index computed from it can overflow.
    pub(crate) fn check(&self, len: usize) -> Result<(), Malformed> {
        let (shape, strides, offset) = (self.shape.clone(), self.strides.clone(), self.offset);
        let outside = Malformed::View { shape, strides, offset, len };
        if self.shape.len() != self.strides.len() {
            return Err(outside);
        }
        if entry_count(&self.shape)? == 0 {
            return if self.offset <= len { Ok(()) } else { Err(outside) };
        }
        let mut axes = self.shape.iter().zip(&self.strides);
        let last = axes.try_fold(self.offset, |at, (size, stride)| at.checked_add((size - 1).checked_mul(*stride)?));
        match last {
            Some(last) if last < len => Ok(()),
            _ => Err(outside),
        }
    }

    /// True if the entries stand row-major one after the other.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(&self.strides).rev().all(|(size, stride)| {
            let fits = *size <= 1 || *stride == expected;
            expected *= size;
            fits
        }) || self.shape.contains(&0)
    }

    /// The entries in row-major order; the view must have been checked, `size` is that of one entry.
    pub(crate) fn gather(&self, bytes: &[u8], size: usize) -> Vec<u8> {
        let count: usize = self.shape.iter().product();
        let mut out = Vec::with_capacity(count * size);
        let mut index = vec![0; self.shape.len()];
        for _ in 0..count {
            let at: usize = self.offset + index.iter().zip(&self.strides).map(|(i, s)| i * s).sum::<usize>();
            out.extend_from_slice(&bytes[at * size..(at + 1) * size]);
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < self.shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shape: &[usize], strides: &[usize], offset: usize) -> Strided {
        Strided { shape: shape.into(), strides: strides.into(), offset }
    }

    #[test]
    fn transposes_and_repeats() {
        let bytes = [0, 1, 2, 3, 4, 5];
        assert_eq!(view(&[3, 2], &[1, 3], 0).gather(&bytes, 1), [0, 3, 1, 4, 2, 5]);
        assert_eq!(view(&[2, 2], &[0, 1], 2).gather(&bytes, 1), [2, 3, 2, 3]);
        assert_eq!(view(&[2], &[2], 0).gather(&bytes, 2), [0, 1, 4, 5]);
    }

    #[test]
    fn contiguity_ignores_axes_of_one() {
        assert!(view(&[2, 1, 3], &[3, 77, 1], 0).is_contiguous());
        assert!(view(&[], &[], 5).is_contiguous());
        assert!(view(&[0, 4], &[9, 9], 0).is_contiguous());
        assert!(!view(&[2, 3], &[1, 2], 0).is_contiguous());
    }

    #[test]
    fn views_must_stay_inside() {
        assert!(view(&[2, 3], &[3, 1], 0).check(6).is_ok());
        assert!(view(&[2, 3], &[3, 1], 1).check(6).is_err());
        assert!(view(&[2], &[usize::MAX], 1).check(6).is_err());
        assert!(view(&[usize::MAX, 3], &[0, 0], 0).check(6).is_err());
        assert!(view(&[2], &[1, 1], 0).check(6).is_err());
        assert!(view(&[0], &[1], 7).check(6).is_err());
    }
}
