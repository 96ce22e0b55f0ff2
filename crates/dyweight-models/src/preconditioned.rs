//! A network behind its preconditioning: what every kind of network shares of a prediction and of the way back.
//!
//! ```text
//! D(x; σ) = c_skip·x + c_out·F(c_in·x; c_noise)
//!
//!           c_skip       c_out            c_in
//! noise     1            −σ               (1+σ²)^−½      of a variance-preserving process
//! v         1/(1+σ²)     −σ(1+σ²)^−½      (1+σ²)^−½      v = α·ε − s·x₀ of such a process (Salimans & Ho 2022)
//! as it is  0            1                1              data or velocity
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
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

/// The factors at one noise level, or their derivatives in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// c_skip.
    pub skip: f64,
    /// c_out.
    pub out: f64,
    /// c_in.
    pub input: f64,
    /// c_noise, which the network is told.
    pub noise: f64,
}

/// What a network predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// The noise.
    #[serde(rename = "eps")]
    Noise,
    /// v = α·ε − s·x₀.
    V,
    /// What solvers ask for: the data, or the velocity of a flow.
    Itself,
}

impl Target {
    /// Its name in the field.
    pub fn name(self) -> &'static str {
        match self {
            Target::Noise => "epsilon",
            Target::V => "v",
            Target::Itself => "itself",
        }
    }

    /// The factors at a level of which the network is told `noise`.
    pub fn factors(self, sigma: f64, noise: f64) -> Factors {
        let input = 1.0 / (1.0 + sigma * sigma).sqrt();
        match self {
            Target::Noise => Factors { skip: 1.0, out: -sigma, input, noise },
            Target::V => Factors { skip: input * input, out: -sigma * input, input, noise },
            Target::Itself => Factors { skip: 0.0, out: 1.0, input: 1.0, noise },
        }
    }

    /// Their derivatives, with that of `noise`.
    pub fn slopes(self, sigma: f64, noise: f64) -> Factors {
        let root = 1.0 / (1.0 + sigma * sigma).sqrt();
        let cube = root.powi(3);
        match self {
            Target::Noise => Factors { skip: 0.0, out: -1.0, input: -sigma * cube, noise },
            Target::V => Factors { skip: -2.0 * sigma * root.powi(4), out: -cube, input: -sigma * cube, noise },
            Target::Itself => Factors { skip: 0.0, out: 0.0, input: 0.0, noise },
        }
    }
}

/// A network with what its samples are asked for.
pub trait Preconditioned: Sync {
    /// What a pass keeps, for the way back among others.
    type Kept: Send + Sync;

    /// Samples in one pass, of which threads have some each; without, all in one on the thread that asks.
    fn at_once(&self) -> Option<RangeInclusive<usize>>;

    /// An error unless the network takes these samples at these levels.
    fn check(&self, x: &Tensor, levels: &Levels) -> Result<()>;

    /// The factors at a level.
    fn factors(&self, sigma: f64) -> Factors;

    /// Their derivatives.
    fn slopes(&self, sigma: f64) -> Factors;

    /// F of some of the samples, with the shape of `x`. `levels` are those of all samples: a network that
    /// [offers it](dyweight_core::denoiser::Info::embedding) finds the shift of its embedding there.
    fn forward(
        &self,
        x: &Tensor,
        of: &[Factors],
        levels: &Levels,
        samples: Range<usize>,
        record: bool,
    ) -> Result<(Tensor, Self::Kept)>;

    /// w, and n of each sample, from v; where the embedding was shifted, then the derivatives in the shift, each of all
    /// these samples. It may be asked again, for another v.
    fn backward(&self, kept: &Self::Kept, of: &[Factors], cotangent: &Tensor) -> Result<(Tensor, Vec<f64>)>;
}

/// One pass of a network over some of the samples.
pub(crate) struct Pass<'x, T> {
    samples: Range<usize>,
    x: Cow<'x, Tensor>,
    sigmas: Vec<f64>,
    factors: Vec<Factors>,
    /// F.
    output: Tensor,
    pub kept: T,
}

impl<T> Pass<'_, T> {
    /// D.
    pub fn value(&self) -> Tensor {
        combine(&self.factors, |f| (f.skip, f.out), &self.x, &self.output)
    }

    /// With samples of its own, for the way back.
    fn into_owned(self) -> Pass<'static, T> {
        let Pass { samples, x, sigmas, factors, output, kept } = self;
        Pass { samples, x: Cow::Owned(x.into_owned()), sigmas, factors, output, kept }
    }
}

/// Runs a network on samples that have been checked; `of` makes something of each pass.
pub(crate) fn passes<'x, N: Preconditioned, T: Send>(
    net: &N,
    x: &'x Tensor,
    levels: &Levels,
    record: bool,
    of: impl Fn(Pass<'x, N::Kept>) -> T + Sync,
) -> Result<Vec<T>> {
    let all = x.samples();
    let cut = parts(all, net.at_once().unwrap_or(all..=all));
    spread(net, cut, |samples| {
        let whole = samples == (0..all);
        let x = if whole { Cow::Borrowed(x) } else { Cow::Owned(x.slice(samples.clone())) };
        let sigmas: Vec<f64> = samples.clone().map(|i| levels.of(i)).collect();
        let factors: Vec<Factors> = sigmas.iter().map(|sigma| net.factors(*sigma)).collect();
        let (output, kept) = net.forward(&x, &factors, levels, samples.clone(), record)?;
        Ok(of(Pass { samples, x, sigmas, factors, output, kept }))
    })
}

/// Runs `f` on all parts, where the network is to be asked.
fn spread<N: Preconditioned, P: Send, T: Send>(
    net: &N,
    parts: Vec<P>,
    f: impl Fn(P) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    match net.at_once() {
        Some(_) => side_by_side(parts, f),
        None => parts.into_iter().map(f).collect(),
    }
}

/// D of a batch.
pub fn predict<N: Preconditioned>(net: &N, x: &Tensor, levels: &Levels) -> Result<Tensor> {
    net.check(x, levels)?;
    if x.samples() == 0 {
        return Ok(x.clone());
    }
    joined(passes(net, x, levels, false, |pass| pass.value())?)
}

/// The same, with the way back.
pub fn with_pullback<'p, N: Preconditioned>(net: &'p N, x: &Tensor, levels: &Levels) -> Result<(Tensor, Pullback<'p>)> {
    net.check(x, levels)?;
    if x.samples() == 0 {
        return Ok((x.clone(), Box::new(|g| Ok((g.clone(), Vec::new())))));
    }
    let kept = |pass: Pass<'_, _>| (pass.value(), pass.into_owned());
    let (values, passes): (Vec<_>, Vec<_>) = passes(net, x, levels, true, kept)?.into_iter().unzip();
    let shape = x.shape();
    let way_back = move |cotangent: &Tensor| {
        if cotangent.shape() != shape {
            let (expected, found) = (shape.to_vec(), cotangent.shape().to_vec());
            return Err(Error::Shape { what: "cotangent".into(), expected, found });
        }
        let pulled = spread(net, passes.iter().collect(), |pass| pull_back(net, pass, cotangent))?;
        let (to_x, to_told): (Vec<_>, Vec<_>) = pulled.into_iter().unzip();
        let to_told = number_by_number(&to_told, &to_x);
        Ok((joined(to_x)?, to_told))
    };
    Ok((joined(values)?, Box::new(way_back)))
}

/// Carries a cotangent of the prediction back through a recorded pass.
fn pull_back<N: Preconditioned>(net: &N, pass: &Pass<'_, N::Kept>, cotangent: &Tensor) -> Result<(Tensor, Vec<f64>)> {
    let Pass { samples, x, sigmas, factors, output, kept } = pass;
    let cotangent = &cotangent.slice(samples.clone());
    let (w, mut told) = net.backward(kept, factors, cotangent)?;
    let sigma_gradient = |i: usize| {
        let slope = net.slopes(sigmas[i]);
        let (x, v, w, f) = (x.sample(i), cotangent.sample(i), w.sample(i), output.sample(i));
        slope.skip * dot(v, x) + slope.out * dot(v, f) + slope.input * dot(x, w) + slope.noise * told[i]
    };
    let to_sigma: Vec<f64> = (0..x.samples()).map(sigma_gradient).collect();
    told[..to_sigma.len()].copy_from_slice(&to_sigma);
    Ok((combine(factors, |f| (f.skip, f.input), cotangent, &w), told))
}

/// Derivatives in each number that was told, of all samples, from the same of the samples of each pass.
fn number_by_number(passes: &[Vec<f64>], samples: &[Tensor]) -> Vec<f64> {
    let parts = || passes.iter().zip(samples).map(|(told, x)| told.chunks_exact(x.samples()));
    let numbers = parts().map(|told| told.len()).next().unwrap_or(0);
    (0..numbers).flat_map(|k| parts().flat_map(move |mut told| told.nth(k).unwrap_or_default()).copied()).collect()
}

/// Per sample a·first + b·second.
fn combine(factors: &[Factors], pick: impl Fn(&Factors) -> (f64, f64), first: &Tensor, second: &Tensor) -> Tensor {
    let mut sums = Vec::with_capacity(first.data().len());
    for (i, factors) in factors.iter().enumerate() {
        let (a, b) = pick(factors);
        sums.extend(first.sample(i).iter().zip(second.sample(i)).map(|(x, y)| a * x + b * y));
    }
    Tensor::new(first.shape(), sums).expect("one sum for each entry")
}

/// Batches one after the other; a single one as it is.
fn joined(mut parts: Vec<Tensor>) -> Result<Tensor> {
    match parts.pop() {
        Some(only) if parts.is_empty() => Ok(only),
        last => Tensor::concat(&parts.into_iter().chain(last).collect::<Vec<_>>()),
    }
}
