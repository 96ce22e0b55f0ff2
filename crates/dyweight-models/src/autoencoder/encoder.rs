//! From images to latents.

use super::config::AutoencoderConfig;
use super::middle::{EPS, Middle};
use crate::blocks::{Res, ResSize};
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{Act, Activation, Conv2d, ConvAlgo, ConvSpec, GroupNorm, Modulation, Padding};
use std::sync::Arc;

/// The encoder.
pub(super) struct Encoder {
    conv_in: Conv2d,
    /// The finest first.
    levels: Vec<(Vec<Res>, Option<Conv2d>)>,
    middle: Middle,
    norm_out: GroupNorm,
    conv_out: Conv2d,
}

impl Encoder {
    pub(super) fn new(scope: &Scope<'_>, config: &AutoencoderConfig, outputs: usize, algo: ConvAlgo) -> Result<Self> {
        let (widths, norm) = (&config.widths, (config.groups, EPS));
        let mut channels = widths[0];
        let conv_in = scope.conv("conv_in", ConvSpec::same(config.images, channels, 3, algo))?;
        let mut levels = Vec::new();
        for (i, width) in widths.iter().enumerate() {
            let at = scope.at("down_blocks").at(i);
            let mut blocks = Vec::new();
            for j in 0..config.layers {
                let size = ResSize { inputs: channels, outputs: *width, time: None, norm };
                blocks.push(Res::new(&at.at("resnets").at(j), size, algo)?);
                channels = *width;
            }
            let spec = ConvSpec::same(*width, *width, 3, algo).with_stride(2).with_padding(Padding::after(1));
            let halve = || at.conv("downsamplers.0.conv", spec);
            levels.push((blocks, (i + 1 < widths.len()).then(halve).transpose()?));
        }
        Ok(Self {
            conv_in,
            levels,
            middle: Middle::new(&scope.at("mid_block"), config, algo)?,
            norm_out: scope.group_norm("conv_norm_out", channels, norm, Activation::Silu)?,
            conv_out: scope.conv("conv_out", ConvSpec::same(channels, outputs, 3, algo))?,
        })
    }

    pub(super) fn forward(&self, image: &Act) -> Act {
        let mut h = self.conv_in.forward(image);
        for (blocks, halve) in &self.levels {
            for block in blocks {
                h = block.forward(Arc::new(h), None, false).0;
            }
            if let Some(conv) = halve {
                h = conv.forward(&h);
            }
        }
        let (h, _) = self.middle.forward(h, false);
        self.conv_out.forward(&self.norm_out.forward(&h, Modulation::None).0)
    }
}
