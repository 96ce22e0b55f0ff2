//! Whether the tensors of a file are those of a network.

use super::layout::Layout;
use super::set::TensorSet;
use super::source::{TensorPlan, same_but_ones, stored_shape};
use dyweight_core::error::{Error, Problem, Result, printable};
use std::collections::HashSet;
use std::fmt;

/// Names of a kind in a message.
const MOST_NAMES: usize = 8;

/// What keeps a file's tensors from being a network's.
#[derive(Debug)]
pub(crate) struct Mismatch {
    what: &'static str,
    missing: Vec<String>,
    misshapen: Vec<String>,
    surplus: Vec<String>,
}

impl Mismatch {
    /// An error that lists every tensor of the plan that the set lacks or has in another shape, and every tensor of the
    /// set that belongs to the network by its name and not by the plan.
    pub(crate) fn check(what: &'static str, plan: &[TensorPlan], set: &TensorSet, layout: &Layout) -> Result<()> {
        let mut found = Self { what, missing: Vec::new(), misshapen: Vec::new(), surplus: Vec::new() };
        let mut used = HashSet::new();
        for tensor in plan {
            let place = layout.locate(&tensor.name);
            let expected = stored_shape(&tensor.shape, &place);
            match set.shape(&place.name) {
                None if tensor.optional => {}
                None => found.missing.push(place.name.clone()),
                Some(shape) if !same_but_ones(shape, &expected) => {
                    found.misshapen.push(format!("{} is {shape:?}, needs {expected:?}", printable(&place.name)));
                }
                Some(_) => {}
            }
            used.insert(place.name);
        }
        found.missing.dedup();
        found.surplus = layout.owned(set).filter(|name| !used.contains(*name)).map(String::from).collect();
        let fits = found.missing.is_empty() && found.misshapen.is_empty() && found.surplus.is_empty();
        if fits { Ok(()) } else { Err(Error::malformed(&set.path, found)) }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "these are not the tensors of the {} its configuration describes", self.what)?;
        let lists = [("missing", &self.missing), ("of another shape", &self.misshapen), ("of no layer", &self.surplus)];
        for (kind, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| printable(name)).collect();
            write!(f, "; {} {kind}: {}", names.len(), shown.join(", "))?;
            if names.len() > MOST_NAMES {
                write!(f, ", …")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Mismatch {}

impl Problem for Mismatch {
    fn hint(&self) -> Option<String> {
        Some("do configuration and weights belong together, and is the download complete?".into())
    }
}
