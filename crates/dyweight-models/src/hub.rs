//! Models by the name they have on the Hugging Face hub, found in the cache that its tools keep. Nothing is downloaded.
//!
//! ```text
//! CACHE                                   HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/…
//!   models--owner--name
//!     refs/main                           a commit, in text; a branch or tag a file
//!     snapshots/COMMIT/                   the repository's files at that commit
//! ```

use dyweight_core::error::{Error, Result, shown};
use dyweight_files::read_file;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The revision of a name that gives none.
const USUAL: &str = "main";
/// Commits and names longer than this are none.
const LONGEST: usize = 128;
/// Endings of files that may be a whole model.
const WEIGHTS: [&str; 5] = [".safetensors", ".pkl", ".ckpt", ".pt", ".npz"];

/// A repository and its revision, as in `owner/name@revision`.
#[derive(Clone, Debug, PartialEq)]
pub struct HubName<'a> {
    owner: &'a str,
    name: &'a str,
    revision: &'a str,
}

impl<'a> HubName<'a> {
    /// None if the text is not of that form.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (repository, revision) = text.split_once('@').unwrap_or((text, USUAL));
        let (owner, name) = repository.split_once('/')?;
        let may_be = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_part = |part: &str| {
            !part.is_empty() && part.len() <= LONGEST && !part.starts_with('.') && part.chars().all(may_be)
        };
        // A path that ends like a file means a file.
        let is_repository = is_part(owner) && is_part(name) && !WEIGHTS.iter().any(|ending| name.ends_with(ending));
        let fits = is_repository && revision.split('/').all(is_part);
        fits.then_some(Self { owner, name, revision })
    }

    /// The folder of a diffusers model, or the one file of weights, in the cache of this user.
    pub fn find(&self) -> Result<PathBuf> {
        match cache(&|name| std::env::var_os(name)) {
            Some(cache) => self.find_in(&cache),
            None => Err(self.missing("there is no Hugging Face cache: HF_HOME and HOME are not set".into())),
        }
    }

    fn find_in(&self, cache: &Path) -> Result<PathBuf> {
        let repository = cache.join(format!("models--{}--{}", self.owner, self.name));
        if !repository.is_dir() {
            let whole = format!("{}/{}", self.owner, self.name);
            return Err(
                self.missing(format!("'{whole}' is no file, and not in the Hugging Face cache {}", shown(cache)))
            );
        }
        let snapshots = repository.join("snapshots");
        let commit = match read_file(&repository.join("refs").join(self.revision), LONGEST as u64) {
            Ok(bytes) => String::from_utf8_lossy(bytes.as_ref()).trim().to_string(),
            Err(_) => self.revision.to_string(),
        };
        let is_commit = !commit.is_empty() && commit.chars().all(|c| c.is_ascii_alphanumeric());
        let folder = snapshots.join(&commit);
        if !is_commit || !folder.is_dir() {
            let known = [names_in(&repository.join("refs")), names_in(&snapshots)].concat();
            return Err(Error::UnknownName { kind: "revision", name: self.revision.into(), known });
        }
        model_in(folder)
    }

    fn missing(&self, problem: String) -> Error {
        let hint = format!(
            "download it first, as with 'hf download {}/{}'; 'dyweight list models' shows what is built in",
            self.owner, self.name
        );
        Error::Conflict { problem, hint }
    }
}

/// A folder that is a model, or the file in it that is one.
fn model_in(folder: PathBuf) -> Result<PathBuf> {
    if let Some(broken) = dangling(&folder, 2) {
        return Err(Error::Conflict {
            problem: format!("the snapshot in the Hugging Face cache is broken: {} leads to no file", shown(&broken)),
            hint: "download the repository again".into(),
        });
    }
    if folder.join("model_index.json").exists() {
        return Ok(folder);
    }
    let is_weights = |name: &String| WEIGHTS.iter().any(|ending| name.ends_with(ending));
    let files: Vec<String> = names_in(&folder).into_iter().filter(is_weights).collect();
    match &files[..] {
        [only] => Ok(folder.join(only)),
        [] => Err(Error::Conflict {
            problem: format!("{} has neither model_index.json nor a file of weights", shown(&folder)),
            hint: "download the whole repository".into(),
        }),
        several => Err(Error::Conflict {
            problem: format!("{} has several files of weights: {}", shown(&folder), several.join(", ")),
            hint: "name one of these files".into(),
        }),
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A link whose file was removed, in a folder or those in it.
fn dangling(folder: &Path, depth: usize) -> Option<PathBuf> {
    names_in(folder).into_iter().map(|name| folder.join(name)).find_map(|path| match path.metadata() {
        Err(_) => Some(path),
        Ok(found) if found.is_dir() && depth > 1 => dangling(&path, depth - 1),
        Ok(_) => None,
    })
}

/// The cache, by the variables that the hub's tools document; one of an older name is still heeded by them.
fn cache(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || given("HOME").or_else(|| given("USERPROFILE"));
    // Files of variables are read without a shell, which would have said what ~ is.
    let place = |name: &str| {
        let path = given(name)?;
        match path.strip_prefix("~") {
            Ok(rest) => Some(home()?.join(rest)),
            Err(_) => Some(path),
        }
    };
    let caches = || place("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")));
    let hub = || place("HF_HOME").or_else(|| Some(caches()?.join("huggingface")));
    place("HF_HUB_CACHE").or_else(|| place("HUGGINGFACE_HUB_CACHE")).or_else(|| Some(hub()?.join("hub")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_hub_are_told_from_others() {
        let parsed = |text| HubName::parse(text).map(|n| (n.owner, n.name, n.revision));
        assert_eq!(parsed("a/b-1.5"), Some(("a", "b-1.5", "main")));
        assert_eq!(parsed("a/b@fp16"), Some(("a", "b", "fp16")));
        assert_eq!(parsed("a/b@refs/pr/1"), Some(("a", "b", "refs/pr/1")));
        for other in
            ["fashion", "a/b/c", "/a", "a/", "../a", "a/..", "a/b@..", "a/b@../x", "a/b@", "./a", "a b/c", "a/b.pkl"]
        {
            assert_eq!(parsed(other), None, "{other}");
        }
    }

    #[test]
    fn the_cache_is_where_the_hubs_tools_have_it() {
        let of = |given: &[(&str, &str)]| {
            let found = |name: &str| given.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            cache(&found).map(|path| path.to_string_lossy().into_owned())
        };
        for (given, expected) in [
            (vec![("HF_HUB_CACHE", "/a"), ("HUGGINGFACE_HUB_CACHE", "/b"), ("HF_HOME", "/c")], "/a"),
            (vec![("HUGGINGFACE_HUB_CACHE", "/b"), ("HF_HOME", "/c")], "/b"),
            (vec![("HF_HUB_CACHE", ""), ("HF_HOME", "/c"), ("XDG_CACHE_HOME", "/d"), ("HOME", "/h")], "/c/hub"),
            (vec![("HF_HOME", "~/c"), ("HOME", "/h")], "/h/c/hub"),
            (vec![("XDG_CACHE_HOME", "/d"), ("HOME", "/h")], "/d/huggingface/hub"),
            (vec![("HOME", "/h")], "/h/.cache/huggingface/hub"),
            (vec![("USERPROFILE", "/u")], "/u/.cache/huggingface/hub"),
        ] {
            assert_eq!(of(&given).as_deref(), Some(expected), "{given:?}");
        }
        assert_eq!(of(&[("HOME", "")]), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_snapshot_whose_files_were_removed_is_refused_by_name() {
        let cache = std::env::temp_dir().join(format!("dyweight-hub-broken-{}", std::process::id()));
        let folder = cache.join("models--a--b/snapshots/0123abcd");
        std::fs::create_dir_all(folder.join("unet")).unwrap();
        std::fs::write(folder.join("model_index.json"), "{}").unwrap();
        std::os::unix::fs::symlink("../../../blobs/gone", folder.join("unet/weights.safetensors")).unwrap();
        let said = HubName::parse("a/b@0123abcd").unwrap().find_in(&cache).unwrap_err().to_string();
        std::fs::remove_dir_all(&cache).unwrap();
        assert!(said.contains("unet/weights.safetensors leads to no file"), "{said}");
    }

    #[test]
    fn a_revision_is_found_by_branch_and_by_commit_or_refused_by_name() -> Result<()> {
        let cache = std::env::temp_dir().join(format!("dyweight-hub-{}", std::process::id()));
        let repository = cache.join("models--a--b");
        let folder = repository.join("snapshots/0123abcd");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(repository.join("refs")).unwrap();
        std::fs::write(repository.join("refs/main"), "0123abcd\n").unwrap();
        std::fs::write(repository.join("refs/evil"), "../../../etc").unwrap();
        let find = |text: &str| HubName::parse(text).unwrap().find_in(&cache);
        assert!(find("a/b").unwrap_err().to_string().contains("neither model_index.json nor a file of weights"));
        std::fs::write(folder.join("x.safetensors"), "").unwrap();
        assert_eq!(find("a/b")?, folder.join("x.safetensors"));
        std::fs::write(folder.join("y.pkl"), "").unwrap();
        assert!(find("a/b").unwrap_err().to_string().contains("x.safetensors, y.pkl"));
        std::fs::write(folder.join("model_index.json"), "{}").unwrap();
        assert_eq!(find("a/b")?, folder);
        assert_eq!(find("a/b@0123abcd")?, folder);
        for bad in ["a/b@evil", "a/b@other"] {
            let Error::UnknownName { known, .. } = find(bad).unwrap_err() else { panic!("{bad}") };
            assert_eq!(known, ["evil", "main", "0123abcd"]);
        }
        assert!(find("a/c").unwrap_err().to_string().contains("not in the Hugging Face cache"));
        std::fs::remove_dir_all(&cache).unwrap();
        Ok(())
    }
}
