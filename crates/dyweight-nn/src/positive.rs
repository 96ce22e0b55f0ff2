//! Which entries of an activation are positive, one bit each: all that the gradient of a rectifier needs to know, in a
//! thirty-second of the memory.

use rayon::prelude::*;

use crate::act::{Act, Shape};
use crate::isa::Isa;

const WORD: usize = u32::BITS as usize;

/// Words a task handles at once.
const WORDS: usize = 256;

/// The bits `x > 0`.
#[derive(Clone, Debug)]
pub struct Positive {
    shape: Shape,
    bits: Vec<u32>,
}

impl Positive {
    /// Of an activation.
    pub fn of(x: &Act) -> Self {
        let mut bits = vec![0; x.shape().len().div_ceil(WORD)];
        let isa = Isa::active();
        bits.par_chunks_mut(WORDS).zip(x.data().par_chunks(WORDS * WORD)).for_each(|(bits, x)| {
            isa.vectorize(
                #[inline(always)]
                || {
                    for (word, x) in bits.iter_mut().zip(x.chunks(WORD)) {
                        *word = x.iter().enumerate().fold(0, |word, (i, x)| word | (u32::from(*x > 0.0) << i));
                    }
                },
            );
        });
        Self { shape: x.shape(), bits }
    }

    /// Sets the entries of a gradient to 0 where the activation was not positive.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn mask(&self, gradient: &mut Act) {
        assert_eq!(self.shape, gradient.shape(), "shapes of a masked gradient");
        let isa = Isa::active();
        gradient.data_mut().par_chunks_mut(WORDS * WORD).zip(self.bits.par_chunks(WORDS)).for_each(|(g, bits)| {
            isa.vectorize(
                #[inline(always)]
                || {
                    for (g, word) in g.chunks_mut(WORD).zip(bits) {
                        for (i, g) in g.iter_mut().enumerate() {
                            *g = if (word >> i) & 1 == 1 { *g } else { 0.0 };
                        }
                    }
                },
            );
        });
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.bits.len() * size_of::<u32>()
    }
}
