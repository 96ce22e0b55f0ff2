//! Typed reading of a configuration's JSON object: each wrong entry is named.
//!
//! Python writes whole numbers as integers or floats as it happens to compute them, so both are taken; null means
//! "not given".

use dyweight_files::Malformed;
use serde_json::{Map, Value};

/// A configuration as a file holds it.
pub(crate) struct Kwargs<'m>(pub(crate) &'m Map<String, Value>);

impl<'m> Kwargs<'m> {
    fn value(&self, name: &str) -> Option<&'m Value> {
        self.0.get(name).filter(|v| !v.is_null())
    }

    /// A whole number from 0 to `most`.
    pub(crate) fn count(&self, name: &str, most: usize) -> Result<Option<usize>, Malformed> {
        self.value(name).map(|v| count_of(name, v, most)).transpose()
    }

    /// A whole number that must be given.
    pub(crate) fn needed(&self, name: &str, most: usize) -> Result<usize, Malformed> {
        self.count(name, most)?.ok_or_else(|| Malformed::Missing { name: name.into() })
    }

    /// Whether something is so.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Malformed> {
        self.value(name).map(|v| v.as_bool().ok_or_else(|| wrong(name, "a truth value", v))).transpose()
    }

    /// A list of at most `longest` whole numbers.
    pub(crate) fn counts(&self, name: &str, longest: usize, most: usize) -> Result<Option<Vec<usize>>, Malformed> {
        let list = self.list(name, longest)?;
        list.map(|l| l.iter().map(|v| count_of(name, v, most)).collect()).transpose()
    }

    /// A list of at most `longest` numbers.
    pub(crate) fn numbers(&self, name: &str, longest: usize) -> Result<Option<Vec<f64>>, Malformed> {
        let list = self.list(name, longest)?;
        list.map(|l| l.iter().map(|v| number_of(name, v)).collect()).transpose()
    }

    /// A number; the text `"inf"` is infinity, which JSON cannot say.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Malformed> {
        match self.value(name) {
            Some(Value::String(text)) if text == "inf" => Ok(Some(f64::INFINITY)),
            other => other.map(|v| number_of(name, v)).transpose(),
        }
    }

    /// One of a few names, as the value that goes with it; the first if none is given.
    pub(crate) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, Malformed> {
        let Some(value) = self.value(name) else { return Ok(choices[0].1) };
        let text = value.as_str().ok_or_else(|| wrong(name, "a text", value))?;
        choices.iter().find(|(n, _)| *n == text).map(|(_, v)| *v).ok_or_else(|| {
            let known: Vec<&str> = choices.iter().map(|(n, _)| *n).collect();
            let text: String = text.chars().take(80).collect();
            Malformed::Inconsistent { problem: format!("{name} is '{text}'; supported: {}", known.join(", ")) }
        })
    }

    fn list(&self, name: &str, longest: usize) -> Result<Option<&'m Vec<Value>>, Malformed> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| wrong(name, "a list", value))?;
        if list.is_empty() || list.len() > longest {
            let problem = format!("{name} has {} entries, must have 1 to {longest}", list.len());
            return Err(Malformed::Inconsistent { problem });
        }
        Ok(Some(list))
    }
}

fn number_of(name: &str, value: &Value) -> Result<f64, Malformed> {
    value.as_f64().filter(|v| v.is_finite()).ok_or_else(|| wrong(name, "a number", value))
}

fn count_of(name: &str, value: &Value, most: usize) -> Result<usize, Malformed> {
    let number = number_of(name, value)?;
    if number.fract() != 0.0 || number < 0.0 {
        return Err(wrong(name, "a whole number", value));
    }
    if number > most as f64 {
        return Err(Malformed::Inconsistent { problem: format!("{name} is {number}, more than {most}") });
    }
    Ok(number as usize)
}

fn wrong(name: &str, expected: &'static str, value: &Value) -> Malformed {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "another number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Malformed::Type { name: name.into(), expected, found }
}
