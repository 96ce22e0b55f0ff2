//! The program as people use it. One program: linking one takes as long as many tests.

#[path = "../common/mod.rs"]
mod common;

mod benchmark;
mod cli;
mod documents;
mod edm_cli;
mod effect;
mod first_hour;
mod idle;
mod latent_cli;
mod limits;
mod methods;
mod metric_cli;
mod names;
mod outputs;
mod prompted;
mod resume;
mod streams;
mod training;
mod words;
