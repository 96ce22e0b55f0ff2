//! What `inspect` says of a latent diffusion model: its parts, and the memory it will need.

use super::inspect::InspectArgs;
use crate::files::text;
use crate::ui;
use dyweight::Result;
use dyweight::models::ModelSpec;
use dyweight::models::latent::Summary;
use serde_json::{Value, json};

/// The model the arguments name.
pub fn summary(args: &InspectArgs) -> Result<Option<Summary>> {
    let spec = ModelSpec {
        model: text(&args.file),
        config: args.config.clone(),
        precision: args.precision.clone(),
        height: args.height,
        width: args.width,
        tokenizer: args.tokenizer.clone(),
        ..ModelSpec::default()
    };
    spec.summary()
}

/// For programs.
pub fn facts(summary: &Summary) -> Value {
    let mut facts = json!(summary);
    facts["peak_bytes"] = json!(summary.peak());
    facts["least_bytes"] = json!(summary.least());
    facts
}

/// For people.
pub fn show(summary: &Summary) {
    let shape = |shape: &[usize; 3]| shape.map(|size| size.to_string()).join("x");
    let mut rows = vec![["part", "tensors", "weights", "size", "file"].map(String::from).to_vec()];
    for part in &summary.parts {
        let weighed = &part.weighed;
        let numbers = [part.part.to_string(), weighed.tensors.to_string(), weighed.numbers.to_string()];
        rows.push([numbers.to_vec(), vec![size(weighed.bytes), part.path.clone()]].concat());
    }
    ui::table(&rows);
    let images = summary.images.map_or("without a decoder".into(), |images| format!("images {}", shape(&images)));
    let texts = if summary.takes_text { "takes prompts" } else { "takes no prompts" };
    ui::print(&format!("predicts {}, {texts}; latents {}, {images}", summary.predicts, shape(&summary.latents)));
    if let Some(precision) = summary.precision {
        ui::print(&format!("products in {precision}, everything else in f32"));
    }
    if let Some(operations) = summary.operations {
        ui::print(&format!(
            "a call for one sample: {operations:.2e} operations; --dry-run of sample says how long that takes here"
        ));
    }
    let needs = &summary.memory;
    ui::print(&format!(
        "memory: {} of weights{}; beside them {} for a call, {} with guidance, {} with the gradient, {} for decoding",
        size(needs.weights),
        if summary.mapped { ", mapped from their files" } else { "" },
        size(needs.forward),
        size(needs.guided),
        size(needs.gradient),
        size(needs.decoding)
    ));
    let less = match summary.mapped {
        true => format!("; with less than {} it cannot run, in between it reads weights again", size(summary.least())),
        false => String::new(),
    };
    ui::print(&format!("peak resident memory: {}{less}", size(summary.peak())));
}

/// Bytes in words.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
