//! Lists of prompts: lines, JSON lines, tables.
#![no_main]

use dyweight::files::read_prompts;
use dyweight_fuzz::{bounded, place, shown};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let file = place().join("prompts");
    std::fs::write(&file, data).expect("the file can be written");
    bounded(data, || {
        for column in [None, Some("prompt")] {
            if let Some(prompts) = shown(read_prompts(&file, column)) {
                assert!(!prompts.is_empty() && prompts.iter().map(String::len).sum::<usize>() <= data.len() * 3);
            }
        }
    });
});
