//! Numpy arrays and archives.
#![no_main]

use dyweight::files::{ArrayFile, SharedBytes, parse_npy};
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let bytes = SharedBytes::from(data.to_vec());
    if let Some(array) = shown(parse_npy(&bytes)) {
        assert_eq!(array.to_f64().len(), array.len());
    }
    let Some(file) = shown(ArrayFile::parse(bytes)) else { return };
    for array in file.arrays.values() {
        assert_eq!(array.to_f64().len(), array.len());
    }
}));
