//! The library as a whole. One program: linking one takes as long as many tests.

#[path = "../../../dyweight-models/tests/edm_common/mod.rs"]
mod edm_common;

mod embedding;
mod faults;
mod flux;
mod fuzz_findings;
mod golden;
mod latent_presets;
mod official;
mod processes;
mod properties;
mod unsafe_code;
