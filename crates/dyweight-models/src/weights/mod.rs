//! Tensors by name: from files and folders of any layout to the layers of a network.
//!
//! ```text
//! set      the named tensors of a file, or of the several files of one network
//! folder   the folder of a network as diffusers and transformers write it: config.json and weights, in one file or
//!          shards
//! layout   where a file keeps the tensor a network knows under its own name
//! pages    where a layer's tensors lie in a file, to be read ahead and let go
//! source   tensors for a network: from a set, from random numbers, or none at all, only noting what is asked for
//! random   the random numbers
//! check    what is missing, misshapen or left over, by name
//! ```
//!
//! A network states its tensors once, where its layers are built. Built from a source that only notes, it gives the
//! list of names and shapes against which a file is checked before a number of it is read.

mod check;
mod folder;
mod layout;
mod pages;
mod random;
mod set;
mod source;

pub use folder::Folder;
pub(crate) use folder::{config_of, inside, read_json, weights_of};
pub(crate) use layout::{Layout, Location, Part};
pub(crate) use pages::Pages;

pub use set::{Found, TensorSet};
pub(crate) use source::{Scope, Source};
pub use source::{TensorPlan, Weighed};
