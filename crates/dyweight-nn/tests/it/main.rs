//! Operations against f64 references and finite differences; threads and batches change nothing. One program: linking
//! one takes as long as many tests.

#[path = "../common/mod.rs"]
mod common;

mod attention;
mod bf16;
mod convolution;
mod determinism;
mod integers;
mod layers;
mod tokens;
mod weights;
