//! What each instruction does.

use super::graph::{Global, Id, Node};
use super::machine::{Machine, Step};
use super::{MAX_DEPTH, MAX_NAME, MAX_NODES, Meaning};
use crate::Malformed;
use crate::bytes::{to_text, to_usize};

const MAX_PROTOCOL: u8 = 5;

impl<'a> Machine<'a> {
    pub(super) fn protocol(&mut self) -> Step {
        match self.cursor.u8()? {
            0..=MAX_PROTOCOL => Ok(()),
            found => Err(Malformed::Header { what: "pickle protocol", found: found.to_string() }),
        }
    }

    /// A frame only announces how many bytes follow.
    pub(super) fn frame(&mut self) -> Step {
        let len = self.cursor.length("pickle frame")?;
        self.cursor.clone().take(len).map(|_| ())
    }

    pub(super) fn mark(&mut self) -> Step {
        if self.marks.len() == MAX_DEPTH {
            return Err(Malformed::TooDeep { limit: MAX_DEPTH });
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    pub(super) fn number(&mut self) -> Step {
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
    pub(super) fn len(&mut self) -> Step<usize> {
        match self.opcode {
            0x8c | b'C' => Ok(self.cursor.u8()?.into()),
            b'X' | b'B' => to_usize("text or bytes", self.cursor.u32()?.into()),
            _ => self.cursor.length("text or bytes"),
        }
    }

    pub(super) fn text(&mut self) -> Step {
        let len = self.len()?;
        let text = to_text("pickle text", self.cursor.take(len)?, self.at)?;
        self.push(Node::Text(text), 0)
    }

    pub(super) fn bytes(&mut self) -> Step {
        let len = self.len()?;
        let start = self.cursor.position();
        self.cursor.take(len)?;
        self.push(Node::Bytes(start..start + len), 0)
    }

    pub(super) fn container(&mut self) -> Step {
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
    pub(super) fn fill(&mut self) -> Step {
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

    pub(super) fn remember(&mut self) -> Step {
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
    pub(super) fn put(&mut self, index: usize) -> Step {
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

    pub(super) fn name(&mut self) -> Step {
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
    pub(super) fn allowed(&mut self, module: &'a str, name: &'a str) -> Step<u32> {
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

    pub(super) fn object(&mut self) -> Step {
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
    pub(super) fn make(&mut self) -> Step {
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
    pub(super) fn build(&mut self) -> Step {
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
