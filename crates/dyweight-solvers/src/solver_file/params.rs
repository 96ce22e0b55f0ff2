//! What a solver file holds of each method: the one list of learned methods.

use crate::Weights;
use crate::learned::LearnedSolver;
use crate::{Amed, AmedPlugin, AnyBudget, Dlms, Dss, Epd, EpdPlugin, Gits, Ld3, S4s};
use dyweight_core::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The list: a line for each method says its variant, its type, its name and what it learns.
macro_rules! bodies {
    ($($variant:ident($body:ty) = $name:literal: $learns:literal,)*) => {
        /// A learned solver of any method, written as `"method"` and `"body"`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "method", content = "body")]
        pub enum MethodParams {
            $(#[doc = $learns] #[serde(rename = $name)] $variant($body),)*
        }

        /// The methods, by the name of their bodies, with what each learns.
        pub const LEARNED: &[(&str, &str)] = &[$(($name, $learns),)*];

        impl MethodParams {
            /// The method's name.
            pub fn method(&self) -> &'static str {
                match self { $(MethodParams::$variant(_) => $name,)* }
            }

            /// What all methods have in common.
            pub fn learned(&self) -> &(dyn LearnedSolver + 'static) {
                match self { $(MethodParams::$variant(body) => body,)* }
            }

            /// The same, to be changed.
            pub fn learned_mut(&mut self) -> &mut (dyn LearnedSolver + 'static) {
                match self { $(MethodParams::$variant(body) => body,)* }
            }
        }
    };
}

bodies! {
    DyWeight(Weights) = "dyweight": "weights on past slopes and scales of the network's time",
    Any(AnyBudget) = "any": "dyweight's for several budgets, and what lies between: one file for a range of budgets",
    Ld3(Ld3) = "ld3": "times of any solver, and times told to the network",
    Epd(Epd) = "epd": "points inside each step, evaluated side by side",
    EpdPlugin(EpdPlugin) = "epd-plugin": "the same around iPNDM",
    Amed(Amed) = "amed": "a point inside each step, predicted for each sample",
    AmedPlugin(AmedPlugin) = "amed-plugin": "the same around euler, dpm2, ipndm or dpmpp",
    Gits(Gits) = "gits": "a grid for any solver, searched without gradients",
    Dss(Dss) = "dss": "step sizes, and slopes mixed with those before",
    Dlms(Dlms) = "dlms": "a multistep method predicted for each sample",
    S4s(S4s) = "s4s": "coefficients of a multistep method",
    S4sAlt(S4s) = "s4s-alt": "coefficients and grid of a multistep method, in turns",
}

impl MethodParams {
    /// The weights, of a DyWeight solver.
    pub fn weights(&self) -> Option<&Weights> {
        match self {
            MethodParams::DyWeight(weights) => Some(weights),
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

    /// The version of the format in which it is written: readers of version 2 that are older than spans would pass over one.
    pub(super) fn version(&self) -> u32 {
        if self.weights().is_some_and(|weights| !weights.span.is_empty()) { 3 } else { 2 }
    }

    /// The first of these keys that means nothing to the method. Bodies share parts (`serde(flatten)`), where serde itself cannot refuse a key; but what
    /// it has not understood it does not write again. Something empty may be left out, and says nothing.
    pub(super) fn unknown_key<'k>(&self, given: &'k Map<String, Value>) -> Option<&'k str> {
        let written = serde_json::to_value(self).unwrap_or_default();
        let says_nothing =
            |value: &Value| [Value::Null, Value::Array(vec![]), Value::Object(Map::new())].contains(value);
        let unknown = |(key, value): &(&String, &Value)| written["body"].get(key).is_none() && !says_nothing(value);
        given.iter().find(unknown).map(|(key, _)| key.as_str())
    }
}
