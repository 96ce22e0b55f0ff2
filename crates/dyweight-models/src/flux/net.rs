//! The network: blocks in order, walked forwards and, with what was kept, backwards.

use super::config::FluxConfig;
use super::double::{Double, DoubleTape, EPS};
use super::single::{Single, SingleTape};
use super::vector::{Vector, VectorTape};
use crate::weights::{Found, Pages, Scope, Source, TensorPlan};
use dyweight_core::error::Result;
use dyweight_nn::{Act, LayerNorm, Linear, ModulatedGrad, Precision, Rotary, Shape, concat_tokens, split_tokens};

/// Bytes of activations inside blocks that are kept for the way back. Blocks for which there is no room left keep their
/// inputs alone and are run again, with the same results.
pub(crate) const KEPT: usize = 4 << 30;

/// A FLUX transformer with its weights.
pub struct Flux {
    config: FluxConfig,
    vector: Vector,
    x_embedder: Linear,
    context_embedder: Linear,
    doubles: Vec<(Double, Pages)>,
    singles: Vec<(Single, Pages)>,
    norm: LayerNorm,
    scale: Linear,
    shift: Linear,
    proj_out: Linear,
}

/// What the network is asked.
pub(crate) struct FluxInput<'a> {
    /// Image tokens, `[n, 1, tokens, inputs]`.
    pub(crate) tokens: &'a Act,
    /// Time of each sample, in [0, 1].
    pub(crate) t: &'a [f32],
    /// Strength of guidance of each sample; not looked at by a network that does not take it.
    pub(crate) guidance: &'a [f32],
    /// Text tokens, `[n, 1, texts, context]`.
    pub(crate) context: &'a Act,
    /// The texts as a whole, `[n, 1, 1, pooled]`.
    pub(crate) pooled: &'a Act,
    /// Position of each text token, then of each image token: three numbers.
    pub(crate) positions: &'a [f64],
}

/// A block's input, and what happened inside it where there was room for that.
#[derive(Clone)]
struct Kept<I, T> {
    input: I,
    inside: Option<T>,
}

/// What was kept on the way forward.
#[derive(Clone)]
pub(crate) struct FluxTape {
    vector: VectorTape,
    v: Act,
    rotary: Rotary,
    texts: usize,
    doubles: Vec<Kept<[Act; 2], DoubleTape>>,
    singles: Vec<Kept<Act, SingleTape>>,
    last: Act,
    scale: Act,
}

impl Flux {
    /// Builds it from the tensors of a file, with their fingerprint.
    pub fn load(found: &Found<FluxConfig>, precision: Precision) -> Result<(Self, String)> {
        let Found { config, set, layout } = found;
        Source::build("FLUX transformer", set, layout, |scope| Self::new(config, &scope.in_precision(precision)))
    }

    /// A network with random weights, the same for the same seed: for tests and speed measurements.
    pub fn random(config: &FluxConfig, seed: u64) -> Result<Self> {
        Self::new(config, &Source::Random { seed, dtype: dyweight_nn::Dtype::F32 }.root())
    }

    /// The tensors of a configuration.
    pub fn plan(config: &FluxConfig) -> Result<Vec<TensorPlan>> {
        Source::plan(|scope| Self::new(config, scope))
    }

    fn new(config: &FluxConfig, scope: &Scope<'_>) -> Result<Self> {
        let (width, exact) = (config.width(), scope.exact());
        let vector = Vector::new(&exact.at("time_text_embed"), width, config.pooled, config.guidance)?;
        let x_embedder = exact.linear("x_embedder", config.inputs, width)?;
        let context_embedder = scope.linear("context_embedder", config.context, width)?;
        scope.pages();
        let double = |i: usize| {
            let at = scope.at("transformer_blocks").at(i);
            Ok((Double::new(&at, config)?, at.pages()))
        };
        let single = |i: usize| {
            let at = scope.at("single_transformer_blocks").at(i);
            Ok((Single::new(&at, config)?, at.pages()))
        };
        Ok(Self {
            vector,
            x_embedder,
            context_embedder,
            doubles: (0..config.doubles).map(double).collect::<Result<_>>()?,
            singles: (0..config.singles).map(single).collect::<Result<_>>()?,
            norm: LayerNorm::plain(EPS, width).map_err(|e| scope.refused("norm_out", e))?,
            scale: exact.linear("norm_out.scale", width, width)?,
            shift: exact.linear("norm_out.shift", width, width)?,
            proj_out: exact.linear("proj_out", width, config.outputs)?,
            config: config.clone(),
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &FluxConfig {
        &self.config
    }

    /// Bytes of the blocks' weights, and of those that are in memory at a time: the block in use and the next.
    pub(crate) fn weight_bytes(&self) -> [usize; 2] {
        let sizes: Vec<usize> =
            self.doubles.iter().map(|(_, p)| p).chain(self.singles.iter().map(|(_, p)| p)).map(Pages::bytes).collect();
        let pairs = sizes.windows(2).map(|pair| pair.iter().sum()).max();
        [sizes.iter().sum(), pairs.or(sizes.first().copied()).unwrap_or(0)]
    }

    /// The velocity of each image token; with a tape if it is to be differentiated.
    pub(crate) fn forward(&self, input: &FluxInput<'_>, record: bool) -> (Act, Option<FluxTape>) {
        let rotary = self.rotary(input.positions);
        let (v, vector) = self.vector.forward(input.t, input.guidance, input.pooled);
        let order: Vec<&Pages> =
            self.doubles.iter().map(|(_, pages)| pages).chain(self.singles.iter().map(|(_, pages)| pages)).collect();
        let ahead = |i: usize| order.get(i).iter().for_each(|pages| pages.fetch());
        ahead(0);
        let mut streams = [self.context_embedder.forward(input.context), self.x_embedder.forward(input.tokens)];
        let counts = streams.each_ref().map(|stream| stream.shape().pixels());
        let all = Shape::tokens(input.t.len(), counts[0] + counts[1], self.config.width());
        let mut room = if record { KEPT / (all.n * self.config.kept_by_a_block(all.w)).max(1) } else { 0 };
        let mut keeps = || {
            let keeps = room > 0;
            room = room.saturating_sub(1);
            keeps
        };
        let mut doubles = Vec::new();
        for (i, (block, pages)) in self.doubles.iter().enumerate() {
            ahead(i + 1);
            let (next, inside) = block.forward(&streams, &v, &rotary);
            pages.release();
            let input = std::mem::replace(&mut streams, next);
            if record {
                doubles.push(Kept { input, inside: keeps().then_some(inside) });
            }
        }
        let mut z = concat_tokens(&[&streams[0], &streams[1]]);
        drop(streams);
        let mut singles = Vec::new();
        for (i, (block, pages)) in self.singles.iter().enumerate() {
            ahead(self.doubles.len() + i + 1);
            let (next, inside) = block.forward(&z, &v, &rotary);
            pages.release();
            let input = std::mem::replace(&mut z, next);
            if record {
                singles.push(Kept { input, inside: keeps().then_some(inside) });
            }
        }
        let last = split_tokens(&z, &counts).pop().unwrap_or(z);
        let (scale, shift) = (self.scale.forward(&v), self.shift.forward(&v));
        let velocity = self.proj_out.forward(&self.norm.forward_modulated(&last, &scale, &shift));
        let tape = record.then(|| FluxTape { vector, v, rotary, texts: counts[0], doubles, singles, last, scale });
        (velocity, tape)
    }

    /// Derivatives of a loss in the image tokens and in each sample's time, from its derivative in the velocity.
    pub(crate) fn backward(&self, tape: FluxTape, gradient: &Act) -> (Act, Vec<f64>) {
        let FluxTape { vector, v, rotary, texts, doubles, singles, last, scale } = tape;
        let to_normed = self.proj_out.backward(gradient);
        let ModulatedGrad { x: to_last, scale: to_scale, shift } =
            self.norm.backward_modulated(&last, &scale, &to_normed);
        let mut to_v = self.scale.backward_residual(&to_scale, Some(&self.shift.backward(&shift)), 1.0);
        // Nothing is asked of the text behind the last block.
        let shape = to_last.shape();
        let none = Act::zeros(Shape::tokens(shape.n, texts, shape.c));
        let mut g = concat_tokens(&[&none, &to_last]);
        drop((last, to_normed, to_last, none));
        let count = shape.pixels();
        for ((i, (block, pages)), kept) in self.singles.iter().enumerate().zip(singles).rev() {
            match i {
                0 => self.doubles.last().iter().for_each(|(_, pages)| pages.fetch()),
                _ => self.singles[i - 1].1.fetch(),
            }
            let inside = kept.inside.unwrap_or_else(|| block.forward(&kept.input, &v, &rotary).1);
            let (to_z, part) = block.backward(&kept.input, &inside, &rotary, g);
            pages.release();
            to_v.add_assign(&part);
            g = to_z;
        }
        let parts = split_tokens(&g, &[texts, count]);
        drop(g);
        let mut streams: [Act; 2] = parts.try_into().unwrap_or_else(|_| unreachable!("two parts were asked for"));
        for ((i, (block, pages)), kept) in self.doubles.iter().enumerate().zip(doubles).rev() {
            if i > 0 {
                self.doubles[i - 1].1.fetch();
            }
            let inside = kept.inside.unwrap_or_else(|| block.forward(&kept.input, &v, &rotary).1);
            let (to_streams, part) = block.backward(&kept.input, &inside, &rotary, streams);
            pages.release();
            to_v.add_assign(&part);
            streams = to_streams;
        }
        (self.x_embedder.backward(&streams[1]), self.vector.backward(vector, &to_v))
    }

    fn rotary(&self, positions: &[f64]) -> Rotary {
        const THETA: f64 = 10_000.0;
        Rotary::along_axes(positions, &self.config.axes, THETA)
            .unwrap_or_else(|e| unreachable!("axes are checked: {e}"))
    }
}
