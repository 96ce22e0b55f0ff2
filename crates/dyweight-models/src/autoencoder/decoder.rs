//! From latents to images, with the gradient of the latents.

use super::config::AutoencoderConfig;
use super::middle::{EPS, Middle, MiddleTape};
use crate::blocks::{Res, ResSize, ResTape};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{
    Act, Activation, Conv2d, ConvAlgo, ConvSpec, GroupNorm, Modulation, NormStats, upsample_nearest,
    upsample_nearest_backward,
};
use std::sync::Arc;

/// The decoder.
pub(super) struct Decoder {
    conv_in: Conv2d,
    middle: Middle,
    /// The coarsest first.
    levels: Vec<(Vec<Res>, Option<Conv2d>)>,
    norm_out: GroupNorm,
    conv_out: Conv2d,
}

/// What the way back needs.
pub(super) struct DecoderTape {
    size: [usize; 2],
    middle: MiddleTape,
    levels: Vec<Vec<ResTape>>,
    last: Act,
    stats: NormStats,
}

impl Decoder {
    pub(super) fn new(scope: &Scope<'_>, config: &AutoencoderConfig, algo: ConvAlgo) -> Result<Self> {
        let (widths, norm) = (&config.widths, (config.groups, EPS));
        let mut channels = widths[widths.len() - 1];
        let conv_in = scope.conv("conv_in", ConvSpec::same(config.hidden, channels, 3, algo))?;
        let middle = Middle::new(&scope.at("mid_block"), config, algo)?;
        let mut levels = Vec::new();
        for (i, width) in widths.iter().rev().enumerate() {
            let at = scope.at("up_blocks").at(i);
            let mut blocks = Vec::new();
            for j in 0..=config.layers {
                let size = ResSize { inputs: channels, outputs: *width, time: None, norm };
                blocks.push(Res::new(&at.at("resnets").at(j), size, algo)?);
                channels = *width;
            }
            let double = || at.conv("upsamplers.0.conv", ConvSpec::same(*width, *width, 3, algo));
            levels.push((blocks, (i + 1 < widths.len()).then(double).transpose()?));
        }
        Ok(Self {
            conv_in,
            middle,
            levels,
            norm_out: scope.group_norm("conv_norm_out", channels, norm, Activation::Silu)?,
            conv_out: scope.conv("conv_out", ConvSpec::same(channels, config.images, 3, algo))?,
        })
    }

    pub(super) fn forward(&self, z: &Act, record: bool) -> (Act, Option<DecoderTape>) {
        let (mut h, middle) = self.middle.forward(self.conv_in.forward(z), record);
        let mut levels = Vec::new();
        for (blocks, double) in &self.levels {
            let mut tapes = Vec::new();
            for block in blocks {
                let (y, tape) = block.forward(Arc::new(h), None, record);
                h = y;
                tapes.extend(tape);
            }
            if let Some(conv) = double {
                h = conv.forward(&upsample_nearest(&h));
            }
            levels.push(tapes);
        }
        let (active, stats) = self.norm_out.forward(&h, Modulation::None);
        let image = self.conv_out.forward(&active);
        (image, middle.map(|middle| DecoderTape { size: z.size(), middle, levels, last: h, stats }))
    }

    pub(super) fn backward(&self, tape: DecoderTape, gradient: &Act) -> Act {
        let DecoderTape { size, middle, levels, last, stats } = tape;
        let to_active = self.conv_out.backward(gradient, last.size());
        let mut g = self.norm_out.backward(&last, &stats, Modulation::None, &to_active, None).x;
        drop((last, to_active));
        for ((blocks, double), tapes) in self.levels.iter().zip(levels).rev() {
            if let Some(conv) = double {
                g = upsample_nearest_backward(&conv.backward(&g, g.size()));
            }
            for (block, tape) in blocks.iter().zip(tapes).rev() {
                g = block.backward(tape, &g).0;
            }
        }
        let g = self.middle.backward(middle, &g);
        self.conv_in.backward(&g, size)
    }
}
