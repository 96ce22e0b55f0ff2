//! Values as bytes on their way to another process of the same program: every bit of a number arrives, NaN included.

use dyweight_core::tensor::Tensor;

/// A value that can be sent.
pub trait Wire: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes the value from the front; none if the bytes are not such a value.
    fn take(from: &mut Reader<'_>) -> Option<Self>;
}

/// Bytes that are being read.
pub struct Reader<'r>(&'r [u8]);

impl Reader<'_> {
    fn bytes(&mut self, len: usize) -> Option<&[u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    /// A number of items that follow, each of which has at least one byte.
    fn len(&mut self) -> Option<usize> {
        usize::try_from(u64::take(self)?).ok().filter(|len| *len <= self.0.len())
    }
}

pub(super) fn wrap(value: &impl Wire) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}

pub(super) fn unwrap<T: Wire>(bytes: &[u8]) -> Option<T> {
    let mut reader = Reader(bytes);
    T::take(&mut reader).filter(|_| reader.0.is_empty())
}

macro_rules! params {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Option<Self> {
                from.bytes(size_of::<Self>())?.try_into().ok().map(Self::from_le_bytes)
            }
        }
    )*};
}

params!(u8, u64, f32, f64);

impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        u64::take(from)?.try_into().ok()
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some(u8::take(from)? != 0)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let len = from.len()?;
        (0..len).map(|_| T::take(from)).collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend(self.as_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let len = from.len()?;
        String::from_utf8(from.bytes(len)?.to_vec()).ok()
    }
}

impl Wire for Tensor {
    fn put(&self, out: &mut Vec<u8>) {
        self.shape().iter().for_each(|n| n.put(out));
        out.extend(self.data().iter().flat_map(|v| v.to_le_bytes()));
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        let shape = [usize::take(from)?, usize::take(from)?, usize::take(from)?, usize::take(from)?];
        let len = shape.iter().try_fold(8usize, |len, n| len.checked_mul(*n))?;
        let params = from.bytes(len)?.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
        Tensor::new(shape, params.collect()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_to_the_last_bit_and_wrong_bytes_are_refused() {
        let odd = f64::from_bits(0x7ff8_0000_dead_beef);
        type Value = (Vec<(String, Option<f64>)>, (Tensor, bool));
        let tensor = Tensor::new([1, 1, 1, 2], vec![odd, -0.0]).unwrap();
        let value: Value = (vec![("σ".into(), Some(odd)), ("".into(), None)], (tensor, true));
        let bytes = wrap(&value);
        let back: Value = unwrap(&bytes).unwrap();
        assert_eq!(wrap(&back), bytes);
        assert_eq!(back.0[0].1.unwrap().to_bits(), odd.to_bits());
        for len in 0..bytes.len() {
            assert!(unwrap::<Value>(&bytes[..len]).is_none(), "{len}");
        }
        assert!(unwrap::<Value>(&[bytes, vec![0]].concat()).is_none());
        assert!(unwrap::<Vec<f64>>(&u64::MAX.to_le_bytes()).is_none());
    }
}
