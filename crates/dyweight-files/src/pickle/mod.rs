//! Reading Python pickles without executing them.
//!
//! A pickle is a program for a small stack machine. This one builds inert values ([`Graph`]) and knows a few names
//! ([`Meaning`]); where a Python interpreter would call a function, it notes name and arguments. Instructions and
//! layouts: Python's `pickletools`, protocols 2 to 4.
//!
//! Promises: every length is checked against what is left; values and instructions are bounded
//! ([`MAX_NODES`], [`MAX_STEPS`]), nesting too ([`MAX_DEPTH`]); nothing recurses.

mod globals;
mod graph;
mod instructions;
mod json;
mod machine;

pub(crate) use globals::Meaning;
pub(crate) use graph::{Graph, Id, Node};
pub(crate) use json::{fields, to_json};

use super::bytes::Cursor;
use crate::Malformed;

/// Values of one pickle: forty times what the largest checkpoints with optimiser state have.
const MAX_NODES: usize = 1 << 20;
/// Instructions of one pickle.
const MAX_STEPS: usize = 1 << 22;
/// Containers within containers; networks need about forty.
const MAX_DEPTH: usize = 500;
/// Length of a module's or class's name.
const MAX_NAME: usize = 256;

/// Reads the pickle that starts at `start`; also returns where it ends.
pub(crate) fn parse(bytes: &[u8], start: usize) -> Result<(Graph<'_>, usize), Malformed> {
    machine::Machine::new(Cursor::new(bytes, start)).run()
}

/// Reads bytes that are one pickle and nothing else.
pub(crate) fn parse_all(bytes: &[u8]) -> Result<Graph<'_>, Malformed> {
    let (graph, end) = parse(bytes, 0)?;
    match bytes.len() - end {
        0 => Ok(graph),
        count => Err(Malformed::Trailing { what: "pickle", count }),
    }
}
