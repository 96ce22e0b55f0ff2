//! How much memory networks will need, from their configuration alone.
//!
//! ```text
//! weights       bytes of their file. They are mapped: read when they are used, and given back when memory is short
//! forward       activations alive at once in a call for one sample: what waits for the way up, and the largest block
//! gradient      everything the way back needs, and the largest block
//! decoding      the largest block of the decoder, for one image or one tile of it
//! ```
//!
//! Counted in the order the blocks run, an activation being pixels × channels × 4 bytes. Buffers that wait for reuse
//! are a quarter more at most ([`dyweight_nn::buffer::usage`]); operations need some megabytes besides.

use crate::autoencoder::{AutoencoderConfig, Tiling};
use crate::flux::{FluxConfig, KEPT};
use crate::unet::UnetConfig;

/// Bytes of a number.
const FLOAT: u64 = 4;
/// Transformed and packed pieces of operations, whatever the network.
const OPERATIONS: u64 = 24 << 20;
/// The program, its threads and its tables.
const PROGRAM: u64 = 48 << 20;

/// Bytes a latent diffusion model will need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MemoryNeeds {
    /// Weights, in the files they are mapped from.
    pub weights: u64,
    /// Beside them, for a call of one sample.
    pub forward: u64,
    /// The same with guidance: two samples at once.
    pub guided: u64,
    /// For a call of one sample with its gradient.
    pub gradient: u64,
    /// For decoding one image.
    pub decoding: u64,
}

impl MemoryNeeds {
    /// Of a U-Net, and an autoencoder's decoder where there is one, for latents of these rows and columns.
    pub fn new(unet: &UnetConfig, autoencoder: Option<&AutoencoderConfig>, size: [usize; 2], weights: u64) -> Self {
        let (forward, gradient) = unet_numbers(unet, size);
        let own = |numbers: u64| held(numbers * FLOAT);
        Self {
            weights,
            forward: own(forward),
            guided: own(2 * forward),
            gradient: own(gradient),
            decoding: autoencoder.map_or(0, |config| own(decoder_numbers(config, size))),
        }
    }

    /// Of a flow's transformer, and an autoencoder's decoder where there is one, for latents of these rows and columns
    /// and so many text tokens.
    pub(crate) fn of_flow(
        flux: &FluxConfig,
        decoder: Option<&AutoencoderConfig>,
        size: [usize; 2],
        texts: usize,
        weights: u64,
    ) -> Self {
        let tokens = texts + size[0] * size[1] / 4;
        let (call, kept) =
            (flux.activation_bytes(tokens), (flux.doubles + flux.singles) * flux.kept_by_a_block(tokens));
        Self {
            weights,
            forward: held(call as u64),
            // The strength is an input, or two samples are made at once.
            guided: held(if flux.guidance { call } else { 2 * call } as u64),
            gradient: held((call + kept.min(KEPT)) as u64),
            decoding: decoder.map_or(0, |config| held(decoder_numbers(config, size) * FLOAT)),
        }
    }
}

/// What a process holds for activations of so many bytes.
fn held(activations: u64) -> u64 {
    activations * 5 / 4 + OPERATIONS + PROGRAM
}

/// A residual block's numbers alive at once. Its input, if it is the block's own, goes when the shortcut is made.
fn res(inputs: u64, outputs: u64, own_input: bool) -> u64 {
    let first = if own_input { inputs } else { 0 };
    let (held, shortcut) = if inputs != outputs { (0, outputs) } else { (first, 0) };
    (first + inputs + shortcut).max(held + shortcut + inputs + outputs).max(held + shortcut + 2 * outputs)
}

/// Beyond its input: a spatial transformer's (its gated layer is 8 and 4 times as wide), or a plain attention's.
fn mixing(channels: u64, has_context: bool) -> u64 {
    channels * if has_context { 13 } else { 6 }
}

/// What a gradient keeps of these two, beside inputs and outputs.
fn kept_of_mixing(channels: u64, depth: u64, has_context: bool) -> u64 {
    channels * if has_context { 18 * depth } else { 3 }
}

/// Numbers alive at once in a call of a U-Net for one sample, without and with the gradient.
pub(crate) fn unet_numbers(config: &UnetConfig, [h, w]: [usize; 2]) -> (u64, u64) {
    let pixels = |level: usize| ((h >> level) * (w >> level)) as u64;
    let widths: Vec<u64> = config.widths.iter().map(|width| *width as u64).collect();
    let has_context = config.context.is_some();
    let levels = widths.len();
    let (mut waiting, mut peak, mut kept) = (vec![pixels(0) * widths[0]], 0u64, pixels(0) * widths[0]);
    let mut channels = widths[0];
    // A block of `inputs` channels at a level: what it takes at once beyond what waits, and what a gradient keeps of
    // it.
    let block = |level: usize, inputs: u64, attends: bool, own_input: bool| {
        let (p, width) = (pixels(level), widths[level]);
        let input = if own_input { inputs } else { 0 };
        let mixed = if attends { width + mixing(width, has_context) } else { 0 };
        let depth = config.depths[level] as u64;
        let more = if attends { width + kept_of_mixing(width, depth, has_context) } else { 0 };
        (p * res(inputs, width, own_input).max(mixed), p * (input + 2 * width + more))
    };
    let mut run = |waiting: &[u64], (now, later): (u64, u64)| {
        peak = peak.max(waiting.iter().sum::<u64>() + now);
        kept += later;
    };
    for (level, width) in widths.iter().enumerate() {
        for _ in 0..config.layers {
            run(&waiting, block(level, channels, config.down_attends[level], false));
            channels = *width;
            waiting.push(pixels(level) * channels);
        }
        if level + 1 < levels {
            waiting.push(pixels(level + 1) * channels);
        }
    }
    run(&waiting, block(levels - 1, channels, true, false));
    run(&waiting, block(levels - 1, channels, false, true));
    for (i, attends) in config.up_attends.iter().enumerate() {
        let level = levels - 1 - i;
        for _ in 0..=config.layers {
            let skip = waiting.pop().unwrap_or(0);
            run(&waiting, block(level, channels + skip / pixels(level).max(1), *attends, true));
            channels = widths[level];
        }
        if level > 0 {
            run(&waiting, (5 * pixels(level - 1) * channels / 4 + pixels(level - 1) * channels, 0));
        }
    }
    // The way back begins with all that was kept, and the gradient of the widest layer.
    let back = pixels(0) * widths[0] * if has_context { 14 } else { 5 };
    (peak, kept + back)
}

/// Numbers alive at once when an image is decoded.
pub(crate) fn decoder_numbers(config: &AutoencoderConfig, size: [usize; 2]) -> u64 {
    let levels = config.widths.len();
    let widths: Vec<u64> = config.widths.iter().rev().map(|width| *width as u64).collect();
    let factor = config.factor() as u64;
    let whole = (size[0] * size[1]) as u64;
    let (side, tiled) = match Tiling::of(size) {
        Some(tiling) if levels > 1 => ((tiling.side.min(2 * size[0]) * tiling.side.min(2 * size[1])) as u64 / 4, true),
        _ => (whole, false),
    };
    // A tiled image has its coarse part and itself in memory all the time.
    let image = whole * factor * factor * config.images as u64 * 2;
    let held = if tiled { 4 * whole * widths[0] + image } else { image };
    let mut channels = widths[0];
    let mut peak = whole * 8 * channels;
    for (level, width) in widths.iter().enumerate() {
        let pixels = if level == 0 { whole } else { side << (2 * level) };
        let held = if level == 0 { 0 } else { held };
        peak = peak.max(held + pixels * res(channels, *width, true));
        channels = *width;
        if level + 1 < levels {
            peak = peak.max(held + 8 * pixels * channels);
        }
    }
    peak
}
