//! Networks: reference values, gradients, invariances, refusals. One program: linking one takes as long as many tests.

#[path = "../../../dyweight-files/tests/build/mod.rs"]
mod build;
#[path = "../edm_common/mod.rs"]
mod edm_common;

mod clip_features;
mod edm_errors;
mod edm_gradients;
mod edm_invariance;
mod edm_reference;
mod fashion_judge;
mod flux_reference;
mod inception;
mod inception_golden;
mod latent_files;
mod latent_reference;
mod textmetrics_golden;
