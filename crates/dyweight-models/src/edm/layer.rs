//! The steps of a network as operations on what is under way.
//!
//! Each layer has its way forward and its way back next to each other; [`super::unet`] walks the list in one direction
//! and the other.

use super::block::{self, Block};
use super::blueprint::Step;
use super::config::{Config, groups};
use super::resample::filter;
use crate::weights::Scope;
use dyweight_core::error::Result;
use dyweight_nn::{
    Act, Activation, Conv2d, ConvAlgo, ConvSpec, Fir, GroupNorm, Modulation, NormStats, Padding, add_scaled, concat,
    split,
};
use std::f32::consts::FRAC_1_SQRT_2;
use std::sync::Arc;

/// A step with its weights.
pub(super) enum Layer {
    Conv(Conv2d),
    Block { block: Box<Block>, joins: bool },
    Push,
    AuxDown(Fir),
    AuxSkip(Conv2d),
    AuxResidual { conv: Conv2d, filter: Fir },
    AuxUp(Fir),
    Head { norm: GroupNorm, conv: Conv2d },
}

/// What is under way in the forward pass.
pub(super) struct Forward {
    pub(super) x: Arc<Act>,
    /// The input on its own way down, for encoders that have one.
    pub(super) aux: Arc<Act>,
    pub(super) out: Option<Act>,
    pub(super) stack: Vec<Arc<Act>>,
    pub(super) embedding: Act,
}

/// Gradients of what is under way.
pub(super) struct Backward {
    pub(super) x: Option<Act>,
    pub(super) aux: Option<Act>,
    pub(super) out: Act,
    pub(super) stack: Vec<Act>,
    pub(super) embedding: Option<Act>,
}

/// What a layer keeps for its way back.
#[derive(Clone)]
pub(super) enum LayerTape {
    Nothing,
    /// The parts of a joined input are kept apart: one of them is an encoder activation that is kept anyway.
    Block {
        parts: Vec<Arc<Act>>,
        saved: Box<block::BlockTape>,
    },
    Head {
        x: Arc<Act>,
        stats: NormStats,
    },
}

impl Layer {
    pub(super) fn new(step: &Step, config: &Config, scope: &Scope<'_>, algo: ConvAlgo) -> Result<Self> {
        let (net, exact) = (&config.net, scope.exact());
        let same = |inputs: usize, outputs: usize, kernel: usize| ConvSpec::same(inputs, outputs, kernel, algo);
        Ok(match step {
            Step::Push => Layer::Push,
            Step::Conv { name, outputs } => Layer::Conv(exact.conv(name, same(config.channels, *outputs, 3))?),
            Step::Block(plan) => {
                Layer::Block { block: Box::new(Block::new(plan, config, scope, algo)?), joins: plan.joins }
            }
            Step::AuxDown { name } => Layer::AuxDown(filter(net, &scope.at(name))?),
            Step::AuxUp { name } => Layer::AuxUp(filter(net, &scope.at(name))?),
            Step::AuxSkip { name, inputs, outputs } => Layer::AuxSkip(exact.conv(name, same(*inputs, *outputs, 1))?),
            Step::AuxResidual { name, inputs, outputs } => {
                // The filter's padding moves into the convolution before it. The bias may stay in the convolution: the
                // filter's taps sum to one and see no padding.
                let filter = filter(net, &scope.at(name))?;
                let padding = Padding::all(1 + filter.padding());
                Layer::AuxResidual { conv: exact.conv(name, same(*inputs, *outputs, 3).with_padding(padding))?, filter }
            }
            Step::Head { norm, conv, inputs } => Layer::Head {
                norm: scope.group_norm(norm, *inputs, (groups(*inputs), net.family.eps()), Activation::Silu)?,
                conv: exact.conv(conv, same(*inputs, net.outputs, 3))?,
            },
        })
    }

    pub(super) fn forward(&self, state: &mut Forward, record: bool) -> LayerTape {
        match self {
            Layer::Conv(conv) => state.x = conv.forward(&state.x).into(),
            Layer::Block { block, joins } => return run_block(block, *joins, state, record),
            Layer::Push => state.stack.push(state.x.clone()),
            Layer::AuxDown(filter) => state.aux = filter.down(&state.aux).into(),
            Layer::AuxSkip(conv) => state.x = conv.forward_residual(&state.aux, &state.x, 1.0).into(),
            Layer::AuxResidual { conv, filter } => {
                let residual = filter.down_padded(&conv.forward(&state.aux), 0);
                state.x = add_scaled(&state.x, &residual, FRAC_1_SQRT_2).into();
                state.aux = state.x.clone();
            }
            Layer::AuxUp(filter) => state.out = state.out.take().map(|out| filter.up(&out)),
            Layer::Head { norm, conv } => {
                let (active, stats) = norm.forward(&state.x, Modulation::None);
                state.out = Some(match state.out.take() {
                    Some(out) => conv.forward_residual(&active, &out, 1.0),
                    None => conv.forward(&active),
                });
                return LayerTape::Head { x: state.x.clone(), stats };
            }
        }
        LayerTape::Nothing
    }

    pub(super) fn backward(&self, state: &mut Backward, saved: LayerTape) {
        match (self, saved) {
            (Layer::Conv(conv), _) => state.x = state.x.take().map(|g| conv.backward(&g, g.size())),
            (Layer::Block { block, .. }, LayerTape::Block { parts, saved }) => pull_block(block, state, parts, *saved),
            (Layer::Push, _) => {
                if let Some(g) = state.stack.pop() {
                    add(&mut state.x, g);
                }
            }
            (Layer::AuxDown(filter), _) => state.aux = state.aux.take().map(|g| filter.down_backward(&g)),
            (Layer::AuxSkip(conv), _) => {
                if let Some(g) = &state.x {
                    state.aux = Some(conv.backward_residual(g, g.size(), state.aux.as_ref(), 1.0));
                }
            }
            (Layer::AuxResidual { conv, filter }, _) => {
                // aux is x from here on.
                if let Some(g) = state.aux.take() {
                    add(&mut state.x, g);
                }
                if let Some(g) = &mut state.x {
                    g.scale_assign(FRAC_1_SQRT_2);
                    let before = g.size().map(|len| 2 * len);
                    let to_conv = filter.down_padded_backward(g, 0, conv.output_size(before));
                    state.aux = Some(conv.backward(&to_conv, before));
                }
            }
            (Layer::AuxUp(filter), _) => state.out = filter.up_backward(&state.out),
            (Layer::Head { norm, conv }, LayerTape::Head { x, stats }) => {
                let to_active = conv.backward(&state.out, state.out.size());
                let residual = state.x.as_ref().map(|g| (g, 1.0));
                state.x = Some(norm.backward(&x, &stats, Modulation::None, &to_active, residual).x);
            }
            (Layer::Block { .. } | Layer::Head { .. }, _) => unreachable!("the tape is written by forward alone"),
        }
    }
}

fn run_block(block: &Block, joins: bool, state: &mut Forward, record: bool) -> LayerTape {
    let mut parts = vec![state.x.clone()];
    if joins {
        parts.push(state.stack.pop().expect("the plan pops what it pushed"));
    }
    let input = joined(&parts);
    // Without a recording the joined copy is all that is needed of the parts.
    let parts = record.then_some(parts);
    state.x = input.clone();
    let (y, saved) = block.forward(&input, &state.embedding, record);
    state.x = y.into();
    match (parts, saved) {
        (Some(parts), Some(saved)) => LayerTape::Block { parts, saved: Box::new(saved) },
        _ => LayerTape::Nothing,
    }
}

fn pull_block(block: &Block, state: &mut Backward, parts: Vec<Arc<Act>>, saved: block::BlockTape) {
    let Some(gy) = state.x.take() else { return };
    let (gx, to_e) = block.backward(&joined(&parts), saved, gy);
    add(&mut state.embedding, to_e);
    if parts.len() == 1 {
        state.x = Some(gx);
        return;
    }
    let channels: Vec<usize> = parts.iter().map(|p| p.shape().c).collect();
    drop(parts);
    let mut pieces = split(&gx, &channels).into_iter();
    state.x = pieces.next();
    state.stack.extend(pieces);
}

fn joined(parts: &[Arc<Act>]) -> Arc<Act> {
    match parts {
        [only] => only.clone(),
        _ => concat(&parts.iter().map(|p| &**p).collect::<Vec<_>>()).into(),
    }
}

/// Adds to a sum that may still be empty.
fn add(sum: &mut Option<Act>, g: Act) {
    match sum {
        Some(sum) => sum.add_assign(&g),
        None => *sum = Some(g),
    }
}
