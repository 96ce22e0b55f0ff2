//! Readers: built files, reference files. One program: linking one takes as long as many tests.

#[path = "../build/mod.rs"]
mod build;

mod arrays;
mod golden;
mod pickle;
