//! One writer per output: a lock that the system gives up for a process however it ends.
//!
//! The lock is held on a small file that carries the number of the process, so that a second one can name the first. It
//! is removed when the work is done. A file left by a killed process locks nothing, whatever number it carries.

use crate::place::{beside, follow};
use dyweight_core::error::{Error, Result, shown};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// An output held by this process.
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Holds a directory.
    pub fn directory(directory: &Path) -> Result<Self> {
        Self::take(directory.join(".lock"), directory)
    }

    /// Holds the file that will be written at `output`.
    pub fn file(output: &Path) -> Result<Self> {
        // Behind a link is where it will be written.
        let place = follow(output).map_err(|e| Error::io("write", output, e))?;
        Self::take(beside(&place, ".lock"), output)
    }

    fn take(path: PathBuf, output: &Path) -> Result<Self> {
        // The output is what the user named; the file of the lock is ours.
        let failed = |e| Error::io("write", output, e);
        loop {
            let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = open.map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(taken(&mut file, output)),
                Err(TryLockError::Error(e)) => return Err(failed(e)),
            }
            // Between opening and locking the holder may have finished and removed the file: then this lock is on
            // nothing.
            if !is_still_there(&file, &path) {
                continue;
            }
            file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
            write!(file, "{}", std::process::id()).map_err(failed)?;
            return Ok(Self { path, _file: file });
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed before it is unlocked, so nobody can hold a lock on a file that is about to vanish. If it cannot be
        // removed it is merely left over.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn taken(file: &mut File, output: &Path) -> Error {
    let mut holder = String::new();
    let _ = file.take(20).read_to_string(&mut holder);
    let holder = if holder.is_empty() { "another process".into() } else { format!("process {holder}") };
    Error::conflict(
        format!("{} is being written by {holder}", shown(output)),
        "wait until it has finished, stop it, or choose another output",
    )
}

/// True if `path` is still the name of `file`.
#[cfg(unix)]
pub(crate) fn is_still_there(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |m: &std::fs::Metadata| (m.dev(), m.ino());
    matches!((file.metadata(), std::fs::metadata(path)), (Ok(a), Ok(b)) if identity(&a) == identity(&b))
}

#[cfg(not(unix))]
pub(crate) fn is_still_there(_: &File, _: &Path) -> bool {
    // Elsewhere an open file cannot be removed.
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_by_name_until_the_first_has_finished() {
        let directory = std::env::temp_dir().join(format!("dyweight-lock-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        // A file left by a process that was killed is no lock.
        std::fs::write(directory.join(".lock"), "4000000").unwrap();
        let first = Lock::directory(&directory).unwrap();
        let message = Lock::directory(&directory).err().unwrap().to_string();
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        drop(first);
        assert!(!directory.join(".lock").exists());
        // Nor is one that carries the number this process happens to have, as in containers where numbers repeat.
        std::fs::write(directory.join(".solver.json.lock"), std::process::id().to_string()).unwrap();
        drop(Lock::file(&directory.join("solver.json")).unwrap());
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        drop(Lock::file(&directory.join("x".repeat(255))).unwrap());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
