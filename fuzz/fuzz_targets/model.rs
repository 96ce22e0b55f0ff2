//! Model files as `--model` takes them: safetensors with a network and its configuration, or a mixture; built, not run.
#![no_main]

use dyweight::files::{SharedBytes, TensorFile};
use dyweight::models::ModelSpec;
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let bytes = SharedBytes::from(data.to_vec());
    if let Some(file) = shown(TensorFile::parse(bytes.clone())) {
        let again = TensorFile::parse(file.to_bytes().into()).expect("what was written can be read");
        assert_eq!(again, file);
    }
    let _ = shown(ModelSpec::named("fuzz").parse(Path::new("fuzz.safetensors"), bytes));
}));
