//! Where a path leads: behind links, whether two names are one file, and the names of files that stand beside another.

use crate::Fingerprint;
use dyweight_core::error::{Error, Result, shown};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A path, and what the user calls it: `--model`, `the input`.
pub type NamedPath<'n> = (&'n str, &'n Path);

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

/// Refuses outputs that would take the place of an input or of each other. To be asked before the long work; what is no
/// file (a name that is built in, a directory) stands in nobody's way.
pub fn keep_apart(outputs: &[NamedPath<'_>], inputs: &[NamedPath<'_>]) -> Result<()> {
    for (at, (output, path)) in outputs.iter().enumerate() {
        if *path == Path::new("-") {
            return Err(Error::conflict(
                format!("{output} - is not a file; nothing but a result's summary goes to standard output"),
                "give a name; a file called - is ./-",
            ));
        }
        let in_the_way = inputs.iter().filter(|(_, input)| input.is_file()).chain(&outputs[..at]);
        if let Some((other, _)) = in_the_way.into_iter().find(|(_, other)| is_same_file(path, other)) {
            return Err(Error::conflict(
                format!("{output} {} is the same file as {other}, and would replace it", shown(path)),
                "choose another name for the output",
            ));
        }
    }
    Ok(())
}

/// Refuses outputs that would take the place of a file in the folder of an input, as the weights of a model's folder
/// are. A new file may stand there.
pub fn keep_folders(outputs: &[NamedPath<'_>], inputs: &[NamedPath<'_>]) -> Result<()> {
    for (output, path) in outputs.iter().filter(|(_, path)| path.is_file()) {
        let Ok(place) = fs::canonicalize(parent(path)) else { continue };
        let holds = |folder: &Path| folder.is_dir() && fs::canonicalize(folder).is_ok_and(|it| place.starts_with(it));
        if let Some((input, folder)) = inputs.iter().find(|(_, input)| holds(input)) {
            return Err(Error::conflict(
                format!(
                    "{output} {} is a file in the folder of {input}, {}, and would be replaced",
                    shown(path),
                    shown(folder)
                ),
                "choose another name for the output",
            ));
        }
    }
    Ok(())
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
    fn outputs_stand_apart_from_inputs_and_each_other() {
        let at = directory("apart");
        fs::write(at.join("in"), "x").unwrap();
        let (input, one, two) = (at.join("in"), at.join("one"), at.join("sub/../one"));
        let message =
            |outputs: &[NamedPath<'_>]| keep_apart(outputs, &[("`model`", &input)]).map_err(|e| e.to_string());
        assert!(message(&[("`out`", &one)]).is_ok());
        assert!(message(&[("`out`", &input)]).unwrap_err().contains("is the same file as `model`"));
        assert!(message(&[("`out`", &one), ("`trace`", &two)]).unwrap_err().contains("is the same file as `out`"));
        assert!(message(&[("`out`", Path::new("-"))]).unwrap_err().contains("`out` -"));
        // A built-in name is no file.
        assert!(keep_apart(&[("`out`", Path::new("mixture"))], &[("`model`", Path::new("mixture"))]).is_ok());
        fs::remove_dir_all(at).unwrap();
    }

    #[test]
    fn files_in_the_folder_of_an_input_stay() {
        let at = directory("folders");
        fs::create_dir_all(at.join("model/unet")).unwrap();
        fs::write(at.join("stored"), "x").unwrap();
        fs::write(at.join("model/index"), "x").unwrap();
        // As caches of downloads have it.
        symlink("../../stored", at.join("model/unet/weights")).unwrap();
        symlink("model", at.join("link")).unwrap();
        let allowed = |name: &str, folder: &str| {
            keep_folders(&[("`out`", &at.join(name))], &[("`model`", &at.join(folder))]).is_ok()
        };
        for folder in ["model", "link", "sub/../model"] {
            for name in ["model/index", "link/index", "model/unet/weights", "link/unet/../unet/weights"] {
                assert!(!allowed(name, folder), "{name} {folder}");
            }
            assert!(allowed("model/new", folder) && allowed("stored", folder) && allowed("no/such", folder));
        }
        assert!(allowed("model/index", "model/unet") && allowed("model/index", "absent"));
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
