//! The models built into the program. What they are and how they were made: `assets/README.md`.

use super::edm::EdmFile;
use dyweight_core::error::Result;
use std::path::Path;

/// The classes of Fashion-MNIST, in their order.
pub(crate) const FASHION_CLASSES: [&str; 10] =
    ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"];

const FASHION: &[u8] = include_bytes!("../assets/fashion.safetensors");

/// A class-conditional network of 28×28 grey images of clothes, trained on Fashion-MNIST.
pub fn fashion() -> Result<EdmFile> {
    EdmFile::parse(Path::new("fashion"), FASHION.to_vec().into(), None)
}
