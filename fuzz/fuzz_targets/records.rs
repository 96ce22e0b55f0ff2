//! Records of the numerical study.
#![no_main]

use dyweight::study::numeric::{Records, Stat};
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let Some(records) = shown(Records::parse(data)) else { return };
    assert!(records.sound <= data.len());
    let again = Records::parse(&data[..records.sound]).expect("the sound part is sound");
    assert_eq!(again.sound, records.sound);
    for record in records.cells.values() {
        let _ = Stat::of(&record.standard);
    }
}));
