//! Names of the tensors in files. They are asked for by the names of diffusers, but for the last modulation, whose
//! halves are asked for apart because the two layouts have them in opposite order.
//!
//! ```text
//! img_in, txt_in                                   ↔ x_embedder, context_embedder
//! {time,guidance,vector}_in.{in,out}_layer         ↔ time_text_embed.{timestep,guidance,text}_embedder.linear_{1,2}
//! double_blocks.i.{img,txt}_mod.lin                ↔ transformer_blocks.i.{norm1,norm1_context}.linear
//! double_blocks.i.img_attn.qkv, rows q, k, v       ↔ transformer_blocks.i.attn.{to_q,to_k,to_v}
//! double_blocks.i.txt_attn.qkv, rows q, k, v       ↔ transformer_blocks.i.attn.{add_q_proj,add_k_proj,add_v_proj}
//! double_blocks.i.{img,txt}_attn.norm.{query,key}_norm.scale ↔ ….attn.{norm_q,norm_k,norm_added_q,norm_added_k}.weight
//! double_blocks.i.{img,txt}_attn.proj              ↔ ….attn.{to_out.0,to_add_out}
//! double_blocks.i.{img,txt}_mlp.{0,2}              ↔ ….{ff,ff_context}.net.{0.proj,2}
//! single_blocks.i.modulation.lin, .norm.…, .linear2 ↔ single_transformer_blocks.i.{norm.linear, attn.norm_…, proj_out}
//! single_blocks.i.linear1, rows q, k, v, mlp (4×)  ↔ ….attn.{to_q,to_k,to_v}, ….proj_mlp
//! final_layer.linear                               ↔ proj_out
//! final_layer.adaLN_modulation.1 (shift, scale)    ↔ norm_out.linear (scale, shift)
//! ```

use crate::weights::{Layout, Location, Part, TensorSet};

/// A tensor every original file has.
const ORIGINAL: &str = "double_blocks.0.img_attn.norm.key_norm.scale";
const ORIGINAL_SINGLE: &str = "single_blocks.0.norm.key_norm.scale";
const DIFFUSERS: &str = "x_embedder.weight";
const DIFFUSERS_TEXT: &str = "context_embedder.weight";

/// The layout of the original files, and what their names begin with.
pub(crate) fn original(set: &TensorSet) -> Option<(Layout, String)> {
    let prefix = set.prefix_of(ORIGINAL).or_else(|| set.prefix_of(ORIGINAL_SINGLE))?.to_string();
    let (owned, before) = (prefix.clone(), prefix.clone());
    let parts =
        ["img_in", "txt_in", "time_in", "guidance_in", "vector_in", "double_blocks", "single_blocks", "final_layer"];
    let owns = move |name: &str| {
        let rest = name.strip_prefix(&owned);
        rest.and_then(|rest| rest.split('.').next()).is_some_and(|first| parts.contains(&first))
    };
    let locate = move |name: &str| {
        let place = translate(name);
        Location { name: format!("{before}{}", place.name), ..place }
    };
    Some((Layout::new(locate, owns), prefix))
}

/// The layout of diffusers.
pub(crate) fn diffusers(set: &TensorSet) -> Option<Layout> {
    let prefix = set.prefix_of(DIFFUSERS)?.to_string();
    if !set.has(&format!("{prefix}{DIFFUSERS_TEXT}")) {
        return None;
    }
    let owned = prefix.clone();
    let locate = move |name: &str| {
        let place = match name.strip_prefix("norm_out.") {
            Some(rest) => half_of(rest, "norm_out.linear", ["scale", "shift"]),
            None => name.to_string().into(),
        };
        Location { name: format!("{prefix}{}", place.name), ..place }
    };
    Some(Layout::new(locate, move |name| name.starts_with(&owned)))
}

/// `scale.weight` as rows of `whole.weight`.
fn half_of(rest: &str, whole: &str, order: [&str; 2]) -> Location {
    let (half, leaf) = rest.split_once('.').unwrap_or((rest, ""));
    let part = order.iter().position(|name| *name == half).map(|index| Part::equal(index, 2));
    Location { name: format!("{whole}.{leaf}"), part, transposed: false }
}

fn translate(name: &str) -> Location {
    if let Some(rest) = name.strip_prefix("norm_out.") {
        return half_of(rest, "final_layer.adaLN_modulation.1", ["shift", "scale"]);
    }
    let (module, leaf) = name.rsplit_once('.').unwrap_or((name, ""));
    let outside = [
        ("x_embedder", "img_in"),
        ("context_embedder", "txt_in"),
        ("proj_out", "final_layer.linear"),
        ("time_text_embed.timestep_embedder.linear_1", "time_in.in_layer"),
        ("time_text_embed.timestep_embedder.linear_2", "time_in.out_layer"),
        ("time_text_embed.guidance_embedder.linear_1", "guidance_in.in_layer"),
        ("time_text_embed.guidance_embedder.linear_2", "guidance_in.out_layer"),
        ("time_text_embed.text_embedder.linear_1", "vector_in.in_layer"),
        ("time_text_embed.text_embedder.linear_2", "vector_in.out_layer"),
    ];
    if let Some((_, theirs)) = outside.iter().find(|(ours, _)| *ours == module) {
        return format!("{theirs}.{leaf}").into();
    }
    let inside = |kind: &str| module.strip_prefix(kind).and_then(|rest| rest.split_once('.'));
    let found = match (inside("single_transformer_blocks."), inside("transformer_blocks.")) {
        (Some((i, module)), _) => single(module, leaf).map(|place| (format!("single_blocks.{i}."), place)),
        (None, Some((i, module))) => double(module, leaf).map(|place| (format!("double_blocks.{i}."), place)),
        (None, None) => None,
    };
    match found {
        Some((before, place)) => Location { name: format!("{before}{}", place.name), ..place },
        None => name.to_string().into(),
    }
}

/// A part of the rows of a tensor that several layers share.
fn rows(name: &str, leaf: &str, part: Part) -> Option<Location> {
    Some(Location { name: format!("{name}.{leaf}"), part: Some(part), transposed: false })
}

fn double(module: &str, leaf: &str) -> Option<Location> {
    let projections = [
        ("img_attn.qkv", ["attn.to_q", "attn.to_k", "attn.to_v"]),
        ("txt_attn.qkv", ["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"]),
    ];
    for (theirs, ours) in projections {
        if let Some(index) = ours.iter().position(|name| *name == module) {
            return rows(theirs, leaf, Part::equal(index, 3));
        }
    }
    let norms = [
        ("attn.norm_q", "img_attn.norm.query_norm"),
        ("attn.norm_k", "img_attn.norm.key_norm"),
        ("attn.norm_added_q", "txt_attn.norm.query_norm"),
        ("attn.norm_added_k", "txt_attn.norm.key_norm"),
    ];
    if let Some((_, theirs)) = norms.iter().find(|(ours, _)| *ours == module) {
        return Some(format!("{theirs}.scale").into());
    }
    let others = [
        ("norm1.linear", "img_mod.lin"),
        ("norm1_context.linear", "txt_mod.lin"),
        ("attn.to_out.0", "img_attn.proj"),
        ("attn.to_add_out", "txt_attn.proj"),
        ("ff.net.0.proj", "img_mlp.0"),
        ("ff.net.2", "img_mlp.2"),
        ("ff_context.net.0.proj", "txt_mlp.0"),
        ("ff_context.net.2", "txt_mlp.2"),
    ];
    others.iter().find(|(ours, _)| *ours == module).map(|(_, theirs)| format!("{theirs}.{leaf}").into())
}

fn single(module: &str, leaf: &str) -> Option<Location> {
    match module {
        "attn.to_q" => rows("linear1", leaf, Part::equal(0, 7)),
        "attn.to_k" => rows("linear1", leaf, Part::equal(1, 7)),
        "attn.to_v" => rows("linear1", leaf, Part::equal(2, 7)),
        // Four times as many rows as each of those before it.
        "proj_mlp" => rows("linear1", leaf, Part { before: (3, 4), of: (7, 4) }),
        "attn.norm_q" => Some("norm.query_norm.scale".to_string().into()),
        "attn.norm_k" => Some("norm.key_norm.scale".to_string().into()),
        "norm.linear" => Some(format!("modulation.lin.{leaf}").into()),
        "proj_out" => Some(format!("linear2.{leaf}").into()),
        _ => None,
    }
}
