//! Solver files for Python: read, checked, drawn and written here; what is in them Python reads as JSON.

use crate::error::raised;
use dyweight_core::error::{Error, Result};
use dyweight_files::atomic;
use dyweight_report::coefficients;
use dyweight_sample::Learned;
use dyweight_solvers::presets::TEXT;
use dyweight_solvers::solver_file::{Asked, SolverFile};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The text of a solver file, checked.
pub fn parsed(text: &str) -> Result<SolverFile> {
    SolverFile::parse(text.as_bytes()).map_err(|problem| Error::malformed(Path::new("solver"), problem))
}

/// The file, if it is for one budget.
pub fn single(file: SolverFile) -> Result<SolverFile> {
    let Some((least, most)) = file.served() else { return Ok(file) };
    let problem = format!("the solver serves every budget from {least} to {most} network calls");
    Err(Error::conflict(problem, "choose one with solver.at(nfe)"))
}

fn text(file: &SolverFile) -> String {
    String::from_utf8_lossy(&file.to_bytes()).into_owned()
}

/// The text of a solver from a file or `preset:NAME`.
#[pyfunction]
pub fn solver_of(py: Python<'_>, source: &str) -> PyResult<String> {
    let open = || Learned::open(source)?.into_file().map(|file| text(&file));
    py.detach(open).map_err(|e| raised(py, e, None))
}

/// A solver's text, checked and in the library's own form.
#[pyfunction]
pub fn solver_checked(py: Python<'_>, solver: &str) -> PyResult<String> {
    parsed(solver).map(|file| text(&file)).map_err(|e| raised(py, e, None))
}

/// The solver of one budget, and one strength of guidance, of one that serves a range of them.
#[pyfunction]
pub fn solver_at(py: Python<'_>, solver: &str, nfe: usize, guidance: Option<f64>) -> PyResult<String> {
    let asked = Asked { guidance, ..Asked::nfe(nfe) };
    let at = || parsed(solver)?.at("the solver", asked).map(|file| text(&file));
    at().map_err(|e| raised(py, e, None))
}

/// One solver for the range of several budgets, each trained by itself.
#[pyfunction]
pub fn solver_joined(py: Python<'_>, solvers: Vec<String>) -> PyResult<String> {
    let named = |(i, solver): (usize, &String)| Ok((format!("solver {i}"), parsed(solver)?));
    let joined = || SolverFile::joined(solvers.iter().enumerate().map(named).collect::<Result<_>>()?);
    joined().map(|file| text(&file)).map_err(|e| raised(py, e, None))
}

/// What follows from a solver and is not written in it: its nominal levels, and what is unusual about it.
#[pyfunction]
pub fn solver_facts(py: Python<'_>, solver: &str) -> PyResult<String> {
    let facts = || {
        let file = parsed(solver)?;
        Ok(json!({ "sigmas": file.grid()?.sigmas(), "warnings": file.warnings() }).to_string())
    };
    facts().map_err(|e| raised(py, e, None))
}

/// A picture of the coefficients, of a method whose coefficients are a table.
#[pyfunction]
pub fn solver_svg(py: Python<'_>, solver: &str) -> PyResult<Option<String>> {
    let draw = || {
        let file = parsed(solver)?;
        let title = format!("{}: {} calls", file.model.name, file.nfe);
        let Some(w) = file.body.weights() else { return Ok(None) };
        Ok(Some(coefficients(title.trim_start_matches(": "), &w.weights, &w.time_scale).draw()?.to_svg()))
    };
    draw().map_err(|e| raised(py, e, None))
}

/// The released coefficients, as the repository keeps them.
#[pyfunction]
pub fn presets() -> &'static str {
    TEXT
}

/// Writes a file, all or nothing.
#[pyfunction]
pub fn write(py: Python<'_>, path: PathBuf, bytes: Bound<'_, PyBytes>) -> PyResult<()> {
    let bytes = bytes.as_bytes().to_vec();
    py.detach(|| atomic::write(&path, &bytes)).map_err(|e| raised(py, e, None))
}
