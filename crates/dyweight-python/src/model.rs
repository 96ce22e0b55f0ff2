//! A model that stays in Python: `dyweight.Model` of the package as a [`Model`] of the library.
//!
//! ```text
//! model._facts()                                      JSON: what the library has to know of it
//! model._predict(x, levels, conditions)               bytes of the prediction
//! model._with_pullback(x, levels, conditions)         (bytes of the prediction, pullback)
//! pullback(cotangent)                                 (bytes of ∂L/∂x, bytes of ∂L/∂level for each sample)
//! ```

use crate::error::foreign;
use crate::numbers::{batch, received, sent};
use dyweight_core::denoiser::{Condition, Denoiser, Differentiable, Levels, Model, Prediction, Pullback};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_methods::solver_file::ModelIdentity;
use dyweight_models::LoadedModel;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::sync::Arc;

/// What the library knows of a model.
#[derive(Clone, serde::Deserialize)]
struct Facts {
    name: String,
    /// Tells its answers from another's; none where nothing is kept that would have to know.
    fingerprint: Option<String>,
    /// What else decides the last bits of its answers.
    arithmetic: String,
    shape: [usize; 3],
    prediction: Prediction,
    sigma_range: (f64, f64),
    conditions: usize,
    calls: usize,
    guided: bool,
    bounded: bool,
}

/// A model in Python.
pub struct PythonModel {
    object: Py<PyAny>,
    facts: Facts,
}

impl PythonModel {
    /// Asks an object of the package for what there is to know.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let text: String = object.call_method0("_facts")?.extract()?;
        let facts = serde_json::from_str(&text).map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
        Ok(Arc::new(Self { object: object.clone().unbind(), facts }))
    }

    /// What a solver file says of it.
    pub fn identity(&self) -> ModelIdentity {
        ModelIdentity { name: self.facts.name.clone(), sha256: self.facts.fingerprint.clone() }
    }

    /// What else decides the last bits of its answers.
    pub fn arithmetic(&self) -> String {
        self.facts.arithmetic.clone()
    }

    /// As comparisons take it.
    pub fn loaded(self: &Arc<Self>) -> LoadedModel {
        LoadedModel {
            name: self.facts.name.clone(),
            sha256: self.facts.fingerprint.clone().unwrap_or_default(),
            settings: serde_json::Value::String(self.facts.arithmetic.clone()),
            model: self.clone(),
        }
    }
}

impl Model for PythonModel {
    fn bind<'m>(&'m self, condition: &Condition) -> Result<Box<dyn Differentiable + 'm>> {
        let classes = condition.class_of_each(self.facts.conditions)?;
        let number = |class: &Option<usize>| class.map_or(-1, |class| class as i64);
        let conditions = (self.facts.conditions > 0).then(|| classes.iter().map(number).collect());
        Ok(Box::new(Asked { model: self, conditions }))
    }

    fn shape(&self) -> [usize; 3] {
        self.facts.shape
    }

    fn prediction(&self) -> Prediction {
        self.facts.prediction
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.facts.sigma_range
    }

    fn classes(&self) -> usize {
        self.facts.conditions
    }

    fn takes_guidance(&self) -> bool {
        self.facts.guided
    }

    fn is_bounded(&self) -> bool {
        self.facts.bounded
    }

    fn is_exact_in_batches(&self) -> bool {
        false
    }
}

/// A model asked for something.
struct Asked<'m> {
    model: &'m PythonModel,
    /// The condition of each sample, −1 for none; empty if no sample has one. None for a model without conditions.
    conditions: Option<Vec<i64>>,
}

impl Asked<'_> {
    /// Calls a method with a batch.
    fn ask<'py>(&self, py: Python<'py>, method: &str, x: &Tensor, levels: &Levels) -> PyResult<Bound<'py, PyAny>> {
        py.check_signals()?;
        let each: Vec<f64> = (0..x.samples()).map(|i| levels.of(i)).collect();
        let conditions = match &self.conditions {
            Some(none) if none.is_empty() => Some(vec![-1; x.samples()]),
            other => other.clone(),
        };
        let arguments: (Bound<'py, PyByteArray>, Bound<'py, PyByteArray>, _) =
            (sent(py, x.data()), sent(py, &each), conditions);
        self.model.object.bind(py).call_method1(method, arguments)
    }

    fn batch(&self, numbers: Vec<f64>) -> Result<Tensor> {
        batch(self.model.facts.shape, numbers)
    }
}

impl Denoiser for Asked<'_> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        let answer = Python::attach(|py| received(&self.ask(py, "_predict", x, levels)?));
        self.batch(answer.map_err(foreign)?)
    }

    fn prediction(&self) -> Prediction {
        self.model.facts.prediction
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.model.facts.sigma_range
    }

    fn calls(&self) -> usize {
        self.model.facts.calls
    }
}

impl Differentiable for Asked<'_> {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        let answer: PyResult<(Vec<f64>, Py<PyAny>)> = Python::attach(|py| {
            let answer = self.ask(py, "_with_pullback", x, levels)?;
            Ok((received(&answer.get_item(0)?)?, answer.get_item(1)?.unbind()))
        });
        let (value, pullback) = answer.map_err(foreign)?;
        // What the pullback keeps, the activations of a call, is freed as soon as it has answered.
        let back = move |cotangent: &Tensor| {
            let answer: PyResult<(Vec<f64>, Vec<f64>)> = Python::attach(move |py| {
                py.check_signals()?;
                let answer = pullback.into_bound(py).call1((sent(py, cotangent.data()),))?;
                Ok((received(&answer.get_item(0)?)?, received(&answer.get_item(1)?)?))
            });
            let (to_x, to_level) = answer.map_err(foreign)?;
            Ok((self.batch(to_x)?, to_level))
        };
        Ok((self.batch(value)?, Box::new(back)))
    }
}

/// An error unless the options name something else than is there.
pub fn unread(what: &'static str, error: &serde_json::Error) -> Error {
    Error::BadValue { name: what, value: "options".into(), expected: error.to_string() }
}
