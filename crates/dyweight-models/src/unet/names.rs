//! Names of a U-Net's tensors in files.
//!
//! The network asks by the names of diffusers. CompVis numbers all blocks through, p = layers + 1 to a level:
//!
//! ```text
//! down_blocks.i.{resnets,attentions}.j ↔ input_blocks.{1+ip+j}.{0,1}
//!                                                       down_blocks.i.downsamplers.0.conv ↔ input_blocks.{(i+1)p}.0.op
//! up_blocks.i.{resnets,attentions}.j   ↔ output_blocks.{ip+j}.{0,1}
//!                                                 up_blocks.i.upsamplers.0.conv ↔ output_blocks.{ip+p−1}.{1 or 2}.conv
//! ```
//!
//! Averaged weights are stored a second time, under `model_ema.` and the name without its dots.

use super::config::UnetConfig;
use crate::weights::{Layout, TensorSet};

/// The tensor every CompVis U-Net begins with.
const FIRST: &str = "input_blocks.0.0.weight";
/// What its wrapper calls the U-Net.
const WRAPPED: &str = "diffusion_model.";
const AVERAGED: &str = "model_ema.";

/// The layout of diffusers.
pub(crate) fn diffusers(set: &TensorSet) -> Option<Layout> {
    let prefix = set.prefix_of("down_blocks.0.resnets.0.time_emb_proj.weight")?;
    Some(Layout::prefixed(prefix))
}

/// The layout of CompVis, if the set has it; averaged weights if they are there and `averaged` are preferred.
pub(crate) fn compvis(set: &TensorSet, config: &UnetConfig, averaged: bool) -> Option<Layout> {
    let (layers, up_attends) = (config.layers, config.up_attends.clone());
    let translate = move |name: &str| translate(name, layers, &up_attends).unwrap_or_else(|| name.into());
    if averaged && set.has(&format!("{AVERAGED}{}", without_dots(&format!("{WRAPPED}{FIRST}")))) {
        let locate =
            move |name: &str| format!("{AVERAGED}{}", without_dots(&format!("{WRAPPED}{}", translate(name)))).into();
        let counters = ["model_ema.decay", "model_ema.num_updates"];
        return Some(Layout::new(locate, move |name| name.starts_with(AVERAGED) && !counters.contains(&name)));
    }
    let prefix = set.prefix_of(FIRST)?.to_string();
    let owned = prefix.clone();
    let owns = move |name: &str| name.strip_prefix(&owned).is_some_and(|rest| !owned.is_empty() || is_of_network(rest));
    Some(Layout::new(move |name| format!("{prefix}{}", translate(name)).into(), owns))
}

/// True if a set holds a CompVis U-Net.
pub(crate) fn is_compvis(set: &TensorSet) -> bool {
    set.prefix_of(FIRST).is_some()
}

/// What stands before a CompVis U-Net's names.
pub(super) fn prefix(set: &TensorSet) -> Option<&str> {
    set.prefix_of(FIRST)
}

/// In a file without prefixes, the U-Net's tensors are told by where they stand.
fn is_of_network(name: &str) -> bool {
    ["input_blocks.", "middle_block.", "output_blocks.", "time_embed.", "out."].iter().any(|b| name.starts_with(b))
}

fn without_dots(name: &str) -> String {
    name.replace('.', "")
}

/// The CompVis name of a tensor.
fn translate(name: &str, layers: usize, up_attends: &[bool]) -> Option<String> {
    let (module, leaf) = name.rsplit_once('.')?;
    let parts: Vec<&str> = module.split('.').collect();
    let p = layers + 1;
    let number = |text: &str| text.parse::<usize>().ok();
    let inner = |rest: &[&str]| rest.join(".");
    let module = match parts.as_slice() {
        ["conv_in"] => "input_blocks.0.0".into(),
        ["time_embedding", "linear_1"] => "time_embed.0".into(),
        ["time_embedding", "linear_2"] => "time_embed.2".into(),
        ["down_blocks", i, "downsamplers", ..] => format!("input_blocks.{}.0.op", (number(i)? + 1) * p),
        ["down_blocks", i, "resnets", j, part] => {
            format!("input_blocks.{}.0.{}", 1 + number(i)? * p + number(j)?, res_part(part)?)
        }
        ["down_blocks", i, "attentions", j, rest @ ..] => {
            format!("input_blocks.{}.1.{}", 1 + number(i)? * p + number(j)?, inner(rest))
        }
        ["mid_block", "resnets", j, part] => format!("middle_block.{}.{}", 2 * number(j)?, res_part(part)?),
        ["mid_block", "attentions", _, rest @ ..] => format!("middle_block.1.{}", inner(rest)),
        ["up_blocks", i, "resnets", j, part] => {
            format!("output_blocks.{}.0.{}", number(i)? * p + number(j)?, res_part(part)?)
        }
        ["up_blocks", i, "attentions", j, rest @ ..] => {
            format!("output_blocks.{}.1.{}", number(i)? * p + number(j)?, inner(rest))
        }
        ["up_blocks", i, "upsamplers", ..] => {
            let level = number(i)?;
            let place = if *up_attends.get(level)? { 2 } else { 1 };
            format!("output_blocks.{}.{place}.conv", level * p + layers)
        }
        ["conv_norm_out"] => "out.0".into(),
        ["conv_out"] => "out.2".into(),
        _ => return None,
    };
    Some(format!("{module}.{leaf}"))
}

fn res_part(part: &str) -> Option<&'static str> {
    Some(match part {
        "norm1" => "in_layers.0",
        "conv1" => "in_layers.2",
        "time_emb_proj" => "emb_layers.1",
        "norm2" => "out_layers.0",
        "conv2" => "out_layers.3",
        "conv_shortcut" => "skip_connection",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn blocks_are_numbered_through() {
        let up = [false, true, true];
        let of = |name: &str| translate(name, 2, &up).unwrap_or_default();
        assert_eq!(of("down_blocks.1.resnets.0.conv1.weight"), "input_blocks.4.0.in_layers.2.weight");
        assert_eq!(of("down_blocks.0.downsamplers.0.conv.bias"), "input_blocks.3.0.op.bias");
        assert_eq!(of("mid_block.resnets.1.norm2.bias"), "middle_block.2.out_layers.0.bias");
        assert_eq!(of("up_blocks.0.upsamplers.0.conv.weight"), "output_blocks.2.1.conv.weight");
        assert_eq!(of("up_blocks.1.upsamplers.0.conv.weight"), "output_blocks.5.2.conv.weight");
        assert_eq!(
            of("up_blocks.2.attentions.1.transformer_blocks.0.ff.net.0.proj.weight"),
            "output_blocks.7.1.transformer_blocks.0.ff.net.0.proj.weight"
        );
    }
}
