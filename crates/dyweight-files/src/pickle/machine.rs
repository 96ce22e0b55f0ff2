//! The stack machine that runs a pickle's instructions.

use super::graph::{Global, Graph, Id, Node};
use super::{MAX_DEPTH, MAX_NODES, MAX_STEPS};
use crate::Malformed;
use crate::bytes::Cursor;
use std::collections::HashMap;

/// What an instruction gives.
pub(super) type Step<T = ()> = Result<T, Malformed>;

/// Instructions with a name of their own here.
const STOP: u8 = b'.';
const MARK: u8 = b'(';

/// The machine's state.
pub(super) struct Machine<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) nodes: Vec<Node<'a>>,
    /// Levels of containers below each value.
    pub(super) depths: Vec<u16>,
    pub(super) stack: Vec<Id>,
    /// Stack heights at which open containers began.
    pub(super) marks: Vec<usize>,
    /// Remembered values, and how many there are.
    pub(super) memo: Vec<Option<Id>>,
    pub(super) remembered: usize,
    pub(super) globals: Vec<Global<'a>>,
    pub(super) global_index: HashMap<(&'a str, &'a str), u32>,
    /// The instruction being run and where it stands, for messages.
    pub(super) opcode: u8,
    pub(super) at: usize,
}

impl<'a> Machine<'a> {
    pub(super) fn new(cursor: Cursor<'a>) -> Self {
        Self {
            cursor,
            nodes: Vec::new(),
            depths: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            remembered: 0,
            globals: Vec::new(),
            global_index: HashMap::new(),
            opcode: 0,
            at: 0,
        }
    }

    /// Runs to the end; the one value left is the pickle's.
    pub(super) fn run(mut self) -> Step<(Graph<'a>, usize)> {
        for _ in 0..MAX_STEPS {
            self.at = self.cursor.position();
            self.opcode = self.cursor.u8()?;
            if self.opcode == STOP {
                let root = self.pop()?;
                if !self.stack.is_empty() || !self.marks.is_empty() {
                    return Err(self.bad_operand());
                }
                let end = self.cursor.position();
                return Ok((Graph { nodes: self.nodes, globals: self.globals, root }, end));
            }
            self.step()?;
        }
        Err(Malformed::TooLarge { what: "pickle instructions", size: MAX_STEPS as u64 + 1, limit: MAX_STEPS as u64 })
    }

    fn step(&mut self) -> Step {
        match self.opcode {
            0x80 => self.protocol(),
            0x95 => self.frame(),
            MARK => self.mark(),
            b'N' | 0x88 | 0x89 | b'J' | b'K' | b'M' | b'G' | 0x8a | 0x8b => self.number(),
            0x8c | b'X' | 0x8d => self.text(),
            b'C' | b'B' | 0x8e => self.bytes(),
            b'}' | b']' | b')' | 0x8f | 0x85 | 0x86 | 0x87 | b't' => self.container(),
            b'a' | b'e' | b's' | b'u' | 0x90 => self.fill(),
            0x94 | b'q' | b'r' | b'h' | b'j' => self.remember(),
            b'c' | 0x93 => self.name(),
            b'R' | 0x81 | b'b' | b'Q' => self.object(),
            opcode => Err(Malformed::Opcode { opcode, offset: self.at }),
        }
    }

    pub(super) fn push(&mut self, node: Node<'a>, depth: u16) -> Step {
        if self.nodes.len() == MAX_NODES {
            let (size, limit) = (MAX_NODES as u64 + 1, MAX_NODES as u64);
            return Err(Malformed::TooLarge { what: "values in the pickle", size, limit });
        }
        self.stack.push(Id(self.nodes.len() as u32));
        self.nodes.push(node);
        self.depths.push(depth);
        Ok(())
    }

    /// Takes the top, but never below the last mark.
    pub(super) fn pop(&mut self) -> Step<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    pub(super) fn top(&self) -> Step<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(id) if self.stack.len() > floor => Ok(*id),
            _ => Err(self.bad_operand()),
        }
    }

    pub(super) fn pop_to_mark(&mut self) -> Step<Vec<Id>> {
        let Some(mark) = self.marks.pop() else { return Err(self.bad_operand()) };
        Ok(self.stack.split_off(mark))
    }

    /// Depth of a container of these items.
    pub(super) fn depth_above(&self, items: &[Id]) -> Step<u16> {
        let below = items.iter().map(|id| self.depths[id.0 as usize]).max().unwrap_or(0);
        if usize::from(below) >= MAX_DEPTH {
            return Err(Malformed::TooDeep { limit: MAX_DEPTH });
        }
        Ok(below + 1)
    }

    pub(super) fn bad_operand(&self) -> Malformed {
        Malformed::Operand { opcode: self.opcode, offset: self.at }
    }
}
