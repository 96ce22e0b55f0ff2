//! One file per command.

pub mod bench;
pub mod compare;
pub mod convert;
pub mod export;
pub mod inspect;
mod inspect_latent;
pub mod list;
pub mod metric;
pub mod probe;
pub mod quickstart;
pub mod sample;
pub mod shell;
mod solver_table;
pub mod study;
pub mod train;
