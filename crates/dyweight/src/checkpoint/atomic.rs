//! Writing a file so that nobody ever sees half of it.
//!
//! The bytes go to a temporary file in the same directory, which is flushed to the disk and then renamed over the
//! target: a rename within a directory is atomic. On any error the temporary file is removed and the target is as
//! it was.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Distinguishes the temporary files of threads that write at the same time.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Writes what `fill` gives to `path`, all or nothing.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    refuse_special(path)?;
    let temporary = Temporary::beside(path)?;
    let mut writer = BufWriter::new(&temporary.file);
    fill(&mut writer).and_then(|()| writer.flush()).map_err(|e| Error::io("write", path, e))?;
    drop(writer);
    temporary.file.sync_all().map_err(|e| Error::io("write", path, e))?;
    temporary.publish(path)
}

/// Writes `bytes` to `path`, all or nothing.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |out| out.write_all(bytes))
}

/// Writes `bytes` to `path`, all or nothing for every other process, but without waiting for the disk: for the thousands of small
/// files that are checked before they are reused.
pub fn write_unsynced(path: &Path, bytes: &[u8]) -> Result<()> {
    refuse_special(path)?;
    let temporary = Temporary::beside(path)?;
    (&temporary.file).write_all(bytes).map_err(|e| Error::io("write", path, e))?;
    fs::rename(&temporary.path, path).map_err(|e| Error::io("write", path, e))
}

/// A rename would replace a device or pipe by a plain file; that is never meant.
fn refuse_special(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(Error::io("write", path, io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")))
        }
        _ => Ok(()),
    }
}

/// A file that vanishes unless it is published.
struct Temporary {
    file: File,
    path: PathBuf,
}

impl Temporary {
    fn beside(target: &Path) -> Result<Self> {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
        let path = target.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        Ok(Self { file: file.map_err(|e| Error::io("create", target, e))?, path })
    }

    fn publish(self, target: &Path) -> Result<()> {
        fs::rename(&self.path, target).map_err(|e| Error::io("write", target, e))?;
        // The name is safe on the disk only with its directory; where directories cannot be flushed, so be it.
        let directory = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Ok(directory) = File::open(directory) {
            let _ = directory.sync_all();
        }
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After publishing the name is gone already.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("dyweight-atomic-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary directory");
        path
    }

    fn names(directory: &Path) -> Vec<OsString> {
        fs::read_dir(directory).expect("readable").map(|e| e.expect("entry").file_name()).collect()
    }

    #[test]
    fn replaces_the_whole_file() {
        let directory = directory("replace");
        let path = directory.join("a.bin");
        write(&path, b"old and long").expect("writes");
        write(&path, b"new").expect("writes again");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
        assert_eq!(names(&directory), ["a.bin"]);
    }

    #[test]
    fn an_error_leaves_the_old_file_and_nothing_else() {
        let directory = directory("error");
        let path = directory.join("a.bin");
        write(&path, b"old").expect("writes");
        let result = write_with(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(matches!(result, Err(Error::Io { action: "write", .. })));
        assert_eq!(fs::read(&path).expect("readable"), b"old");
        assert_eq!(names(&directory), ["a.bin"]);
    }

    #[test]
    fn directories_and_missing_places_are_refused() {
        let directory = directory("refused");
        assert!(write(&directory, b"x").is_err());
        assert!(write(&directory.join("no/such/place"), b"x").is_err());
        assert_eq!(names(&directory).len(), 0);
    }
}
