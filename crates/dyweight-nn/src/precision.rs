//! In what precision the products of a layer are made.

/// How exact the factors of a product are; sums are f32 either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As they are.
    #[default]
    F32,
    /// Of 16 bits: rounded to bf16, the upper half of an f32 with 8 significant bits, or, in convolutions, to
    /// fixed-point numbers of their row. Twice as fast where the processor multiplies pairs of them.
    Bf16,
}

impl Precision {
    /// All of them, by name.
    pub const NAMES: [(&str, Self); 2] = [("f32", Self::F32), ("bf16", Self::Bf16)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// The fastest of at least this precision for linear layers and attention. On Intel's processors VDPBF16PS takes
    /// as long as two to four multiply-adds of floats: there, f32 is faster.
    pub fn of_products(self) -> Self {
        if self == Self::Bf16 && !crate::pairs::pay() { Self::F32 } else { self }
    }

    /// Whether the instructions in use have it ([`crate::Isa`]).
    pub fn is_available(self) -> bool {
        self == Self::F32 || (crate::pairs::Pairs::available().is_some() && crate::fixed::Fixed::available().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_their_own() {
        for (name, precision) in Precision::NAMES {
            assert_eq!(precision.name(), name);
        }
        // Lesser instructions have no products of bf16, whatever the processor has.
        assert!(Precision::F32.is_available() && !crate::Isa::Portable.scope(|| Precision::Bf16.is_available()));
    }
}
