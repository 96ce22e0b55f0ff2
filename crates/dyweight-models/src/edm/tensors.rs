//! Names and shapes of a network's tensors, layer by layer, in file order.

use super::blueprint::{BlockPlan, Direction, Step};
use super::config::{Config, Family, NoiseEmbedding};

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlan {
    /// Name without the prefix of the network.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// False for a buffer or weight that inference can do without.
    pub needed: bool,
    /// True for a weight, false for a buffer.
    pub weight: bool,
}

/// The tensors of a step.
pub(super) fn of_step(step: &Step, config: &Config) -> Vec<TensorPlan> {
    let taps = config.net.filter.len();
    let filter = |name: &str| vec![buffer(format!("{name}.resample_filter"), vec![1, 1, taps, taps])];
    match step {
        Step::Conv { name, outputs } => affine(name, &[*outputs, config.channels, 3, 3]),
        Step::Block(block) => block_tensors(block, config, taps),
        Step::Push => Vec::new(),
        Step::AuxDown { name } | Step::AuxUp { name } => filter(name),
        Step::AuxSkip { name, inputs, outputs } => affine(name, &[*outputs, *inputs, 1, 1]),
        Step::AuxResidual { name, inputs, outputs } => {
            [affine(name, &[*outputs, *inputs, 3, 3]), filter(name)].concat()
        }
        Step::Head { norm, conv, inputs } => {
            [affine(norm, &[*inputs]), affine(conv, &[config.net.outputs, *inputs, 3, 3])].concat()
        }
    }
}

/// A weight with this shape and a bias with its first size.
fn affine(name: &str, shape: &[usize]) -> Vec<TensorPlan> {
    vec![tensor(format!("{name}.weight"), shape.to_vec()), tensor(format!("{name}.bias"), vec![shape[0]])]
}

fn tensor(name: String, shape: Vec<usize>) -> TensorPlan {
    TensorPlan { name, shape, needed: true, weight: true }
}

/// A buffer that follows from the configuration.
fn buffer(name: String, shape: Vec<usize>) -> TensorPlan {
    TensorPlan { name, shape, needed: false, weight: false }
}

fn block_tensors(block: &BlockPlan, config: &Config, taps: usize) -> Vec<TensorPlan> {
    let BlockPlan { name, inputs: i, outputs: o, direction, heads, .. } = block;
    let at = |part: &str| format!("{name}.{part}");
    let filter = |part: &str| match direction {
        Direction::Same => Vec::new(),
        _ => vec![buffer(at(part) + ".resample_filter", vec![1, 1, taps, taps])],
    };
    let (song, modulated) = (config.net.family == Family::Song, config.net.family.pick(*o, 2 * o));
    let mut all = [
        affine(&at("norm0"), &[*i]),
        affine(&at("conv0"), &[*o, *i, 3, 3]),
        filter("conv0"),
        affine(&at("affine"), &[modulated, config.net.embedding_width()]),
        affine(&at("norm1"), &[*o]),
        affine(&at("conv1"), &[*o, *o, 3, 3]),
    ]
    .concat();
    if i != o || (song && *direction != Direction::Same) {
        all.extend(affine(&at("skip"), &[*o, *i, 1, 1]));
    }
    all.extend(filter("skip"));
    if *heads > 0 {
        all.extend(affine(&at("norm2"), &[*o]));
        all.extend(affine(&at("qkv"), &[3 * o, *o, 1, 1]));
        all.extend(affine(&at("proj"), &[*o, *o, 1, 1]));
    }
    all
}

/// The tensors of the embedding.
pub(super) fn of_embedding(config: &Config) -> Vec<TensorPlan> {
    let net = &config.net;
    let (noise, width) = (net.noise_width(), net.embedding_width());
    // Inference never augments.
    let augment = TensorPlan { needed: false, ..tensor("map_augment.weight".into(), vec![noise, net.augment_dim]) };
    let augment = if net.augment_dim > 0 { vec![augment] } else { Vec::new() };
    let layers = [affine("map_layer0", &[width, noise]), affine("map_layer1", &[width, width])].concat();
    let labels = config.label_dim;
    match net.family {
        Family::Song => {
            let freqs = TensorPlan { needed: true, ..buffer("map_noise.freqs".into(), vec![noise / 2]) };
            let freqs = if net.embedding == NoiseEmbedding::Fourier { vec![freqs] } else { Vec::new() };
            let label = if labels > 0 { affine("map_label", &[noise, labels]) } else { Vec::new() };
            [freqs, label, augment, layers].concat()
        }
        Family::Adm => {
            let label = tensor("map_label.weight".into(), vec![width, labels]);
            let label = if labels > 0 { vec![label] } else { Vec::new() };
            [augment, layers, label].concat()
        }
    }
}
