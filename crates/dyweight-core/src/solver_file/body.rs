//! What a solver file holds of each method: the one list of learned methods.

use crate::error::{Error, Result};
use crate::learned::LearnedSolver;
use crate::solver::{Ld3, Weights};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A learned solver of any method, written as `"method"` and `"body"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "body", rename_all = "kebab-case")]
pub enum Body {
    /// Learned weights on past slopes.
    #[serde(rename = "dyweight")]
    DyWeight(Weights),
    /// Learned times.
    Ld3(Ld3),
}

/// The methods, by the name of their bodies, with what each learns.
pub const LEARNED: &[(&str, &str)] = &[
    ("dyweight", "weights on past slopes and scales of the network's time"),
    ("ld3", "times of any solver, and times told to the network"),
];

impl Body {
    /// The method's name.
    pub fn method(&self) -> &'static str {
        match self {
            Body::DyWeight(_) => "dyweight",
            Body::Ld3(_) => "ld3",
        }
    }

    /// What all methods have in common.
    pub fn learned(&self) -> &(dyn LearnedSolver + 'static) {
        match self {
            Body::DyWeight(body) => body,
            Body::Ld3(body) => body,
        }
    }

    /// The same, to be changed.
    pub fn learned_mut(&mut self) -> &mut (dyn LearnedSolver + 'static) {
        match self {
            Body::DyWeight(body) => body,
            Body::Ld3(body) => body,
        }
    }

    /// The weights, of a DyWeight solver.
    pub fn weights(&self) -> Option<&Weights> {
        match self {
            Body::DyWeight(weights) => Some(weights),
            _ => None,
        }
    }

    /// The body of a method from its fields, checked.
    pub fn of(method: &str, fields: Map<String, Value>) -> Result<Self> {
        if !LEARNED.iter().any(|(name, _)| *name == method) {
            let known = LEARNED.iter().map(|(name, _)| name.to_string()).collect();
            return Err(Error::UnknownName { kind: "method", name: method.chars().take(80).collect(), known });
        }
        let tagged = [("method".to_string(), Value::from(method)), ("body".to_string(), Value::Object(fields))];
        let body: Self = serde_json::from_value(tagged.into_iter().collect()).map_err(|e| Error::BadValue {
            name: "body",
            value: method.into(),
            expected: e.to_string().chars().take(200).collect(),
        })?;
        body.learned().check()?;
        Ok(body)
    }
}
