//! A denoiser of latents with its contexts bound: the view solvers have.

use super::network::Network;
use super::precond::Scaling;
use crate::exchange::{leading_channels, scaled_act};
use crate::preconditioned::{self, Factors, Preconditioned};
use dyweight_core::denoiser::{Denoiser, Differentiable, Info, Levels, Pullback, TextContext};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::Tensor;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// What the samples are asked for.
#[derive(Clone, Debug)]
pub(super) enum Contexts {
    /// Nothing: the network takes no context.
    None,
    /// All the same.
    All(Arc<TextContext>),
    /// One for each.
    Each(Vec<Arc<TextContext>>),
}

/// A network, how it becomes a denoiser, and the context of each sample.
pub(super) struct Bound<'m, N> {
    pub(super) network: N,
    pub(super) precond: &'m dyn Scaling,
    pub(super) contexts: Contexts,
    /// Channels of the latents.
    pub(super) channels: usize,
    /// Rows and columns must be multiples of this.
    pub(super) granularity: usize,
}

impl<N: Network> Preconditioned for Bound<'_, N> {
    type Kept = Option<N::Tape>;

    fn at_once(&self) -> Option<RangeInclusive<usize>> {
        Some(self.network.at_once())
    }

    fn check(&self, x: &Tensor, levels: &Levels) -> Result<()> {
        levels.require(x.samples())?;
        let [n, c, h, w] = x.shape();
        let step = self.granularity;
        if c != self.channels || h % step != 0 || w % step != 0 || h == 0 || w == 0 {
            let up = |size: usize| size.div_ceil(step).max(1) * step;
            let (expected, found) = (vec![n, self.channels, up(h), up(w)], vec![n, c, h, w]);
            return Err(Error::Shape { what: "latents".into(), expected, found });
        }
        if let Contexts::Each(contexts) = &self.contexts
            && contexts.len() != n
        {
            return Err(Error::Shape { what: "contexts".into(), expected: vec![n], found: vec![contexts.len()] });
        }
        match (0..n).map(|i| levels.of(i)).find(|sigma| !(*sigma > 0.0 && sigma.is_finite())) {
            Some(sigma) => Err(Error::bad_value("sigma", sigma, "a network is told a positive, finite noise level")),
            None => Ok(()),
        }
    }

    fn factors(&self, sigma: f64) -> Factors {
        self.precond.factors(sigma)
    }

    fn slopes(&self, sigma: f64) -> Factors {
        self.precond.slopes(sigma)
    }

    fn forward(
        &self,
        x: &Tensor,
        of: &[Factors],
        _: &Levels,
        samples: Range<usize>,
        record: bool,
    ) -> Result<(Tensor, Self::Kept)> {
        let times = of.iter().map(|f| f.noise as f32).collect();
        let contexts = match &self.contexts {
            Contexts::None => Vec::new(),
            Contexts::All(context) => vec![context.clone(); samples.len()],
            Contexts::Each(contexts) => contexts[samples].to_vec(),
        };
        let input = scaled_act(x, x.shape()[1], |i| of[i].input);
        let (out, tape) = self.network.forward(input, times, &contexts, record)?;
        Ok((leading_channels(&out, x.shape())?, tape))
    }

    fn backward(&self, kept: &Self::Kept, of: &[Factors], cotangent: &Tensor) -> Result<(Tensor, Vec<f64>)> {
        let tape = kept.clone().expect("made by with_pullback");
        let gradient = scaled_act(cotangent, cotangent.shape()[1], |i| of[i].out);
        let (to_input, to_time) = self.network.backward(tape, gradient);
        Ok((leading_channels(&to_input, cotangent.shape())?, to_time))
    }
}

impl<N: Network> Denoiser for Bound<'_, N> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        preconditioned::predict(self, x, levels)
    }

    fn info(&self) -> Info {
        self.precond.prediction().into()
    }
}

impl<N: Network> Differentiable for Bound<'_, N> {
    fn with_pullback<'p>(&'p self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'p>)> {
        preconditioned::with_pullback(self, x, levels)
    }
}
