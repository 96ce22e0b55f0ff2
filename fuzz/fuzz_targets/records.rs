//! Records of comparisons and studies.
#![no_main]

use dyweight::study::benchmark::{TrainingRecord, Score};
use dyweight::files::journal::parse;
use dyweight::study::numeric::{Record, Stat};
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let Some((lines, sound)) = shown(parse(data)) else { return };
    assert!(sound <= data.len());
    let (again, whole) = parse(&data[..sound]).expect("the sound part is sound");
    assert_eq!((again.len(), whole), (lines.len(), sound));
    for line in lines {
        if let Ok(record) = serde_json::from_value::<Record>(line.clone()) {
            let _ = Stat::of(&record.standard);
        }
        let _ = serde_json::from_value::<Score>(line.clone());
        let _ = serde_json::from_value::<TrainingRecord>(line);
    }
}));
