//! A denoiser of latents with its contexts bound: the view solvers have. f64 becomes the engine's f32, and back, here.

use super::network::Network;
use super::precond::{Factors, Scaling};
use crate::side_by_side::{parts, side_by_side};
use dyweight_core::denoiser::{Denoiser, Differentiable, Levels, Prediction, Pullback, TextContext};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::{Tensor, dot};
use dyweight_nn::{Act, Shape};
use std::ops::Range;
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

/// One pass of the network over some of the samples.
struct Pass<T> {
    samples: Range<usize>,
    x: Tensor,
    sigmas: Vec<f64>,
    factors: Vec<Factors>,
    /// F.
    output: Tensor,
    tape: Option<T>,
}

impl<N: Network> Bound<'_, N> {
    /// Runs the network on samples that have been checked; `of` makes something of each pass.
    fn passes<T: Send>(
        &self,
        x: &Tensor,
        levels: &Levels,
        record: bool,
        of: impl Fn(Pass<N::Tape>) -> T + Sync,
    ) -> Result<Vec<T>> {
        side_by_side(parts(x.samples(), self.network.at_once()), |samples| {
            self.pass(x, levels, samples, record).map(&of)
        })
    }

    fn pass(&self, x: &Tensor, levels: &Levels, samples: Range<usize>, record: bool) -> Result<Pass<N::Tape>> {
        let x = x.slice(samples.clone());
        let sigmas: Vec<f64> = samples.clone().map(|i| levels.of(i)).collect();
        let factors: Vec<Factors> = sigmas.iter().map(|s| self.precond.factors(*s)).collect();
        let times = factors.iter().map(|f| f.noise as f32).collect();
        let contexts = match &self.contexts {
            Contexts::None => Vec::new(),
            Contexts::All(context) => vec![context.clone(); samples.len()],
            Contexts::Each(contexts) => contexts[samples.clone()].to_vec(),
        };
        let input = scaled_act(&x, |i| factors[i].input);
        let (out, tape) = self.network.forward(input, times, &contexts, record)?;
        Ok(Pass { samples, output: to_tensor(&out)?, x, sigmas, factors, tape })
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
            Some(sigma) => {
                let expected = "a network is told a positive, finite noise level".into();
                Err(Error::BadValue { name: "sigma", value: sigma.to_string(), expected })
            }
            None => Ok(()),
        }
    }

    /// Carries a cotangent of the prediction back through a recorded pass.
    fn pull_back(&self, pass: Pass<N::Tape>, cotangent: &Tensor) -> Result<(Tensor, Vec<f64>)> {
        let Pass { samples, x, sigmas, factors, output, tape } = pass;
        let cotangent = &cotangent.slice(samples);
        let tape = tape.expect("made by with_pullback");
        let gradient = scaled_act(cotangent, |i| factors[i].out);
        let (to_input, to_time) = self.network.backward(tape, gradient);
        let w = to_tensor(&to_input)?;
        let sigma_gradient = |i: usize| {
            let slope = self.precond.slopes(sigmas[i]);
            let (x, v, w, f) = (x.sample(i), cotangent.sample(i), w.sample(i), output.sample(i));
            slope.skip * dot(v, x) + slope.out * dot(v, f) + slope.input * dot(x, w) + slope.noise * to_time[i]
        };
        let to_sigma = (0..x.samples()).map(sigma_gradient).collect();
        Ok((combine(&factors, |f| (f.skip, f.input), cotangent, &w), to_sigma))
    }
}

impl<T> Pass<T> {
    /// The denoised samples.
    fn value(&self) -> Tensor {
        combine(&self.factors, |f| (f.skip, f.out), &self.x, &self.output)
    }
}

/// Per sample a·first + b·second.
fn combine(factors: &[Factors], pick: impl Fn(&Factors) -> (f64, f64), first: &Tensor, second: &Tensor) -> Tensor {
    let mut out = first.clone();
    let len = out.sample_len().max(1);
    for ((out, second), factors) in out.data_mut().chunks_mut(len).zip(second.data().chunks(len)).zip(factors) {
        let (a, b) = pick(factors);
        out.iter_mut().zip(second).for_each(|(o, s)| *o = a * *o + b * s);
    }
    out
}

/// A batch times one factor per sample.
pub(super) fn scaled_act(x: &Tensor, factor: impl Fn(usize) -> f64) -> Act {
    let [n, c, h, w] = x.shape();
    let scaled = (0..n).flat_map(|i| {
        let factor = factor(i);
        x.sample(i).iter().map(move |v| (factor * v) as f32)
    });
    Act::from_nchw(Shape { n, h, w, c }, &scaled.collect::<Vec<f32>>())
}

/// An activation as a batch.
pub(super) fn to_tensor(act: &Act) -> Result<Tensor> {
    let Shape { n, h, w, c } = act.shape();
    Tensor::new([n, c, h, w], act.to_nchw().into_iter().map(f64::from).collect())
}

impl<N: Network> Denoiser for Bound<'_, N> {
    fn predict(&self, x: &Tensor, levels: &Levels) -> Result<Tensor> {
        self.check(x, levels)?;
        if x.samples() == 0 {
            return Ok(x.clone());
        }
        Tensor::concat(&self.passes(x, levels, false, |pass| pass.value())?)
    }

    fn prediction(&self) -> Prediction {
        self.precond.prediction()
    }

    fn sigma_range(&self) -> (f64, f64) {
        self.precond.range()
    }
}

impl<N: Network> Differentiable for Bound<'_, N> {
    fn with_pullback<'p>(&'p self, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'p>)> {
        self.check(x, levels)?;
        if x.samples() == 0 {
            return Ok((x.clone(), Box::new(|g| Ok((g.clone(), Vec::new())))));
        }
        let (values, passes): (Vec<_>, Vec<_>) =
            self.passes(x, levels, true, |pass| (pass.value(), pass))?.into_iter().unzip();
        let shape = x.shape();
        let pull_back = move |cotangent: &Tensor| {
            if cotangent.shape() != shape {
                let (expected, found) = (shape.to_vec(), cotangent.shape().to_vec());
                return Err(Error::Shape { what: "cotangent".into(), expected, found });
            }
            let pulled = side_by_side(passes, |pass| self.pull_back(pass, cotangent))?;
            let (to_x, to_sigma): (Vec<_>, Vec<_>) = pulled.into_iter().unzip();
            Ok((Tensor::concat(&to_x)?, to_sigma.concat()))
        };
        Ok((Tensor::concat(&values)?, Box::new(pull_back)))
    }
}
