//! The configuration of a CompVis U-Net whose file came without one, out of names and shapes.
//!
//! ```text
//! model channels   rows of input_blocks.0.0.weight
//! levels           cut by the blocks that have `.0.op.`; the channels of each are the rows of its blocks' out_layers.3
//! attention        blocks with `.1.`; with `.qkv.` they are without context, else its width are the columns of
//!                  attn2.to_k
//! heads            not in the file: 8 in all for contexts of 768 (SD 1.x), else of width 64 (SD 2.x); of width 32
//!                  without
//!                  a context (LSUN)
//! ```

use super::config::UnetConfig;
use super::names::prefix;
use crate::weights::TensorSet;
use dyweight_files::Malformed;

/// No released network has more blocks on its way down.
const MOST_BLOCKS: usize = 256;
const SD1_CONTEXT: usize = 768;

impl UnetConfig {
    /// Reads the configuration off the tensors.
    pub(crate) fn of_compvis_tensors(set: &TensorSet) -> Result<Self, Malformed> {
        let missing = |name: String| Malformed::Missing { name };
        let prefix = prefix(set).ok_or_else(|| missing("input_blocks.0.0.weight".into()))?;
        let size = |name: String, axis: usize| -> Result<usize, Malformed> {
            let name = format!("{prefix}{name}");
            set.shape(&name).and_then(|shape| shape.get(axis)).copied().ok_or_else(|| missing(name.clone()))
        };
        let has = |name: String| set.has(&format!("{prefix}{name}"));
        let mut levels: Vec<(usize, usize, bool)> = Vec::new();
        let (mut layers, mut width, mut attends) = (0, 0, false);
        let mut context = None;
        let mut depth = 1;
        for k in 1..MOST_BLOCKS {
            if has(format!("input_blocks.{k}.0.op.weight")) {
                levels.push((layers, width, attends));
                (layers, attends) = (0, false);
            } else if has(format!("input_blocks.{k}.0.in_layers.0.weight")) {
                layers += 1;
                width = size(format!("input_blocks.{k}.0.out_layers.3.weight"), 0)?;
                attends |= has(format!("input_blocks.{k}.1.norm.weight"));
                let blocks = |d: usize| format!("input_blocks.{k}.1.transformer_blocks.{d}.attn2.to_k.weight");
                if has(blocks(0)) {
                    context = Some(size(blocks(0), 1)?);
                    depth = (0..MOST_BLOCKS).take_while(|d| has(blocks(*d))).count();
                }
            } else {
                break;
            }
        }
        levels.push((layers, width, attends));
        let widths: Vec<usize> = levels.iter().map(|(_, width, _)| *width).collect();
        let down: Vec<bool> = levels.iter().map(|(_, _, attends)| *attends).collect();
        let heads = match context {
            Some(SD1_CONTEXT) => vec![8; widths.len()],
            Some(_) => widths.iter().map(|width| width / 64).collect(),
            None => widths.iter().map(|width| width / 32).collect(),
        };
        Self {
            inputs: size("input_blocks.0.0.weight".into(), 1)?,
            outputs: size("out.2.weight".into(), 0)?,
            layers,
            size: Some(64),
            ..Self::compvis(widths, down, heads, (depth, context))
        }
        .checked()
    }
}
