//! Reading a file: only regular ones, and no more of them than is needed.

use crate::map::MappedFile;
use crate::sniff::{Format, HEAD, sniff_head};
use crate::{Malformed, SharedBytes};
use dyweight_core::error::{Error, Result};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// From this size on a file of numbers is mapped instead of read.
const MAP_FROM: u64 = 16 << 20;
/// No text that means something here is longer.
const LONGEST_TEXT: u64 = 64 << 20;

/// The bytes of a regular file of at most `limit` bytes.
pub fn read_file(path: &Path, limit: u64) -> Result<SharedBytes> {
    let (file, size) = open(path)?;
    read(path, file, size, limit)
}

/// The bytes of a file of data in any format that can be told by content. A large safetensors file or archive is
/// mapped, so that tensors are read when they are needed. Of a file in no known format there is only the beginning,
/// which is all it takes to refuse it.
pub fn read_data(path: &Path) -> Result<SharedBytes> {
    let (mut file, size) = open(path)?;
    let failed = |e| Error::io("read", path, e);
    let mut head = Vec::new();
    (&mut file).take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
    if size <= HEAD as u64 {
        return Ok(head.into());
    }
    match sniff_head(&head) {
        Format::Unknown | Format::Empty | Format::Png => Ok(head.into()),
        Format::Safetensors | Format::Zip if size >= MAP_FROM => Ok(MappedFile::new(&file).map_err(failed)?.into()),
        Format::Json | Format::SolverFile => read_file(path, LONGEST_TEXT),
        _ => read_file(path, u64::MAX),
    }
}

/// A pipe or a device could keep us waiting, or never end. What is not there is left to whoever opens it.
pub(crate) fn refuse_special(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(Error::io("read", path, io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")))
        }
        _ => Ok(()),
    }
}

fn open(path: &Path) -> Result<(File, u64)> {
    refuse_special(path)?;
    let failed = |e| Error::io("read", path, e);
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    Ok((file, size))
}

fn read(path: &Path, file: File, size: u64, limit: u64) -> Result<SharedBytes> {
    let failed = |e| Error::io("read", path, e);
    if size > limit {
        return Err(Error::malformed(path, Malformed::TooLarge { what: "file size", size, limit }));
    }
    let mut bytes = Vec::new();
    let room = usize::try_from(size).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(room).map_err(|e| failed(io::Error::new(io::ErrorKind::OutOfMemory, e)))?;
    // A file that grows meanwhile is read as it was.
    file.take(size).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TensorFile, sniff};
    use std::io::{Seek, SeekFrom, Write};
    use std::path::PathBuf;

    /// A file of `size` bytes, of which all but the first are a hole.
    fn sparse(name: &str, start: &[u8], size: u64) -> PathBuf {
        let path = std::env::temp_dir().join(format!("dyweight-read-{name}-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(start).unwrap();
        file.seek(SeekFrom::Start(size - 1)).unwrap();
        file.write_all(&[0]).unwrap();
        path
    }

    #[test]
    fn of_an_unknown_file_only_the_beginning_is_read() {
        let path = sparse("unknown", b"", 1 << 36);
        assert_eq!(read_data(&path).unwrap().len(), HEAD);
        assert_eq!(sniff(&read_data(&path).unwrap()), Format::Unknown);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn tensors_larger_than_memory_can_be_looked_at() {
        let numbers = 1u64 << 34;
        let header =
            format!("{{\"a\":{{\"dtype\":\"F32\",\"shape\":[{numbers}],\"data_offsets\":[0,{}]}}}}", 4 * numbers);
        let start = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        let path = sparse("large", &start, start.len() as u64 + 4 * numbers);
        let file = TensorFile::read(&path).unwrap();
        assert_eq!(file.tensors["a"].len() as u64, numbers);
        assert_eq!(file.tensors["a"].bytes()[(4 * numbers - 1) as usize], 0);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn long_texts_are_refused_before_they_are_read() {
        let path = sparse("text", b"{", 1 << 36);
        assert!(read_data(&path).unwrap_err().to_string().contains("file size"));
        std::fs::remove_file(path).unwrap();
    }
}
