//! A file as bytes in memory that are read from the disk when they are looked at: files of weights are larger than what
//! is needed of them at a time, and may be larger than memory.
//!
//! What can go wrong is that somebody else changes the file meanwhile:
//!
//! ```text
//! replaced by a rename     nothing: the map keeps the old file alive. Everything this project writes is written so
//! overwritten in place     the bytes differ from one look to the next
//! cut short                the system ends the process (SIGBUS) when it looks behind the new end
//! ```
//!
//! The second is why only numbers are to be taken from a map, copied as they are read: every pattern of bits is some
//! number. Texts and lengths, whose soundness is checked first and relied on later, belong in memory of one's own.

use memmap2::Mmap;
#[cfg(unix)]
use memmap2::{Advice, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};

/// A file as bytes, as long as it was when it was opened.
#[derive(Debug)]
pub struct MappedFile(Mmap);

impl MappedFile {
    /// Maps a whole file, which need not stay open.
    pub fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the map is read-only and private to this type, which hands out bytes and nothing else; bytes have no
        // invalid values, so a file that another process overwrites gives other numbers and no undefined ones. A file
        // cut short ends the process with a signal before anything is read. Whoever keeps to the rule of the module's
        // head, to check nothing in the map that is relied on later, is not misled by a change either.
        unsafe { Mmap::map(file) }.map(Self)
    }

    /// Has a part read ahead, without waiting for it. A wish: where the system has no such thing, nothing happens.
    pub fn fetch(&self, range: Range<usize>) {
        #[cfg(unix)]
        let _ = self.0.advise_range(Advice::WillNeed, range.start, range.len());
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Lets go the memory a part has taken; it is read again when it is looked at. A wish, likewise.
    pub fn release(&self, range: Range<usize>) {
        // SAFETY: what the call may lose are changes of private pages, and nobody can write to this map. Whoever looks
        // at the bytes meanwhile or later is given those of the file.
        #[cfg(unix)]
        let _ = unsafe { self.0.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len()) };
        #[cfg(not(unix))]
        let _ = range;
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_file_that_was_removed_are_still_there() {
        let path = std::env::temp_dir().join(format!("dyweight-map-{}", std::process::id()));
        std::fs::write(&path, b"numbers").unwrap();
        let mapped = MappedFile::new(&File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(&*mapped, b"numbers");
    }

    #[test]
    fn bytes_are_the_same_after_they_were_let_go() {
        let path = std::env::temp_dir().join(format!("dyweight-map-advice-{}", std::process::id()));
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let mapped = MappedFile::new(&File::open(&path).unwrap()).unwrap();
        mapped.fetch(10..90_000);
        assert_eq!(&mapped[5_000..60_000], &bytes[5_000..60_000]);
        mapped.release(10..90_001);
        mapped.release(0..1 << 40);
        assert_eq!(&*mapped, &bytes);
        std::fs::remove_file(&path).unwrap();
    }
}
