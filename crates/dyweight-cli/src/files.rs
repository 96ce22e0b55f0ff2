//! What several commands do with files.

use dyweight::error::shown;
use dyweight::files::{Format, NamedPath, StoredTensor, atomic, keep_apart, keep_folders, read_data, sniff};
use dyweight::solver_file::SolverFile;
use dyweight::{Error, Result, Tensor};
use std::path::Path;

/// Refuses outputs that cannot be written, or that would take the place of an input, of each other or of a solver:
/// before the work.
pub fn prepare(outputs: &[NamedPath<'_>], inputs: &[NamedPath<'_>]) -> Result<()> {
    place(outputs, inputs)?;
    spare_solvers(outputs)
}

/// The same for outputs that are solvers themselves, and may replace one.
pub fn place(outputs: &[NamedPath<'_>], inputs: &[NamedPath<'_>]) -> Result<()> {
    keep_apart(outputs, inputs)?;
    // A solver that stands in a model's folder is not one of the model's files.
    let others: Vec<_> = outputs.iter().copied().filter(|(_, path)| !is_solver(path)).collect();
    keep_folders(&others, inputs)?;
    outputs.iter().try_for_each(|(_, path)| atomic::try_place(path))
}

fn is_solver(path: &Path) -> bool {
    read_data(path).is_ok_and(|bytes| sniff(&bytes) == Format::SolverFile)
}

/// A solver may have taken hours to learn: nothing that is something else takes its place.
pub fn spare_solvers(outputs: &[NamedPath<'_>]) -> Result<()> {
    match outputs.iter().find(|(_, path)| is_solver(path)) {
        Some((flag, path)) => Err(Error::conflict(
            format!("{flag} {} is a solver file, and would be replaced", shown(path)),
            "choose another name for the output",
        )),
        None => Ok(()),
    }
}

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
