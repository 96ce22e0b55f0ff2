//! Models, each in terms of engine operations or a closed form.

pub mod edm;
pub mod embedded;
pub mod features;
pub mod mixture;
