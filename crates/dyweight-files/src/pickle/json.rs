//! Plain values of a pickle as JSON: what options and metadata are made of.

use super::{Graph, Id, Meaning, Node};
use crate::Dtype;
use crate::Malformed;
use crate::allowance::Allowance;
use serde_json::{Map, Number, Value};

/// Lists within lists; options need two.
const MAX_DEPTH: usize = 32;

/// Entries of a dictionary that JSON can express, in order; names become texts, infinities `"inf"`, `"-inf"`, `"nan"`.
/// Objects, tensors and bytes are left out.
pub(crate) fn fields(graph: &Graph<'_>, dict: Id, buffer: &[u8]) -> Result<Map<String, Value>, Malformed> {
    match to_json(graph, dict, buffer)? {
        Some(Value::Object(map)) => Ok(map),
        _ => Err(graph.wrong("options", "a dictionary", dict)),
    }
}

/// A value as JSON, if it can be.
pub(crate) fn to_json(graph: &Graph<'_>, id: Id, buffer: &[u8]) -> Result<Option<Value>, Malformed> {
    Writer { graph, buffer, budget: Allowance::bytes("bytes in all options together", buffer.len()) }.value(id, 0)
}

struct Writer<'g, 'a> {
    graph: &'g Graph<'a>,
    buffer: &'g [u8],
    budget: Allowance,
}

impl Writer<'_, '_> {
    fn value(&mut self, id: Id, depth: usize) -> Result<Option<Value>, Malformed> {
        if depth > MAX_DEPTH {
            return Err(Malformed::TooDeep { limit: MAX_DEPTH });
        }
        // About what a JSON value takes in memory.
        self.budget.spend(32)?;
        Ok(match self.graph.node(id) {
            Node::None => Some(Value::Null),
            Node::Bool(value) => Some(Value::Bool(*value)),
            Node::Int(value) => Some(Value::from(*value)),
            Node::Float(value) => Some(float(*value)),
            Node::Text(text) => Some(self.text(text)?),
            Node::List(items) | Node::Tuple(items) => self.list(items, depth)?,
            Node::Dict(entries) => self.object(entries, depth)?,
            Node::Global(index) => {
                let global = self.graph.global(*index);
                self.budget.spend(global.module.len() + global.name.len())?;
                Some(Value::String(format!("{}.{}", global.module, global.name)))
            }
            Node::Made { .. } => self.made(id, depth)?,
            Node::Long(_) | Node::Bytes(_) | Node::Set | Node::External(_) => None,
        })
    }

    fn text(&mut self, text: &str) -> Result<Value, Malformed> {
        self.budget.spend(text.len())?;
        Ok(Value::String(text.into()))
    }

    fn list(&mut self, items: &[Id], depth: usize) -> Result<Option<Value>, Malformed> {
        let mut list = Vec::new();
        for item in items {
            list.extend(self.value(*item, depth + 1)?);
        }
        Ok(Some(Value::Array(list)))
    }

    fn object(&mut self, entries: &[(Id, Id)], depth: usize) -> Result<Option<Value>, Malformed> {
        let mut map = Map::new();
        for (key, value) in entries {
            let Some(key) = self.graph.as_text(*key) else { continue };
            if let Some(value) = self.value(*value, depth + 1)? {
                self.budget.spend(key.len() + 32)?;
                map.insert(key.into(), value);
            }
        }
        Ok(Some(Value::Object(map)))
    }

    fn made(&mut self, id: Id, depth: usize) -> Result<Option<Value>, Malformed> {
        let Some((meaning, args, _)) = self.graph.as_made(id) else { return Ok(None) };
        match (meaning, self.graph.as_items(args)) {
            (Meaning::NumpyScalar, Some([dtype, bytes])) => Ok(numpy_scalar(self.graph, *dtype, *bytes, self.buffer)),
            (Meaning::IntList, Some([list])) => self.value(*list, depth + 1),
            _ => Ok(None),
        }
    }
}

/// JSON knows no infinities: they are spelled out.
fn float(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => "nan".into(),
        None => if value > 0.0 { "inf" } else { "-inf" }.into(),
    }
}

/// A numpy number: element type ("f8", …), then little-endian bytes.
fn numpy_scalar(graph: &Graph<'_>, dtype: Id, bytes: Id, buffer: &[u8]) -> Option<Value> {
    let (Meaning::NumpyDtype, args, state) = graph.as_made(dtype)? else { return None };
    let name = graph.as_text(*graph.as_items(args)?.first()?)?;
    let Node::Bytes(range) = graph.node(bytes) else { return None };
    let order = state.and_then(|s| graph.as_text(*graph.as_items(s)?.get(1)?));
    let dtype = match name {
        "f8" => Dtype::F64,
        "f4" => Dtype::F32,
        "f2" => Dtype::F16,
        "i8" => Dtype::I64,
        "i4" => Dtype::I32,
        "i2" => Dtype::I16,
        "i1" => Dtype::I8,
        "u1" => Dtype::U8,
        "b1" => Dtype::Bool,
        _ => return None,
    };
    let bytes = buffer.get(range.clone())?;
    if bytes.len() != dtype.size() || order == Some(">") {
        return None;
    }
    let value = *dtype.to_f64(bytes).first()?;
    Some(match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 => float(value),
        Dtype::Bool => Value::Bool(value != 0.0),
        _ => Value::from(value as i64),
    })
}
