//! The layers of a network in order.
//!
//! The order of the plan is the order of execution and, apart from [`Step::Push`], that of the file. One walk over the
//! levels gives both families; they differ in widths, heads and the head of the network:
//!
//! ```text
//! encoder   level 0: conv          below: down [aux_down aux_skip | aux_residual]      then block0 … block{B−1}
//! decoder   lowest level: in0 in1  above: up        then block0 … block{B}, each joined with a pushed activation
//! head      aux_up, aux_norm, aux_conv per level (decoder "skip") or once at level 0; ADM: out_norm, out_conv
//! ```
//!
//! A level's activation is pushed after its aux layers: they replace what the block left, for the decoder too.

use super::config::{Config, Decoder, Encoder, Family, groups};
use dyweight_files::Malformed;

/// Resampling that goes with a layer.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Direction {
    /// Sizes stay.
    Same,
    /// Halves.
    Down,
    /// Doubles.
    Up,
}

/// A residual block.
pub(super) struct BlockPlan {
    /// Name of the layer.
    pub(super) name: String,
    /// Input channels, those joined included.
    pub(super) inputs: usize,
    /// Output channels.
    pub(super) outputs: usize,
    /// Resampling.
    pub(super) direction: Direction,
    /// Attention heads; 0 for none.
    pub(super) heads: usize,
    /// True if a pushed activation is joined to the input.
    pub(super) joins: bool,
}

/// A step of the network.
pub(super) enum Step {
    /// x ← 3×3 convolution.
    Conv {
        /// Name of the layer.
        name: String,
        /// Output channels.
        outputs: usize,
    },
    /// x ← residual block.
    Block(BlockPlan),
    /// Keeps x for the decoder.
    Push,
    /// aux ← halved.
    AuxDown {
        /// Name of the layer.
        name: String,
    },
    /// x ← x + 1×1 convolution of aux.
    AuxSkip {
        /// Name of the layer.
        name: String,
        /// Channels of aux.
        inputs: usize,
        /// Channels of x.
        outputs: usize,
    },
    /// x, aux ← (x + 3×3 convolution of aux, halved)/√2.
    AuxResidual {
        /// Name of the layer.
        name: String,
        /// Channels of aux.
        inputs: usize,
        /// Channels of x.
        outputs: usize,
    },
    /// out ← doubled.
    AuxUp {
        /// Name of the layer.
        name: String,
    },
    /// out ← out + 3×3 convolution of silu(normalised x).
    Head {
        /// Name of the normalisation.
        norm: String,
        /// Name of the convolution.
        conv: String,
        /// Channels of x.
        inputs: usize,
    },
}

/// The layers of a configuration, or why there are none.
pub(super) fn steps(config: &Config) -> Result<Vec<Step>, Malformed> {
    let mut walk = Walk { config, steps: Vec::new(), pushed: Vec::new(), current: config.channels };
    let mut aux = config.channels;
    let levels = config.net.channel_mult.len();
    (0..levels).for_each(|level| walk.encode(level, &mut aux));
    (0..levels).rev().for_each(|level| walk.decode(level));
    walk.steps.iter().try_for_each(check_divisions)?;
    Ok(walk.steps)
}

struct Walk<'c> {
    config: &'c Config,
    steps: Vec<Step>,
    pushed: Vec<usize>,
    current: usize,
}

impl Walk<'_> {
    fn encode(&mut self, level: usize, aux: &mut usize) {
        let net = &self.config.net;
        let at = |layer: &str| self.layer("enc", level, layer);
        if level == 0 {
            let outputs = net.family.pick(net.model_channels, net.width(0));
            self.steps.push(Step::Conv { name: at("conv"), outputs });
            self.current = outputs;
        } else {
            let (skip, name) = ([at("aux_down"), at("aux_skip")], at("aux_residual"));
            self.block("enc", level, "down", self.current, Direction::Down, false);
            let (inputs, outputs) = (*aux, self.current);
            match net.encoder {
                Encoder::Standard => {}
                Encoder::Skip => {
                    let [down, skip] = skip;
                    self.steps.extend([Step::AuxDown { name: down }, Step::AuxSkip { name: skip, inputs, outputs }]);
                }
                Encoder::Residual => {
                    self.steps.push(Step::AuxResidual { name, inputs, outputs });
                    *aux = outputs;
                }
            }
        }
        self.push();
        for b in 0..net.num_blocks {
            self.block("enc", level, &format!("block{b}"), net.width(level), Direction::Same, self.attends(level));
            self.push();
        }
    }

    fn decode(&mut self, level: usize) {
        let net = &self.config.net;
        let lowest = level + 1 == net.channel_mult.len();
        if lowest {
            self.block("dec", level, "in0", self.current, Direction::Same, true);
            self.block("dec", level, "in1", self.current, Direction::Same, false);
        } else {
            self.block("dec", level, "up", self.current, Direction::Up, false);
        }
        for b in 0..=net.num_blocks {
            let attends = self.attends(level) && net.family.pick(b == net.num_blocks, true);
            let name = format!("block{b}");
            self.joined_block(level, &name, attends);
        }
        self.head(level, lowest);
    }

    fn head(&mut self, level: usize, lowest: bool) {
        let (net, inputs) = (&self.config.net, self.current);
        let at = |layer: &str| self.layer("dec", level, layer);
        match net.family {
            Family::Adm if level == 0 => {
                self.steps.push(Step::Head { norm: "out_norm".into(), conv: "out_conv".into(), inputs });
            }
            Family::Song if level == 0 || net.decoder == Decoder::Skip => {
                let (up, norm, conv) = (at("aux_up"), at("aux_norm"), at("aux_conv"));
                if net.decoder == Decoder::Skip && !lowest {
                    self.steps.push(Step::AuxUp { name: up });
                }
                self.steps.push(Step::Head { norm, conv, inputs });
            }
            _ => {}
        }
    }

    fn attends(&self, level: usize) -> bool {
        self.config.net.attn_resolutions.contains(&self.config.size(level))
    }

    fn layer(&self, part: &str, level: usize, layer: &str) -> String {
        let size = self.config.size(level);
        format!("{part}.{size}x{size}_{layer}")
    }

    fn push(&mut self) {
        self.steps.push(Step::Push);
        self.pushed.push(self.current);
    }

    fn block(&mut self, part: &str, level: usize, layer: &str, outputs: usize, direction: Direction, attends: bool) {
        let heads = if attends { self.config.net.heads(outputs) } else { 0 };
        let (name, inputs) = (self.layer(part, level, layer), self.current);
        self.steps.push(Step::Block(BlockPlan { name, inputs, outputs, direction, heads, joins: false }));
        self.current = outputs;
    }

    fn joined_block(&mut self, level: usize, layer: &str, attends: bool) {
        let outputs = self.config.net.width(level);
        let heads = if attends { self.config.net.heads(outputs) } else { 0 };
        // Encoder and decoder push and pop L·(B + 1) times each.
        let inputs = self.current + self.pushed.pop().unwrap_or(0);
        let (name, direction) = (self.layer("dec", level, layer), Direction::Same);
        self.steps.push(Step::Block(BlockPlan { name, inputs, outputs, direction, heads, joins: true }));
        self.current = outputs;
    }
}

/// Normalisation groups and attention heads must divide the channels.
fn check_divisions(step: &Step) -> Result<(), Malformed> {
    let fits = |name: &str, channels: usize, parts: usize, what: &str| {
        if parts > 0 && channels.is_multiple_of(parts) {
            return Ok(());
        }
        Err(Malformed::Inconsistent {
            problem: format!("{name}: {channels} channels do not divide into {parts} {what}"),
        })
    };
    match step {
        Step::Block(block) => {
            fits(&block.name, block.inputs, groups(block.inputs), "normalisation groups")?;
            fits(&block.name, block.outputs, groups(block.outputs), "normalisation groups")?;
            fits(&block.name, block.outputs, block.heads.max(1), "attention heads")
        }
        Step::Head { norm, inputs, .. } => fits(norm, *inputs, groups(*inputs), "normalisation groups"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edm::Edm;
    use serde_json::json;

    /// Name of the layer; of the first, where there are two.
    fn name(step: &Step) -> &str {
        match step {
            Step::Push => "",
            Step::Block(block) => &block.name,
            Step::Conv { name, .. } | Step::AuxDown { name } | Step::AuxUp { name } => name,
            Step::AuxSkip { name, .. } | Step::AuxResidual { name, .. } | Step::Head { norm: name, .. } => name,
        }
    }

    fn config(options: serde_json::Value) -> Config {
        Config::from_map(options.as_object().unwrap()).unwrap()
    }

    fn size(config: &Config) -> (usize, usize) {
        (Edm::plan(config).unwrap().len(), Edm::parameters(config).unwrap())
    }

    #[test]
    fn sizes_and_order_of_small_networks() {
        let song = config(json!({
            "cls": "EDMPrecond", "model_type": "SongUNet", "img_resolution": 8, "img_channels": 3, "label_dim": 4,
            "augment_dim": 9, "model_channels": 16, "channel_mult": [1, 2], "num_blocks": 1, "attn_resolutions": [4],
            "embedding_type": "fourier", "channel_mult_noise": 2, "encoder_type": "residual", "decoder_type": "skip",
            "resample_filter": [1, 3, 3, 1],
        }));
        assert_eq!(size(&song), (158, 192_198));
        let steps = steps(&song).unwrap();
        let layers: Vec<&str> = steps.iter().map(name).filter(|n| !n.is_empty()).collect();
        let expected = [
            "enc.8x8_conv",
            "enc.8x8_block0",
            "enc.4x4_down",
            "enc.4x4_aux_residual",
            "enc.4x4_block0",
            "dec.4x4_in0",
            "dec.4x4_in1",
            "dec.4x4_block0",
            "dec.4x4_block1",
            "dec.4x4_aux_norm",
            "dec.8x8_up",
            "dec.8x8_block0",
            "dec.8x8_block1",
            "dec.8x8_aux_up",
            "dec.8x8_aux_norm",
        ];
        assert_eq!(layers, expected);
        let adm = config(json!({
            "cls": "EDMPrecond", "img_resolution": 8, "img_channels": 3, "label_dim": 4, "augment_dim": 9,
            "model_channels": 32, "channel_mult": [1, 2], "num_blocks": 1, "attn_resolutions": [4],
        }));
        assert_eq!(size(&adm), (150, 828_291));
    }
}
