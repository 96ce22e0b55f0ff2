//! PNG images: what is read is written and read again.
#![no_main]

use dyweight::files::image::Image;
use dyweight_fuzz::{bounded, shown};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bounded(data, || {
    let Some(image) = shown(Image::from_png(data)) else { return };
    // Larger ones only cost time.
    if image.data().len() < 1 << 16 {
        assert_eq!(Image::from_png(&image.to_png()).expect("what was written can be read"), image);
    }
}));
