//! The layers of Inception-v3 as the FID uses it (Szegedy et al. 2015, in the TensorFlow model of 2015-12-05), and the
//! names its files give them.
//!
//! ```text
//! input 3×299×299
//! stem   3×3/2 32 · 3×3 32 · 3×3 64 · max/2 · 1×1 80 · 3×3 192 · max/2                              192×35×35
//! A ×3   [1×1] [1×1 5×5] [1×1 3×3 3×3] [mean 1×1]                                        256, 288, 288×35×35
//! B      [3×3/2] [1×1 3×3 3×3/2] [max/2]                                                           768×17×17
//! C ×4   [1×1] [1×1 1×7 7×1] [1×1 7×1 1×7 7×1 1×7] [mean 1×1]                                      768×17×17
//! D      [1×1 3×3/2] [1×1 1×7 7×1 3×3/2] [max/2]                                                    1280×8×8
//! E ×2   [1×1] [1×1 (1×3 | 3×1)] [1×1 3×3 (1×3 | 3×1)] [mean or max, 1×1]                           2048×8×8
//! ```
//!
//! Every convolution is a unit `max(0, norm(conv(x)))` without a bias of its own; `/2` is stride 2 without padding.
//! Means are over the real pixels of a 3×3 window; the last block alone takes the maximum instead.

/// A layer, with what it has for each unit.
pub(super) enum Op<T> {
    /// A unit.
    Unit(T),
    /// The mean over 3×3 windows, then a 1×1 unit.
    MeanUnit(T),
    /// The maximum over 3×3 windows.
    Max {
        /// 2 without padding, or 1 with.
        stride: usize,
    },
    /// Sequences side by side, joined along channels.
    Fork(Vec<Vec<Op<T>>>),
}

impl<T> Op<T> {
    /// The same layers with something else for each unit.
    pub(super) fn try_map<U, E>(&self, f: &mut dyn FnMut(&T) -> Result<U, E>) -> Result<Op<U>, E> {
        Ok(match self {
            Op::Unit(unit) => Op::Unit(f(unit)?),
            Op::MeanUnit(unit) => Op::MeanUnit(f(unit)?),
            Op::Max { stride } => Op::Max { stride: *stride },
            Op::Fork(branches) => Op::Fork(
                branches
                    .iter()
                    .map(|branch| branch.iter().map(|layer| layer.try_map(f)).collect())
                    .collect::<Result<_, E>>()?,
            ),
        })
    }
}

/// A convolution with its normalisation and rectifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// As in pytorch-fid's state dict.
    pub(super) name: String,
    /// As in the TorchScript file, below its `layers`.
    pub(super) script_name: String,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) kernel: [usize; 2],
    pub(super) stride: usize,
    pub(super) padded: bool,
}

/// Channels of the features.
pub(super) const FEATURES: usize = 2048;
/// Rows and columns of the input.
pub(super) const SIZE: usize = 299;

/// All layers in order, each with the name of its stage.
pub(super) fn layers() -> Vec<(String, Op<Unit>)> {
    let stem = |name: &str, script: &str, [inputs, outputs]: [usize; 2], kernel| {
        let (name, script_name) = (name.to_string(), script.to_string());
        Unit { name, script_name, inputs, outputs, kernel: [kernel; 2], stride: 1, padded: true }
    };
    let first = Unit { stride: 2, padded: false, ..stem("Conv2d_1a_3x3", "conv", [3, 32], 3) };
    let mut all = vec![
        named(first),
        named(Unit { padded: false, ..stem("Conv2d_2a_3x3", "conv_1", [32, 32], 3) }),
        named(stem("Conv2d_2b_3x3", "conv_2", [32, 64], 3)),
        ("maxpool1".into(), Op::Max { stride: 2 }),
        named(stem("Conv2d_3b_1x1", "conv_3", [64, 80], 1)),
        named(Unit { padded: false, ..stem("Conv2d_4a_3x3", "conv_4", [80, 192], 3) }),
        ("maxpool2".into(), Op::Max { stride: 2 }),
    ];
    let blocks = [
        ("Mixed_5b", "mixed", Kind::A { inputs: 192, pooled: 32 }),
        ("Mixed_5c", "mixed_1", Kind::A { inputs: 256, pooled: 64 }),
        ("Mixed_5d", "mixed_2", Kind::A { inputs: 288, pooled: 64 }),
        ("Mixed_6a", "mixed_3", Kind::B),
        ("Mixed_6b", "mixed_4", Kind::C { width: 128 }),
        ("Mixed_6c", "mixed_5", Kind::C { width: 160 }),
        ("Mixed_6d", "mixed_6", Kind::C { width: 160 }),
        ("Mixed_6e", "mixed_7", Kind::C { width: 192 }),
        ("Mixed_7a", "mixed_8", Kind::D),
        ("Mixed_7b", "mixed_9", Kind::E { inputs: 1280, by_mean: true }),
        ("Mixed_7c", "mixed_10", Kind::E { inputs: 2048, by_mean: false }),
    ];
    all.extend(blocks.map(|(name, script, kind)| (name.to_string(), Branching { name, script }.fork(kind))));
    all
}

/// All units, in the order of the files.
pub(super) fn units() -> Vec<Unit> {
    let mut units = Vec::new();
    for (_, layer) in layers() {
        // Mapping visits every unit once, in order; what it makes is of no interest.
        let _ = layer.try_map::<(), ()>(&mut |unit| {
            units.push(unit.clone());
            Ok(())
        });
    }
    units
}

fn named(unit: Unit) -> (String, Op<Unit>) {
    (unit.name.clone(), Op::Unit(unit))
}

/// The five kinds of block.
enum Kind {
    A { inputs: usize, pooled: usize },
    B,
    C { width: usize },
    D,
    E { inputs: usize, by_mean: bool },
}

/// A block's names in both kinds of file.
struct Branching {
    name: &'static str,
    script: &'static str,
}

/// A unit of a branch: `(name, script name, outputs, kernel)`, stride 1, padded.
type Row = (&'static str, &'static str, usize, [usize; 2]);

impl Branching {
    fn unit(&self, inputs: usize, (name, script, outputs, kernel): Row) -> Unit {
        let (name, script_name) = (format!("{}.{name}", self.name), format!("{}.{script}", self.script));
        Unit { name, script_name, inputs, outputs, kernel, stride: 1, padded: true }
    }

    /// Units one after the other.
    fn chain(&self, inputs: usize, rows: &[Row]) -> Vec<Op<Unit>> {
        let mut width = inputs;
        let link = |row: &Row| Op::Unit(self.unit(std::mem::replace(&mut width, row.2), *row));
        rows.iter().map(link).collect()
    }

    /// The same, the last with stride 2 and no padding.
    fn halving(&self, inputs: usize, rows: &[Row]) -> Vec<Op<Unit>> {
        let mut chain = self.chain(inputs, rows);
        if let Some(Op::Unit(last)) = chain.last_mut() {
            (last.stride, last.padded) = (2, false);
        }
        chain
    }

    /// A chain whose last two units read the same input.
    fn parted(&self, inputs: usize, rows: &[Row], parts: [Row; 2]) -> Vec<Op<Unit>> {
        let mut chain = self.chain(inputs, rows);
        let width = rows.last().map_or(inputs, |row| row.2);
        chain.push(Op::Fork(parts.map(|row| vec![Op::Unit(self.unit(width, row))]).into()));
        chain
    }

    fn fork(&self, kind: Kind) -> Op<Unit> {
        const ONE: [usize; 2] = [1, 1];
        const THREE: [usize; 2] = [3, 3];
        let (wide, tall) = ([1, 7], [7, 1]);
        let pool =
            |inputs, script, outputs| vec![Op::MeanUnit(self.unit(inputs, ("branch_pool", script, outputs, ONE)))];
        Op::Fork(match kind {
            Kind::A { inputs: i, pooled } => vec![
                self.chain(i, &[("branch1x1", "conv", 64, ONE)]),
                self.chain(i, &[("branch5x5_1", "tower.conv", 48, ONE), ("branch5x5_2", "tower.conv_1", 64, [5, 5])]),
                self.chain(i, &doubled("tower_1.conv", "tower_1.conv_1", "tower_1.conv_2")),
                pool(i, "tower_2.conv", pooled),
            ],
            Kind::B => vec![
                self.halving(288, &[("branch3x3", "conv", 384, THREE)]),
                self.halving(288, &doubled("tower.conv", "tower.conv_1", "tower.conv_2")),
                vec![Op::Max { stride: 2 }],
            ],
            Kind::C { width: c } => vec![
                self.chain(768, &[("branch1x1", "conv", 192, ONE)]),
                self.chain(
                    768,
                    &[
                        ("branch7x7_1", "tower.conv", c, ONE),
                        ("branch7x7_2", "tower.conv_1", c, wide),
                        ("branch7x7_3", "tower.conv_2", 192, tall),
                    ],
                ),
                self.chain(
                    768,
                    &[
                        ("branch7x7dbl_1", "tower_1.conv", c, ONE),
                        ("branch7x7dbl_2", "tower_1.conv_1", c, tall),
                        ("branch7x7dbl_3", "tower_1.conv_2", c, wide),
                        ("branch7x7dbl_4", "tower_1.conv_3", c, tall),
                        ("branch7x7dbl_5", "tower_1.conv_4", 192, wide),
                    ],
                ),
                pool(768, "tower_2.conv", 192),
            ],
            Kind::D => vec![
                self.halving(
                    768,
                    &[("branch3x3_1", "tower.conv", 192, ONE), ("branch3x3_2", "tower.conv_1", 320, THREE)],
                ),
                self.halving(
                    768,
                    &[
                        ("branch7x7x3_1", "tower_1.conv", 192, ONE),
                        ("branch7x7x3_2", "tower_1.conv_1", 192, wide),
                        ("branch7x7x3_3", "tower_1.conv_2", 192, tall),
                        ("branch7x7x3_4", "tower_1.conv_3", 192, THREE),
                    ],
                ),
                vec![Op::Max { stride: 2 }],
            ],
            Kind::E { inputs: i, by_mean } => vec![
                self.chain(i, &[("branch1x1", "conv", 320, ONE)]),
                self.parted(
                    i,
                    &[("branch3x3_1", "tower_conv", 384, ONE)],
                    [
                        ("branch3x3_2a", "tower_mixed_conv", 384, [1, 3]),
                        ("branch3x3_2b", "tower_mixed_conv_1", 384, [3, 1]),
                    ],
                ),
                self.parted(
                    i,
                    &[("branch3x3dbl_1", "tower_1_conv", 448, ONE), ("branch3x3dbl_2", "tower_1_conv_1", 384, THREE)],
                    [
                        ("branch3x3dbl_3a", "tower_1_mixed_conv", 384, [1, 3]),
                        ("branch3x3dbl_3b", "tower_1_mixed_conv_1", 384, [3, 1]),
                    ],
                ),
                match by_mean {
                    true => pool(i, "tower_2_conv", 192),
                    false => {
                        vec![Op::Max { stride: 1 }, Op::Unit(self.unit(i, ("branch_pool", "tower_2_conv", 192, ONE)))]
                    }
                },
            ],
        })
    }
}

/// The branch that A and B have in common.
fn doubled(first: &'static str, second: &'static str, third: &'static str) -> [Row; 3] {
    [
        ("branch3x3dbl_1", first, 64, [1, 1]),
        ("branch3x3dbl_2", second, 96, [3, 3]),
        ("branch3x3dbl_3", third, 96, [3, 3]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_network_has_its_known_size() {
        let units = units();
        assert_eq!(units.len(), 94);
        let weights = |u: &Unit| u.outputs * (u.inputs * u.kernel[0] * u.kernel[1] + 3);
        assert_eq!(units.iter().map(weights).sum::<usize>(), 21_802_784);
        assert_eq!(units.iter().map(|u| &u.name).collect::<BTreeSet<_>>().len(), 94);
        assert_eq!(units.iter().map(|u| &u.script_name).collect::<BTreeSet<_>>().len(), 94);
        // Those that shrink the image without being a pool.
        assert_eq!(units.iter().filter(|u| !u.padded).count(), 7);
    }
}
