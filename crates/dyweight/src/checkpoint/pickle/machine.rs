//! The stack machine that runs a pickle's instructions.

use super::graph::{Global, Graph, Id, Node};
use super::{MAX_DEPTH, MAX_NAME, MAX_NODES, MAX_STEPS, Meaning};
use crate::checkpoint::bytes::{Cursor, to_text, to_usize};
use crate::error::Malformed;
use std::collections::HashMap;

type Step<T = ()> = Result<T, Malformed>;

/// Instructions with a name of their own here.
const STOP: u8 = b'.';
const MARK: u8 = b'(';
const MAX_PROTOCOL: u8 = 5;

/// The machine's state.
pub(super) struct Machine<'a> {
    cursor: Cursor<'a>,
    nodes: Vec<Node<'a>>,
    /// Levels of containers below each value.
    depths: Vec<u16>,
    stack: Vec<Id>,
    /// Stack heights at which open containers began.
    marks: Vec<usize>,
    /// Remembered values, and how many there are.
    memo: Vec<Option<Id>>,
    remembered: usize,
    globals: Vec<Global<'a>>,
    global_index: HashMap<(&'a str, &'a str), u32>,
    /// The instruction being run and where it stands, for messages.
    opcode: u8,
    at: usize,
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

    fn protocol(&mut self) -> Step {
        match self.cursor.u8()? {
            0..=MAX_PROTOCOL => Ok(()),
            found => Err(Malformed::Header { what: "pickle protocol", found: found.to_string() }),
        }
    }

    /// A frame only announces how many bytes follow.
    fn frame(&mut self) -> Step {
        let len = self.cursor.length("pickle frame")?;
        self.cursor.clone().take(len).map(|_| ())
    }

    fn mark(&mut self) -> Step {
        if self.marks.len() == MAX_DEPTH {
            return Err(Malformed::TooDeep { limit: MAX_DEPTH });
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn number(&mut self) -> Step {
        let node = match self.opcode {
            b'N' => Node::None,
            0x88 => Node::Bool(true),
            0x89 => Node::Bool(false),
            b'J' => Node::Int((self.cursor.u32()? as i32).into()),
            b'K' => Node::Int(self.cursor.u8()?.into()),
            b'M' => Node::Int(self.cursor.u16()?.into()),
            b'G' => Node::Float(self.cursor.f64_big_endian()?),
            _ => {
                let len = if self.opcode == 0x8a { self.cursor.u8()? as u32 } else { self.cursor.u32()? };
                long(self.cursor.take(to_usize("integer", len.into())?)?)
            }
        };
        self.push(node, 0)
    }

    /// Length of a text or bytes, by the width of the instruction's length field.
    fn len(&mut self) -> Step<usize> {
        match self.opcode {
            0x8c | b'C' => Ok(self.cursor.u8()?.into()),
            b'X' | b'B' => to_usize("text or bytes", self.cursor.u32()?.into()),
            _ => self.cursor.length("text or bytes"),
        }
    }

    fn text(&mut self) -> Step {
        let len = self.len()?;
        let text = to_text("pickle text", self.cursor.take(len)?, self.at)?;
        self.push(Node::Text(text), 0)
    }

    fn bytes(&mut self) -> Step {
        let len = self.len()?;
        let start = self.cursor.position();
        self.cursor.take(len)?;
        self.push(Node::Bytes(start..start + len), 0)
    }

    fn container(&mut self) -> Step {
        let items = match self.opcode {
            b'}' => return self.push(Node::Dict(Vec::new()), 1),
            b']' => return self.push(Node::List(Vec::new()), 1),
            0x8f => return self.push(Node::Set, 1),
            b')' => return self.push(Node::Tuple(Vec::new()), 1),
            b't' => self.pop_to_mark()?,
            opcode => {
                let mut items = (0x85..=opcode).map(|_| self.pop()).collect::<Step<Vec<Id>>>()?;
                items.reverse();
                items
            }
        };
        let depth = self.depth_above(&items)?;
        self.push(Node::Tuple(items), depth)
    }

    /// Puts items into the list or dictionary below them.
    fn fill(&mut self) -> Step {
        let items = match self.opcode {
            b'a' => vec![self.pop()?],
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.pop_to_mark()?,
        };
        let target = self.top()?;
        let depth = self.depth_above(&items)?;
        let error = self.bad_operand();
        let below = &mut self.depths[target.0 as usize];
        *below = depth.max(*below);
        match (self.opcode, &mut self.nodes[target.0 as usize]) {
            (b'a' | b'e', Node::List(list)) => list.extend(items),
            // What a set holds is of no interest to any reader.
            (0x90, Node::Set) => {}
            (b's' | b'u', Node::Dict(entries)) if items.len() % 2 == 0 => {
                entries.extend(items.as_chunks().0.iter().map(|[key, value]| (*key, *value)));
            }
            _ => return Err(error),
        }
        Ok(())
    }

    fn remember(&mut self) -> Step {
        let index = match self.opcode {
            0x94 => self.remembered,
            b'q' | b'h' => self.cursor.u8()?.into(),
            _ => to_usize("memo index", self.cursor.u32()?.into())?,
        };
        match self.opcode {
            b'h' | b'j' => {
                let known = self.memo.get(index).copied().flatten();
                self.stack.push(known.ok_or(Malformed::Memo { index, offset: self.at })?);
                Ok(())
            }
            _ => self.put(index),
        }
    }

    /// Remembers the top. Indices count values, so they are bounded like them.
    fn put(&mut self, index: usize) -> Step {
        let id = self.top()?;
        if index >= MAX_NODES {
            let (size, limit) = (index as u64, MAX_NODES as u64);
            return Err(Malformed::TooLarge { what: "remembered values in the pickle", size, limit });
        }
        if index >= self.memo.len() {
            self.memo.resize(index + 1, None);
        }
        self.remembered += usize::from(self.memo[index].replace(id).is_none());
        Ok(())
    }

    fn name(&mut self) -> Step {
        let (module, name) = if self.opcode == b'c' {
            let module = to_text("module name", self.cursor.line()?, self.at)?;
            (module, to_text("name", self.cursor.line()?, self.at)?)
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            match (&self.nodes[module.0 as usize], &self.nodes[name.0 as usize]) {
                (Node::Text(module), Node::Text(name)) => (*module, *name),
                _ => return Err(self.bad_operand()),
            }
        };
        let index = self.allowed(module, name)?;
        self.push(Node::Global(index), 0)
    }

    /// The number of an allowed name.
    fn allowed(&mut self, module: &'a str, name: &'a str) -> Step<u32> {
        // Before any comparison, so that long names shared many times cost nothing.
        let size = module.len().max(name.len());
        if size > MAX_NAME {
            return Err(Malformed::TooLarge { what: "length of a name", size: size as u64, limit: MAX_NAME as u64 });
        }
        if let Some(index) = self.global_index.get(&(module, name)) {
            return Ok(*index);
        }
        let Some(meaning) = Meaning::of(module, name) else {
            return Err(Malformed::ForbiddenGlobal { module: module.into(), name: name.into() });
        };
        let index = self.globals.len() as u32;
        self.globals.push(Global { module, name, meaning });
        self.global_index.insert((module, name), index);
        Ok(index)
    }

    fn object(&mut self) -> Step {
        match self.opcode {
            b'Q' => {
                let id = self.pop()?;
                let depth = self.depth_above(&[id])?;
                self.push(Node::External(id), depth)
            }
            b'b' => self.build(),
            _ => self.make(),
        }
    }

    /// Notes that a name is applied to arguments.
    fn make(&mut self) -> Step {
        let (args, callable) = (self.pop()?, self.pop()?);
        let (Node::Global(global), Node::Tuple(items)) =
            (&self.nodes[callable.0 as usize], &self.nodes[args.0 as usize])
        else {
            return Err(self.bad_operand());
        };
        let Global { module, name, meaning } = self.globals[*global as usize];
        let allowed = if self.opcode == b'R' { meaning.reducible() } else { meaning.creatable() };
        if !allowed {
            return Err(Malformed::ForbiddenCall { module: module.into(), name: name.into() });
        }
        if meaning == Meaning::OrderedDict && items.is_empty() {
            return self.push(Node::Dict(Vec::new()), 1);
        }
        let node = Node::Made { global: *global, args, state: None };
        let depth = self.depth_above(&[args])?;
        self.push(node, depth)
    }

    /// Gives a made value its state.
    fn build(&mut self) -> Step {
        let new = self.pop()?;
        let target = self.top()?;
        let depth = self.depth_above(&[new])?;
        let error = self.bad_operand();
        match &mut self.nodes[target.0 as usize] {
            // Attributes on an ordered dictionary are versions of layers: of no interest.
            Node::Dict(_) => {}
            Node::Made { global, state, .. } if self.globals[*global as usize].meaning.buildable() => {
                *state = Some(new)
            }
            _ => return Err(error),
        }
        let below = &mut self.depths[target.0 as usize];
        *below = depth.max(*below);
        Ok(())
    }

    fn push(&mut self, node: Node<'a>, depth: u16) -> Step {
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
    fn pop(&mut self) -> Step<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn top(&self) -> Step<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(id) if self.stack.len() > floor => Ok(*id),
            _ => Err(self.bad_operand()),
        }
    }

    fn pop_to_mark(&mut self) -> Step<Vec<Id>> {
        let Some(mark) = self.marks.pop() else { return Err(self.bad_operand()) };
        Ok(self.stack.split_off(mark))
    }

    /// Depth of a container of these items.
    fn depth_above(&self, items: &[Id]) -> Step<u16> {
        let below = items.iter().map(|id| self.depths[id.0 as usize]).max().unwrap_or(0);
        if usize::from(below) >= MAX_DEPTH {
            return Err(Malformed::TooDeep { limit: MAX_DEPTH });
        }
        Ok(below + 1)
    }

    fn bad_operand(&self) -> Malformed {
        Malformed::Operand { opcode: self.opcode, offset: self.at }
    }
}

/// A little-endian two's complement integer of any length.
fn long(bytes: &[u8]) -> Node<'_> {
    let Some(last) = bytes.last() else { return Node::Int(0) };
    if bytes.len() > 8 {
        return Node::Long(bytes);
    }
    let mut wide = [if *last >= 0x80 { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    Node::Int(i64::from_le_bytes(wide))
}
