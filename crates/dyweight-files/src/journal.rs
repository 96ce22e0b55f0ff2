//! Results on disk: `records.jsonl`, one line for the settings, then one for each finished piece of work.
//!
//! Lines are only ever appended and each is forced to disk, so a run can be killed at any moment: on the next start a
//! last line that was not written to its end is cut off and its work is done again. Lines hold no times and no paths;
//! the same settings give the same lines on every machine.

use crate::Malformed;
use dyweight_core::error::{Error, Result};
use serde::Serialize;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The name of the file in its directory.
pub const FILE: &str = "records.jsonl";
/// No honest journal comes near this.
const LARGEST: u64 = 1 << 30;

/// The file of records, open for more.
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or begins the file in this directory and gives its records; refuses one that began with another header.
    pub fn open(directory: &Path, header: &Value) -> Result<(Self, Vec<Value>)> {
        std::fs::create_dir_all(directory).map_err(|e| Error::io("create", directory, e))?;
        let path = directory.join(FILE);
        crate::read::refuse_special(&path)?;
        let open = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = open.map_err(|e| Error::io("open", &path, e))?;
        let mut text = Vec::new();
        (&mut file).take(LARGEST).read_to_end(&mut text).map_err(|e| Error::io("read", &path, e))?;
        let (lines, sound) = parse(&text).map_err(|p| Error::malformed(&path, p))?;
        if sound < text.len() {
            file.set_len(sound as u64).map_err(|e| Error::io("truncate", &path, e))?;
        }
        let mut journal = Self { path, file };
        let mut lines = lines.into_iter();
        match lines.next() {
            Some(found) => require_same(&journal.path, &found, header)?,
            None => journal.append(header)?,
        }
        Ok((journal, lines.collect()))
    }

    /// The records of a directory, without writing anything; refuses a file that began with another header.
    pub fn read(directory: &Path, header: &Value) -> Result<Vec<Value>> {
        let path = directory.join(FILE);
        let text = crate::read_file(&path, LARGEST)?;
        let (mut lines, _) = parse(&text).map_err(|p| Error::malformed(&path, p))?;
        if lines.is_empty() {
            let problem = "there is not a single whole line".into();
            return Err(Error::malformed(&path, Malformed::Inconsistent { problem }));
        }
        require_same(&path, &lines.remove(0), header)?;
        Ok(lines)
    }

    /// Adds a record; when this returns, it is on disk.
    pub fn append(&mut self, record: &impl Serialize) -> Result<()> {
        let failed = |e| Error::io("write", &self.path, e);
        let mut line = serde_json::to_vec(record).map_err(|e| failed(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(failed)?;
        self.file.sync_data().map_err(failed)
    }
}

/// The lines, and how many bytes of the text they are. Only the last line may be broken.
pub fn parse(text: &[u8]) -> Result<(Vec<Value>, usize), Malformed> {
    let (mut lines, mut sound) = (Vec::new(), 0);
    for (index, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
        let is_last = sound + line.len() == text.len();
        let read = if line.last() == Some(&b'\n') {
            serde_json::from_slice(line).map_err(|e| e.to_string())
        } else {
            Err("no end of line".into())
        };
        match read {
            Ok(value) => lines.push(value),
            Err(_) if is_last => break,
            Err(reason) => {
                let reason = format!("line {}: {reason}", index + 1);
                return Err(Malformed::Json { what: "file of records", reason });
            }
        }
        sound += line.len();
    }
    Ok((lines, sound))
}

/// An error that says which setting differs first, by its path in the header.
fn require_same(path: &Path, found: &Value, wanted: &Value) -> Result<()> {
    // What another version wrote differs in many places: the version says why.
    let version = difference("version", &found["version"], &wanted["version"]);
    let Some((place, old, new)) = version.or_else(|| difference("", found, wanted)) else { return Ok(()) };
    Err(Error::conflict(
        format!("{} was made with {place} = {old}, not {new}", path.display()),
        "give the options it was made with, choose another output directory, or delete the old one",
    ))
}

fn difference(place: &str, a: &Value, b: &Value) -> Option<(String, String, String)> {
    if a == b {
        return None;
    }
    if let (Value::Object(a), Value::Object(b)) = (a, b) {
        let keys = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k)));
        let of = |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
        let deeper = |key: &String| {
            let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            difference(&place, &of(a, key), &of(b, key))
        };
        return keys.into_iter().find_map(deeper);
    }
    if let (Value::Array(a), Value::Array(b)) = (a, b)
        && a.len() == b.len()
    {
        let deeper = |(i, (a, b)): (usize, (&Value, &Value))| difference(&format!("{place}[{i}]"), a, b);
        return a.iter().zip(b).enumerate().find_map(deeper);
    }
    Some((place.into(), a.to_string(), b.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("dyweight-journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_cut_at_any_byte_loses_only_the_cut_line() {
        let (folder, header) = (folder("cut"), json!({ "study": "x", "seeds": 3 }));
        let record = |i: usize| json!({ "cell": i, "value": 1.0 / (3.0 + i as f64) });
        let (mut journal, _) = Journal::open(&folder, &header).unwrap();
        (1..=3).for_each(|i| journal.append(&record(i)).unwrap());
        let path = folder.join(FILE);
        let whole = std::fs::read(&path).unwrap();
        let ends: Vec<usize> = (0..whole.len()).filter(|i| whole[*i] == b'\n').map(|i| i + 1).collect();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, records) = Journal::open(&folder, &header).unwrap();
            let kept = ends.iter().filter(|e| **e <= cut).count().saturating_sub(1);
            assert_eq!(records, (1..=kept).map(record).collect::<Vec<_>>(), "cut at {cut}");
            (kept + 1..=3).for_each(|i| journal.append(&record(i)).unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {cut}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn damage_in_the_middle_and_other_settings_are_refused_by_name() {
        let (folder, header) = (folder("damage"), json!({ "settings": { "lr": 0.1, "seed": 1 } }));
        let (mut journal, _) = Journal::open(&folder, &header).unwrap();
        (1..=3).for_each(|i| journal.append(&json!({ "cell": i })).unwrap());
        let other = json!({ "settings": { "lr": 0.1, "seed": 2 } });
        for error in [Journal::open(&folder, &other).err(), Journal::read(&folder, &other).err()] {
            let message = error.unwrap().to_string();
            assert!(message.contains("settings.seed = 1, not 2"), "{message}");
        }
        let said = |a, b| require_same(Path::new("x"), &a, &b).err().map(|e| e.to_string()).unwrap_or_default();
        let lists = said(json!({ "a": [{ "conv": 2 }, 1] }), json!({ "a": [{ "conv": 4 }, 1] }));
        assert!(lists.contains("a[0].conv = 2, not 4"), "{lists}");
        let versions = said(json!({ "a": 1, "version": 1 }), json!({ "a": 2, "version": 2 }));
        assert!(versions.contains("version = 1, not 2"), "{versions}");
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).unwrap().replacen("\"cell\":1", "\"cell\":x", 1);
        std::fs::write(&path, text).unwrap();
        let message = Journal::open(&folder, &header).err().unwrap().to_string();
        assert!(message.contains("line 2"), "{message}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
