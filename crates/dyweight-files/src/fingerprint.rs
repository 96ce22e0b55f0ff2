//! Fingerprints: SHA-256 as text.

use sha2::{Digest, Sha256};

/// A fingerprint in the making.
#[derive(Clone, Default)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(bytes);
        self
    }

    /// Adds numbers, bit by bit.
    pub fn add_numbers(&mut self, numbers: &[f64]) -> &mut Self {
        numbers.iter().for_each(|v| self.0.update(v.to_le_bytes()));
        self
    }

    /// The fingerprint as hexadecimal text.
    pub fn text(&self) -> String {
        self.0.clone().finalize().iter().map(|b| format!("{b:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Fingerprint::default().add(b"a").add(b"bc").text(), abc);
    }
}
