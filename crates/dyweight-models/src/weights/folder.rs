//! The folder of one network: `config.json` and its weights.
//!
//! ```text
//! <stem>[.<variant>].safetensors | .bin                    one file
//! <stem>[.<variant>].safetensors.index.json | .bin.index.json
//!                                                             {"weight_map": {tensor: file}}, files in the same folder
//! stems   diffusion_pytorch_model (diffusers), model, pytorch_model (transformers), open_clip_model,
//!         open_clip_pytorch_model
//! ```
//!
//! Full precision is preferred to a variant, safetensors to pickles. An index may only name files beside it.

use super::set::TensorSet;
use dyweight_core::error::{Error, Result, printable, shown};
use dyweight_files::{Malformed, read_file};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// No configuration is longer.
const LARGEST_CONFIG: u64 = 1 << 20;
/// An index of fifty thousand tensors takes about as much.
const LARGEST_INDEX: u64 = 8 << 20;
/// No released network has more shards.
const MOST_SHARDS: usize = 512;

const STEMS: [&str; 5] =
    ["diffusion_pytorch_model", "model", "pytorch_model", "open_clip_model", "open_clip_pytorch_model"];
const VARIANTS: [&str; 4] = ["", ".fp32", ".fp16", ".bf16"];
const ENDINGS: [&str; 2] = ["safetensors", "bin"];

/// A network's folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Its configuration.
    pub config: Map<String, Value>,
    /// Its tensors.
    pub set: TensorSet,
}

impl Folder {
    /// Reads configuration and weights.
    pub fn read(dir: &Path) -> Result<Self> {
        Ok(Self { config: config_of(dir)?, set: read_weights(dir)? })
    }
}

/// The configuration in a folder.
pub(crate) fn config_of(dir: &Path) -> Result<Map<String, Value>> {
    read_json(&inside(dir, "config.json")?, LARGEST_CONFIG)
}

/// A JSON object of at most `limit` bytes, a configuration's if none is said.
pub(crate) fn read_json(path: &Path, limit: impl Into<Option<u64>>) -> Result<Map<String, Value>> {
    let text = read_file(path, limit.into().unwrap_or(LARGEST_CONFIG))?;
    dyweight_core::json::parse(&text).map_err(|reason| {
        let reason = printable(&reason);
        Error::malformed(path, Malformed::Json { what: "configuration", reason })
    })
}

/// The file `name` of a folder; a name that would lead out of it is refused.
pub(crate) fn inside(dir: &Path, name: &str) -> Result<PathBuf> {
    let parts: Vec<Component<'_>> = Path::new(name).components().collect();
    match parts.as_slice() {
        [Component::Normal(_)] if !name.contains(['\0', '\\']) => Ok(dir.join(name)),
        _ => {
            let problem = format!("names '{}', which is no file beside it", printable(name));
            Err(Error::malformed(dir, Malformed::Inconsistent { problem }))
        }
    }
}

/// The weights in a folder, with or without a configuration: a file whose name begins with `first`, those under the
/// names of libraries, or the only one there is.
pub(crate) fn weights_of(dir: &Path, first: Option<&str>) -> Result<TensorSet> {
    if let Some(first) = first {
        match only_file(dir, |name| name.starts_with(first)) {
            Err(Error::Malformed { .. }) => {}
            found => return TensorSet::read(&found?),
        }
    }
    match known_weights(dir)? {
        Some(set) => Ok(set),
        None => TensorSet::read(&only_file(dir, |_| true)?),
    }
}

/// The only file of weights in a folder whose name `counts`.
fn only_file(dir: &Path, counts: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let failed = |e| Error::io("read", dir, e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        if ["pt", "pth", "bin", "ckpt", "safetensors"].contains(&ending) && counts(&name) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    match found.as_slice() {
        [path] => Ok(path.clone()),
        [] => Err(no_weights(dir)),
        several => Err(Error::conflict(
            format!("{} holds {} files of weights", shown(dir), several.len()),
            format!(
                "name the one that is meant: {}",
                several.iter().take(4).map(|p| shown(p)).collect::<Vec<_>>().join(", ")
            ),
        )),
    }
}

fn read_weights(dir: &Path) -> Result<TensorSet> {
    known_weights(dir)?.ok_or_else(|| no_weights(dir))
}

fn no_weights(dir: &Path) -> Error {
    let problem = format!("holds no weights: none of {}, as .safetensors or .bin", STEMS.join(", "));
    Error::malformed(dir, Malformed::Inconsistent { problem })
}

/// The weights under one of the names libraries give them.
fn known_weights(dir: &Path) -> Result<Option<TensorSet>> {
    for ending in ENDINGS {
        for variant in VARIANTS {
            for stem in STEMS {
                let name = format!("{stem}{variant}.{ending}");
                let (file, index) = (dir.join(&name), dir.join(format!("{name}.index.json")));
                if file.is_file() {
                    return TensorSet::read(&file).map(Some);
                }
                if index.is_file() {
                    return read_shards(dir, &index).map(Some);
                }
                // Variants of shards carry the infix before the ending of the index, too.
                let index = dir.join(format!("{stem}.{ending}.index{variant}.json"));
                if !variant.is_empty() && index.is_file() {
                    return read_shards(dir, &index).map(Some);
                }
            }
        }
    }
    Ok(None)
}

fn read_shards(dir: &Path, index: &Path) -> Result<TensorSet> {
    let wrong = |problem: String| Error::malformed(index, Malformed::Inconsistent { problem });
    let json = read_json(index, LARGEST_INDEX)?;
    let map = json.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| Error::malformed(index, Malformed::Missing { name: "weight_map".into() }))?;
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (tensor, file) in map {
        let file = file.as_str().ok_or_else(|| wrong(format!("the file of '{}' is not a text", printable(tensor))))?;
        files.entry(file).or_default().insert(tensor);
    }
    if files.is_empty() || files.len() > MOST_SHARDS {
        return Err(wrong(format!("names {} files, must name 1 to {MOST_SHARDS}", files.len())));
    }
    let mut all = TensorSet { path: index.into(), ..TensorSet::default() };
    for (file, wanted) in files {
        let path = inside(dir, file).map_err(|_| wrong(format!("'{}' is no file beside it", printable(file))))?;
        let mut shard = TensorSet::read(&path)?;
        if let Some(missing) = wanted.iter().find(|name| !shard.has(name)) {
            let name = (*missing).to_string();
            return Err(Error::malformed(&path, Malformed::Missing { name }));
        }
        shard.tensors.retain(|name, _| wanted.contains(name.as_str()));
        all.tensors.append(&mut shard.tensors);
    }
    Ok(all)
}
