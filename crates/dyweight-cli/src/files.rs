//! What several commands do with files.

use dyweight::error::shown;
use dyweight::files::{StoredTensor, read_data};
use dyweight::solver_file::SolverFile;
use dyweight::{Error, Result, Tensor};
use std::path::Path;

/// Refuses an output that is there already, unless someone says so.
pub fn keep_finished(path: &Path, overwrite: bool, flag: &str) -> Result<()> {
    if overwrite || !path.is_file() {
        return Ok(());
    }
    let hint = format!("choose another {flag}, or --overwrite");
    Err(Error::conflict(format!("{} is there already", shown(path)), hint))
}

/// The solver file at a path.
pub fn solver_file(path: &Path) -> Result<SolverFile> {
    SolverFile::parse(&read_data(path)?).map_err(|problem| Error::malformed(path, problem))
}

/// A path as text for JSON, which has no other bytes.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A word of a command line as a shell takes it.
pub fn quoted(word: &str) -> String {
    match word.is_empty() || word.chars().any(|c| c.is_whitespace() || "'\"\\`!$&|;<>()[]{}*?#~".contains(c)) {
        true => format!("'{}'", word.replace('\'', "'\\''")),
        false => word.into(),
    }
}

/// A stored tensor as a `[n, c, h, w]` batch of finite numbers; `path` and `name` are for the message.
pub fn batch(path: &Path, name: &str, tensor: &StoredTensor) -> Result<Tensor> {
    let what = format!("tensor '{name}' in {}", shown(path));
    let shape = <[usize; 4]>::try_from(tensor.shape()).ok().filter(|s| !s.contains(&0));
    let shape = shape.ok_or_else(|| {
        let found = tensor.shape().to_vec();
        Error::Shape { what: what.clone(), expected: vec![1, 1, 1, 1], found }
    })?;
    let batch = Tensor::new(shape, tensor.to_f64())?;
    batch.require_finite(&what)?;
    Ok(batch)
}
