//! Coefficient files in the layout of the released ones, converted to solver files.
#![no_main]

use dyweight::files::{OfficialCoefficients, SharedBytes};
use dyweight::solver_file::SolverFile;
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let Some(coefficients) = shown(OfficialCoefficients::parse(SharedBytes::from(data.to_vec()))) else { return };
    let Some(file) = shown(dyweight::learned::released(&coefficients)) else { return };
    let _ = file.warnings();
    assert_eq!(SolverFile::parse(&file.to_bytes()).expect("what was written can be read"), file);
}));
