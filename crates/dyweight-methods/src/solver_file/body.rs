//! What a solver file holds of each method: the one list of learned methods.

use crate::{Amed, AmedPlugin, AnyBudget, Dlms, Dss, Epd, EpdPlugin, Gits, Ld3, S4s};
use dyweight_core::error::{Error, Result};
use dyweight_core::learned::LearnedSolver;
use dyweight_core::solver::Weights;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A learned solver of any method, written as `"method"` and `"body"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "body", rename_all = "kebab-case")]
pub enum Body {
    /// Learned weights on past slopes.
    #[serde(rename = "dyweight")]
    DyWeight(Weights),
    /// The same as functions of the budget.
    Any(AnyBudget),
    /// Learned times.
    Ld3(Ld3),
    /// Learned points inside each step.
    Epd(Epd),
    /// The same around iPNDM.
    EpdPlugin(EpdPlugin),
    /// A predicted point inside each step.
    Amed(Amed),
    /// The same around another solver.
    AmedPlugin(AmedPlugin),
    /// A grid that was searched for.
    Gits(Gits),
    /// Learned step sizes and mixed slopes.
    Dss(Dss),
    /// A predicted multistep method.
    Dlms(Dlms),
    /// Coefficients of a multistep method.
    S4s(S4s),
    /// The same with its grid.
    S4sAlt(S4s),
}

/// The methods, by the name of their bodies, with what each learns.
pub const LEARNED: &[(&str, &str)] = &[
    ("dyweight", "weights on past slopes and scales of the network's time"),
    ("any", "dyweight's as smooth functions of step and budget: one file for a range of budgets"),
    ("ld3", "times of any solver, and times told to the network"),
    ("epd", "points inside each step, evaluated side by side"),
    ("epd-plugin", "the same around iPNDM"),
    ("amed", "a point inside each step, predicted for each sample"),
    ("amed-plugin", "the same around euler, dpm2, ipndm or dpmpp"),
    ("gits", "a grid for any solver, searched without gradients"),
    ("dss", "step sizes, and slopes mixed with those before"),
    ("dlms", "a multistep method predicted for each sample"),
    ("s4s", "coefficients of a multistep method"),
    ("s4s-alt", "coefficients and grid of a multistep method, in turns"),
];

impl Body {
    /// The method's name.
    pub fn method(&self) -> &'static str {
        match self {
            Body::DyWeight(_) => "dyweight",
            Body::Any(_) => "any",
            Body::Ld3(_) => "ld3",
            Body::Epd(_) => "epd",
            Body::EpdPlugin(_) => "epd-plugin",
            Body::Amed(_) => "amed",
            Body::AmedPlugin(_) => "amed-plugin",
            Body::Gits(_) => "gits",
            Body::Dss(_) => "dss",
            Body::Dlms(_) => "dlms",
            Body::S4s(_) => "s4s",
            Body::S4sAlt(_) => "s4s-alt",
        }
    }

    /// What all methods have in common.
    pub fn learned(&self) -> &(dyn LearnedSolver + 'static) {
        match self {
            Body::DyWeight(body) => body,
            Body::Any(body) => body,
            Body::Ld3(body) => body,
            Body::Epd(body) => body,
            Body::EpdPlugin(body) => body,
            Body::Amed(body) => body,
            Body::AmedPlugin(body) => body,
            Body::Gits(body) => body,
            Body::Dss(body) => body,
            Body::Dlms(body) => body,
            Body::S4s(body) => body,
            Body::S4sAlt(body) => body,
        }
    }

    /// The same, to be changed.
    pub fn learned_mut(&mut self) -> &mut (dyn LearnedSolver + 'static) {
        match self {
            Body::DyWeight(body) => body,
            Body::Any(body) => body,
            Body::Ld3(body) => body,
            Body::Epd(body) => body,
            Body::EpdPlugin(body) => body,
            Body::Amed(body) => body,
            Body::AmedPlugin(body) => body,
            Body::Gits(body) => body,
            Body::Dss(body) => body,
            Body::Dlms(body) => body,
            Body::S4s(body) => body,
            Body::S4sAlt(body) => body,
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
