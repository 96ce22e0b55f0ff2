//! States of training runs and stored results of a teacher. Both carry a hash of their numbers, which no mutation would
//! get right: each file is read as it is, and again with the hash made right.
#![no_main]

use dyweight::files::{Fingerprint, SharedBytes, TensorFile};
use dyweight::train::{Block, Snapshot, parse_states};
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;

const IDENTITY: &str = "run";

fn read(bytes: SharedBytes) {
    for lengths in [[0, 0], [4, 0], [3, 2]] {
        let blocks = lengths.map(|len| Block::new("params", &[len]));
        let _ = shown(Snapshot::parse(bytes.clone(), IDENTITY, &blocks));
    }
    let _ = parse_states(bytes, [2, 1, 1, 2]);
}

fuzz_target!(|data: &[u8]| bounded(data, || {
    let bytes = SharedBytes::from(data.to_vec());
    read(bytes.clone());
    let Ok(mut file) = TensorFile::parse(bytes) else { return };
    let hash = file.tensors.values().fold(Fingerprint::default(), |mut hash, t| hash.add(t.bytes()).clone()).text();
    for (key, value) in [("format", "dyweight-training-state 3"), ("identity", IDENTITY), ("sha256", &hash)] {
        file.metadata.insert(key.into(), value.into());
    }
    read(file.to_bytes().into());
}));
