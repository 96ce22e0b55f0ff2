//! Failures as Python's exceptions: what Python raised comes back as itself, with a note of where it happened.

use dyweight_core::error::Error;
use dyweight_core::option;
use pyo3::exceptions::{PyFloatingPointError, PyRuntimeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use std::ffi::CString;

/// What Python raised, on its way through the library.
pub fn foreign(error: PyErr) -> Error {
    Error::foreign(error)
}

/// The exception for a failure; `place` says more about where it happened, such as the iteration.
pub fn raised(py: Python<'_>, error: Error, place: Option<String>) -> PyErr {
    let text = message(&error);
    match error {
        Error::Foreign { source, step } => match source.downcast::<PyErr>() {
            Ok(own) => {
                let step = step.map(|step| format!("in step {step} of a solver, counted from 0"));
                let told: Vec<String> = step.into_iter().chain(place).collect();
                if !told.is_empty() {
                    note(py, &own, &format!("dyweight: {}", told.join(", ")));
                }
                *own
            }
            Err(_) => PyRuntimeError::new_err(text),
        },
        Error::Cancelled => PyRuntimeError::new_err("stopped, as another process asked for"),
        Error::Io { source, .. } => std::io::Error::new(source.kind(), text).into(),
        Error::Diverged { .. }
        | Error::AllDiverged { .. }
        | Error::TrainingLost { .. }
        | Error::DecodingLost { .. }
        | Error::NotConverged { .. } => PyFloatingPointError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Says what a person should know, as Python says such things.
pub fn warn(py: Python<'_>, warnings: &[String]) -> PyResult<()> {
    let category = py.get_type::<PyUserWarning>();
    warnings.iter().try_for_each(|text| {
        let text = CString::new(written(text)).unwrap_or_default();
        PyErr::warn(py, &category, &text, 2)
    })
}

/// A failure in words, with what to try.
fn message(error: &Error) -> String {
    let hint = error.hint().map_or(String::new(), |hint| format!("\nhint: {hint}"));
    written(&format!("{error}{hint}"))
}

/// The library's text with options as Python's arguments: `teacher_nfe=20`, `optimiser='newton'`.
fn written(text: &str) -> String {
    option::written(text, |key, value| {
        let key = key.replace('-', "_");
        match value {
            None => key,
            Some("true") => format!("{key}=True"),
            Some("false") => format!("{key}=False"),
            Some(value) if value.parse::<f64>().is_ok() || value.starts_with('[') => format!("{key}={value}"),
            Some(value) => format!("{key}='{value}'"),
        }
    })
}

/// Adds a note to an exception. Python 3.10 does not show notes, but keeps them.
fn note(py: Python<'_>, error: &PyErr, text: &str) {
    let value = error.value(py);
    if value.call_method1("add_note", (text,)).is_err() {
        let notes = value.getattr("__notes__").and_then(|notes| notes.extract::<Vec<String>>()).unwrap_or_default();
        let notes: Vec<String> = notes.into_iter().chain([text.to_string()]).collect();
        // An exception that takes no attributes goes without.
        let _ = value.setattr("__notes__", notes);
    }
}
