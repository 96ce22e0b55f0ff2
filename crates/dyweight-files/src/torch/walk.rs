//! Finding the named tensors in a pickle.
//!
//! A name is the dot-joined path of keys: through the `_modules` of network objects down to their `_parameters` and
//! `_buffers`; through the attributes of compiled modules; through plain dictionaries.

use super::tensor::TensorReader;
use crate::Malformed;
use crate::allowance::Allowance;
use crate::pickle::{Graph, Id, Meaning, Node};
use crate::stored::StoredTensor;
use std::collections::HashSet;

/// Modules within modules; networks need about six. Also ends cycles.
const MAX_DEPTH: usize = 48;

/// The attributes of a network object, of whatever kind.
pub(crate) fn attributes(graph: &Graph<'_>, id: Id) -> Option<Id> {
    match graph.as_made(id)? {
        (Meaning::Persistent, args, _) => graph.get(*graph.as_items(args)?.first()?, "state"),
        (Meaning::Module | Meaning::Script, _, state) => state,
        _ => None,
    }
}

/// All tensors below `root`, in file order.
pub(crate) fn collect(reader: TensorReader<'_, '_>, root: Id) -> Result<Vec<(String, StoredTensor)>, Malformed> {
    let mut walk = Walk { reader, visits: Allowance::visits(), tensors: Vec::new(), names: HashSet::new() };
    walk.value("", root, 0)?;
    Ok(walk.tensors)
}

struct Walk<'g, 'a> {
    reader: TensorReader<'g, 'a>,
    visits: Allowance,
    tensors: Vec<(String, StoredTensor)>,
    names: HashSet<String>,
}

impl Walk<'_, '_> {
    fn value(&mut self, path: &str, id: Id, depth: usize) -> Result<(), Malformed> {
        if depth > MAX_DEPTH {
            return Err(Malformed::TooDeep { limit: MAX_DEPTH });
        }
        let graph = self.reader.graph;
        match (graph.node(id), graph.as_made(id)) {
            (_, Some((Meaning::Tensor | Meaning::Parameter, ..))) => self.tensor(path, id),
            (_, Some((Meaning::Persistent | Meaning::Module, ..))) => self.module(path, id, depth),
            (_, Some((Meaning::Script, _, Some(state)))) => self.entries(path, state, depth),
            (Node::Dict(_), _) => self.entries(path, id, depth),
            _ => Ok(()),
        }
    }

    fn tensor(&mut self, path: &str, id: Id) -> Result<(), Malformed> {
        let tensor = self.reader.tensor(path, id)?;
        if !self.names.insert(path.into()) {
            return Err(Malformed::Duplicate { name: path.into() });
        }
        self.tensors.push((path.into(), tensor));
        Ok(())
    }

    fn module(&mut self, path: &str, id: Id, depth: usize) -> Result<(), Malformed> {
        let graph = self.reader.graph;
        let Some(state) = attributes(graph, id) else { return Ok(()) };
        self.visits.spend(graph.as_dict(state).map_or(0, <[_]>::len))?;
        for part in ["_parameters", "_buffers", "_modules"] {
            if let Some(part) = graph.get(state, part) {
                self.entries(path, part, depth)?;
            }
        }
        Ok(())
    }

    /// Everything in a dictionary; entries that hold no tensors (numbers, texts, none) are passed over.
    fn entries(&mut self, path: &str, dict: Id, depth: usize) -> Result<(), Malformed> {
        let graph = self.reader.graph;
        let entries = graph.as_dict(dict).unwrap_or_default();
        self.visits.spend(entries.len())?;
        for (key, value) in entries {
            let holds = matches!(graph.node(*value), Node::Made { .. } | Node::Dict(_));
            let Some(key) = graph.as_text(*key).filter(|_| holds) else { continue };
            self.visits.spend(path.len() / 64 + key.len() / 64)?;
            let name = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            self.value(&name, *value, depth + 1)?;
        }
        Ok(())
    }
}
