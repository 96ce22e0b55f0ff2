//! What a pickle describes: inert values that refer to each other by number.
//!
//! Values live in one list, so shared and cyclic references cost nothing, and dropping them recurses nowhere.

use super::globals::Meaning;
use crate::Malformed;
use std::ops::Range;

/// A value's number in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(pub(super) u32);

/// A value. Texts and bytes stay where they are in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer too large for 64 bits, as its little-endian bytes.
    Long(&'a [u8]),
    Float(f64),
    Text(&'a str),
    /// Where in the buffer the bytes are.
    Bytes(Range<usize>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Set,
    Dict(Vec<(Id, Id)>),
    /// A name, by its number.
    Global(u32),
    /// What a name makes of arguments.
    Made {
        global: u32,
        args: Id,
        state: Option<Id>,
    },
    /// Something stored outside the pickle.
    External(Id),
}

/// An allowed name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Global<'a> {
    pub(crate) module: &'a str,
    pub(crate) name: &'a str,
    pub(crate) meaning: Meaning,
}

/// All values of a pickle.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) globals: Vec<Global<'a>>,
    pub(super) root: Id,
}

impl<'a> Graph<'a> {
    /// The value the pickle stands for.
    pub(crate) fn root(&self) -> Id {
        self.root
    }

    pub(crate) fn node(&self, id: Id) -> &Node<'a> {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    /// The names mentioned, each once, in order of appearance.
    pub(crate) fn global_names(&self) -> Vec<String> {
        self.globals.iter().map(|g| format!("{}.{}", g.module, g.name)).collect()
    }

    pub(crate) fn global(&self, index: u32) -> Global<'a> {
        self.globals[index as usize]
    }

    /// The name a value is, if it is one.
    pub(crate) fn as_global(&self, id: Id) -> Option<Global<'a>> {
        match self.node(id) {
            Node::Global(index) => Some(self.global(*index)),
            _ => None,
        }
    }

    /// Meaning, arguments and state of a made value.
    pub(crate) fn as_made(&self, id: Id) -> Option<(Meaning, Id, Option<Id>)> {
        match self.node(id) {
            Node::Made { global, args, state } => Some((self.global(*global).meaning, *args, *state)),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self, id: Id) -> Option<&'a str> {
        match self.node(id) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A count, from an integer or a float without fraction.
    pub(crate) fn as_count(&self, id: Id) -> Option<usize> {
        match self.node(id) {
            Node::Int(value) => usize::try_from(*value).ok(),
            Node::Float(value) if value.fract() == 0.0 && (0.0..=2f64.powi(53)).contains(value) => {
                Some(*value as usize)
            }
            _ => None,
        }
    }

    pub(crate) fn as_bool(&self, id: Id) -> Option<bool> {
        match self.node(id) {
            Node::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Items of a list or tuple.
    pub(crate) fn as_items(&self, id: Id) -> Option<&[Id]> {
        match self.node(id) {
            Node::List(items) | Node::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// Entries of a dictionary, in order.
    pub(crate) fn as_dict(&self, id: Id) -> Option<&[(Id, Id)]> {
        match self.node(id) {
            Node::Dict(entries) => Some(entries),
            _ => None,
        }
    }

    /// A dictionary's value of a key; of several the last, as in Python.
    pub(crate) fn get(&self, dict: Id, key: &str) -> Option<Id> {
        let entries = self.as_dict(dict)?;
        entries.iter().rev().find(|(k, _)| self.as_text(*k) == Some(key)).map(|(_, value)| *value)
    }

    /// A value that must be there.
    pub(crate) fn need(&self, dict: Id, key: &str) -> Result<Id, Malformed> {
        self.get(dict, key).ok_or_else(|| Malformed::Missing { name: key.into() })
    }

    /// What a value is, for messages.
    pub(crate) fn kind(&self, id: Id) -> &'static str {
        match self.node(id) {
            Node::None => "none",
            Node::Bool(_) => "a truth value",
            Node::Int(_) | Node::Long(_) => "an integer",
            Node::Float(_) => "a float",
            Node::Text(_) => "a text",
            Node::Bytes(_) => "bytes",
            Node::List(_) => "a list",
            Node::Tuple(_) => "a tuple",
            Node::Set => "a set",
            Node::Dict(_) => "a dictionary",
            Node::Global(_) => "a name",
            Node::Made { .. } => "an object",
            Node::External(_) => "an external storage",
        }
    }

    /// The error of a value that is not what it must be.
    pub(crate) fn wrong(&self, name: &str, expected: &'static str, id: Id) -> Malformed {
        Malformed::Type { name: name.into(), expected, found: self.kind(id) }
    }
}
