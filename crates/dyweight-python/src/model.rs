//! A model that stays in Python: `dyweight.Model` of the package as a [`Model`] of the library.
//!
//! ```text
//! model._facts()                                      JSON: what the library has to know of it
//! model._answer(shown, levels, conditions)            bytes of what fn answers
//! model._answer_with_pullback(shown, levels, conditions)      (bytes of it, pullback)
//! pullback(cotangent)                                 (bytes of ∂L/∂shown, bytes of ∂L/∂level for each sample)
//! ```
//!
//! What fn sees and answers crosses in its own precision, and becomes the prediction of a state in f64 here
//! ([`preconditioned`]): each batch is moved as few times as there are sides to it, which is what a call costs beside
//! the network.

use crate::error::{foreign, raised};
use crate::payload::{Payload, batch, numbers, received, sent};
use dyweight_core::denoiser::{Condition, Denoiser, Differentiable, Info, Levels, Model, Prediction, Pullback};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use dyweight_models::LoadedModel;
use dyweight_models::preconditioned::{self, Factors, Preconditioned, Target};
use dyweight_solvers::solver_file::ModelIdentity;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::ops::{Range, RangeInclusive};
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
    /// What fn answers.
    target: Target,
    /// In which precision.
    wire: Payload,
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
    fn ask<'py>(&self, py: Python<'py>, method: &str, x: &Tensor, of: &[Factors]) -> PyResult<Bound<'py, PyAny>> {
        py.check_signals()?;
        let levels: Vec<f64> = of.iter().map(|f| f.noise).collect();
        let conditions = match &self.conditions {
            Some(none) if none.is_empty() => Some(vec![-1; x.samples()]),
            other => other.clone(),
        };
        let shown = self.model.facts.wire.sent(py, x, |i| of[i].input)?;
        self.model.object.bind(py).call_method1(method, (shown, sent(py, &levels), conditions))
    }
}

impl Preconditioned for Asked<'_> {
    /// The way back, where there is to be one.
    type Kept = Option<Py<PyAny>>;

    /// An interpreter has one thread that hears signals, and libraries keep settings for each thread: it is the one
    /// that asks.
    fn at_once(&self) -> Option<RangeInclusive<usize>> {
        None
    }

    fn check(&self, x: &Tensor, levels: &Levels) -> Result<()> {
        let ([samples, c, h, w], shape) = (x.shape(), self.model.facts.shape);
        if [c, h, w] != shape {
            let (expected, found) = ([&[samples], &shape[..]].concat(), x.shape().to_vec());
            return Err(Error::Shape { what: "what the model is asked".into(), expected, found });
        }
        levels.require(samples)
    }

    /// The level itself is told: what fn makes of it is its own.
    fn factors(&self, sigma: f64) -> Factors {
        self.model.facts.target.factors(sigma, sigma)
    }

    fn slopes(&self, sigma: f64) -> Factors {
        self.model.facts.target.slopes(sigma, 1.0)
    }

    fn forward(
        &self,
        x: &Tensor,
        of: &[Factors],
        _: &Levels,
        _: Range<usize>,
        record: bool,
    ) -> Result<(Tensor, Self::Kept)> {
        let wire = self.model.facts.wire;
        let answer: PyResult<(Vec<f64>, Self::Kept)> = Python::attach(|py| {
            if !record {
                return Ok((wire.received(&self.ask(py, "_answer", x, of)?)?, None));
            }
            let answer = self.ask(py, "_answer_with_pullback", x, of)?;
            Ok((wire.received(&answer.get_item(0)?)?, Some(answer.get_item(1)?.unbind())))
        });
        let (values, pullback) = answer.map_err(foreign)?;
        Ok((Tensor::new(x.shape(), values)?, pullback))
    }

    fn backward(&self, pullback: &Self::Kept, of: &[Factors], cotangent: &Tensor) -> Result<(Tensor, Vec<f64>)> {
        let wire = self.model.facts.wire;
        let answer: PyResult<(Vec<f64>, Vec<f64>)> = Python::attach(|py| {
            py.check_signals()?;
            let cotangent = wire.sent(py, cotangent, |i| of[i].out)?;
            let answer = pullback.as_ref().expect("recorded").bind(py).call1((cotangent,))?;
            Ok((wire.received(&answer.get_item(0)?)?, received(&answer.get_item(1)?)?))
        });
        let (to_shown, to_level) = answer.map_err(foreign)?;
        Ok((Tensor::new(cotangent.shape(), to_shown)?, to_level))
    }
}

impl Denoiser for Asked<'_> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        preconditioned::predict(self, x, levels)
    }

    fn info(&self) -> Info {
        Info { calls: self.model.facts.calls, ..self.model.facts.prediction.into() }
    }
}

impl Differentiable for Asked<'_> {
    fn with_pullback<'m>(&'m self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'m>)> {
        preconditioned::with_pullback(self, x, levels)
    }
}

/// The prediction of a batch, as solvers see it: `(model, bytes of x, bytes of the levels, conditions or None)`.
#[pyfunction]
pub fn predict<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyAny>,
    x: &[u8],
    levels: &[u8],
    conditions: Option<Vec<i64>>,
) -> PyResult<Bound<'py, PyByteArray>> {
    let model = PythonModel::new(model)?;
    let asked = Asked { model: &model, conditions };
    let value = batch(model.facts.shape, numbers(x)).and_then(|x| asked.predict(&x, &Levels::Each(numbers(levels))));
    Ok(sent(py, value.map_err(|e| raised(py, e, None))?.data()))
}

/// An error unless the options name something else than is there.
pub fn unread(what: &'static str, error: &serde_json::Error) -> Error {
    Error::bad_value(what, "options", error.to_string())
}
