//! Where a file keeps a tensor: its name there, and which rows of it.

use super::set::TensorSet;

/// Some rows of a stored tensor, counted in multiples of the rows that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Rows before, as a fraction of the rows asked for.
    pub(crate) before: (usize, usize),
    /// All rows, likewise.
    pub(crate) of: (usize, usize),
}

impl Part {
    /// The `index`th of `count` equal parts.
    pub(crate) fn equal(index: usize, count: usize) -> Self {
        Self { before: (index, 1), of: (count, 1) }
    }

    pub(crate) fn first(self, rows: usize) -> usize {
        rows * self.before.0 / self.before.1
    }

    pub(crate) fn total(self, rows: usize) -> usize {
        rows * self.of.0 / self.of.1
    }
}

/// Where a tensor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) name: String,
    /// Part of its rows; all of them if there is none.
    pub(crate) part: Option<Part>,
    /// True if rows and columns are exchanged.
    pub(crate) transposed: bool,
}

impl From<String> for Location {
    fn from(name: String) -> Self {
        Self { name, part: None, transposed: false }
    }
}

type Locate = dyn Fn(&str) -> Location + Send + Sync;
type Owns = dyn Fn(&str) -> bool + Send + Sync;

/// How a file names the tensors of a network.
pub(crate) struct Layout {
    locate: Box<Locate>,
    owns: Box<Owns>,
}

impl Layout {
    /// `locate` takes the network's name of a tensor, `owns` says whether a name of the file belongs to the network.
    pub(crate) fn new(
        locate: impl Fn(&str) -> Location + Send + Sync + 'static,
        owns: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { locate: Box::new(locate), owns: Box::new(owns) }
    }

    /// The network's own names after a prefix.
    pub(crate) fn prefixed(prefix: &str) -> Self {
        let (before, owned) = (prefix.to_string(), prefix.to_string());
        Self::new(move |name| format!("{before}{name}").into(), move |name| name.starts_with(&owned))
    }

    /// The same, with some of the file's tensors of no concern.
    pub(crate) fn ignoring(self, ignored: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let owns = self.owns;
        Self { owns: Box::new(move |name| owns(name) && !ignored(name)), ..self }
    }

    /// The same, with whatever else the file holds of no concern.
    pub(crate) fn lenient(self) -> Self {
        Self { owns: Box::new(|_| false), ..self }
    }

    /// The shape of a tensor the network knows as `name`, if the file has it.
    pub(crate) fn shape(&self, set: &TensorSet, name: &str) -> Option<Vec<usize>> {
        let place = self.locate(name);
        let mut shape = set.shape(&place.name)?.to_vec();
        if place.transposed {
            shape.reverse();
        }
        if let (Some(rows), Some(part)) = (shape.first_mut(), place.part) {
            *rows = *rows * part.of.1 / part.of.0.max(1);
        }
        Some(shape)
    }

    pub(crate) fn locate(&self, name: &str) -> Location {
        (self.locate)(name)
    }

    /// Names of the set that belong to the network.
    pub(crate) fn owned<'s>(&'s self, set: &'s TensorSet) -> impl Iterator<Item = &'s str> {
        set.tensors.keys().map(String::as_str).filter(|name| (self.owns)(name))
    }
}
