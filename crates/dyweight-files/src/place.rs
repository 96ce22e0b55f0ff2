//! Where a path leads: behind links, whether two names are one file, and the names of files that stand beside another.

use crate::Fingerprint;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Links followed before they are taken for a loop, as Linux does.
const MOST_LINKS: usize = 40;
/// File names end at 255 bytes almost everywhere; this leaves room for an ending.
const LONGEST_NAME: usize = 200;

/// The place behind symbolic links, whether or not a file is there yet.
pub fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_symlink() => {
                let target = fs::read_link(&place)?;
                place = place.parent().unwrap_or(Path::new("")).join(target);
            }
            _ => return Ok(place),
        }
    }
    Err(io::Error::other("too many symbolic links follow each other"))
}

/// True if both names lead to one file, or would if it were there: whatever links, spellings and directories lie
/// between.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(one), Ok(other)) => identity(a, &one).is_some_and(|one| Some(one) == identity(b, &other)),
        (Err(_), Err(_)) => absolute(a).is_some_and(|a| Some(a) == absolute(b)),
        _ => false,
    }
}

/// Device and number of a file: hard links share them too.
#[cfg(unix)]
fn identity(_: &Path, found: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &fs::Metadata) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The one spelling of a place where no file is yet; none if its directory is not there either.
fn absolute(path: &Path) -> Option<PathBuf> {
    let place = follow(path).ok()?;
    Some(fs::canonicalize(parent(&place)).ok()?.join(place.file_name()?))
}

/// The directory a file is in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A hidden name beside a file, made of its own; of a name too long for that a short one stands for it.
pub(crate) fn beside(file: &Path, ending: &str) -> PathBuf {
    let name = file.file_name().unwrap_or_default();
    let mut hidden = OsString::from(".");
    match name.len() > LONGEST_NAME {
        true => hidden.push(&Fingerprint::default().add(name.as_encoded_bytes()).text()[..16]),
        false => hidden.push(name),
    }
    hidden.push(ending);
    file.with_file_name(hidden)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("dyweight-place-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("sub")).unwrap();
        path
    }

    #[test]
    fn one_file_has_many_names() {
        let at = directory("names");
        fs::write(at.join("a"), "x").unwrap();
        fs::write(at.join("b"), "x").unwrap();
        fs::hard_link(at.join("a"), at.join("hard")).unwrap();
        symlink("a", at.join("soft")).unwrap();
        symlink("../soft", at.join("sub/twice")).unwrap();
        symlink(&at, at.join("sub/here")).unwrap();
        for name in ["a", "./a", "sub/../a", "hard", "soft", "sub/twice", "sub/here/a"] {
            assert!(is_same_file(&at.join("a"), &at.join(name)), "{name}");
            assert!(!is_same_file(&at.join("b"), &at.join(name)), "{name}");
        }
        fs::remove_dir_all(at).unwrap();
    }

    #[test]
    fn what_is_not_there_yet_is_told_by_its_place() {
        let at = directory("absent");
        symlink("sub/new", at.join("dangling")).unwrap();
        symlink("loop", at.join("loop")).unwrap();
        assert!(is_same_file(&at.join("sub/new"), &at.join("sub/./new")));
        assert!(is_same_file(&at.join("sub/new"), &at.join("dangling")));
        assert!(!is_same_file(&at.join("sub/new"), &at.join("new")));
        assert!(!is_same_file(&at.join("loop"), &at.join("loop")), "a loop leads nowhere");
        assert!(!is_same_file(&at.join("no/x"), &at.join("no/x")), "nor does a missing directory");
        fs::remove_dir_all(at).unwrap();
    }

    #[test]
    fn long_names_have_short_neighbours() {
        let long = PathBuf::from(format!("dir/{}", "x".repeat(255)));
        let other = PathBuf::from(format!("dir/{}", "y".repeat(255)));
        assert!(beside(&long, ".lock").file_name().unwrap().len() < 64);
        assert_ne!(beside(&long, ".lock"), beside(&other, ".lock"));
        assert_eq!(beside(Path::new("dir/a.json"), ".lock"), Path::new("dir/.a.json.lock"));
    }
}
