//! Random weights: the same for the same seed and name, whatever the order of building and the number of threads.
//!
//! ```text
//! matrices and filters   uniform with variance 1/inputs, so that activations keep near unit size
//! scales                 uniform around 1 with standard deviation 0.1;  the rest the same around 0
//! frequencies            uniform around 0 with standard deviation 4
//! ```

use dyweight_core::noise::Stream;
use dyweight_nn::Dtype;
use rayon::prelude::*;

/// Bytes from which on large pages are asked for: files that are mapped have them where the system can.
const LARGE: usize = 1 << 22;

/// Numbers from one stream.
const BLOCK: usize = 1 << 16;

/// The little-endian bytes of a tensor.
pub(super) fn tensor(seed: u64, dtype: Dtype, name: &str, shape: &[usize]) -> Vec<u8> {
    let (centre, scale) = match (name.rsplit('.').next(), shape) {
        (Some("freqs"), _) => (0.0, 4.0),
        (Some("weight"), [_]) => (1.0, 0.1),
        (_, [_, inputs @ ..]) if !inputs.is_empty() => (0.0, 1.0 / (inputs.iter().product::<usize>() as f32).sqrt()),
        _ => (0.0, 0.1),
    };
    let (spread, root) = (scale * 12f32.sqrt(), Stream::labelled(seed, name).bits());
    let mut bytes = vec![0; shape.iter().product::<usize>() * dtype.size()];
    if bytes.len() >= LARGE {
        dyweight_nn::buffer::ask_for_large_pages(&mut bytes);
    }
    bytes.par_chunks_mut(BLOCK * dtype.size()).enumerate().for_each(|(block, bytes)| {
        let mut stream = Stream::of_words(&[root, block as u64]);
        let mut next = || centre + spread * (stream.uniform() as f32 - 0.5);
        match dtype {
            Dtype::F32 => bytes.as_chunks_mut().0.iter_mut().for_each(|to| *to = next().to_le_bytes()),
            // Cut off, not rounded: one random number is as good as another.
            Dtype::Bf16 => bytes.as_chunks_mut().0.iter_mut().for_each(|to| *to = upper_half(next())),
            Dtype::F16 => bytes.as_chunks_mut().0.iter_mut().for_each(|to| *to = f16(next()).to_le_bytes()),
        }
    });
    bytes
}

fn upper_half(value: f32) -> [u8; 2] {
    ((value.to_bits() >> 16) as u16).to_le_bytes()
}

/// Of a number below 2 in size, cut off; what is too small for its exponent is 0.
fn f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, exponent, fraction) = (bits >> 16 & 0x8000, bits >> 23 & 0xff, bits >> 13 & 0x3ff);
    match exponent {
        0..=112 => sign as u16,
        _ => (sign | (exponent - 112) << 10 | fraction) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyweight_nn::Weights;
    use std::sync::Arc;

    #[test]
    fn types_hold_the_same_numbers() {
        let shape = [300, 250];
        let of = |dtype: Dtype| {
            let bytes = tensor(5, dtype, "some.weight", &shape);
            Weights::new(dtype, shape, Arc::new(bytes), 0).unwrap().to_f32()
        };
        let full = of(Dtype::F32);
        let variance = full.iter().map(|v| v * v).sum::<f32>() / full.len() as f32;
        assert!((variance * 250.0 - 1.0).abs() < 0.02, "{variance}");
        for (dtype, bits) in [(Dtype::F16, 10), (Dtype::Bf16, 7)] {
            for (a, b) in full.iter().zip(of(dtype)) {
                assert!((a - b).abs() <= a.abs() / (1 << bits) as f32 + 1e-4, "{dtype:?}: {a} {b}");
            }
        }
        assert_ne!(full[..100], full[BLOCK..BLOCK + 100]);
        assert_ne!(of(Dtype::F32)[0], tensor(6, Dtype::F32, "some.weight", &shape)[0] as f32);
    }
}
