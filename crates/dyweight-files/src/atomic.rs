//! Writing a file so that nobody ever sees half of it.
//!
//! The bytes go to a temporary file in the same directory, which is flushed to the disk and then renamed over the
//! target: a rename within a directory is atomic. On any error the temporary file is removed and the target is as
//! it was. A symbolic link is followed: what it leads to is written, the link stays.
//!
//! ```text
//! .NAME.0.tmp  .NAME.1.tmp  …     the first that no living process holds
//! ```
//!
//! Its writer holds a lock on a temporary file, which the system gives up for a process however it ends. One that is
//! not locked was left by a process that was killed: whoever writes the same target next removes it. So process
//! numbers, which repeat from container to container, play no part, and what is left behind is never more than what was
//! being written.

use crate::lock::is_still_there;
use crate::place::{beside, follow, parent};
use dyweight_core::error::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes what `fill` gives to `path`, all or nothing.
pub(crate) fn write_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let failed = |e| Error::io("write", path, e);
    let temporary = Temporary::for_target(path).map_err(failed)?;
    let mut writer = BufWriter::new(&temporary.file);
    fill(&mut writer).and_then(|()| writer.flush()).map_err(failed)?;
    drop(writer);
    temporary.file.sync_all().map_err(failed)?;
    temporary.publish().map_err(failed)?;
    // The name is safe on the disk only with its directory; where directories cannot be flushed, so be it.
    if let Ok(directory) = File::open(parent(&temporary.target)) {
        let _ = directory.sync_all();
    }
    Ok(())
}

/// Writes `bytes` to `path`, all or nothing.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |out| out.write_all(bytes))
}

/// Writes `bytes` to `path`, all or nothing for every other process, but without waiting for the disk: for the
/// thousands of small files that are checked before they are reused.
pub fn write_unsynced(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |e| Error::io("write", path, e);
    let temporary = Temporary::for_target(path).map_err(failed)?;
    (&temporary.file).write_all(bytes).map_err(failed)?;
    temporary.publish().map_err(failed)
}

/// Refuses a place where [`write()`] would fail, before the work whose result it is for. What is there stays as it is.
pub(crate) fn try_place(path: &Path) -> Result<()> {
    Temporary::for_target(path).map(drop).map_err(|e| Error::io("write", path, e))
}

/// Refuses a folder that could not be made, or in which nothing could be written. Nothing is made.
pub fn try_folder(dir: &Path) -> Result<()> {
    let failed = |e| Error::io("create", dir, e);
    let is_there = |at: &&Path| at.as_os_str().is_empty() || at.symlink_metadata().is_ok();
    let there = dir.ancestors().find(is_there).filter(|at| !at.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !there.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    Temporary::for_target(&there.join("dyweight-dry-run")).map(drop).map_err(failed)
}

/// More writers of one file at once there are not.
const MOST_WRITERS: usize = 1000;

/// A file that vanishes unless it is published.
struct Temporary {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Temporary {
    fn for_target(path: &Path) -> io::Result<Self> {
        let target = follow(path)?;
        let old = refuse_special(&target)?;
        for number in 0..MOST_WRITERS {
            let path = beside(&target, &format!(".{number}.tmp"));
            let Some(file) = claim(&path)? else { continue };
            let temporary = Self { file, path, target };
            // Who may read the file that is replaced may read the new one, and nobody else.
            if let Some(old) = old {
                temporary.file.set_permissions(old.permissions())?;
            }
            return Ok(temporary);
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "many others write it at the same time"))
    }

    fn publish(&self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After publishing the name is gone already, or another writer's.
        if is_still_there(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A rename would replace a device or pipe by a plain file, and a file that its owner made read-only by another:
/// neither is ever meant.
fn refuse_special(target: &Path) -> io::Result<Option<fs::Metadata>> {
    let last = target.as_os_str().as_encoded_bytes().last();
    if last.is_none_or(|c| std::path::is_separator(char::from(*c))) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of a file is missing"));
    }
    match fs::metadata(target) {
        Ok(found) if !found.is_file() => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        Ok(found) if found.permissions().readonly() => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file there is read-only"))
        }
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The temporary file of this name, new, empty and locked; none if another holds it.
fn claim(path: &Path) -> io::Result<Option<File>> {
    loop {
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => match file.try_lock() {
                // Between creating and locking another may have taken it for a left-over and removed it.
                Ok(()) if !is_still_there(&file, path) => {}
                Err(TryLockError::WouldBlock) => {}
                // Where nothing can be locked nothing is removed either.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(Some(file)),
            },
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                if !remove_left_over(path) {
                    return Ok(None);
                }
            }
            Err(e) => return Err(e),
        }
    }
}

/// True if the name is free again: it was gone, or its file was nobody's. Whoever creates a file holds it only once it
/// is locked and still there, so no file that is being written is removed.
fn remove_left_over(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Err(e) => return e.kind() == io::ErrorKind::NotFound,
        Ok(found) if !found.is_file() => return false,
        Ok(_) => {}
    }
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return false };
    file.try_lock().is_ok() && is_still_there(&file, path) && fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

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
    fn what_a_killed_process_left_is_removed_and_what_is_being_written_is_not() {
        let directory = directory("stale");
        let path = directory.join("a.bin");
        // Left by processes of any number, this one's included; a name that cannot be removed is passed over.
        fs::write(directory.join(".a.bin.0.tmp"), b"half").expect("writes");
        fs::create_dir(directory.join(".a.bin.1.tmp")).expect("a directory in the way");
        let result = write_with(&path, |out| {
            assert_eq!(fs::read(directory.join(".a.bin.0.tmp")).expect("the new one"), b"");
            write(&path, b"a rival in between").expect("writes beside");
            out.write_all(b"whole")
        });
        result.expect("writes");
        assert_eq!(fs::read(&path).expect("readable"), b"whole");
        let mut left = names(&directory);
        left.sort();
        assert_eq!(left, [".a.bin.1.tmp", "a.bin"]);
    }

    #[test]
    fn many_writers_of_one_file_leave_one_of_theirs() {
        let directory = directory("rivals");
        let path = directory.join("a.bin");
        std::thread::scope(|scope| {
            for letter in 0..8u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        write_unsynced(path, &vec![letter; 10_000]).expect("writes");
                        let found = fs::read(path).expect("always there");
                        assert!(found.len() == 10_000 && found.iter().all(|b| *b == found[0]), "half a file");
                    }
                });
            }
        });
        assert_eq!(names(&directory), ["a.bin"]);
    }

    #[test]
    #[cfg(unix)]
    fn links_are_followed_and_stay() {
        use std::os::unix::fs::symlink;
        let directory = directory("links");
        let (link, dangling) = (directory.join("link"), directory.join("dangling"));
        fs::create_dir(directory.join("sub")).expect("a directory");
        write(&directory.join("sub/a.bin"), b"old").expect("writes");
        symlink("sub/a.bin", &link).expect("a link");
        symlink("sub/new.bin", &dangling).expect("a link to nothing");
        write(&link, b"new").expect("writes through the link");
        write(&dangling, b"made").expect("writes where the link leads");
        assert_eq!(fs::read(directory.join("sub/a.bin")).expect("readable"), b"new");
        assert_eq!(fs::read(directory.join("sub/new.bin")).expect("readable"), b"made");
        assert!(link.is_symlink() && dangling.is_symlink());
        symlink("loop", directory.join("loop")).expect("a loop");
        assert!(write(&directory.join("loop"), b"x").is_err());
    }

    #[test]
    #[cfg(unix)]
    fn permissions_are_kept_and_read_only_files_too() {
        use std::os::unix::fs::PermissionsExt;
        let directory = directory("permissions");
        let path = directory.join("a.bin");
        write(&path, b"old").expect("writes");
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
        mode(0o600);
        write(&path, b"new").expect("writes");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        mode(0o400);
        let refused = write(&path, b"newer").expect_err("read-only").to_string();
        assert!(refused.contains("read-only"), "{refused}");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
    }

    #[test]
    fn the_longest_names_can_be_written() {
        let directory = directory("long");
        let path = directory.join("x".repeat(255));
        write(&path, b"x").expect("writes");
        assert_eq!(names(&directory).len(), 1);
    }

    #[test]
    fn a_place_is_tried_without_a_trace() {
        let directory = directory("tried");
        let path = directory.join("a.bin");
        try_place(&path).expect("fine");
        assert_eq!(names(&directory).len(), 0);
        write(&path, b"old").expect("writes");
        try_place(&path).expect("fine");
        assert_eq!(fs::read(&path).expect("as it was"), b"old");
        assert!(try_place(&directory).is_err() && try_place(&directory.join("no/such")).is_err());
        assert!(try_place(&directory.join("new/")).is_err() && try_place(Path::new("")).is_err());
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
