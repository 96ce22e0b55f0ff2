//! Names of an autoencoder's tensors in files. The network asks by the names of diffusers' `AutoencoderKL`.
//!
//! ```text
//! encoder.down_blocks.i.resnets.j    ↔ encoder.down.i.block.j          …downsamplers.0.conv ↔ …downsample.conv
//! decoder.up_blocks.i.resnets.j      ↔ decoder.up.{n−1−i}.block.j      …upsamplers.0.conv   ↔ …upsample.conv
//! …mid_block.resnets.{0,1}           ↔ …mid.block_{1,2}                …conv_norm_out       ↔ …norm_out
//! …mid_block.attentions.0.{group_norm, to_q, to_k, to_v, to_out.0} ↔ …mid.attn_1.{norm, q, k, v, proj_out}
//! …conv_shortcut                     ↔ …nin_shortcut
//! ```

use crate::weights::{Layout, TensorSet};

/// What old diffusers files call the projections of the attention.
const OLD: [(&str, &str); 4] = [("to_q", "query"), ("to_k", "key"), ("to_v", "value"), ("to_out.0", "proj_attn")];

/// The layout of diffusers, in its old spelling if the set has that.
pub(crate) fn diffusers(set: &TensorSet) -> Option<Layout> {
    let prefix = set.prefix_of("decoder.up_blocks.0.resnets.0.conv1.weight")?.to_string();
    let old = set.has(&format!("{prefix}decoder.mid_block.attentions.0.query.weight"));
    let owned = prefix.clone();
    let locate = move |name: &str| {
        let name = if old { old_spelling(name) } else { name.to_string() };
        format!("{prefix}{name}").into()
    };
    Some(Layout::new(locate, move |name| name.starts_with(&owned)))
}

fn old_spelling(name: &str) -> String {
    let found = OLD.iter().find(|(new, _)| name.contains(&format!("attentions.0.{new}.")));
    found.map_or(name.into(), |(new, old)| name.replacen(new, old, 1))
}

/// True if a set holds a CompVis autoencoder.
pub(crate) fn is_compvis(set: &TensorSet) -> bool {
    prefix(set).is_some()
}

fn prefix(set: &TensorSet) -> Option<&str> {
    set.prefix_of("decoder.up.0.block.0.conv1.weight")
}

/// The layout of CompVis for `levels` levels, and what its names begin with.
pub(crate) fn compvis(set: &TensorSet) -> Option<(Layout, String)> {
    let prefix = prefix(set)?.to_string();
    let levels = (0..).take_while(|i| set.has(&format!("{prefix}decoder.up.{i}.block.0.conv1.weight"))).count();
    let (owned, before) = (prefix.clone(), prefix.clone());
    let parts = ["encoder.", "decoder.", "quant_conv.", "post_quant_conv.", "quantize."];
    let owns =
        move |name: &str| name.strip_prefix(&owned).is_some_and(|rest| parts.iter().any(|part| rest.starts_with(part)));
    Some((Layout::new(move |name| format!("{before}{}", translate(name, levels)).into(), owns), prefix))
}

/// The CompVis name of a tensor.
fn translate(name: &str, levels: usize) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let rest = |rest: &[&str]| rest.join(".").replace("conv_shortcut", "nin_shortcut");
    match parts.as_slice() {
        [half, "mid_block", "resnets", j, tail @ ..] => {
            let number = j.parse::<usize>().unwrap_or(0) + 1;
            format!("{half}.mid.block_{number}.{}", rest(tail))
        }
        [half, "mid_block", "attentions", _, tail @ ..] => {
            let tail = tail.join(".").replace("group_norm", "norm").replace("to_out.0", "proj_out");
            format!("{half}.mid.attn_1.{}", tail.strip_prefix("to_").unwrap_or(&tail))
        }
        [half, "down_blocks", i, "resnets", j, tail @ ..] => format!("{half}.down.{i}.block.{j}.{}", rest(tail)),
        [half, "down_blocks", i, "downsamplers", _, tail @ ..] => {
            format!("{half}.down.{i}.downsample.{}", tail.join("."))
        }
        [half, "up_blocks", i, kind, j, tail @ ..] => {
            let level = (levels - 1).saturating_sub(i.parse().unwrap_or(0));
            match *kind {
                "resnets" => format!("{half}.up.{level}.block.{j}.{}", rest(tail)),
                _ => format!("{half}.up.{level}.upsample.{}", tail.join(".")),
            }
        }
        [half, "conv_norm_out", leaf] => format!("{half}.norm_out.{leaf}"),
        _ => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_numbered_the_other_way() {
        assert_eq!(
            translate("decoder.up_blocks.0.resnets.1.conv_shortcut.bias", 2),
            "decoder.up.1.block.1.nin_shortcut.bias"
        );
        assert_eq!(translate("decoder.up_blocks.0.upsamplers.0.conv.bias", 2), "decoder.up.1.upsample.conv.bias");
        assert_eq!(
            translate("encoder.mid_block.attentions.0.to_out.0.weight", 2),
            "encoder.mid.attn_1.proj_out.weight"
        );
        assert_eq!(translate("encoder.mid_block.attentions.0.to_q.weight", 2), "encoder.mid.attn_1.q.weight");
        assert_eq!(translate("quant_conv.bias", 2), "quant_conv.bias");
        assert_eq!(
            old_spelling("decoder.mid_block.attentions.0.to_out.0.bias"),
            "decoder.mid_block.attentions.0.proj_attn.bias"
        );
    }
}
