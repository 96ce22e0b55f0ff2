//! Names of the towers' tensors in files. They are asked for by the names of transformers.
//!
//! ```text
//! visual.conv1.weight, visual.class_embedding, visual.positional_embedding ↔
//!     vision_model.embeddings.{patch_embedding.weight, class_embedding, position_embedding.weight}
//! visual.ln_pre, visual.ln_post, ln_final        ↔ vision_model.pre_layrnorm, vision_model.post_layernorm,
//!     text_model.final_layer_norm
//! [visual.]transformer.resblocks.i.attn.in_proj_{weight,bias}, rows q, k, v ↔
//!     ….layers.i.self_attn.{q,k,v}_proj.{weight,bias}
//! ….attn.out_proj, ….ln_1, ….ln_2, ….mlp.c_fc, ….mlp.c_proj
//!                                                     ↔ self_attn.out_proj, layer_norm1, layer_norm2, mlp.fc1, mlp.fc2
//! visual.proj, text_projection                   ↔ the transposed visual_projection.weight, text_projection.weight
//! ```

use crate::weights::{Layout, Location, Part, TensorSet};

/// The tensor every text tower has.
const TOKENS: &str = "embeddings.token_embedding.weight";

/// The layout of a text tower alone, in whatever it is part of; and what its names begin with.
pub(crate) fn text_tower(set: &TensorSet) -> Option<(Layout, String)> {
    let prefix = set.prefix_of(TOKENS)?.to_string();
    let owned = prefix.clone();
    let parts = ["embeddings.", "encoder.", "final_layer_norm."];
    let owns = move |name: &str| {
        let rest = name.strip_prefix(&owned);
        rest.is_some_and(|rest| parts.iter().any(|part| rest.starts_with(part)) && !is_buffer(rest))
    };
    let before = prefix.clone();
    Some((Layout::new(move |name| format!("{before}{name}").into(), owns), prefix))
}

/// Numbers that files keep although they follow from the configuration.
fn is_buffer(name: &str) -> bool {
    name.ends_with("position_ids")
}

/// The layout of both towers in transformers' names.
pub(crate) fn whole(set: &TensorSet) -> Option<Layout> {
    let prefix = set.prefix_of("vision_model.embeddings.class_embedding")?;
    let scale = format!("{prefix}logit_scale");
    Some(Layout::prefixed(prefix).ignoring(move |name| is_buffer(name) || *name == scale))
}

/// The layout of OpenCLIP, and of OpenAI's own files.
pub(crate) fn open_clip(set: &TensorSet) -> Option<Layout> {
    let prefix = set.prefix_of("visual.conv1.weight")?.to_string();
    let owned = prefix.clone();
    // Newer files put the text tower under a name of its own.
    let text = if set.has(&format!("{prefix}text.token_embedding.weight")) { "text." } else { "" };
    let ignored = ["logit_scale", "attn_mask", "text.attn_mask", "input_resolution", "context_length", "vocab_size"];
    let owns = move |name: &str| name.strip_prefix(&owned).is_some_and(|rest| !ignored.contains(&rest));
    let locate = move |name: &str| {
        let place = translate(name);
        let tower = if place.name.starts_with("visual.") { "" } else { text };
        Location { name: format!("{prefix}{tower}{}", place.name), ..place }
    };
    Some(Layout::new(locate, owns))
}

fn translate(name: &str) -> Location {
    let transposed = |name: &str| Location { transposed: true, ..Location::from(name.to_string()) };
    match name {
        "text_projection.weight" => return transposed("text_projection"),
        "visual_projection.weight" => return transposed("visual.proj"),
        "vision_model.embeddings.patch_embedding.weight" => return "visual.conv1.weight".to_string().into(),
        "vision_model.embeddings.class_embedding" => return "visual.class_embedding".to_string().into(),
        "vision_model.embeddings.position_embedding.weight" => return "visual.positional_embedding".to_string().into(),
        "text_model.embeddings.token_embedding.weight" => return "token_embedding.weight".to_string().into(),
        "text_model.embeddings.position_embedding.weight" => return "positional_embedding".to_string().into(),
        _ => {}
    }
    let (tower, rest) = match (name.strip_prefix("vision_model."), name.strip_prefix("text_model.")) {
        (Some(rest), _) => ("visual.", rest),
        (_, Some(rest)) => ("", rest),
        _ => return name.to_string().into(),
    };
    let norms = [("pre_layrnorm", "ln_pre"), ("post_layernorm", "ln_post"), ("final_layer_norm", "ln_final")];
    for (theirs, ours) in norms {
        if let Some(leaf) = rest.strip_prefix(theirs) {
            return format!("{tower}{ours}{leaf}").into();
        }
    }
    let Some(rest) = rest.strip_prefix("encoder.layers.") else { return name.to_string().into() };
    let (number, rest) = rest.split_once('.').unwrap_or((rest, ""));
    let at = format!("{tower}transformer.resblocks.{number}.");
    let projections = ["self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."];
    for (index, projection) in projections.iter().enumerate() {
        if let Some(leaf) = rest.strip_prefix(projection) {
            let part = Some(Part::equal(index, projections.len()));
            return Location { name: format!("{at}attn.in_proj_{leaf}"), part, transposed: false };
        }
    }
    let parts = [
        ("self_attn.out_proj", "attn.out_proj"),
        ("layer_norm1", "ln_1"),
        ("layer_norm2", "ln_2"),
        ("mlp.fc1", "mlp.c_fc"),
        ("mlp.fc2", "mlp.c_proj"),
    ];
    let found = parts.iter().find_map(|(ours, theirs)| Some(format!("{at}{theirs}{}", rest.strip_prefix(ours)?)));
    found.unwrap_or_else(|| name.to_string()).into()
}
