//! Solver files and coefficient tensors as `--solver` takes them; built, written and read again.
#![no_main]

use dyweight::files::SharedBytes;
use dyweight::solver_file::SolverFile;
use dyweight::learned::Learned;
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let Some(learned) = shown(Learned::parse(Path::new("fuzz"), SharedBytes::from(data.to_vec()))) else { return };
    if let Some(file) = learned.file {
        let _ = shown(file.build());
        assert_eq!(file.grid().expect("checked").steps(), file.steps);
        let _ = file.warnings();
        assert_eq!(SolverFile::parse(&file.to_bytes()).expect("what was written can be read"), file);
    }
}));
