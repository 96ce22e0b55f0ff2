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

/// Blocks of one size, and the convolution behind their doubling.
type Rise = (Vec<Res>, Option<Conv2d>);

/// The decoder.
pub(super) struct Decoder {
    conv_in: Conv2d,
    middle: Middle,
    /// The coarsest first.
    levels: Vec<Rise>,
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
        let (h, middle) = self.middle.forward(self.conv_in.forward(z), record);
        let (h, levels) = self.rise(h, &self.levels, record);
        let (active, stats) = self.norm_out.forward(&h, Modulation::None);
        let last = record.then_some(h);
        let image = self.conv_out.forward(&active);
        let tape = middle.zip(last).map(|(middle, last)| DecoderTape { size: z.size(), middle, levels, last, stats });
        (image, tape)
    }

    /// Through some of the levels.
    fn rise(&self, mut h: Act, levels: &[Rise], record: bool) -> (Act, Vec<Vec<ResTape>>) {
        let mut all = Vec::new();
        for (blocks, double) in levels {
            let mut tapes = Vec::new();
            for block in blocks {
                let (y, tape) = block.forward(Arc::new(h), None, record);
                h = y;
                tapes.extend(tape);
            }
            if let Some(conv) = double {
                let doubled = upsample_nearest(&h);
                drop(h);
                h = conv.forward(&doubled);
            }
            all.push(tapes);
        }
        (h, all)
    }

    /// Pixels along a pixel of the latents behind the part that sees all of an image.
    pub(super) fn coarse_factor(&self) -> usize {
        if self.levels.len() > 1 { 2 } else { 1 }
    }

    /// The coarse part: the middle with its attention, and the coarsest level.
    pub(super) fn coarse(&self, z: &Act) -> Act {
        let (h, _) = self.middle.forward(self.conv_in.forward(z), false);
        self.rise(h, &self.levels[..1], false).0
    }

    /// What follows the coarse part.
    pub(super) fn fine(&self, h: Act) -> Act {
        let (h, _) = self.rise(h, &self.levels[1..], false);
        let (active, _) = self.norm_out.forward(&h, Modulation::None);
        drop(h);
        self.conv_out.forward(&active)
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
