//! One file per command.

pub mod bench;
pub mod convert;
pub mod inspect;
pub mod list;
pub mod metric;
pub mod probe;
pub mod sample;
pub mod study;
pub mod train;
