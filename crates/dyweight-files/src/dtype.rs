//! Element types of stored tensors, and how their little-endian bytes become numbers.
//!
//! ```text
//! f16   1 sign, 5 exponent (bias 15), 10 fraction bits
//! bf16  the upper half of an f32
//! ```

use crate::Malformed;

/// Element type of a stored tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dtype {
    /// 64-bit float.
    F64,
    /// 32-bit float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// Upper half of a 32-bit float.
    Bf16,
    /// 64-bit integer.
    I64,
    /// 32-bit integer.
    I32,
    /// 16-bit integer.
    I16,
    /// 8-bit integer.
    I8,
    /// Byte.
    U8,
    /// Byte that is 0 or 1.
    Bool,
}

/// All types with their names in safetensors files.
const NAMES: [(Dtype, &str); 10] = [
    (Dtype::F64, "F64"),
    (Dtype::F32, "F32"),
    (Dtype::F16, "F16"),
    (Dtype::Bf16, "BF16"),
    (Dtype::I64, "I64"),
    (Dtype::I32, "I32"),
    (Dtype::I16, "I16"),
    (Dtype::I8, "I8"),
    (Dtype::U8, "U8"),
    (Dtype::Bool, "BOOL"),
];

impl Dtype {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Dtype::F64 | Dtype::I64 => 8,
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::F16 | Dtype::Bf16 | Dtype::I16 => 2,
            Dtype::I8 | Dtype::U8 | Dtype::Bool => 1,
        }
    }

    /// Name in safetensors files.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(d, _)| *d == self).map_or("", |(_, n)| n)
    }

    /// The type of a safetensors name.
    pub(crate) fn from_name(name: &str) -> Result<Self, Malformed> {
        let found = NAMES.iter().find(|(_, n)| *n == name);
        found.map(|(d, _)| *d).ok_or_else(|| Malformed::Dtype { name: short(name) })
    }

    /// Numbers in `bytes`, exactly (64-bit integers beyond 2⁵³ are rounded).
    pub fn to_f64(self, bytes: &[u8]) -> Vec<f64> {
        match self {
            Dtype::F64 => decode(bytes, f64::from_le_bytes),
            Dtype::F32 => decode(bytes, |b| f32::from_le_bytes(b) as f64),
            Dtype::F16 => decode(bytes, |b| f16_to_f32(u16::from_le_bytes(b)) as f64),
            Dtype::Bf16 => decode(bytes, |b| bf16_to_f32(u16::from_le_bytes(b)) as f64),
            Dtype::I64 => decode(bytes, |b| i64::from_le_bytes(b) as f64),
            Dtype::I32 => decode(bytes, |b| i32::from_le_bytes(b) as f64),
            Dtype::I16 => decode(bytes, |b| i16::from_le_bytes(b) as f64),
            Dtype::I8 => decode(bytes, |b| i8::from_le_bytes(b) as f64),
            Dtype::U8 => decode(bytes, |[b]: [u8; 1]| b as f64),
            Dtype::Bool => decode(bytes, |[b]: [u8; 1]| f64::from(b != 0)),
        }
    }

    /// Numbers in `bytes`; f64 and large integers are rounded.
    pub fn to_f32(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Dtype::F32 => decode(bytes, f32::from_le_bytes),
            Dtype::F16 => decode(bytes, |b| f16_to_f32(u16::from_le_bytes(b))),
            Dtype::Bf16 => decode(bytes, |b| bf16_to_f32(u16::from_le_bytes(b))),
            Dtype::I64 => decode(bytes, |b| i64::from_le_bytes(b) as f32),
            Dtype::I32 => decode(bytes, |b| i32::from_le_bytes(b) as f32),
            _ => self.to_f64(bytes).into_iter().map(|v| v as f32).collect(),
        }
    }
}

/// Every `N` bytes as one number.
fn decode<const N: usize, T>(bytes: &[u8], one: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| one(*chunk)).collect()
}

/// The start of a text from a file, short enough for a message.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

/// An IEEE half, exactly.
pub(crate) fn f16_to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let exponent = u32::from(half >> 10) & 31;
    let fraction = u32::from(half) & 0x3ff;
    let magnitude = match exponent {
        // Subnormal: fraction · 2⁻²⁴, exact in f32.
        0 => (fraction as f32 * 2f32.powi(-24)).to_bits(),
        31 => 0x7f80_0000 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// The nearest IEEE half, ties to even; beyond 65504 infinity.
pub(crate) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        // Keep the payload's upper bits, and that it is quiet.
        0x7e00 | (magnitude >> 13 & 0x1ff) as u16
    } else if magnitude >= 0x477f_f000 {
        0x7c00
    } else if magnitude < 0x3880_0000 {
        // Below 2⁻¹⁴ the half is a multiple of 2⁻²⁴; the scaling is exact.
        (f32::from_bits(magnitude) * 2f32.powi(24)).round_ties_even() as u16
    } else {
        let odd = magnitude >> 13 & 1;
        ((magnitude + 0xfff + odd - (112 << 23)) >> 13) as u16
    };
    sign | half
}

/// A bfloat16, exactly.
pub(crate) fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_to_f32_and_back() {
        for half in 0..=u16::MAX {
            let value = f16_to_f32(half);
            if value.is_nan() {
                assert!(f16_to_f32(f32_to_f16(value)).is_nan());
            } else {
                assert_eq!(f32_to_f16(value), half, "{value}");
            }
        }
    }

    #[test]
    fn rounding_to_half_goes_to_the_nearest_even() {
        for half in 0..0x7bffu16 {
            let (low, high) = (f16_to_f32(half), f16_to_f32(half + 1));
            let middle = (low + high) / 2.0;
            assert_eq!(f32_to_f16(middle), half + (half & 1));
            assert_eq!(f32_to_f16(middle.next_up()), half + 1);
            assert_eq!(f32_to_f16(middle.next_down()), half);
        }
        assert_eq!(f32_to_f16(65519.0), 0x7bff);
        assert_eq!(f32_to_f16(65520.0), 0x7c00);
        assert_eq!(f32_to_f16(-f32::INFINITY), 0xfc00);
    }

    #[test]
    fn names_and_sizes_agree() {
        for (dtype, name) in NAMES {
            assert_eq!(Dtype::from_name(name), Ok(dtype));
            assert_eq!(dtype.name(), name);
            assert_eq!(dtype.to_f64(&[0; 16]).len() * dtype.size(), 16);
            assert_eq!(dtype.to_f32(&[0; 16]).len() * dtype.size(), 16);
        }
        assert!(Dtype::from_name("F8_E4M3").is_err());
    }
}
