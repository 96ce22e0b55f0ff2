//! Where the tensors of some layers lie: what is needed soon is read ahead, what was used is let go, so that of a
//! mapped file larger than memory only the layers in use are in it.

use dyweight_files::SharedBytes;

/// The bytes of some layers' tensors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages(Vec<SharedBytes>);

impl Pages {
    /// Several layers may have their tensors from one: each is named once.
    pub(super) fn of(mut taken: Vec<SharedBytes>) -> Self {
        taken.dedup_by(|a, b| a.as_ptr() == b.as_ptr() && a.len() == b.len());
        Self(taken)
    }

    /// How many bytes they are.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|bytes| bytes.len()).sum()
    }

    /// Asks for them to be read, without waiting.
    pub(crate) fn fetch(&self) {
        self.0.iter().for_each(SharedBytes::fetch);
    }

    /// Says that they are not needed for a while.
    pub(crate) fn release(&self) {
        self.0.iter().for_each(SharedBytes::release);
    }
}
