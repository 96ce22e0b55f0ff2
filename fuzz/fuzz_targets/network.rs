//! Pickles of networks, and what `inspect` and `convert` make of them: configuration, plan, safetensors.
#![no_main]

use dyweight::files::{NetworkFile, SharedBytes, TensorFile, sniff};
use dyweight::models::edm::{EdmFile, parameters};
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let bytes = SharedBytes::from(data.to_vec());
    let _ = sniff(&bytes);
    let Some(file) = shown(NetworkFile::parse(bytes.clone())) else { return };
    let _ = shown(parameters(&file.config()));
    if let Some(edm) = shown(EdmFile::parse(Path::new("fuzz.pkl"), bytes, None)) {
        let written = edm.to_safetensors().to_bytes();
        let read = TensorFile::parse(written.into()).expect("what was written can be read");
        assert_eq!(read.tensors, edm.tensors);
        let _ = edm.sha256();
    }
}));
