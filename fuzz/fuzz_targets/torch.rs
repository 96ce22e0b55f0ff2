//! Torch archives and legacy streams.
#![no_main]

use dyweight::files::{SharedBytes, TorchFile, sniff};
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let bytes = SharedBytes::from(data.to_vec());
    let _ = sniff(&bytes);
    let Some(file) = shown(TorchFile::parse(bytes)) else { return };
    for (_, tensor) in &file.tensors {
        assert_eq!(tensor.to_f32().len(), tensor.len());
    }
}));
