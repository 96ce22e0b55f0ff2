//! A network behind its preconditioning: what every kind of network shares of a prediction and of the way back.
//!
//! ```text
//! D(x; σ) = c_skip·x + c_out·F(c_in·x; c_noise)
//! ```
//!
//! With w = J_Fᵀ(c_out·v) and n = ⟨∂F/∂c_noise, c_out·v⟩, a cotangent v goes to
//!
//! ```text
//! x:  c_skip·v + c_in·w          σ:  c_skip'·⟨v,x⟩ + c_out'·⟨v,F⟩ + c_in'·⟨x,w⟩ + c_noise'·n
//! ```

use crate::side_by_side::{parts, side_by_side};
use dyweight_core::denoiser::{Levels, Pullback};
use dyweight_core::error::{Error, Result};
use dyweight_core::tensor::{Tensor, dot};
use std::ops::{Range, RangeInclusive};

/// The factors at one noise level, or their derivatives in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Factors {
    pub skip: f64,
    pub out: f64,
    pub input: f64,
    pub noise: f64,
}

/// A network with what its samples are asked for.
pub(crate) trait Preconditioned: Sync {
    /// What a pass keeps, for the way back among others.
    type Kept: Send;

    /// Samples in one pass.
    fn at_once(&self) -> RangeInclusive<usize>;

    /// An error unless the network takes these samples at these levels.
    fn check(&self, x: &Tensor, levels: &Levels) -> Result<()>;

    /// The factors at a level.
    fn factors(&self, sigma: f64) -> Factors;

    /// Their derivatives.
    fn slopes(&self, sigma: f64) -> Factors;

    /// F of some of the samples, with the shape of `x`.
    fn forward(&self, x: &Tensor, of: &[Factors], samples: Range<usize>, record: bool) -> Result<(Tensor, Self::Kept)>;

    /// w, and n of each sample, from v.
    fn backward(&self, kept: Self::Kept, of: &[Factors], cotangent: &Tensor) -> Result<(Tensor, Vec<f64>)>;
}

/// One pass of a network over some of the samples.
pub(crate) struct Pass<T> {
    samples: Range<usize>,
    x: Tensor,
    sigmas: Vec<f64>,
    factors: Vec<Factors>,
    /// F.
    output: Tensor,
    pub kept: T,
}

impl<T> Pass<T> {
    /// D.
    pub fn value(&self) -> Tensor {
        combine(&self.factors, |f| (f.skip, f.out), &self.x, &self.output)
    }
}

/// Runs a network on samples that have been checked; `of` makes something of each pass.
pub(crate) fn passes<N: Preconditioned, T: Send>(
    net: &N,
    x: &Tensor,
    levels: &Levels,
    record: bool,
    of: impl Fn(Pass<N::Kept>) -> T + Sync,
) -> Result<Vec<T>> {
    side_by_side(parts(x.samples(), net.at_once()), |samples| {
        let x = x.slice(samples.clone());
        let sigmas: Vec<f64> = samples.clone().map(|i| levels.of(i)).collect();
        let factors: Vec<Factors> = sigmas.iter().map(|sigma| net.factors(*sigma)).collect();
        let (output, kept) = net.forward(&x, &factors, samples.clone(), record)?;
        Ok(of(Pass { samples, x, sigmas, factors, output, kept }))
    })
}

/// D of a batch.
pub(crate) fn predict<N: Preconditioned>(net: &N, x: &Tensor, levels: &Levels) -> Result<Tensor> {
    net.check(x, levels)?;
    if x.samples() == 0 {
        return Ok(x.clone());
    }
    Tensor::concat(&passes(net, x, levels, false, |pass| pass.value())?)
}

/// The same, with the way back.
pub(crate) fn with_pullback<'p, N: Preconditioned>(
    net: &'p N,
    x: &Tensor,
    levels: &Levels,
) -> Result<(Tensor, Pullback<'p>)> {
    net.check(x, levels)?;
    if x.samples() == 0 {
        return Ok((x.clone(), Box::new(|g| Ok((g.clone(), Vec::new())))));
    }
    let (values, passes): (Vec<_>, Vec<_>) =
        passes(net, x, levels, true, |pass| (pass.value(), pass))?.into_iter().unzip();
    let shape = x.shape();
    let way_back = move |cotangent: &Tensor| {
        if cotangent.shape() != shape {
            let (expected, found) = (shape.to_vec(), cotangent.shape().to_vec());
            return Err(Error::Shape { what: "cotangent".into(), expected, found });
        }
        let pulled = side_by_side(passes, |pass| pull_back(net, pass, cotangent))?;
        let (to_x, to_sigma): (Vec<_>, Vec<_>) = pulled.into_iter().unzip();
        Ok((Tensor::concat(&to_x)?, to_sigma.concat()))
    };
    Ok((Tensor::concat(&values)?, Box::new(way_back)))
}

/// Carries a cotangent of the prediction back through a recorded pass.
fn pull_back<N: Preconditioned>(net: &N, pass: Pass<N::Kept>, cotangent: &Tensor) -> Result<(Tensor, Vec<f64>)> {
    let Pass { samples, x, sigmas, factors, output, kept } = pass;
    let cotangent = &cotangent.slice(samples);
    let (w, to_noise) = net.backward(kept, &factors, cotangent)?;
    let sigma_gradient = |i: usize| {
        let slope = net.slopes(sigmas[i]);
        let (x, v, w, f) = (x.sample(i), cotangent.sample(i), w.sample(i), output.sample(i));
        slope.skip * dot(v, x) + slope.out * dot(v, f) + slope.input * dot(x, w) + slope.noise * to_noise[i]
    };
    let to_sigma = (0..x.samples()).map(sigma_gradient).collect();
    Ok((combine(&factors, |f| (f.skip, f.input), cotangent, &w), to_sigma))
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
