//! Folders of weights by their index, and of pipelines by theirs: what an index names stays beside it.
#![no_main]

use dyweight::models::ModelSpec;
use dyweight_fuzz::{bounded, place, shown};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let folder = place();
    let unet = folder.join("unet");
    std::fs::create_dir_all(&unet).expect("a folder");
    let at = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (index, rest) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let at = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let write = |path: &str, bytes: &[u8]| std::fs::write(folder.join(path), bytes).expect("the file can be written");
    write("model_index.json", index);
    write("unet/config.json", &rest[..at]);
    write("unet/diffusion_pytorch_model.safetensors.index.json", rest.get(at + 1..).unwrap_or_default());
    bounded(data, || {
        let _ = shown(ModelSpec::named(folder.to_str().expect("a name")).summary());
    });
});
